#include "Pool.h"

#include "Device.h"
#include "HostPages.h"
#include "Timeline.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace trnsim {
namespace {

constexpr size_t kSmallLimit = size_t{1} << 20; // the documented border between the pools
constexpr size_t kClassLimit = size_t{16} << 20;
constexpr size_t kQuickDepth = 64; // blocks kept unmerged per small class

/// Position of a (rounded) small size among the size classes.
size_t class_index(size_t size) noexcept {
  if (size <= 16 * kMinBlock) {
    return size / kMinBlock;
  }
  const size_t power = 63 - static_cast<size_t>(__builtin_clzll(size));
  return 16 + (power - 12) * 16 + ((size >> (power - 4)) & 15);
}

} // namespace

size_t round_to_class(size_t bytes) noexcept {
  if (bytes <= kMinBlock) {
    return kMinBlock;
  }
  if (bytes >= kClassLimit) {
    return (bytes + kLargeRound - 1) / kLargeRound * kLargeRound;
  }
  const size_t power = 63 - static_cast<size_t>(__builtin_clzll(bytes - 1));
  const size_t step = std::max(kMinBlock, (size_t{1} << power) / 16);
  return (bytes + step - 1) / step * step;
}

Pool& pool_of(c10::DeviceIndex device) {
  static auto* pools = [] {
    auto* all = new std::array<std::unique_ptr<Pool>, kMaxDevices>; // leaked: tensors may outlive static destructors
    for (int index = 0; index < kMaxDevices; ++index) {
      (*all)[index] = std::make_unique<Pool>(static_cast<c10::DeviceIndex>(index));
    }
    return all;
  }();
  return *(*pools)[device];
}

Block* block_at(const void* pointer) noexcept {
  auto* segment = static_cast<Segment*>(owner_of(pointer));
  return segment == nullptr ? nullptr : segment->start_at(pointer);
}

Block* Pool::allocate(size_t bytes) {
  const size_t size = round_to_class(bytes);
  const bool small = size < kSmallLimit;
  const SiteId site = small ? kNoSite : current_site(); // before the lock: it takes the GIL
  std::unique_lock<std::mutex> lock(mutex_);
  if (C10_UNLIKELY(!pending_.empty())) {
    complete_pending(false);
  }
  Block* block = small ? take_quick(size) : nullptr;
  if (block == nullptr) {
    block = take(size, small);
  }
  if (block == nullptr && (block = grow(size, small)) == nullptr) {
    stats_.num_alloc_retries += 1;
    complete_pending(true);
    flush_quick();
    block = take(size, small);
    if (block == nullptr) {
      release_segments();
      block = grow(size, small);
    }
    if (block == nullptr) {
      out_of_memory(bytes, lock);
    }
  }
  block->requested = bytes;
  block->site = site;
  count_allocated(block, true);
  lock.unlock();
  if (C10_UNLIKELY(memory_debug())) {
    MemoryAccess access;
    std::memset(block->ptr, 0xFF, block->size); // all ones is NaN in every floating dtype
  }
  return block;
}

Block* Pool::take_quick(size_t size) {
  const size_t index = class_index(size);
  if (index >= quick_.size() || quick_[index].empty()) {
    return nullptr;
  }
  Block* block = quick_[index].back();
  quick_[index].pop_back();
  block->cached = false;
  return block;
}

Block* Pool::take(size_t size, bool small) {
  Block wanted;
  wanted.size = size;
  auto& free = free_[small];
  const auto found = free.lower_bound(&wanted);
  if (found == free.end()) {
    return nullptr;
  }
  Block* block = *found;
  free.erase(found);
  if (block->previous != nullptr || block->next != nullptr) {
    stats_.inactive_split[kAggregate].decrease(1);
    stats_.inactive_split_bytes[kAggregate].decrease(block->size);
  }
  split(block, size);
  return block;
}

/// Cuts `block` down to `size`; what is left goes to the free set.
void Pool::split(Block* block, size_t size) {
  if (block->size - size < kMinBlock) {
    return;
  }
  auto* rest = new Block;
  rest->ptr = block->ptr + size;
  rest->size = block->size - size;
  rest->segment = block->segment;
  rest->device = device_;
  rest->previous = block;
  rest->next = block->next;
  (rest->next != nullptr ? rest->next->previous : rest->segment->last) = rest;
  block->next = rest;
  block->size = size;
  rest->segment->start_at(rest->ptr) = rest;
  free_[block->segment->small].insert(rest);
  stats_.inactive_split[kAggregate].increase(1);
  stats_.inactive_split_bytes[kAggregate].increase(rest->size);
}

