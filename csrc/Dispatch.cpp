#include "Dispatch.h"

#include "Alias.h"
#include "Allocator.h"
#include "Device.h"
#include "Generator.h"
#include "OpKey.h"
#include "Pool.h"
#include "Timeline.h"
#include "Widening.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>

namespace trnsim {
namespace {

using torch::jit::Stack;

/// Below the functor nothing but backend kernels may run: no autograd, no autocast, no view tracking.
const c10::DispatchKeySet kExcluded = c10::autograd_dispatch_keyset_with_ADInplaceOrView |
    c10::autocast_dispatch_keyset;

/// A neuron argument and the CPU tensor that stood in for it.
struct Stand {
  at::Tensor neuron;
  at::Tensor cpu;
  bool written;
};

/// One call: translates the arguments, remembers the stand-ins, translates the results back.
class Call {
 public:
  Call(const OpInfo& info, Stack* stack)
      : info_(info), stack_(stack), base_(stack->size() - info.args.size()), hash_(info.seed) {
    for (size_t position = 0; position < info.args.size(); ++position) {
      enter(info.args[position], (*stack_)[base_ + position]);
    }
    if (device_ < 0) {
      device_ = current_device();
    }
    if (needs_check_) {
      check_cpu_arguments();
    }
    touch_device();
  }

  c10::DeviceIndex device() const noexcept {
    return device_;
  }
  uint64_t key() const noexcept {
    return hash_;
  }

  /// Everything Python is told about this key.
  KeyParts parts() const {
    KeyParts parts{&info_, {}, {}};
    for (size_t position = 0; position < info_.args.size(); ++position) {
      const auto& arg = info_.args[position];
      const auto& value = (*stack_)[base_ + position];
      if (arg.kind == ArgKind::tensor && value.isTensor()) {
        parts.inputs.push_back(real(value.toTensor()));
      } else if (arg.kind == ArgKind::tensor_list && value.isList()) {
        for (const c10::IValue& item : value.toListRef()) {
          if (item.isTensor()) {
            parts.inputs.push_back(real(item.toTensor()));
          }
        }
      } else if (arg.kind == ArgKind::fixed) {
        parts.fixed.emplace_back(arg.name, value);
      }
    }
    return parts;
  }

  int64_t input_bytes() const {
    int64_t bytes = 0;
    for (const auto& stand : stands_) {
      bytes += static_cast<int64_t>(stand.neuron.nbytes());
    }
    return bytes;
  }

  /// Turns the results on the stack into neuron tensors and carries resizes back.
  void leave() {
    for (const auto& stand : stands_) {
      if (stand.written) {
        carry_back(stand.neuron, stand.cpu);
      }
    }
    const size_t first = stack_->size() - info_.return_count;
    for (size_t position = first; position < stack_->size(); ++position) {
      c10::IValue& value = (*stack_)[position];
      if (value.isTensor()) {
        value = result(std::move(value).toTensor());
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (at::Tensor item : value.toTensorVector()) {
          list.push_back(result(std::move(item)));
        }
        value = std::move(list);
      }
    }
  }

  std::vector<at::Tensor> outputs() const {
    std::vector<at::Tensor> tensors;
    for (size_t position = stack_->size() - info_.return_count; position < stack_->size(); ++position) {
      const c10::IValue& value = (*stack_)[position];
      if (value.isTensor()) {
        tensors.push_back(value.toTensor());
      } else if (value.isTensorList()) {
        const auto list = value.toTensorVector();
        tensors.insert(tensors.end(), list.begin(), list.end());
      }
    }
    if (info_.return_count == 0) {
      for (const auto& stand : stands_) {
        if (stand.written) {
          tensors.push_back(stand.neuron);
        }
      }
    }
    return tensors;
  }

 private:
  void enter(const ArgInfo& arg, c10::IValue& value) {
    switch (arg.kind) {
      case ArgKind::tensor:
        if (value.isTensor()) {
          hash_ = mix_tensor(hash_, value.toTensor());
          if (!value.toTensor().is_cpu()) {
            value = stand_in(std::move(value).toTensor(), arg);
          } else {
            needs_check_ = true;
          }
        } else {
          hash_ = mix(hash_, 0x7F);
        }
        break;
      case ArgKind::tensor_list:
        if (value.isList()) {
          value = stand_in_list(arg, value);
        }
        break;
      case ArgKind::device:
        if (value.isDevice() && value.toDevice().type() == kNeuron) {
          device_ = resolve_device(value.toDevice().index());
          value = c10::Device(c10::DeviceType::CPU);
        }
        break;
      case ArgKind::generator:
        value = cpu_generator_for(value, device_ < 0 ? current_device() : device_);
        break;
      case ArgKind::scalar:
        break;
      case ArgKind::fixed:
        hash_ = mix_fixed(hash_, value);
        break;
    }
  }

