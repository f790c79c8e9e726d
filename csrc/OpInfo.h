#pragma once
// What the boxed kernel needs to know about an operator, parsed once from its schema.

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

namespace trnsim {

enum class ArgKind : uint8_t {
  tensor,      // Tensor, Tensor?
  tensor_list, // Tensor[], Tensor?[]
  device,
  generator,
  scalar, // a runtime input: a new value does not recompile
  fixed,  // enters the op key
};

/// Which inputs compute in float32 and are rounded back, see Widening.h.
enum class Widening : uint8_t {
  never,
  if_slow,  // bf16 and fp16, where the CPU has no instructions for them
  half,     // bf16 and fp16: the CPU kernel lacks them, a device has them
  integers, // likewise
};

struct ArgInfo {
  ArgKind kind = ArgKind::fixed;
  bool written = false;
  bool may_be_cpu = false; // a CPU tensor beside neuron ones, as on CUDA: indices, lengths
  std::string name;
};

struct OpInfo {
  explicit OpInfo(const c10::FunctionSchema& schema);

  std::string name;     // "aten::add.Tensor"
  uint32_t name_id = 0; // in the ledger's text table
  uint64_t seed = 0;    // of the key's hash
  std::vector<ArgInfo> args;
  size_t return_count = 0;
  bool returns_value = false; // a bool or number that the host waits for
  Widening widening = Widening::never;
  bool first_result_only = false; // only the first result has the inputs' dtype
  bool custom = false;            // not aten: a user's or a library's operator
};

} // namespace trnsim
