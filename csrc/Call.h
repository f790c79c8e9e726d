#pragma once
// One call of the boxed kernel: neuron arguments become CPU tensors over the same bytes, results become neuron tensors.

#include "Alias.h"
#include "Device.h"
#include "Generator.h"
#include "OpKey.h"

#include <c10/util/SmallVector.h>

namespace trnsim {

/// A neuron argument and the CPU tensor that stood in for it.
struct Stand {
  at::Tensor neuron;
  at::Tensor cpu;
  bool written;
};

/// One call: translates the arguments, remembers the stand-ins, translates the results back.
class Call {
 public:
  Call(const OpInfo& info, torch::jit::Stack* stack)
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
        draws_ = !value.isNone();
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
    if (!tensor.defined() || find_stand(tensor) != nullptr || (tensor.dim() == 0 && !arg.written) || arg.may_be_cpu) {
      return;
    }
    TORCH_CHECK(
        !stands_.empty() || !draws_,
        "Expected a 'cpu' device type for generator but found 'neuron'. Give ",
        info_.name,
        " a torch.Generator() of the CPU, or device=\"neuron\".");
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

  /// The stand-in that `cpu` is, or nullptr.
  const Stand* find_stand(const at::Tensor& cpu) const {
    for (const auto& stand : stands_) {
      if (stand.cpu.is_same(cpu)) {
        return &stand;
      }
    }
    return nullptr;
  }

  at::Tensor real(const at::Tensor& cpu) const {
    const Stand* stand = find_stand(cpu);
    return stand != nullptr ? stand->neuron : cpu;
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
  torch::jit::Stack* stack_;
  size_t base_;
  uint64_t hash_;
  c10::DeviceIndex device_ = -1;
  bool needs_check_ = false;
  bool draws_ = false; // from a generator the caller gave
  c10::SmallVector<Stand, 4> stands_;
};

} // namespace trnsim
