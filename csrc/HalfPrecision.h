#pragma once
// Matrix products and convolutions in bfloat16 and float16. Where the CPU has no instructions for them, its own kernels
// are 20 to 50 times slower than float32's; so the operands are widened, the product accumulates in float32 and is
// rounded once, which is also what PSUM does.

#include "OpInfo.h"

namespace trnsim {

/// Whether `info` is a product that gains from float32 here. The CPU is asked once.
bool widens(const OpInfo& info, const torch::jit::Stack& stack);

/// Runs `op` (on CPU tensors) with its narrow operands widened and its results rounded back.
void run_widened(const OpInfo& info, const c10::OperatorHandle& op, torch::jit::Stack* stack);

} // namespace trnsim
