#include "Ledger.h"

#include <mutex>
#include <unordered_map>

namespace trnsim {
namespace {

struct Texts {
  std::mutex mutex;
  std::unordered_map<std::string, uint32_t> ids;
  std::vector<std::string> texts{""};
};

Texts& texts() {
  static auto* table = new Texts;
  return *table;
}

struct Events {
  std::mutex mutex;
  std::vector<Event> list;
};

Events& events() {
  static auto* log = new Events;
  return *log;
}

std::atomic<bool> g_recording{false};
thread_local int t_untracked = 0;

} // namespace

uint32_t intern_text(const std::string& text) {
  if (text.empty()) {
    return 0;
  }
  std::lock_guard<std::mutex> lock(texts().mutex);
  auto [it, fresh] = texts().ids.try_emplace(text, static_cast<uint32_t>(texts().texts.size()));
  if (fresh) {
    texts().texts.push_back(text);
  }
  return it->second;
}

std::string text_of(uint32_t id) {
  std::lock_guard<std::mutex> lock(texts().mutex);
  return id < texts().texts.size() ? texts().texts[id] : std::string();
}

bool recording() noexcept {
  return g_recording.load(std::memory_order_relaxed);
}

void set_recording(bool enabled) {
  g_recording.store(enabled, std::memory_order_relaxed);
}

void record_event(const Event& event) {
  std::lock_guard<std::mutex> lock(events().mutex);
  events().list.push_back(event);
}

void record_here(EventKind kind, uint32_t op, uint32_t detail, int64_t bytes, int64_t start_ns, int64_t duration_ns) {
  if (C10_LIKELY(!recording()) || untracked()) {
    return;
  }
  record_event({kind, op, current_site(), current_module(), detail, bytes, start_ns, duration_ns});
}

void record_here(
    EventKind kind, uint32_t op, const char* detail, int64_t bytes, int64_t start_ns, int64_t duration_ns) {
  if (C10_UNLIKELY(recording())) {
    record_here(kind, op, intern_text(detail), bytes, start_ns, duration_ns);
  }
}

std::vector<Event> events_since(size_t first) {
  std::lock_guard<std::mutex> lock(events().mutex);
  const auto& list = events().list;
  return first < list.size() ? std::vector<Event>(list.begin() + static_cast<std::ptrdiff_t>(first), list.end())
                             : std::vector<Event>();
}

size_t event_count() {
  std::lock_guard<std::mutex> lock(events().mutex);
  return events().list.size();
}

void clear_events() {
  std::lock_guard<std::mutex> lock(events().mutex);
  events().list.clear();
}

void enter_untracked() noexcept {
  ++t_untracked;
}

void leave_untracked() noexcept {
  --t_untracked;
}

bool untracked() noexcept {
  return t_untracked > 0;
}

Untracked::Untracked() noexcept {
  enter_untracked();
}

Untracked::~Untracked() {
  leave_untracked();
}

} // namespace trnsim
