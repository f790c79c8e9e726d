// Metadata operators: they share storage and take no device time.

#include "Allocator.h"
#include "Device.h"
#include "Pool.h"

#include <ATen/NativeFunctions.h>
#include <ATen/ops/clone.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace trnsim {
namespace {

const at::Tensor& resize(
    const at::Tensor& self, c10::SymIntArrayRef size, std::optional<c10::MemoryFormat> memory_format) {
  const c10::DeviceGuard guard(self.device()); // new memory comes from the tensor's own device
  const MemoryAccess access;
  const auto sizes = self.sizes().vec();
  const auto strides = self.strides().vec();
  try {
    return at::native::resize_(self, C10_AS_INTARRAYREF_SLOW(size), memory_format);
  } catch (...) { // out of memory: the tensor must not claim more than it has
    self.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    throw;
  }
}

at::Tensor& set_storage(
    at::Tensor& self, c10::Storage source, c10::SymInt offset, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  TORCH_CHECK(
      source.device_type() == kNeuron,
      "Attempted to set the storage of a tensor on device \"",
      self.device(),
      "\" to a storage on different device \"",
      source.device(),
      "\". Move the source first.");
  const c10::DeviceGuard guard(self.device());
  const MemoryAccess access;
  return at::native::set_storage_cpu_(
      self, std::move(source), offset.expect_int(), C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}

at::Tensor& set_empty(at::Tensor& self) {
  const c10::DeviceGuard guard(self.device());
  c10::Storage storage(
      c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), 0, c10::GetAllocator(kNeuron), /*resizable=*/true));
  return self.set_(std::move(storage), 0, {0}, {});
}

/// Copy on write is invisible to programs; the device copies at once.
at::Tensor lazy_clone(const at::Tensor& self) {
  return at::clone(self, c10::MemoryFormat::Preserve);
}

/// Module.to(), optimizers and tied weights keep their Parameter objects when the implementation may be swapped.
bool compatible_shallow_copy(const at::Tensor& self, const at::Tensor& from) {
  const auto plain = [](const at::Tensor& tensor) { return tensor.device().type() == kNeuron || tensor.is_cpu(); };
  return plain(self) && plain(from) && self.layout() == c10::kStrided && from.layout() == c10::kStrided;
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  c10::getDeviceAllocator(kNeuron)->recordStream(self.storage().data_ptr(), stream);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("resize_", TORCH_FN(resize));
  m.impl("set_", TORCH_FN(set_empty));
  m.impl("set_.source_Storage", TORCH_FN(at::native::set_));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("_lazy_clone", TORCH_FN(lazy_clone));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(compatible_shallow_copy));
  m.impl("record_stream", TORCH_FN(record_stream));
}

} // namespace
} // namespace trnsim
