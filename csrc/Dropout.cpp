// native_dropout draws without a Generator argument; this one draws from the device's generator.

#include <ATen/Functions.h>
#include <torch/library.h>

namespace trnsim {
namespace {

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  const auto mask_options = input.options().dtype(at::kBool);
  if (input.numel() == 0) {
    return {input.clone(), at::empty_like(input, mask_options)};
  }
  if (!train.value_or(true)) {
    return {input.clone(), at::ones_like(input, mask_options)};
  }
  at::Tensor mask = at::empty_like(input, mask_options).bernoulli_(1 - p);
  const double scale = p == 1 ? 0.0 : 1.0 / (1 - p);
  return {input.mul(mask).mul_(scale), mask};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_dropout", TORCH_FN(native_dropout));
}

} // namespace
} // namespace trnsim