  at::Tensor stand_in(at::Tensor&& tensor, const ArgInfo& arg) {
    if (!tensor.defined()) {
      return std::move(tensor);
    }
    const auto device = tensor.device();
    TORCH_CHECK(
        device.type() == kNeuron && tensor.layout() == c10::kStrided,
        "Expected all tensors to be on the same device, but found at least two devices, neuron and ",
        device,
        "! (argument ",
        arg.name,
        " of ",
        info_.name,
        ", layout ",
        tensor.layout(),
        ")");
    if (device_ >= 0 && device.index() != device_) {
      TORCH_CHECK(
          false,
          "Expected all tensors to be on the same device, but found at least two devices, neuron:",
          static_cast<int>(device_),
          " and ",
          device,
          "! (argument ",
          arg.name,
          " of ",
          info_.name,
          "). Move one with .to(\"neuron:",
          static_cast<int>(device_),
          "\").");
    }
    device_ = device.index();
    for (auto& stand : stands_) { // one argument given twice (out= of an input) stays one tensor
      if (stand.neuron.is_same(tensor)) {
        stand.written |= arg.written;
        return stand.cpu;
      }
    }
    at::Tensor cpu = alias_cpu(tensor);
    stands_.push_back({std::move(tensor), cpu, arg.written});
    return cpu;
  }

  c10::IValue stand_in_list(const ArgInfo& arg, const c10::IValue& value) {
    const auto items = value.toListRef();
    hash_ = mix(hash_, items.size());
    const bool optional = !value.isTensorList();
    c10::List<at::Tensor> tensors;
    c10::List<std::optional<at::Tensor>> optionals;
    for (const c10::IValue& item : items) {
      at::Tensor tensor = item.isTensor() ? item.toTensor() : at::Tensor();
      hash_ = mix_tensor(hash_, tensor);
      if (tensor.defined() && !tensor.is_cpu()) {
        tensor = stand_in(std::move(tensor), arg);
      } else {
        needs_check_ |= tensor.defined();
      }
      if (optional) {
        optionals.push_back(item.isTensor() ? std::optional<at::Tensor>(tensor) : std::nullopt);
      } else {
        tensors.push_back(tensor);
      }
    }
    return optional ? c10::IValue(std::move(optionals)) : c10::IValue(std::move(tensors));
  }

  /// CPU tensors beside neuron ones: only 0-dim inputs, and index tensors of the operators that allow them.
  void check_cpu_arguments() const {
    for (size_t position = 0; position < info_.args.size(); ++position) {
      const auto& arg = info_.args[position];
      const auto& value = (*stack_)[base_ + position];
      if (arg.kind == ArgKind::tensor && value.isTensor()) {
        check_cpu(arg, value.toTensor());
      } else if (arg.kind == ArgKind::tensor_list && value.isList()) {
        for (const c10::IValue& item : value.toListRef()) {
          if (item.isTensor()) {
            check_cpu(arg, item.toTensor());
          }
        }
      }
    }
  }

  void check_cpu(const ArgInfo& arg, const at::Tensor& tensor) const {
    if (!tensor.defined() || is_stand(tensor) || (tensor.dim() == 0 && !arg.written) || arg.may_be_cpu) {
      return;
    }
    TORCH_CHECK(
        false,
        "Expected all tensors to be on the same device, but found at least two devices, neuron:",
        static_cast<int>(device_ < 0 ? current_device() : device_),
        " and cpu! (argument ",
        arg.name,
        " of ",
        info_.name,
        ", shape ",
        tensor.sizes(),
        "). Move it with .to(\"neuron\"); only 0-dim CPU tensors may be mixed in.");
  }

  bool is_stand(const at::Tensor& cpu) const {
    for (const auto& stand : stands_) {
      if (stand.cpu.is_same(cpu)) {
        return true;
      }
    }
    return false;
  }

  at::Tensor real(const at::Tensor& cpu) const {
    for (const auto& stand : stands_) {
      if (stand.cpu.is_same(cpu)) {
        return stand.neuron;
      }
    }
    return cpu;
  }

  at::Tensor result(at::Tensor&& cpu) const {
    if (!cpu.defined()) {
      return std::move(cpu);
    }
    if (cpu.layout() == c10::kStrided) {
      const auto* storage = cpu.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
      const Stand* owner = nullptr;
      for (const auto& stand : stands_) {
        if (stand.cpu.is_same(cpu)) {
          return stand.neuron;
        }
        if (stand.cpu.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() == storage) {
          owner = &stand;
        }
      }
      if (owner != nullptr) {
        return view_of(owner->neuron, cpu);
      }
    }
    return wrap_fresh(std::move(cpu), device_);
  }

  const OpInfo& info_;
  Stack* stack_;
  size_t base_;
  uint64_t hash_;
  c10::DeviceIndex device_ = -1;
  bool needs_check_ = false;
  c10::SmallVector<Stand, 4> stands_;
};

void run_on_cpu(const OpInfo& info, const c10::OperatorHandle& op, Stack* stack, c10::DeviceIndex device) {
  const c10::impl::ExcludeDispatchKeyGuard below(kExcluded);
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
      record_here(EventKind::sync, entry.op, intern_text("value"), 0, host_now() - stall, stall);
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
