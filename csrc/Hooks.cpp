// at::PrivateUse1HooksInterface: what ATen asks of the backend.

#include "Allocator.h"
#include "Device.h"
#include "Generator.h"
#include "HostAllocator.h"
#include "Pool.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <cstring>

namespace trnsim {
namespace {

struct NeuronHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return device_count() > 0;
  }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override {
    return is_initialized();
  }
  void init() const override {
    touch_device();
  }
  c10::DeviceIndex deviceCount() const override {
    return device_count();
  }
  void setCurrentDevice(c10::DeviceIndex device) const override {
    check_device(device);
    exchange_device(device);
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return current_device();
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    check_device(device);
    return exchange_device(device);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? current_device() : exchangeDevice(device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return make_generator(device);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return pinned_allocator();
  }
  bool isPinnedPtr(const void* pointer) const override {
    return is_pinned(pointer);
  }
  at::Device getDeviceFromPtr(void* pointer) const override {
    const Block* block = block_at(pointer);
    TORCH_CHECK_VALUE(block != nullptr, "The specified pointer does not reside on a neuron device.");
    return {kNeuron, block->device};
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

} // namespace

void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  TORCH_CHECK(storage.resizable(), "Trying to resize a neuron storage that is not resizable.");
  const auto device = storage.device().index();
  auto twin = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      bytes,
      allocate_block(bytes, device),
      c10::GetAllocator(c10::DeviceType::CPU),
      /*resizable=*/true);
  const size_t kept = std::min(bytes, storage.nbytes());
  if (kept > 0) {
    const MemoryAccess access;
    std::memcpy(twin->mutable_data(), storage.data(), kept);
  }
  storage.set_data_ptr_noswap(neuron_data_ptr(std::move(twin), device));
  storage.set_nbytes(bytes);
}

void register_hooks() {
  static NeuronHooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
}

} // namespace trnsim
