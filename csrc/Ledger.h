#pragma once
// What happened: per-key counters that are always kept, and a list of typed events kept while a session records.

#include "CallSite.h"

#include <c10/macros/Macros.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace trnsim {

enum class EventKind : uint8_t { fallback, sync, transfer, cast64, compile, cache_hit, overflow64 };
enum class Status : uint8_t { native, fallback, bounce }; // bounce: a 64-bit cast, through the host

struct Event {
  EventKind kind;
  uint32_t op; // interned operator name, 0 when none
  SiteId site;
  ModuleId module;
  uint32_t detail; // interned text: reason of a fallback, kind of a sync or transfer, dtypes of a cast
  int64_t bytes;
  int64_t start_ns;    // simulated time
  int64_t duration_ns; // simulated
};

/// One op key: what the Python side said about it, and how often it ran.
struct OpEntry {
  uint32_t op = 0;
  Status status = Status::native;
  uint32_t reason = 0;                // interned; for a bounce the dtypes
  std::atomic<bool> accounted{false}; // the cost below is known; store it last, load it first
  uint8_t engine = 0;
  int64_t duration_ns = 0;
  int64_t bytes = 0;
  int64_t flops = 0;
  std::atomic<int64_t> count{0};
};

uint32_t intern_text(const std::string& text);
std::string text_of(uint32_t id);

bool recording() noexcept;
void set_recording(bool enabled);
void record_event(const Event& event);
/// Adds an event at the current site and module if a session records. A text `detail` is interned only then.
void record_here(EventKind kind, uint32_t op, uint32_t detail, int64_t bytes, int64_t start_ns, int64_t duration_ns);
void record_here(EventKind kind, uint32_t op, const char* detail, int64_t bytes, int64_t start_ns, int64_t duration_ns);
std::vector<Event> events_since(size_t first);
size_t event_count();
void clear_events();

/// While one lives on a thread, its ops leave no trace (repr, our own helpers).
class Untracked {
 public:
  Untracked() noexcept;
  ~Untracked();
  Untracked(const Untracked&) = delete;
  Untracked& operator=(const Untracked&) = delete;
};
bool untracked() noexcept;
void enter_untracked() noexcept;
void leave_untracked() noexcept;

} // namespace trnsim
