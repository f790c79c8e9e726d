#include "Device.h"
#include "Dispatch.h"

#include <torch/library.h>

#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace trnsim {
namespace {

/// Composite on the CPU, but run here as one operator: the multi-tensor optimizer steps, clone, and those whose
/// "composite" kernel goes straight to a CPU or CUDA stub.
bool runs_whole(const c10::OperatorName& name) {
  return name.name.starts_with("aten::_foreach_") || name.name == "aten::conj_physical_" ||
      name == c10::OperatorName("aten::clone", "") || (name.name == "aten::mode" && name.overload_name == "values");
}

/// Operators defined after us (custom ops, other libraries) that have no neuron kernel.
void run_unregistered(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  static std::mutex mutex;
  static std::unordered_map<c10::OperatorName, std::unique_ptr<BoxedKernel>> kernels;
  TORCH_CHECK_NOT_IMPLEMENTED(
      op.hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
          op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd),
      "Could not run '",
      op.operator_name(),
      "' on neuron: it has neither a neuron nor a CPU kernel. Register a CPU implementation "
      "(torch.library.register_kernel(name, \"cpu\")) and it runs here as a recorded fallback.");
  BoxedKernel* kernel = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto& slot = kernels[op.operator_name()];
    if (!slot) {
      slot = std::make_unique<BoxedKernel>(op.schema());
    }
    kernel = slot.get();
  }
  (*kernel)(op, keys, stack);
}

} // namespace

void register_boxed_kernels() {
  static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  static torch::Library every(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) {
      continue;
    }
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) {
      continue;
    }
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CPU) && !runs_whole(name)) {
      continue;
    }
    const std::string full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    aten.impl(
        full.c_str() + sizeof("aten::") - 1,
        torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(op->schema())));
  }
  every.fallback(torch::CppFunction::makeFromBoxedFunction<&run_unregistered>());
}

} // namespace trnsim
