// The crossing into Python, once per op key: native or fallback, cost, and what a fallback does to the user.

#include <torch/csrc/python_headers.h>

#include "Device.h"
#include "OpKey.h"
#include "Policy.h"
#include "Timeline.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <map>
#include <mutex>
#include <set>

namespace py = pybind11;

namespace trnsim {
namespace {

/// Python callables; leaked, since ops may run while the interpreter shuts down.
struct Callbacks {
  py::object spec_type;
  py::object key_type;
  py::object resolve;
  py::object account;
  py::object on_fallback;
  py::object refuse;
};
Callbacks* g_callbacks = nullptr;

std::atomic<int> g_policy{static_cast<int>(Policy::warn)};

struct Fallbacks {
  std::mutex mutex;
  std::map<std::tuple<uint32_t, uint32_t, SiteId, ModuleId>, FallbackCount> counts;
  std::set<std::pair<uint32_t, SiteId>> warned;
};
Fallbacks& fallbacks() {
  static auto* table = new Fallbacks;
  return *table;
}

py::str dtype_name(const at::Tensor& tensor) {
  // "float32", as Python spells it, rather than C++'s "Float".
  const auto names = c10::getDtypeNames(tensor.scalar_type());
  return py::str(names.first);
}

py::object spec_of(const at::Tensor& tensor) {
  py::tuple shape(tensor.dim());
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
    shape[axis] = tensor.size(axis);
  }
  return g_callbacks->spec_type(
      py::arg("dtype") = dtype_name(tensor),
      py::arg("shape") = shape,
      py::arg("contiguous") = tensor.is_contiguous(),
      py::arg("device") = tensor.is_cpu() ? "cpu" : "neuron");
}

/// "float32 to int64", for a copy of the second input into the first.
std::string cast_text(const std::vector<at::Tensor>& inputs) {
  std::string text;
  for (size_t position = inputs.size(); position-- > 0;) {
    text += text.empty() ? "" : " to ";
    text += c10::getDtypeNames(inputs[position].scalar_type()).first;
  }
  return text;
}

py::tuple specs_of(const std::vector<at::Tensor>& tensors) {
  py::list specs;
  for (const auto& tensor : tensors) {
    if (tensor.defined()) {
      specs.append(spec_of(tensor));
    }
  }
  return py::tuple(specs);
}

py::object fixed_value(const c10::IValue& value) {
  if (value.isIntList() || value.isBoolList() || value.isDoubleList()) {
    return py::tuple(torch::jit::toPyObject(value));
  }
  if (value.isInt() || value.isBool() || value.isDouble() || value.isString() || value.isNone()) {
    return torch::jit::toPyObject(value);
  }
  return py::str(c10::str(value));
}

py::object key_of(const KeyParts& parts, const std::vector<at::Tensor>& outputs) {
  py::list fixed;
  for (const auto& [name, value] : parts.fixed) {
    fixed.append(py::make_tuple(name, fixed_value(value)));
  }
  return g_callbacks->key_type(
      py::arg("op") = parts.info->name,
      py::arg("inputs") = specs_of(parts.inputs),
      py::arg("outputs") = specs_of(outputs),
      py::arg("static") = py::tuple(fixed));
}

/// Runs `body` with the GIL; a Python exception leaves as the Python exception it is.
template <typename Body>
void with_python(Body&& body) {
  py::gil_scoped_acquire gil;
  try {
    body();
  } catch (py::error_already_set& error) {
    error.restore();
    python_error carried;
    carried.persist();
    throw carried;
  }
}

} // namespace

void set_callbacks(
    py::object spec_type,
    py::object key_type,
    py::object resolve,
    py::object account,
    py::object on_fallback,
    py::object refuse) {
  delete g_callbacks;
  g_callbacks = new Callbacks{
      std::move(spec_type),
      std::move(key_type),
      std::move(resolve),
      std::move(account),
      std::move(on_fallback),
      std::move(refuse)};
}

void set_policy(Policy policy) noexcept {
  g_policy.store(static_cast<int>(policy), std::memory_order_relaxed);
}

OpEntry* resolve_entry(uint64_t key, const KeyParts& parts) {
  auto entry = std::make_unique<OpEntry>();
  entry->op = parts.info->name_id;
  if (g_callbacks == nullptr || Py_IsInitialized() == 0) {
    return insert_entry(key, std::move(entry));
  }
  with_python([&] {
    const Untracked quiet;
    const py::object resolution = g_callbacks->resolve(key_of(parts, {}));
    if (resolution.attr("status").cast<std::string>() == "fallback") {
      entry->status = Status::fallback;
      entry->reason = intern_text(parts.info->custom ? "custom_op" : resolution.attr("reason").cast<std::string>());
    } else if (resolution.attr("bounce").cast<bool>()) {
      entry->status = Status::bounce;
      entry->reason = intern_text(cast_text(parts.inputs));
    }
  });
  return insert_entry(key, std::move(entry));
}

