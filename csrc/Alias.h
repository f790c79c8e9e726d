#pragma once
// Neuron tensors seen as CPU tensors and back, without copying (see Allocator.h for the twin).

#include <ATen/core/Tensor.h>

namespace trnsim {

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
