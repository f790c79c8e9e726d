// convolution_overrideable and its backward: given a CPU kernel, so that the boxed kernel runs them like any operator.

#include <ATen/Functions.h>
#include <torch/library.h>

namespace trnsim {
namespace {

at::Tensor convolution(
    const at::Tensor& input,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& bias,
    c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding,
    c10::SymIntArrayRef dilation,
    bool transposed,
    c10::SymIntArrayRef output_padding,
    c10::SymInt groups) {
  return at::convolution_symint(
      input, weight, bias, stride, padding, dilation, transposed, output_padding, std::move(groups));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& grad_output,
    const at::Tensor& input,
    const at::Tensor& weight,
    c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding,
    c10::SymIntArrayRef dilation,
    bool transposed,
    c10::SymIntArrayRef output_padding,
    c10::SymInt groups,
    std::array<bool, 3> output_mask) {
  const c10::SymInt channels = grad_output.sym_size(1);
  const c10::SymInt bias_sizes[1] = {channels};
  return at::convolution_backward_symint(
      grad_output,
      input,
      weight,
      c10::SymIntArrayRef(bias_sizes, 1),
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      std::move(groups),
      output_mask);
}

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("convolution_overrideable", TORCH_FN(convolution));
  m.impl("convolution_backward_overrideable", TORCH_FN(convolution_backward));
}

} // namespace
} // namespace trnsim
