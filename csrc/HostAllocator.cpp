#include "HostAllocator.h"

#include "Device.h"

#include <ATen/core/CachingHostAllocator.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace trnsim {
namespace {

constexpr size_t kAlignment = 4096;

struct Pinned {
  std::mutex mutex;
  std::map<const char*, size_t> ranges;
  at::HostStats stats;
};

Pinned& pinned() {
  static auto* state = new Pinned; // leaked: tensors may outlive static destructors
  return *state;
}

void free_pinned(void* pointer) {
  {
    std::lock_guard<std::mutex> lock(pinned().mutex);
    const auto found = pinned().ranges.find(static_cast<const char*>(pointer));
    if (found != pinned().ranges.end()) {
      pinned().stats.allocated_bytes.decrease(found->second);
      pinned().ranges.erase(found);
    }
  }
  std::free(pointer); // NOLINT: pairs with aligned_alloc
}

class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    touch_device();
    if (bytes == 0) {
      return {nullptr, c10::Device(c10::DeviceType::CPU)};
    }
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* pointer = std::aligned_alloc(kAlignment, rounded);
    TORCH_CHECK(pointer != nullptr, "The host has no memory left for ", bytes, " pinned bytes.");
    std::lock_guard<std::mutex> lock(pinned().mutex);
    pinned().ranges[static_cast<const char*>(pointer)] = rounded;
    pinned().stats.allocated_bytes.increase(rounded);
    return {pointer, pointer, &free_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &free_pinned;
  }
  void copy_data(void* destination, const void* source, size_t count) const override {
    std::memcpy(destination, source, count);
  }
  bool record_event(void* /*pointer*/, void* /*context*/, c10::Stream /*stream*/) override {
    return true; // copies are finished when they return
  }
  void empty_cache() override {}
  at::HostStats get_stats() override {
    std::lock_guard<std::mutex> lock(pinned().mutex);
    return pinned().stats;
  }
  void reset_accumulated_stats() override {
    std::lock_guard<std::mutex> lock(pinned().mutex);
    pinned().stats.allocated_bytes.reset_accumulated();
  }
  void reset_peak_stats() override {
    std::lock_guard<std::mutex> lock(pinned().mutex);
    pinned().stats.allocated_bytes.reset_peak();
  }
};

PinnedAllocator g_allocator;
REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, &g_allocator)

} // namespace

c10::Allocator* pinned_allocator() {
  return &g_allocator;
}

bool is_pinned(const void* pointer) {
  std::lock_guard<std::mutex> lock(pinned().mutex);
  const auto* address = static_cast<const char*>(pointer);
  auto after = pinned().ranges.upper_bound(address);
  if (after == pinned().ranges.begin()) {
    return false;
  }
  --after;
  return address < after->first + after->second;
}

} // namespace trnsim
