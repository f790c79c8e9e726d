// Autocast policies: PyTorch's own lists, as on CUDA.

#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace trnsim {
namespace {

using at::autocast::CastPolicy;

at::Tensor binary_cross_entropy_banned(
    const at::Tensor& /*input*/,
    const at::Tensor& /*target*/,
    const std::optional<at::Tensor>& /*weight*/,
    int64_t /*reduction*/) {
  TORCH_CHECK(
      false,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. Use "
      "binary_cross_entropy_with_logits, which combines them with the sigmoid and is safe.");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(LOWER)
#define FULL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(FULL)
#define FULL_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(FULL_DTYPE)
#define APPEND(...) AT_DIFFERENT_REDISPATCH(__VA_ARGS__)
#define PROMOTED(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(PROMOTED)
  m.impl("binary_cross_entropy", TORCH_FN(binary_cross_entropy_banned));
}

} // namespace
} // namespace trnsim
