#pragma once
// What the boxed kernel needs to know about an operator, parsed once from its schema.

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

namespace trnsim {

enum class ArgKind : uint8_t {
  tensor, // Tensor, Tensor?
  tensor_list, // Tensor[], Tensor?[]
  device,
  generator,
  scalar, // a runtime input: a new value does not recompile
  fixed, // enters the op key
};

struct ArgInfo {
  ArgKind kind = ArgKind::fixed;
  bool written = false;
  std::string name;
};

struct OpInfo {
  explicit OpInfo(const c10::FunctionSchema& schema);

  std::string name; // "aten::add.Tensor"
  uint32_t name_id = 0; // in the ledger's text table
  uint64_t seed = 0; // of the key's hash
  std::vector<ArgInfo> args;
  size_t return_count = 0;
  bool cpu_tensors_allowed = false; // takes CPU tensors beside neuron ones, as on CUDA (index tensors, lengths)
  bool returns_value = false; // a bool or number that the host waits for
  bool matrix_product = false; // may compute bf16 and fp16 in float32, see HalfPrecision.h
  bool first_result_only = false; // of those: only the first result has the inputs' dtype
  bool custom = false; // not aten: a user's or a library's operator
};

} // namespace trnsim
