// The encoder layer's inference fast path: PyTorch's own composition, run on neuron tensors, so that each of its parts
// is an operator of the device rather than the whole layer one unknown operator.

#include <ATen/NativeFunctions.h>
#include <torch/library.h>

namespace trnsim {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_transformer_encoder_layer_fwd", TORCH_FN(at::native::transformer_encoder_layer_forward));
  m.impl("_native_multi_head_attention", TORCH_FN(at::native::native_multi_head_attention_cpu));
}

} // namespace
} // namespace trnsim
