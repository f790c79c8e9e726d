#include "OpInfo.h"

#include "Ledger.h"

#include <array>
#include <string_view>

namespace trnsim {
namespace {

// Operators whose CUDA kernels accept CPU tensors beside device tensors (indices, lengths).
constexpr std::array<std::string_view, 11> kTakesCpuTensors = {
    "aten::index",
    "aten::index_put",
    "aten::index_put_",
    "aten::_index_put_impl_",
    "aten::_unsafe_index",
    "aten::_unsafe_index_put",
    "aten::_pack_padded_sequence",
    "aten::_ctc_loss",
    "aten::_ctc_loss_backward",
    "aten::_pad_packed_sequence",
    "aten::_cudnn_ctc_loss",
};

constexpr std::array<std::string_view, 14> kMatrixProducts = {
    "aten::mm",
    "aten::bmm",
    "aten::addmm",
    "aten::addmm_",
    "aten::_addmm_activation",
    "aten::baddbmm",
    "aten::baddbmm_",
    "aten::addmv",
    "aten::addmv_",
    "aten::mv",
    "aten::linear",
    "aten::convolution_overrideable",
    "aten::convolution_backward_overrideable",
    "aten::_scaled_dot_product_fused_attention_overrideable_backward",
};
constexpr std::string_view kAttention = "aten::_scaled_dot_product_fused_attention_overrideable";

bool holds_tensors(const c10::Type& type) {
  return type.kind() == c10::TypeKind::TensorType ||
      (type.kind() == c10::TypeKind::OptionalType && holds_tensors(*type.containedType(0)));
}

ArgKind kind_of(const c10::Type& type) {
  if (holds_tensors(type)) {
    return ArgKind::tensor;
  }
  const c10::Type& inner = type.kind() == c10::TypeKind::OptionalType ? *type.containedType(0) : type;
  switch (inner.kind()) {
    case c10::TypeKind::ListType:
      if (holds_tensors(*inner.containedType(0))) {
        return ArgKind::tensor_list;
      }
      return inner.containedType(0)->kind() == c10::TypeKind::NumberType ? ArgKind::scalar : ArgKind::fixed;
    case c10::TypeKind::DeviceObjType:
      return ArgKind::device;
    case c10::TypeKind::GeneratorType:
      return ArgKind::generator;
    case c10::TypeKind::NumberType:
      return ArgKind::scalar;
    default:
      return ArgKind::fixed;
  }
}

} // namespace

OpInfo::OpInfo(const c10::FunctionSchema& schema)
    : name(schema.overload_name().empty() ? schema.name() : schema.name() + "." + schema.overload_name()),
      return_count(schema.returns().size()) {
  name_id = intern_text(name);
  seed = std::hash<std::string>()(name);
  for (const auto& argument : schema.arguments()) {
    const auto* alias = argument.alias_info();
    args.push_back({kind_of(*argument.real_type()), alias != nullptr && alias->isWrite(), argument.name()});
  }
  for (const auto op : kTakesCpuTensors) {
    cpu_tensors_allowed |= schema.name() == op;
  }
  for (const auto& result : schema.returns()) {
    const auto kind = result.real_type()->kind();
    returns_value |= kind == c10::TypeKind::BoolType || kind == c10::TypeKind::IntType ||
        kind == c10::TypeKind::FloatType || kind == c10::TypeKind::NumberType;
  }
  const bool with_dtype = schema.overload_name().find("dtype") != std::string::npos; // names its result's dtype
  for (const auto op : kMatrixProducts) {
    matrix_product |= schema.name() == op && !with_dtype;
  }
  first_result_only = schema.name() == kAttention;
  matrix_product |= first_result_only;
  custom = !schema.name().starts_with("aten::");
}

} // namespace trnsim
