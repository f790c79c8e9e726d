#include "OpInfo.h"

#include "Ledger.h"

#include <array>
#include <string_view>

namespace trnsim {
namespace {

// Arguments that CUDA kernels take on the CPU: index lists, lengths of sequences.
struct CpuArgument {
  std::string_view op;
  std::string_view argument;
};

constexpr std::array<CpuArgument, 12> kCpuArguments = {{
    {"aten::index", "indices"},
    {"aten::index_put", "indices"},
    {"aten::index_put_", "indices"},
    {"aten::_index_put_impl_", "indices"},
    {"aten::_unsafe_index", "indices"},
    {"aten::_unsafe_index_put", "indices"},
    {"aten::_pack_padded_sequence", "lengths"},
    {"aten::_pad_packed_sequence", "batch_sizes"},
    {"aten::_ctc_loss", "input_lengths"},
    {"aten::_ctc_loss", "target_lengths"},
    {"aten::_ctc_loss_backward", "input_lengths"},
    {"aten::_ctc_loss_backward", "target_lengths"},
}};

bool may_be_cpu(const std::string& op, const std::string& argument) {
  for (const auto& rule : kCpuArguments) {
    if (op == rule.op && argument == rule.argument) {
      return true;
    }
  }
  return false;
}

struct WideningRule {
  std::string_view op;
  Widening widening;
};

constexpr std::array<WideningRule, 25> kWideningRules = {{
    {"aten::mm", Widening::if_slow},
    {"aten::bmm", Widening::if_slow},
    {"aten::addmm", Widening::if_slow},
    {"aten::addmm_", Widening::if_slow},
    {"aten::_addmm_activation", Widening::if_slow},
    {"aten::baddbmm", Widening::if_slow},
    {"aten::baddbmm_", Widening::if_slow},
    {"aten::addmv", Widening::if_slow},
    {"aten::addmv_", Widening::if_slow},
    {"aten::mv", Widening::if_slow},
    {"aten::linear", Widening::if_slow},
    {"aten::convolution_overrideable", Widening::if_slow},
    {"aten::convolution_backward_overrideable", Widening::if_slow},
    {"aten::_scaled_dot_product_fused_attention_overrideable", Widening::if_slow},
    {"aten::_scaled_dot_product_fused_attention_overrideable_backward", Widening::if_slow},
    {"aten::avg_pool3d", Widening::half},
    {"aten::avg_pool3d_backward", Widening::half},
    {"aten::_upsample_bilinear2d_aa", Widening::half},
    {"aten::_upsample_bilinear2d_aa_backward", Widening::half},
    {"aten::multi_margin_loss", Widening::half},
    {"aten::multi_margin_loss_backward", Widening::half},
    {"aten::multilabel_margin_loss_forward", Widening::half},
    {"aten::multilabel_margin_loss_backward", Widening::half},
    {"aten::polygamma", Widening::half},
    {"aten::histc", Widening::integers},
}};
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
    args.push_back(
        {kind_of(*argument.real_type()),
         alias != nullptr && alias->isWrite(),
         may_be_cpu(schema.name(), argument.name()),
         argument.name()});
  }
  for (const auto& result : schema.returns()) {
    const auto kind = result.real_type()->kind();
    returns_value |= kind == c10::TypeKind::BoolType || kind == c10::TypeKind::IntType ||
        kind == c10::TypeKind::FloatType || kind == c10::TypeKind::NumberType;
  }
  const bool with_dtype = schema.overload_name().find("dtype") != std::string::npos; // names its result's dtype
  for (const auto& rule : kWideningRules) {
    if (schema.name() == rule.op && !with_dtype) {
      widening = rule.widening;
    }
  }
  first_result_only = schema.name() == kAttention;
  custom = !schema.name().starts_with("aten::");
}

} // namespace trnsim