void account_entry(OpEntry& entry, const KeyParts& parts, const std::vector<at::Tensor>& outputs) {
  if (g_callbacks == nullptr || Py_IsInitialized() == 0) {
    return;
  }
  static std::mutex first; // two threads may meet a new key at once: one of them accounts for it
  with_python([&] {
    py::tuple answer;
    {
      const Untracked quiet;
      answer = g_callbacks->account(key_of(parts, outputs), entry.status == Status::fallback);
    }
    const std::lock_guard<std::mutex> lock(first);
    if (entry.accounted.load(std::memory_order_relaxed)) {
      return;
    }
    entry.duration_ns = answer[0].cast<int64_t>();
    entry.engine = answer[1].cast<uint8_t>();
    entry.bytes = answer[2].cast<int64_t>();
    entry.flops = answer[3].cast<int64_t>();
    const auto compile = answer[4].cast<int>(); // 0 no compile, 1 compiled, 2 cache hit
    if (compile != 0) {
      record_here(
          compile == 1 ? EventKind::compile : EventKind::cache_hit,
          entry.op,
          /*detail=*/uint32_t{0},
          0,
          host_now(),
          answer[5].cast<int64_t>());
    }
    entry.accounted.store(true, std::memory_order_release);
  });
}

void before_fallback(OpEntry& entry, int64_t bytes) {
  const Policy policy = fallback_policy();
  if (policy == Policy::allow || g_callbacks == nullptr) {
    return;
  }
  const SiteId site = current_site();
  const std::pair<uint32_t, SiteId> line{entry.op, site};
  if (policy == Policy::warn) {
    std::lock_guard<std::mutex> lock(fallbacks().mutex);
    if (fallbacks().warned.contains(line)) {
      return;
    }
  }
  with_python([&] { // raises under policy "error", or when a filter turns the warning into an error
    const Untracked quiet;
    const auto& callback = policy == Policy::error ? g_callbacks->refuse : g_callbacks->on_fallback;
    callback(
        text_of(entry.op),
        text_of(entry.reason),
        site_text(site),
        module_text(current_module()),
        bytes,
        entry.duration_ns);
  });
  std::lock_guard<std::mutex> lock(fallbacks().mutex);
  fallbacks().warned.insert(line);
}

void after_bounce(OpEntry& entry, c10::DeviceIndex device, int64_t bytes) {
  const int64_t start = host_now();
  sync_device(device);
  advance_host(entry.duration_ns);
  record_here(EventKind::cast64, entry.op, entry.reason, bytes, start, host_now() - start);
}

void check_memory_format(c10::MemoryFormat format, c10::DeviceIndex device) {
  if ((format != c10::MemoryFormat::ChannelsLast && format != c10::MemoryFormat::ChannelsLast3d) || untracked()) {
    return;
  }
  static const OpInfo info(c10::Dispatcher::singleton().findSchemaOrThrow("aten::empty", "memory_format").schema());
  const KeyParts parts{&info, {}, {{"memory_format", static_cast<int64_t>(format)}}};
  const uint64_t key = mix(info.seed, static_cast<uint64_t>(format));
  OpEntry* entry = find_entry(key);
  if (entry == nullptr) {
    entry = resolve_entry(key, parts);
  }
  if (entry->status == Status::fallback) {
    before_fallback(*entry, 0);
    after_fallback(*entry, device, 0);
  }
}

Policy fallback_policy() noexcept {
  return static_cast<Policy>(g_policy.load(std::memory_order_relaxed));
}

void after_fallback(OpEntry& entry, c10::DeviceIndex device, int64_t bytes) {
  const SiteId site = current_site();
  const int64_t start = host_now();
  sync_device(device);
  advance_host(entry.duration_ns);
  {
    std::lock_guard<std::mutex> lock(fallbacks().mutex);
    auto& count = fallbacks().counts[{entry.op, entry.reason, site, current_module()}];
    count.op = entry.op;
    count.reason = entry.reason;
    count.site = site;
    count.module = current_module();
    count.count += 1;
    count.bytes += bytes;
    count.cost_ns += entry.duration_ns;
  }
  if (recording()) {
    record_event(
        {EventKind::fallback, entry.op, site, current_module(), entry.reason, bytes, start, host_now() - start});
  }
}

std::vector<FallbackCount> fallback_counts() {
  std::lock_guard<std::mutex> lock(fallbacks().mutex);
  std::vector<FallbackCount> result;
  for (const auto& [key, count] : fallbacks().counts) {
    result.push_back(count);
  }
  return result;
}

} // namespace trnsim
