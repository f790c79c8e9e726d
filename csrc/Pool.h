#pragma once
// The memory of one logical NeuronCore: segments in the host's address space, cut into blocks.
// Small requests (< 1 MiB) live in segments of 2 MiB, large ones in one segment that grows at its end, so that free
// neighbours always merge. Requests below 16 MiB are rounded to a size class (256 B at least, 16 classes per power of
// two), larger ones to 2 MiB.

#include "CallSite.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace trnsim {

inline constexpr size_t kMinBlock = 256;
inline constexpr size_t kSmallSegment = size_t{2} << 20;
inline constexpr size_t kLargeRound = size_t{2} << 20;

// Positions in c10's StatArray: all, small pool, large pool.
inline constexpr int kAggregate = 0;
constexpr int pool_stat(bool small) {
  return small ? 1 : 2;
}

struct Segment;

struct Block {
  char* ptr = nullptr;
  size_t size = 0;
  size_t requested = 0;
  Segment* segment = nullptr;
  Block* previous = nullptr; // neighbours in the segment, by address
  Block* next = nullptr;
  c10::DeviceIndex device = 0;
  bool allocated = false;
  bool cached = false; // in a quick list: free for its class, not merged
  SiteId site = kNoSite;
  std::vector<std::pair<c10::DeviceIndex, c10::StreamId>> streams; // record_stream
  int64_t ready_at = 0;                                            // simulated time at which a pending free completes
};

struct Segment {
  char* base = nullptr;
  size_t size = 0;
  bool small = false;
  Block* first = nullptr;
  Block* last = nullptr;      // kept for the growing segment only
  std::vector<Block*> starts; // block that begins at each unit (256 B in small segments, 64 KiB in large ones)

  Block*& start_at(const void* pointer) {
    return starts[static_cast<size_t>(static_cast<const char*>(pointer) - base) >> (small ? 8 : 16)];
  }
};

/// The block that begins at `pointer`, or nullptr when that is not device memory. Lock-free.
Block* block_at(const void* pointer) noexcept;

struct BySize {
  bool operator()(const Block* a, const Block* b) const noexcept {
    return a->size != b->size ? a->size < b->size : a->ptr < b->ptr;
  }
};

/// A segment as snapshots show it; `sites` has one entry per block.
struct SegmentView {
  c10::CachingDeviceAllocator::SegmentInfo info;
  std::vector<SiteId> sites;
};

size_t round_to_class(size_t bytes) noexcept;

class Pool {
 public:
  explicit Pool(c10::DeviceIndex device) : device_(device) {}

  /// Raises torch.OutOfMemoryError when the capacity does not hold the request.
  Block* allocate(size_t bytes);
  void free(Block* block);
  void record_stream(Block* block, c10::Stream stream);
  void empty_cache();

  c10::CachingDeviceAllocator::DeviceStats stats();
  void reset_accumulated();
  void reset_peak();
  std::pair<size_t, size_t> memory_info();
  std::vector<SegmentView> snapshot();
  /// Sites that hold most of the allocated bytes: (site, bytes, blocks), largest first.
  std::vector<std::tuple<SiteId, size_t, size_t>> holders(size_t at_most);

 private:
  using Stats = c10::CachingDeviceAllocator::DeviceStats;

  Block* take(size_t size, bool small);
  Block* take_quick(size_t size);
  Block* grow(size_t size, bool small);
  Block* grow_small(size_t size);
  Block* grow_large(size_t size);
  Segment* large_segment(); // reserved at first use; nullptr when the host refuses
  void count_reserved(size_t bytes, bool small, bool taken);
  void count_segment(bool small, bool taken);
  void shrink_large();
  void split(Block* block, size_t size);
  void release(Block* block); // to a quick list or the free set
  void merge_into_free_set(Block* block);
  void flush_quick();
  void release_segments();
  void complete_pending(bool all);
  void count_allocated(Block* block, bool taken);
  void each_segment(const std::function<void(const Segment&)>& visit) const;
  [[noreturn]] void out_of_memory(size_t requested, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  c10::DeviceIndex device_;
  Stats stats_;
  std::set<Block*, BySize> free_[2]; // [small]
  std::vector<std::vector<Block*>> quick_;
  std::vector<Block*> pending_;
  std::map<char*, std::unique_ptr<Segment>> segments_; // small
  std::unique_ptr<Segment> large_;
  size_t large_limit_ = 0; // address space behind large_
};

Pool& pool_of(c10::DeviceIndex device);

/// Debug mode: fresh memory reads as NaN, and host code that touches device memory outside an op faults.
void set_memory_debug(bool enabled);
bool memory_debug() noexcept;

/// While one lives, device memory may be touched (debug mode; else free of cost).
class MemoryAccess {
 public:
  MemoryAccess() noexcept {
    if (C10_UNLIKELY(memory_debug())) {
      enter();
    }
  }
  ~MemoryAccess() {
    if (C10_UNLIKELY(entered_)) {
      leave();
    }
  }
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;

 private:
  void enter() noexcept;
  void leave() noexcept;
  bool entered_ = false;
};

} // namespace trnsim
