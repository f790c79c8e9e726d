#include "Alias.h"

#include "Allocator.h"
#include "Device.h"

#include <ATen/TensorUtils.h>
#include <c10/core/TensorImpl.h>

namespace trnsim {
namespace {

void copy_geometry(c10::TensorImpl& to, const c10::TensorImpl& from) {
  to.set_sizes_and_strides(from.sizes(), from.strides(), from.storage_offset());
}

} // namespace

at::Tensor alias_cpu(const at::Tensor& neuron) {
  const c10::TensorImpl& source = *neuron.unsafeGetTensorImpl();
  const auto& storage = source.unsafe_storage();
  auto alias = c10::make_intrusive<c10::TensorImpl>(
      c10::TensorImpl::VIEW,
      c10::Storage(twin_of(*storage.unsafeGetStorageImpl())),
      c10::DispatchKeySet(c10::DispatchKey::CPU) | (source.key_set() & kLazyBits),
      source.dtype());
  copy_geometry(*alias, source);
  if (C10_UNLIKELY(source.is_wrapped_number())) {
    alias->set_wrapped_number(true);
  }
  return at::Tensor(std::move(alias));
}

at::Tensor wrap_fresh(at::Tensor&& cpu, c10::DeviceIndex device) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      cpu.layout() == c10::kStrided && !cpu.is_quantized() && !cpu.is_mkldnn(),
      "neuron tensors are strided: an operation on neuron gave a ",
      cpu.is_quantized() ? "quantized" : c10::str(cpu.layout()),
      " result, which the device cannot hold. Keep this part on the CPU (x.cpu()), or use the dense form "
      "(.to_dense(), .dequantize()).");
  c10::TensorImpl* impl = cpu.unsafeGetTensorImpl();
  c10::Storage twin = cpu.storage();
  const size_t bytes = twin.nbytes();
  auto twin_impl = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(twin.unsafeGetStorageImpl());
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      bytes,
      neuron_data_ptr(std::move(twin_impl), device),
      c10::GetAllocator(kNeuron),
      /*resizable=*/true);
  if (C10_LIKELY(cpu.use_count() == 1)) { // nobody else sees it: it becomes the neuron tensor
    impl->_change_backend_component_keys(c10::Device(kNeuron, device));
    impl->set_storage_keep_dtype(c10::Storage(std::move(storage)));
    return std::move(cpu);
  }
  auto result = c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(std::move(storage)),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1) | (impl->key_set() & kLazyBits),
      impl->dtype());
  copy_geometry(*result, *impl);
  return at::Tensor(std::move(result));
}

at::Tensor view_of(const at::Tensor& owner, const at::Tensor& cpu) {
  const c10::TensorImpl& source = *cpu.unsafeGetTensorImpl();
  auto view = c10::make_intrusive<c10::TensorImpl>(
      c10::TensorImpl::VIEW,
      c10::Storage(owner.unsafeGetTensorImpl()->unsafe_storage()),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1) | (source.key_set() & kLazyBits),
      source.dtype());
  copy_geometry(*view, source);
  return at::Tensor(std::move(view));
}

void carry_back(const at::Tensor& neuron, const at::Tensor& alias) {
  c10::TensorImpl& target = *neuron.unsafeGetTensorImpl();
  const c10::TensorImpl& source = *alias.unsafeGetTensorImpl();
  auto* storage = target.unsafe_storage().unsafeGetStorageImpl();
  auto* twin = source.unsafe_storage().unsafeGetStorageImpl();
  if (C10_UNLIKELY(storage->data() != twin->data() || storage->nbytes() != twin->nbytes())) {
    auto held = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(twin);
    storage->set_data_ptr_noswap(neuron_data_ptr(std::move(held), neuron.device().index()));
    storage->set_nbytes(twin->nbytes());
  }
  if (C10_UNLIKELY(
          target.sizes() != source.sizes() || target.strides() != source.strides() ||
          target.storage_offset() != source.storage_offset())) {
    copy_geometry(target, source);
  }
  if (C10_UNLIKELY(neuron.is_conj() != alias.is_conj() || neuron.is_neg() != alias.is_neg())) {
    neuron._set_conj(alias.is_conj());
    neuron._set_neg(alias.is_neg());
  }
}

} // namespace trnsim