void Pool::count_allocated(Block* block, bool taken) {
  block->allocated = taken;
  for (const int kind : {kAggregate, pool_stat(block->segment->small)}) {
    const auto apply = [&](c10::CachingAllocator::Stat& stat, size_t amount) {
      taken ? stat.increase(amount) : stat.decrease(amount);
    };
    apply(stats_.allocation[kind], 1);
    apply(stats_.allocated_bytes[kind], block->size);
    apply(stats_.requested_bytes[kind], block->requested);
    apply(stats_.active[kind], 1);
    apply(stats_.active_bytes[kind], block->size);
  }
}

void Pool::free(Block* block) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (C10_LIKELY(block->streams.empty())) {
    count_allocated(block, false);
    release(block);
    return;
  }
  for (const auto& [device, stream] : block->streams) {
    block->ready_at = std::max(block->ready_at, stream_tail(device, stream));
  }
  block->streams.clear();
  count_allocated(block, false);
  for (const int kind : {kAggregate, pool_stat(block->segment->small)}) {
    stats_.active[kind].increase(1); // still in use by a stream
    stats_.active_bytes[kind].increase(block->size);
  }
  pending_.push_back(block);
}

void Pool::record_stream(Block* block, c10::Stream stream) {
  const std::pair user{checked_device_index(stream.device_index()), checked_stream(stream.id())};
  std::lock_guard<std::mutex> lock(mutex_);
  if (std::find(block->streams.begin(), block->streams.end(), user) == block->streams.end()) {
    block->streams.push_back(user);
  }
}

/// Returns to the pool the blocks whose last recorded stream has passed; `all` waits for the others.
void Pool::complete_pending(bool all) {
  if (all && !pending_.empty()) {
    stats_.num_sync_all_streams += 1;
    for (const Block* block : pending_) {
      sync_until(block->ready_at);
    }
  }
  const int64_t now = host_now();
  std::erase_if(pending_, [&](Block* block) {
    if (block->ready_at > now) {
      return false;
    }
    block->ready_at = 0;
    for (const int kind : {kAggregate, pool_stat(block->segment->small)}) {
      stats_.active[kind].decrease(1);
      stats_.active_bytes[kind].decrease(block->size);
    }
    release(block);
    return true;
  });
}

void Pool::release(Block* block) {
  if (block->segment->small) {
    const size_t index = class_index(block->size);
    if (index >= quick_.size()) {
      quick_.resize(index + 1);
    }
    if (quick_[index].size() < kQuickDepth) {
      block->cached = true;
      quick_[index].push_back(block);
      return;
    }
  }
  merge_into_free_set(block);
}

void Pool::merge_into_free_set(Block* block) {
  auto& free = free_[block->segment->small];
  const auto mergeable = [](const Block* other) {
    return other != nullptr && !other->allocated && !other->cached && other->ready_at == 0;
  };
  const auto forget = [&](Block* other) {
    free.erase(other);
    stats_.inactive_split[kAggregate].decrease(1);
    stats_.inactive_split_bytes[kAggregate].decrease(other->size);
  };
  if (Block* before = block->previous; mergeable(before)) {
    forget(before);
    before->size += block->size;
    before->next = block->next;
    (before->next != nullptr ? before->next->previous : before->segment->last) = before;
    block->segment->start_at(block->ptr) = nullptr;
    delete block;
    block = before;
  }
  if (Block* after = block->next; mergeable(after)) {
    forget(after);
    block->size += after->size;
    block->next = after->next;
    (block->next != nullptr ? block->next->previous : block->segment->last) = block;
    after->segment->start_at(after->ptr) = nullptr;
    delete after;
  }
  free.insert(block);
  if (block->previous != nullptr || block->next != nullptr) {
    stats_.inactive_split[kAggregate].increase(1);
    stats_.inactive_split_bytes[kAggregate].increase(block->size);
  }
}

void Pool::flush_quick() {
  for (auto& list : quick_) {
    for (Block* block : list) {
      block->cached = false;
      merge_into_free_set(block);
    }
    list.clear();
  }
}

void Pool::empty_cache() {
  std::lock_guard<std::mutex> lock(mutex_);
  complete_pending(true);
  flush_quick();
  release_segments();
}

} // namespace trnsim
