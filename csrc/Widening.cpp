#include "Widening.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/SmallVector.h>

namespace trnsim {
namespace {

bool cpu_supports(const char* query) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(query, "").typed<bool()>().call();
}

bool is_slow(c10::ScalarType type) {
  static const bool slow_bf16 = !cpu_supports("mkldnn::_is_mkldnn_bf16_supported");
  static const bool slow_half = !cpu_supports("mkldnn::_is_mkldnn_fp16_supported");
  return (type == at::kBFloat16 && slow_bf16) || (type == at::kHalf && slow_half);
}

bool is_narrow(Widening rule, c10::ScalarType type) {
  switch (rule) {
    case Widening::never:
      return false;
    case Widening::if_slow:
      return is_slow(type);
    case Widening::half:
      return type == at::kBFloat16 || type == at::kHalf;
    case Widening::integers:
      return c10::isIntegralType(type, /*includeBool=*/false);
  }
  return false;
}

/// A written argument and the float32 tensor that stood in for it.
struct Widened {
  at::Tensor narrow;
  at::Tensor wide;
};

} // namespace

bool widens(const OpInfo& info, const torch::jit::Stack& stack) {
  if (C10_LIKELY(info.widening == Widening::never)) {
    return false;
  }
  const size_t base = stack.size() - info.args.size();
  for (size_t position = 0; position < info.args.size(); ++position) {
    const auto& value = stack[base + position];
    if (info.args[position].kind == ArgKind::tensor && value.isTensor() && value.toTensor().defined()) {
      return is_narrow(info.widening, value.toTensor().scalar_type());
    }
  }
  return false;
}

void run_widened(const OpInfo& info, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t base = stack->size() - info.args.size();
  at::ScalarType type = at::kFloat;
  c10::SmallVector<Widened, 2> written;
  for (size_t position = 0; position < info.args.size(); ++position) {
    auto& value = (*stack)[base + position];
    if (info.args[position].kind != ArgKind::tensor || !value.isTensor() || !value.toTensor().defined() ||
        !is_narrow(info.widening, value.toTensor().scalar_type())) {
      continue;
    }
    const at::Tensor narrow = value.toTensor();
    type = narrow.scalar_type();
    const at::Tensor wide = narrow.to(at::kFloat);
    if (info.args[position].written) {
      written.push_back({narrow, wide});
    }
    value = wide;
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  for (const auto& pair : written) {
    if (pair.narrow.sizes() != pair.wide.sizes()) {
      pair.narrow.resize_(pair.wide.sizes());
    }
    pair.narrow.copy_(pair.wide);
  }
  const size_t first = stack->size() - info.return_count;
  for (size_t position = first; position < stack->size(); ++position) {
    auto& value = (*stack)[position];
    if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().scalar_type() != at::kFloat ||
        (info.first_result_only && position > first)) {
      continue;
    }
    const at::Tensor wide = value.toTensor();
    at::Tensor narrow;
    for (const auto& pair : written) {
      if (pair.wide.is_same(wide)) {
        narrow = pair.narrow;
      }
    }
    value = narrow.defined() ? narrow : wide.to(type);
  }
}

} // namespace trnsim
