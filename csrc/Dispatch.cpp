#include "Dispatch.h"

#include "Alias.h"
#include "Allocator.h"
#include "Call.h"
#include "Device.h"
#include "OpKey.h"
#include "Pool.h"
#include "Timeline.h"
#include "Widening.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace trnsim {
namespace {

using torch::jit::Stack;

void run_on_cpu(const OpInfo& info, const c10::OperatorHandle& op, Stack* stack, c10::DeviceIndex device) {
  const c10::impl::ExcludeDispatchKeyGuard below(kAboveBackend);
  const RouteAllocations route(device);
  const MemoryAccess access;
  if (C10_UNLIKELY(widens(info, *stack))) {
    run_widened(info, op, stack);
    return;
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

/// Moves the clock and the ledger for one finished run of a key.
void charge(const OpInfo& info, OpEntry& entry, c10::DeviceIndex device, int64_t bytes) {
  entry.count.fetch_add(1, std::memory_order_relaxed);
  if (C10_LIKELY(entry.status == Status::native)) {
    issue(device, entry.duration_ns);
    if (C10_UNLIKELY(info.returns_value)) { // the host waits for a bool or a number
      const int64_t stall = sync_device(device);
      record_here(EventKind::sync, entry.op, "value", 0, host_now() - stall, stall);
    }
  } else if (entry.status == Status::fallback) {
    after_fallback(entry, device, bytes);
  } else {
    after_bounce(entry, device, bytes);
  }
}

/// The first run of a key: Python is asked before (native?) and after (cost).
void run_new_key(const OpInfo& info, const c10::OperatorHandle& op, Stack* stack, Call& call, OpEntry* entry) {
  const KeyParts parts = call.parts();
  if (entry == nullptr) {
    entry = resolve_entry(call.key(), parts);
  }
  const int64_t bytes = call.input_bytes();
  if (entry->status == Status::fallback) {
    before_fallback(*entry, bytes);
  }
  run_on_cpu(info, op, stack, call.device());
  call.leave();
  account_entry(*entry, parts, call.outputs());
  charge(info, *entry, call.device(), bytes);
}

} // namespace

bool goes_unseen() {
  return untracked() || (!clock_config().enabled && fallback_policy() != Policy::error);
}

void run_boxed(const OpInfo& info, const c10::OperatorHandle& op, Stack* stack) {
  Call call(info, stack);
  if (C10_UNLIKELY(goes_unseen())) {
    run_on_cpu(info, op, stack, call.device());
    call.leave();
    return;
  }
  OpEntry* entry = find_entry(call.key());
  if (C10_UNLIKELY(entry == nullptr || !entry->accounted.load(std::memory_order_acquire))) {
    run_new_key(info, op, stack, call, entry);
    return;
  }
  int64_t bytes = 0;
  if (C10_UNLIKELY(entry->status != Status::native)) {
    bytes = call.input_bytes();
    if (entry->status == Status::fallback) {
      before_fallback(*entry, bytes);
    }
  }
  run_on_cpu(info, op, stack, call.device());
  call.leave();
  charge(info, *entry, call.device(), bytes);
}

void BoxedKernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
  run_boxed(info_, op, stack);
}

} // namespace trnsim
