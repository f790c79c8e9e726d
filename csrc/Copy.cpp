// Copies between host and device, between devices, and scalars read by the host.

#include "Alias.h"
#include "Device.h"
#include "Dispatch.h"
#include "HostAllocator.h"
#include "Ledger.h"
#include "Pool.h"
#include "Timeline.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <cstring>
#include <limits>

namespace trnsim {
namespace {

bool plain_bytes(const at::Tensor& to, const at::Tensor& from) {
  return to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes() && to.is_contiguous() &&
      from.is_contiguous() && !to.key_set().has_any(kLazyBits) && !from.key_set().has_any(kLazyBits) &&
      !from.key_set().has(c10::DispatchKey::ZeroTensor);
}

void copy_bytes(const at::Tensor& to, const at::Tensor& from) {
  const size_t bytes = to.nbytes();
  if (to.const_data_ptr() == from.const_data_ptr() || bytes == 0) {
    return;
  }
  auto* target = static_cast<char*>(to.mutable_data_ptr());
  const auto* source = static_cast<const char*>(from.const_data_ptr());
  constexpr int64_t kGrain = int64_t{1} << 20;
  at::parallel_for(0, static_cast<int64_t>(bytes), kGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
  });
}

/// The bytes of `from` into `to`, whichever side they live on.
void copy_values(const at::Tensor& to, const at::Tensor& from) {
  const c10::impl::ExcludeDispatchKeyGuard below(kAboveBackend);
  const MemoryAccess access;
  const at::Tensor host_to = is_neuron(to) ? alias_cpu(to) : to;
  const at::Tensor host_from = is_neuron(from) ? alias_cpu(from) : from;
  if (plain_bytes(host_to, host_from)) {
    copy_bytes(host_to, host_from);
  } else {
    host_to.copy_(host_from);
  }
}

/// The device computes int64 as int32: while a session records, says which value would not survive.
void note_wide_values(const at::Tensor& host) {
  if (!recording() || host.scalar_type() != at::kLong || host.numel() == 0) {
    return;
  }
  const auto [low, high] = at::aminmax(host);
  const int64_t worst = -(low.item<int64_t>() + 1) > high.item<int64_t>() ? low.item<int64_t>() : high.item<int64_t>();
  if (worst > std::numeric_limits<int32_t>::max() || worst < std::numeric_limits<int32_t>::min()) {
    record_here(
        EventKind::overflow64,
        0,
        intern_text("int64 value " + std::to_string(worst) + " does not fit int32"),
        static_cast<int64_t>(host.nbytes()),
        host_now(),
        0);
  }
}

/// Charges a transfer of `bytes`; `blocking` makes the host wait for it.
void charge_transfer(c10::DeviceIndex device, int64_t bytes, bool to_device, bool blocking) {
  if (!clock_config().enabled || untracked()) {
    return;
  }
  const int64_t duration = transfer_ns(bytes, to_device);
  const int64_t begun = host_now();
  const int64_t start = issue(device, duration);
  if (blocking) {
    sync_until(start + duration);
  }
  record_here(EventKind::transfer, 0, to_device ? "h2d" : "d2h", bytes, start, duration);
  if (blocking && !to_device) {
    record_here(EventKind::sync, 0, "copy to host", bytes, begun, host_now() - begun);
  }
}

void copy_across(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      to.layout() == c10::kStrided && from.layout() == c10::kStrided,
      "neuron tensors are strided: cannot copy a ",
      from.layout(),
      " tensor to ",
      to.device(),
      ". Move its dense form: x.to_dense().to(\"neuron\").");
  copy_values(to, from);
  const bool to_device = is_neuron(to);
  if (to_device && is_neuron(from)) { // between two logical cores: the receiving stream waits for the sending one
    const auto sender = from.device().index();
    const int64_t duration = transfer_ns(static_cast<int64_t>(from.nbytes()), true);
    const int64_t start = issue(sender, duration);
    stream_wait(to.device().index(), current_stream(to.device().index()), start + duration);
    record_here(EventKind::transfer, 0, "d2d", static_cast<int64_t>(from.nbytes()), start, duration);
    return;
  }
  const at::Tensor& host = to_device ? from : to;
  if (to_device) {
    note_wide_values(from);
  }
  const auto device = to_device ? to.device().index() : from.device().index();
  const bool pinned = host.numel() > 0 && is_pinned(host.const_data_ptr());
  charge_transfer(device, static_cast<int64_t>(from.nbytes()), to_device, !(non_blocking && pinned));
}

/// copy_: within one device an operator like any other; across devices a transfer.
class CopyKernel final : public c10::OperatorKernel {
 public:
  explicit CopyKernel(const c10::FunctionSchema& schema) : info_(schema) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
    const size_t base = stack->size() - 3;
    const at::Tensor self = (*stack)[base].toTensor();
    const at::Tensor source = (*stack)[base + 1].toTensor();
    if (self.device() == source.device()) {
      run_boxed(info_, op, stack);
      return;
    }
    const bool non_blocking = (*stack)[base + 2].toBool();
    touch_device();
    copy_across(self, source.sizes() == self.sizes() ? source : source.expand_as(self), non_blocking);
    torch::jit::drop(*stack, 3);
    torch::jit::push(*stack, self);
  }

 private:
  OpInfo info_;
};

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
  at::Tensor result = target;
  result.copy_(self, non_blocking);
  return result;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  at::Tensor result = target;
  result.resize_(self.sizes());
  result.copy_(self);
  return result;
}

/// item(): waits for everything the value depends on.
c10::Scalar local_scalar(const at::Tensor& self) {
  c10::Scalar value;
  touch_device();
  {
    const c10::impl::ExcludeDispatchKeyGuard below(kAboveBackend);
    const MemoryAccess access;
    value = at::_local_scalar_dense(alias_cpu(self));
  }
  if (clock_config().enabled && !untracked()) {
    const int64_t begun = host_now();
    const int64_t duration = transfer_ns(static_cast<int64_t>(self.itemsize()), false);
    sync_until(issue(self.device().index(), duration) + duration);
    record_here(EventKind::sync, 0, "item", static_cast<int64_t>(self.itemsize()), begun, host_now() - begun);
  }
  return value;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  const auto copy = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  m.impl("copy_", torch::CppFunction::makeFromBoxedFunctor(std::make_unique<CopyKernel>(copy.schema())));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar));
}

} // namespace
} // namespace trnsim
