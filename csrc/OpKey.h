#pragma once
// The op key: operator, dtype/shape/contiguity of each tensor, fixed arguments. Python decides once per key whether the
// op is native or a fallback and what it costs; the answer is cached here.

#include "Ledger.h"
#include "OpInfo.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>

namespace trnsim {

inline uint64_t mix(uint64_t hash, uint64_t value) noexcept {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
  return hash ^ (hash >> 29);
}

uint64_t mix_tensor(uint64_t hash, const at::Tensor& tensor) noexcept;
uint64_t mix_fixed(uint64_t hash, const c10::IValue& value);

/// The process-wide entry of a key, or nullptr on its first sight.
OpEntry* find_entry(uint64_t key) noexcept;

/// A key's parts while Python is asked about it.
struct KeyParts {
  const OpInfo* info = nullptr;
  std::vector<at::Tensor> inputs;
  std::vector<std::pair<std::string, c10::IValue>> fixed;
};

/// Keeps `entry` under `key`, or returns the one another thread put there first.
OpEntry* insert_entry(uint64_t key, std::unique_ptr<OpEntry> entry);

/// Asks Python whether the key is native, and remembers it. May raise what the policy raises.
OpEntry* resolve_entry(uint64_t key, const KeyParts& parts);
/// Asks Python for the cost, now that the outputs are known.
void account_entry(OpEntry& entry, const KeyParts& parts, const std::vector<at::Tensor>& outputs);
/// Before a fallback runs: may raise (policy "error"), warns on a new (op, line), counts.
void before_fallback(OpEntry& entry, int64_t bytes);
/// After it ran: moves the clock, counts it.
void after_fallback(OpEntry& entry, c10::DeviceIndex device, int64_t bytes);

/// After a 64-bit cast, which goes through the host: moves the clock, records it.
void after_bounce(OpEntry& entry, c10::DeviceIndex device, int64_t bytes);
/// A factory asked for channels_last: refused (faithful) or counted as a fallback.
void check_memory_format(c10::MemoryFormat format, c10::DeviceIndex device);

enum class Policy : int { warn, allow, error };
void set_policy(Policy policy) noexcept;
Policy fallback_policy() noexcept;

struct FallbackCount {
  uint32_t op;
  uint32_t reason;
  SiteId site;
  ModuleId module;
  int64_t count;
  int64_t bytes;
  int64_t cost_ns;
};
std::vector<FallbackCount> fallback_counts();

/// All entries seen so far, for the ledger's queries.
std::vector<const OpEntry*> all_entries();
/// Forgets counts and answers (a new chip, a new policy table). Entries stay valid for running ops.
void forget_entries();

} // namespace trnsim
