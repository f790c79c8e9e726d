#include "OpKey.h"

#include <c10/util/Exception.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <tuple>
#include <unordered_map>

namespace trnsim {
namespace {

struct Entries {
  std::shared_mutex mutex;
  std::unordered_map<uint64_t, OpEntry*> by_key;
  std::vector<std::unique_ptr<OpEntry>> owned; // never shrinks: threads keep pointers
  std::atomic<uint64_t> generation{1};
};

Entries& entries() {
  static auto* table = new Entries;
  return *table;
}

/// A direct-mapped cache in front of the table; no lock.
struct ThreadCache {
  struct Slot {
    uint64_t key = 0;
    OpEntry* entry = nullptr;
  };
  uint64_t generation = 0;
  std::array<Slot, 1024> slots;
};
thread_local std::unique_ptr<ThreadCache> t_cache;

} // namespace

uint64_t mix_tensor(uint64_t hash, const at::Tensor& tensor) noexcept {
  if (!tensor.defined()) {
    return mix(hash, 0x7F);
  }
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto sizes = impl->sizes();
  hash =
      mix(hash,
          static_cast<uint64_t>(impl->dtype().toScalarType()) | (sizes.size() << 8) |
              (static_cast<uint64_t>(impl->is_contiguous()) << 32) | (static_cast<uint64_t>(impl->is_cpu()) << 33));
  for (const auto size : sizes) {
    hash = mix(hash, static_cast<uint64_t>(size));
  }
  return hash;
}

uint64_t mix_fixed(uint64_t hash, const c10::IValue& value) {
  if (value.isInt()) {
    return mix(hash, static_cast<uint64_t>(value.toInt()));
  }
  if (value.isBool()) {
    return mix(hash, value.toBool() ? 3 : 5);
  }
  if (value.isNone()) {
    return mix(hash, 0x4E);
  }
  if (value.isDouble()) {
    const double number = value.toDouble();
    uint64_t bits = 0;
    static_assert(sizeof bits == sizeof number);
    std::memcpy(&bits, &number, sizeof bits);
    return mix(hash, bits);
  }
  if (value.isIntList()) {
    for (const int64_t item : value.toIntList()) {
      hash = mix(hash, static_cast<uint64_t>(item));
    }
    return mix(hash, 0x4C);
  }
  if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      hash = mix_fixed(hash, item);
    }
    return mix(hash, 0x4D);
  }
  if (value.isString()) {
    return mix(hash, std::hash<std::string>()(value.toStringRef()));
  }
  return mix(hash, 0x5A);
}

OpEntry* find_entry(uint64_t key) noexcept {
  if (C10_UNLIKELY(!t_cache)) {
    t_cache = std::make_unique<ThreadCache>();
  }
  ThreadCache& cache = *t_cache;
  const auto generation = entries().generation.load(std::memory_order_acquire);
  if (C10_UNLIKELY(cache.generation != generation)) {
    cache.slots.fill({});
    cache.generation = generation;
  }
  auto& slot = cache.slots[(key >> 13) & (cache.slots.size() - 1)];
  if (C10_LIKELY(slot.key == key && slot.entry != nullptr)) {
    return slot.entry;
  }
  std::shared_lock<std::shared_mutex> lock(entries().mutex);
  const auto found = entries().by_key.find(key);
  if (found == entries().by_key.end()) {
    return nullptr;
  }
  slot = {key, found->second};
  return found->second;
}

OpEntry* insert_entry(uint64_t key, std::unique_ptr<OpEntry> entry) {
  std::unique_lock<std::shared_mutex> lock(entries().mutex);
  auto [it, fresh] = entries().by_key.try_emplace(key, entry.get());
  if (fresh) {
    entries().owned.push_back(std::move(entry));
  }
  return it->second;
}

std::vector<const OpEntry*> all_entries() {
  std::shared_lock<std::shared_mutex> lock(entries().mutex);
  std::vector<const OpEntry*> result;
  result.reserve(entries().owned.size());
  for (const auto& entry : entries().owned) {
    result.push_back(entry.get());
  }
  return result;
}

void forget_entries() {
  std::unique_lock<std::shared_mutex> lock(entries().mutex);
  entries().by_key.clear();
  entries().generation.fetch_add(1, std::memory_order_release);
}

} // namespace trnsim
