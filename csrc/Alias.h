#pragma once
// Neuron tensors seen as CPU tensors and back, without copying (see Allocator.h for the twin).

#include <ATen/core/Tensor.h>

namespace trnsim {

/// Conjugation and negation that a tensor carries but has not computed.
inline const c10::DispatchKeySet kLazyBits =
    c10::DispatchKeySet(c10::DispatchKey::Conjugate) | c10::DispatchKeySet(c10::DispatchKey::Negative);

/// Excluded while a CPU kernel runs for the device: below it there is no autograd, no autocast, no view tracking.
inline const c10::DispatchKeySet kAboveBackend =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;

/// A CPU tensor over the same bytes, with the same sizes, strides, offset, dtype and conj/neg bits.
at::Tensor alias_cpu(const at::Tensor& neuron);

/// What a CPU kernel returned, as a neuron tensor. Takes `cpu` over: a fresh result is turned into a neuron tensor in
/// place. Non-strided results raise.
at::Tensor wrap_fresh(at::Tensor&& cpu, c10::DeviceIndex device);

/// A neuron tensor over `owner`'s storage with the metadata of `cpu`, which lives on that storage's twin.
at::Tensor view_of(const at::Tensor& owner, const at::Tensor& cpu);

/// After a kernel wrote `alias`: carries a resize of its storage and changed sizes back to `neuron`.
void carry_back(const at::Tensor& neuron, const at::Tensor& alias);

inline bool is_neuron(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::DeviceType::PrivateUse1;
}

} // namespace trnsim
