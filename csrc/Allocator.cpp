#include "Allocator.h"

#include "Device.h"
#include "Pool.h"
#include "Timeline.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <cstring>

namespace trnsim {
namespace {

constexpr int kNotRouted = -1;
thread_local int t_route = kNotRouted;

/// The context of a block's DataPtr is its address, as raw_allocate demands of every CPU allocator.
void free_block(void* pointer) {
  Block* block = block_at(pointer);
  const auto device = block->device;
  const auto size = static_cast<int64_t>(block->size);
  pool_of(device).free(block);
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
    const auto stats = pool_of(device).stats();
    c10::reportMemoryUsageToProfiler(
        pointer, -size, stats.allocated_bytes[0].current, stats.reserved_bytes[0].current, {kNeuron, device});
  }
}

void release_twin(void* context) {
  c10::raw::intrusive_ptr::decref(static_cast<c10::StorageImpl*>(context));
}

/// Frees what raw_allocate gave, whether the call was routed or not.
void free_raw(void* pointer) {
  if (block_at(pointer) != nullptr) {
    free_block(pointer);
  } else {
    c10::free_cpu(pointer);
  }
}

class NeuronAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const auto device = current_device();
    touch_device();
    auto twin = c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(),
        bytes,
        allocate_block(bytes, device),
        c10::GetAllocator(c10::DeviceType::CPU),
        /*resizable=*/true);
    return neuron_data_ptr(std::move(twin), device);
  }

  void copy_data(void* destination, const void* source, size_t count) const override {
    MemoryAccess access;
    std::memcpy(destination, source, count);
  }

  bool initialized() override {
    return is_initialized();
  }

  void emptyCache(c10::MempoolId_t /*pool*/) override {
    for (int index = 0; index < device_count(); ++index) {
      pool_of(static_cast<c10::DeviceIndex>(index)).empty_cache();
    }
  }

  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override {
    if (auto* twin = ptr.cast_context<c10::StorageImpl>(&release_twin)) {
      if (Block* block = block_at(twin->data())) {
        pool_of(block->device).record_stream(block, stream);
      }
    }
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    check_device(device);
    return pool_of(device).stats();
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    check_device(device);
    pool_of(device).reset_accumulated();
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    check_device(device);
    pool_of(device).reset_peak();
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    check_device(device);
    return pool_of(device).memory_info();
  }
};

/// The CPU allocator with a detour: inside an op, memory comes from the device.
class RoutedCpuAllocator final : public c10::Allocator {
 public:
  explicit RoutedCpuAllocator(c10::Allocator* host) : host_(host) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (C10_LIKELY(t_route == kNotRouted)) {
      return host_->allocate(bytes);
    }
    return allocate_block(bytes, static_cast<c10::DeviceIndex>(t_route));
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return &free_raw;
  }

  bool is_simple_data_ptr(const c10::DataPtr& ptr) const override {
    return ptr.get() == ptr.get_context();
  }

  void copy_data(void* destination, const void* source, size_t count) const override {
    host_->copy_data(destination, source, count);
  }

 private:
  c10::Allocator* host_;
};

} // namespace

c10::DataPtr allocate_block(size_t bytes, c10::DeviceIndex device) {
  if (bytes == 0) {
    return {nullptr, c10::Device(c10::DeviceType::CPU)};
  }
  Block* block = pool_of(device).allocate(bytes);
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
    const auto stats = pool_of(device).stats();
    c10::reportMemoryUsageToProfiler(
        block->ptr,
        static_cast<int64_t>(block->size),
        stats.allocated_bytes[0].current,
        stats.reserved_bytes[0].current,
        {kNeuron, device});
  }
  return {block->ptr, block->ptr, &free_block, c10::Device(c10::DeviceType::CPU)};
}

c10::DataPtr neuron_data_ptr(c10::intrusive_ptr<c10::StorageImpl> twin, c10::DeviceIndex device) {
  void* const data = twin->mutable_data();
  return {data, twin.release(), &release_twin, c10::Device(kNeuron, device)};
}

c10::intrusive_ptr<c10::StorageImpl> twin_of(const c10::StorageImpl& storage) {
  if (auto* twin = storage.data_ptr().cast_context<c10::StorageImpl>(&release_twin)) {
    return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(twin);
  }
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      storage.nbytes(),
      c10::DataPtr(const_cast<void*>(storage.data()), c10::Device(c10::DeviceType::CPU)),
      c10::GetAllocator(c10::DeviceType::CPU),
      /*resizable=*/false);
}

RouteAllocations::RouteAllocations(c10::DeviceIndex device) noexcept : previous_(t_route) {
  t_route = device;
}

RouteAllocations::~RouteAllocations() {
  t_route = previous_;
}

void register_allocators() {
  static NeuronAllocator device_allocator;
  static RoutedCpuAllocator cpu_allocator(c10::GetCPUAllocator());
  c10::SetAllocator(kNeuron, &device_allocator);
  c10::SetAllocator(c10::DeviceType::CPU, &cpu_allocator, /*priority=*/1);
}

} // namespace trnsim
