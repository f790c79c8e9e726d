#include "HostPages.h"

#include "Pool.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

namespace trnsim {
namespace {

std::atomic<bool> g_debug{false};

/// Segments known to the debug mode, and how many accesses are open over all of them.
struct Protection {
  std::mutex mutex;
  std::map<char*, size_t> segments;
  int open = 0;

  void apply(int flags) {
    for (const auto& [base, bytes] : segments) {
      mprotect(base, bytes, flags);
    }
  }
};

Protection& protection() {
  static auto* state = new Protection;
  return *state;
}

size_t align_up(size_t value) noexcept {
  return (value + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
}

// A two-level table over 47-bit user addresses: 2 MiB chunks, 8,192 to a leaf, leaves made on demand and kept.
constexpr size_t kChunkBits = 21;
constexpr size_t kLeafBits = 13;
using Slot = std::atomic<void*>;
std::array<std::atomic<Slot*>, size_t{1} << kLeafBits> g_leaves{};

Slot* owner_slot(const void* pointer, bool create) noexcept {
  const size_t chunk = reinterpret_cast<size_t>(pointer) >> kChunkBits;
  auto& leaf = g_leaves[(chunk >> kLeafBits) & (g_leaves.size() - 1)];
  Slot* slots = leaf.load(std::memory_order_acquire);
  if (slots == nullptr) {
    if (!create) {
      return nullptr;
    }
    auto fresh = std::make_unique<Slot[]>(size_t{1} << kLeafBits);
    if (leaf.compare_exchange_strong(slots, fresh.get(), std::memory_order_acq_rel)) {
      slots = fresh.release();
    }
  }
  return slots + (chunk & ((size_t{1} << kLeafBits) - 1));
}

} // namespace

char* reserve_pages(size_t bytes) noexcept {
  bytes = align_up(bytes);
  const size_t padded = bytes + kSegmentAlignment;
  void* const raw = mmap(nullptr, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) {
    return nullptr;
  }
  auto* const begin = static_cast<char*>(raw);
  auto* const base = reinterpret_cast<char*>(align_up(reinterpret_cast<size_t>(begin)));
  if (base != begin) {
    munmap(begin, static_cast<size_t>(base - begin));
  }
  if (const auto rest = static_cast<size_t>(begin + padded - (base + bytes)); rest > 0) {
    munmap(base + bytes, rest);
  }
  if (memory_debug()) {
    std::lock_guard<std::mutex> lock(protection().mutex);
    protection().segments[base] = bytes;
    if (protection().open == 0) {
      mprotect(base, bytes, PROT_NONE);
    }
  }
  return base;
}

void release_pages(char* base, size_t bytes) noexcept {
  {
    std::lock_guard<std::mutex> lock(protection().mutex);
    protection().segments.erase(base);
  }
  munmap(base, align_up(bytes));
}

void decommit_pages(char* base, size_t bytes) noexcept {
  madvise(base, bytes, MADV_DONTNEED);
}

void set_owner(char* base, size_t bytes, void* owner) {
  for (char* chunk = base; chunk < base + bytes; chunk += kSegmentAlignment) {
    owner_slot(chunk, /*create=*/true)->store(owner, std::memory_order_release);
  }
}

void* owner_of(const void* pointer) noexcept {
  auto* slot = owner_slot(pointer, /*create=*/false);
  return slot == nullptr ? nullptr : slot->load(std::memory_order_acquire);
}

void set_memory_debug(bool enabled) {
  g_debug.store(enabled, std::memory_order_relaxed);
}

bool memory_debug() noexcept {
  return g_debug.load(std::memory_order_relaxed);
}

void MemoryAccess::enter() noexcept {
  std::lock_guard<std::mutex> lock(protection().mutex);
  entered_ = true;
  if (protection().open++ == 0) {
    protection().apply(PROT_READ | PROT_WRITE);
  }
}

void MemoryAccess::leave() noexcept {
  std::lock_guard<std::mutex> lock(protection().mutex);
  if (--protection().open == 0) {
    protection().apply(PROT_NONE);
  }
}

} // namespace trnsim
