#pragma once
// The boxed kernel: runs any operator on its CPU kernel over device memory, without copying.

#include "OpInfo.h"

#include <ATen/core/boxing/KernelFunction.h>

namespace trnsim {

class BoxedKernel final : public c10::OperatorKernel {
 public:
  explicit BoxedKernel(const c10::FunctionSchema& schema) : info_(schema) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

 private:
  OpInfo info_;
};

/// Runs `op` on `stack` as BoxedKernel does; the kernel that runs is chosen by `keys` (the CPU's, normally).
void run_boxed(const OpInfo& info, const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Ops of repr and of our own helpers, and all ops when the clock is off and nothing has to be refused.
bool goes_unseen();

/// Registers the boxed kernel for every ATen operator that has a CPU kernel and none of ours, and as the fallback of
/// operators defined later.
void register_boxed_kernels();

} // namespace trnsim
