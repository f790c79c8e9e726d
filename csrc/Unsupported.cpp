// Layouts the device does not hold: sparse, quantized, nested (strided). One clear error each.

#include <torch/library.h>

namespace trnsim {
namespace {

template <const char* const& kLayout, const char* const& kRemedy>
void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* /*stack*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "Could not run '", op.operator_name(), "': neuron does not hold ", kLayout, " tensors. ", kRemedy);
}

const char* const kSparse = "sparse";
const char* const kSparseRemedy = "Keep it on the CPU, or move its dense form: x.to_dense().to(\"neuron\").";
const char* const kQuantized = "quantized";
const char* const kQuantizedRemedy = "Keep it on the CPU, or move its dequantized form: x.dequantize().to(\"neuron\").";
const char* const kNested = "strided nested";
const char* const kNestedRemedy =
    "Use the jagged layout (torch.nested.nested_tensor(..., layout=torch.jagged)) or a padded tensor.";

} // namespace

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse<kSparse, kSparseRemedy>>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse<kSparse, kSparseRemedy>>());
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse<kQuantized, kQuantizedRemedy>>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse<kNested, kNestedRemedy>>());
}

} // namespace trnsim
