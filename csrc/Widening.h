#pragma once
// Operands that compute in float32 and are rounded back once.
//
// Matrix products and convolutions in bfloat16 and float16: where the CPU has no instructions for them, its own kernels
// are 20 to 50 times slower than float32's; a float32 accumulator rounded once is also what PSUM does.
// And dtypes that devices take but the CPU's kernel does not (CUDA runs them, so programs rely on them).

#include "OpInfo.h"

namespace trnsim {

/// Whether the first tensor on `stack` is of a dtype that `info` widens.
bool widens(const OpInfo& info, const torch::jit::Stack& stack);

/// Runs `op` (on CPU tensors) with its narrow operands widened and its results rounded back.
void run_widened(const OpInfo& info, const c10::OperatorHandle& op, torch::jit::Stack* stack);

} // namespace trnsim
