#pragma once
// The allocators PyTorch sees: the device's (c10::DeviceAllocator) and, while an op runs, the CPU's, so that what a CPU
// kernel allocates for its results and temporaries is device memory.
//
// Every neuron DataPtr owns a "twin": a CPU StorageImpl over the same bytes. Aliases of one storage share the twin, so
// CPU kernels see the same overlaps, views and resizes as the program does. The twin owns the block; the neuron DataPtr
// owns a reference to the twin.

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StorageImpl.h>

namespace trnsim {

void register_allocators();

/// A CPU-labelled DataPtr over a device block. Zero bytes give a null pointer, as the CPU allocator does.
c10::DataPtr allocate_block(size_t bytes, c10::DeviceIndex device);

/// A neuron DataPtr that owns `twin` (a CPU storage).
c10::DataPtr neuron_data_ptr(c10::intrusive_ptr<c10::StorageImpl> twin, c10::DeviceIndex device);

/// The twin of a neuron storage. Storages over foreign memory get a non-owning twin on each call.
c10::intrusive_ptr<c10::StorageImpl> twin_of(const c10::StorageImpl& storage);

/// Gives a neuron storage `bytes` bytes, keeping what fits.
void resize_storage(c10::StorageImpl& storage, size_t bytes);
void register_hooks();

/// Routes this thread's CPU allocations to `device` while it lives.
class RouteAllocations {
 public:
  explicit RouteAllocations(c10::DeviceIndex device) noexcept;
  ~RouteAllocations();
  RouteAllocations(const RouteAllocations&) = delete;
  RouteAllocations& operator=(const RouteAllocations&) = delete;

 private:
  int previous_;
};

} // namespace trnsim
