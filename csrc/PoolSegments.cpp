// How a pool takes segments from the host and gives them back.

#include "Device.h"
#include "HostPages.h"
#include "Pool.h"

#include <algorithm>

namespace trnsim {

void Pool::count_reserved(size_t bytes, bool small, bool taken) {
  for (const int kind : {kAggregate, pool_stat(small)}) {
    auto& stat = stats_.reserved_bytes[kind];
    taken ? stat.increase(bytes) : stat.decrease(bytes);
  }
}

Block* Pool::grow(size_t size, bool small) {
  return small ? grow_small(size) : grow_large(size);
}

void Pool::count_segment(bool small, bool taken) {
  for (const int kind : {kAggregate, pool_stat(small)}) {
    taken ? stats_.segment[kind].increase(1) : stats_.segment[kind].decrease(1);
  }
}

Block* Pool::grow_small(size_t size) {
  const auto room = static_cast<size_t>(device_capacity() - stats_.reserved_bytes[kAggregate].current);
  if (size > room) {
    return nullptr;
  }
  const size_t bytes = std::min(kSmallSegment, room / kMinBlock * kMinBlock);
  char* base = reserve_pages(bytes);
  if (base == nullptr) {
    return nullptr;
  }
  auto segment = std::make_unique<Segment>();
  segment->base = base;
  segment->size = bytes;
  segment->small = true;
  segment->starts.resize(kSmallSegment / kMinBlock);
  auto* block = new Block;
  block->ptr = base;
  block->size = bytes;
  block->segment = segment.get();
  block->device = device_;
  segment->first = block;
  segment->start_at(base) = block;
  set_owner(base, bytes, segment.get());
  segments_.emplace(base, std::move(segment));
  stats_.num_device_alloc += 1;
  count_segment(true, true);
  count_reserved(bytes, true, true);
  split(block, size);
  return block;
}

Segment* Pool::large_segment() {
  if (large_) {
    return large_.get();
  }
  // Address space for the whole device; half as much at a time where `ulimit -v` forbids that.
  size_t bytes = static_cast<size_t>(device_capacity()) / kLargeRound * kLargeRound;
  char* base = nullptr;
  while (bytes >= kLargeRound && (base = reserve_pages(bytes)) == nullptr) {
    bytes = bytes / 2 / kLargeRound * kLargeRound;
  }
  if (base == nullptr) {
    return nullptr;
  }
  large_ = std::make_unique<Segment>();
  large_->base = base;
  large_->starts.resize((bytes >> 16) + 1);
  large_limit_ = bytes;
  set_owner(base, bytes, large_.get());
  return large_.get();
}

/// Extends the large segment by what its free last block lacks.
Block* Pool::grow_large(size_t size) {
  Segment* segment = large_segment();
  if (segment == nullptr) {
    return nullptr;
  }
  Block* block = segment->last;
  const bool extend = block != nullptr && !block->allocated && block->ready_at == 0;
  const size_t lacking = size - (extend ? block->size : 0);
  const auto room = std::min(
      static_cast<size_t>(device_capacity() - stats_.reserved_bytes[kAggregate].current), large_limit_ - segment->size);
  if (lacking > room) {
    return nullptr;
  }
  const size_t bytes = std::min((lacking + kLargeRound - 1) / kLargeRound * kLargeRound, room >> 16 << 16);
  if (extend) {
    free_[false].erase(block);
    if (block->previous != nullptr) {
      stats_.inactive_split[kAggregate].decrease(1);
      stats_.inactive_split_bytes[kAggregate].decrease(block->size);
    }
  } else {
    block = new Block;
    block->ptr = segment->base + segment->size;
    block->segment = segment;
    block->device = device_;
    block->previous = segment->last;
    (block->previous != nullptr ? block->previous->next : segment->first) = block;
    segment->last = block;
    segment->start_at(block->ptr) = block;
  }
  if (segment->size == 0) {
    count_segment(false, true);
  }
  block->size += bytes;
  segment->size += bytes;
  stats_.num_device_alloc += 1;
  count_reserved(bytes, false, true);
  split(block, size);
  return block;
}

void Pool::release_segments() {
  shrink_large();
  for (auto it = segments_.begin(); it != segments_.end();) {
    Segment& segment = *it->second;
    Block* block = segment.first;
    const bool whole = block->next == nullptr && !block->allocated && !block->cached && block->ready_at == 0;
    if (!whole) {
      ++it;
      continue;
    }
    free_[true].erase(block);
    stats_.num_device_free += 1;
    count_segment(true, false);
    count_reserved(segment.size, true, false);
    set_owner(segment.base, segment.size, nullptr);
    release_pages(segment.base, segment.size);
    delete block;
    it = segments_.erase(it);
  }
}

/// Gives back the free end of the large segment, and the host's pages behind its other free blocks.
void Pool::shrink_large() {
  if (!large_) {
    return;
  }
  for (const Block* block : free_[false]) {
    decommit_pages(block->ptr, block->size);
  }
  Block* last = large_->last;
  if (last == nullptr || last->allocated || last->ready_at != 0) {
    return;
  }
  free_[false].erase(last);
  if (last->previous != nullptr) {
    stats_.inactive_split[kAggregate].decrease(1);
    stats_.inactive_split_bytes[kAggregate].decrease(last->size);
  }
  stats_.num_device_free += 1;
  count_reserved(last->size, false, false);
  large_->size -= last->size;
  large_->start_at(last->ptr) = nullptr;
  large_->last = last->previous;
  (last->previous != nullptr ? last->previous->next : large_->first) = nullptr;
  delete last;
  if (large_->size == 0) {
    count_segment(false, false);
  }
}

} // namespace trnsim
