// trnsim._C: the core as Python sees it.

#include <torch/csrc/python_headers.h>

#include "Allocator.h"
#include "CallSite.h"
#include "Device.h"
#include "Dispatch.h"
#include "Generator.h"
#include "Ledger.h"
#include "Policy.h"
#include "Pool.h"
#include "Timeline.h"

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace trnsim {
namespace {

void bind_devices(py::module_& m) {
  m.def("configure_devices", [](int count, int64_t capacity) { configure_devices({count, capacity}); });
  m.def("device_count", [] { return in_forked_child() ? 0 : static_cast<int>(device_count()); });
  m.def("current_device", [] { return static_cast<int>(current_device()); });
  m.def(
      "exchange_device", [](int64_t index) { return static_cast<int>(exchange_device(checked_device_index(index))); });
  m.def("check_device", &check_device);
  m.def("is_initialized", &is_initialized);
  m.def("in_forked_child", &in_forked_child);
  m.def("touch_device", &touch_device);
  m.def("register", [] {
    register_allocators();
    register_hooks();
    register_boxed_kernels();
  });
}

void bind_clock(py::module_& m) {
  m.def(
      "configure_clock",
      [](bool enabled, bool blocking, int64_t dispatch, int64_t sync, int64_t latency, double h2d, double d2h) {
        configure_clock({enabled, blocking, dispatch, sync, latency, h2d, d2h});
      },
      py::kw_only(),
      py::arg("enabled"),
      py::arg("launch_blocking"),
      py::arg("dispatch_ns"),
      py::arg("sync_ns"),
      py::arg("transfer_latency_ns"),
      py::arg("h2d_bytes_per_ns"),
      py::arg("d2h_bytes_per_ns"));
  m.def("host_now", &host_now);
  m.def("stream_tail", [](int64_t device, int64_t stream) {
    return stream_tail(checked_device_index(device), checked_stream(stream));
  });
  m.def("elapsed_ms", [](uintptr_t start, uintptr_t end) {
    const c10::impl::VirtualGuardImpl guard(kNeuron);
    return guard.elapsedTime(reinterpret_cast<void*>(start), reinterpret_cast<void*>(end), 0); // NOLINT: event ids
  });
  m.def("device_tail", [](int64_t device) { return device_tail(checked_device_index(device)); });
}

/// The Python line that allocated, as memory_viz wants a stack: innermost frame only.
py::list frames_of(SiteId id) {
  py::list frames;
  if (id != kNoSite) {
    const Site site = site_of(id);
    py::dict frame;
    frame["filename"] = site.file;
    frame["line"] = site.line;
    frame["name"] = "";
    frames.append(frame);
  }
  return frames;
}

py::dict segment_dict(const SegmentView& view) {
  const auto& segment = view.info;
  py::list blocks;
  size_t address = segment.address;
  for (size_t position = 0; position < segment.blocks.size(); ++position) {
    const auto& block = segment.blocks[position];
    py::dict entry;
    entry["address"] = address;
    entry["size"] = block.size;
    entry["requested_size"] = block.requested_size;
    entry["state"] = block.allocated ? "active_allocated" : block.active ? "active_pending_free" : "inactive";
    entry["frames"] = frames_of(view.sites[position]);
    blocks.append(entry);
    address += block.size;
  }
  py::dict entry;
  entry["device"] = static_cast<int>(segment.device);
  entry["address"] = segment.address;
  entry["total_size"] = segment.total_size;
  entry["allocated_size"] = segment.allocated_size;
  entry["active_size"] = segment.active_size;
  entry["requested_size"] = segment.requested_size;
  entry["stream"] = 0;
  entry["segment_type"] = segment.is_large ? "large" : "small";
  entry["segment_pool_id"] = py::make_tuple(0, 0);
  entry["is_expandable"] = false;
  entry["frames"] = py::list();
  entry["blocks"] = blocks;
  return entry;
}

/// Pinned host memory, with the flat names of torch.cuda.host_memory_stats.
py::dict host_memory_stats() {
  const auto stats = at::getHostAllocator(at::kPrivateUse1)->get_stats();
  py::dict entry;
  entry["allocated_bytes.current"] = stats.allocated_bytes.current;
  entry["allocated_bytes.peak"] = stats.allocated_bytes.peak;
  entry["allocated_bytes.allocated"] = stats.allocated_bytes.allocated;
  entry["allocated_bytes.freed"] = stats.allocated_bytes.freed;
  return entry;
}

void bind_memory(py::module_& m) {
  m.def("memory_debug", &memory_debug);
  m.def("host_memory_stats", &host_memory_stats);
  m.def("set_memory_debug", &set_memory_debug);
  m.def("memory_segments", [](int64_t device) {
    py::list segments;
    for (const auto& segment : pool_of(checked_device_index(device)).snapshot()) {
      segments.append(segment_dict(segment));
    }
    return segments;
  });
  m.def("memory_holders", [](int64_t device, size_t at_most) {
    std::vector<std::tuple<std::string, size_t, size_t>> result;
    for (const auto& [site, bytes, blocks] : pool_of(checked_device_index(device)).holders(at_most)) {
      result.emplace_back(site_text(site), bytes, blocks);
    }
    return result;
  });
}

void bind_random(py::module_& m) {
  m.def("set_parity_mode", &set_parity_mode);
  m.def("parity_mode", &parity_mode);
  m.def("default_generator", [](int64_t device) { return default_generator(checked_device_index(device)); });
}

py::dict event_dict(const Event& event) {
  static const char* const kinds[] = {"fallback", "sync", "transfer", "cast64", "compile", "cache_hit", "overflow64"};
  py::dict entry;
  entry["kind"] = kinds[static_cast<size_t>(event.kind)];
  entry["op"] = text_of(event.op);
  entry["site"] = site_text(event.site);
  entry["module"] = module_text(event.module);
  entry["detail"] = text_of(event.detail);
  entry["bytes"] = event.bytes;
  entry["start_ns"] = event.start_ns;
  entry["duration_ns"] = event.duration_ns;
  return entry;
}

void bind_ledger(py::module_& m) {
  m.def("set_callbacks", &set_callbacks);
  m.def("set_policy", [](const std::string& name) {
    set_policy(name == "error" ? Policy::error : name == "allow" ? Policy::allow : Policy::warn);
  });
  m.def("set_recording", &set_recording);
  m.def("recording", &recording);
  m.def("event_count", &event_count);
  m.def("clear_events", &clear_events);
  m.def("events_since", [](size_t first) {
    py::list list;
    for (const auto& event : events_since(first)) {
      list.append(event_dict(event));
    }
    return list;
  });
  m.def("op_entries", [] {
    // (op, native, reason, engine, count, duration ns, bytes, flops) per key that ran
    py::list list;
    for (const auto* entry : all_entries()) {
      const auto count = entry->count.load(std::memory_order_relaxed);
      if (count > 0) {
        list.append(
            py::make_tuple(
                text_of(entry->op),
                entry->status != Status::fallback,
                text_of(entry->reason),
                static_cast<int>(entry->engine),
                count,
                entry->duration_ns,
                entry->bytes,
                entry->flops));
      }
    }
    return list;
  });
  m.def("fallback_counts", [] {
    // (op, reason, site, module, count, bytes, cost ns)
    py::list list;
    for (const auto& count : fallback_counts()) {
      list.append(
          py::make_tuple(
              text_of(count.op),
              text_of(count.reason),
              site_text(count.site),
              module_text(count.module),
              count.count,
              count.bytes,
              count.cost_ns));
    }
    return list;
  });
  m.def("forget_entries", &forget_entries);
  m.def("enter_untracked", &enter_untracked);
  m.def("leave_untracked", &leave_untracked);
  m.def("set_skipped_prefixes", &set_skipped_prefixes);
  m.def("intern_module", &intern_module);
  m.def("exchange_module", &exchange_module);
}

} // namespace
} // namespace trnsim

PYBIND11_MODULE(_C, m) {
  m.doc() = "The C++ core of trnsim.";
  trnsim::bind_devices(m);
  trnsim::bind_clock(m);
  trnsim::bind_memory(m);
  trnsim::bind_random(m);
  trnsim::bind_ledger(m);
}
