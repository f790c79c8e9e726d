// Tensors made on the device: empty, empty_strided and the zero tensor of autograd.

#include "Allocator.h"
#include "Device.h"
#include "OpKey.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/native/TensorFactories.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace trnsim {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::Device checked_device(
    std::optional<c10::Device> device, std::optional<c10::Layout> layout, std::optional<bool> pin) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      c10::layout_or_default(layout) == c10::kStrided,
      "neuron tensors are strided: cannot create one with layout ",
      c10::layout_or_default(layout),
      ". Create it on the CPU and move its dense form (.to_dense().to(\"neuron\")).");
  TORCH_CHECK(!pin.value_or(false), "Only dense CPU tensors can be pinned; a neuron tensor cannot.");
  touch_device();
  return {kNeuron, resolve_device(device.has_value() ? device->index() : c10::DeviceIndex{-1})};
}

/// torch.use_deterministic_algorithms fills fresh memory with NaN or the largest integer, on every device.
at::Tensor filled_if_deterministic(at::TensorBase&& fresh) {
  at::Tensor tensor(std::move(fresh));
  if (C10_UNLIKELY(
          at::globalContext().deterministicAlgorithms() &&
          at::globalContext().deterministicFillUninitializedMemory())) {
    const Untracked quiet;
    at::native::fill_empty_deterministic_(tensor);
  }
  return tensor;
}

at::Tensor empty(
    c10::SymIntArrayRef size,
    std::optional<c10::ScalarType> dtype,
    std::optional<c10::Layout> layout,
    std::optional<c10::Device> device,
    std::optional<bool> pin_memory,
    std::optional<c10::MemoryFormat> memory_format) {
  const c10::DeviceGuard guard(checked_device(device, layout, pin_memory));
  check_memory_format(memory_format.value_or(c10::MemoryFormat::Contiguous), current_device());
  return filled_if_deterministic(
      at::detail::empty_generic(
          C10_AS_INTARRAYREF_SLOW(size),
          c10::GetAllocator(kNeuron),
          kKeys,
          c10::dtype_or_default(dtype),
          memory_format));
}

at::Tensor empty_strided(
    c10::SymIntArrayRef size,
    c10::SymIntArrayRef stride,
    std::optional<c10::ScalarType> dtype,
    std::optional<c10::Layout> layout,
    std::optional<c10::Device> device,
    std::optional<bool> pin_memory) {
  const c10::DeviceGuard guard(checked_device(device, layout, pin_memory));
  return filled_if_deterministic(
      at::detail::empty_strided_generic(
          C10_AS_INTARRAYREF_SLOW(size),
          C10_AS_INTARRAYREF_SLOW(stride),
          c10::GetAllocator(kNeuron),
          kKeys,
          c10::dtype_or_default(dtype)));
}

/// A tensor of zeros without memory; autograd makes them for undefined tangents.
at::Tensor efficient_zero(
    c10::SymIntArrayRef size,
    std::optional<c10::ScalarType> dtype,
    std::optional<c10::Layout> layout,
    std::optional<c10::Device> device,
    std::optional<bool> pin_memory) {
  const auto target = checked_device(device, layout, pin_memory);
  c10::Storage storage(
      c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), 0, c10::DataPtr(nullptr, target), nullptr, /*resizable=*/false));
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage),
      kKeys | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor),
      c10::scalarTypeToTypeMeta(c10::dtype_or_default(dtype)));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(C10_AS_INTARRAYREF_SLOW(size));
  return tensor;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("_efficientzerotensor", TORCH_FN(efficient_zero));
}

} // namespace
} // namespace trnsim
