// Scaled dot product attention: the choice of kernel, and the fused one on PyTorch's CPU flash kernel.

#include <ATen/Functions.h>
#include <ATen/NativeFunctions.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/library.h>

namespace trnsim {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
fused_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const OptionalTensor& bias,
    double dropout,
    bool is_causal,
    bool /*return_debug_mask*/,
    std::optional<double> scale) {
  auto [output, logsumexp] =
      at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, is_causal, bias, scale);
  return {output, logsumexp, {}, {}, query.sym_size(2), key.sym_size(2), {}, {}, {}};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> fused_attention_backward(
    const at::Tensor& grad,
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const at::Tensor& bias,
    std::array<bool, 4> /*wanted*/,
    const at::Tensor& output,
    const at::Tensor& logsumexp,
    const at::Tensor& /*cum_seq_q*/,
    const at::Tensor& /*cum_seq_k*/,
    c10::SymInt /*max_q*/,
    c10::SymInt /*max_k*/,
    double dropout,
    bool is_causal,
    const at::Tensor& /*philox_seed*/,
    const at::Tensor& /*philox_offset*/,
    std::optional<double> scale) {
  const OptionalTensor mask = bias.defined() ? OptionalTensor(bias) : std::nullopt;
  auto [grad_query, grad_key, grad_value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      grad, query, key, value, output, logsumexp, dropout, is_causal, mask, scale);
  return {grad_query, grad_key, grad_value, at::Tensor()};
}

/// What the CPU would choose; its flash kernel is our fused one.
int64_t choose_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const OptionalTensor& mask,
    double dropout,
    bool is_causal,
    std::optional<double> scale,
    bool enable_gqa) {
  const auto choice = at::native::_fused_sdp_choice_cpp(query, key, value, mask, dropout, is_causal, scale, enable_gqa);
  return choice == static_cast<int64_t>(sdp::SDPBackend::flash_attention)
      ? static_cast<int64_t>(sdp::SDPBackend::overrideable)
      : choice;
}

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(fused_attention));
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(fused_attention_backward));
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", TORCH_FN(choose_attention));
}

} // namespace trnsim

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &trnsim::choose_attention)
} // namespace at::native
