// What the pool tells: statistics, the snapshot that PyTorch's memory_viz reads, and the out-of-memory error.

#include "Device.h"
#include "Pool.h"
#include "Timeline.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <unordered_map>

namespace trnsim {
namespace {

std::string readable(size_t bytes) {
  char text[32];
  const double value = static_cast<double>(bytes);
  if (bytes >= size_t{1} << 30) {
    std::snprintf(text, sizeof text, "%.2f GiB", value / (1 << 30));
  } else if (bytes >= size_t{1} << 20) {
    std::snprintf(text, sizeof text, "%.2f MiB", value / (1 << 20));
  } else {
    std::snprintf(text, sizeof text, "%zu bytes", bytes);
  }
  return text;
}

template <typename Apply>
void for_each_stat(c10::CachingDeviceAllocator::DeviceStats& stats, Apply&& apply) {
  for (auto* array :
       {&stats.allocation,
        &stats.segment,
        &stats.active,
        &stats.inactive_split,
        &stats.allocated_bytes,
        &stats.reserved_bytes,
        &stats.active_bytes,
        &stats.inactive_split_bytes,
        &stats.requested_bytes}) {
    for (auto& stat : *array) {
      apply(stat);
    }
  }
}

} // namespace

c10::CachingDeviceAllocator::DeviceStats Pool::stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

void Pool::reset_accumulated() {
  std::lock_guard<std::mutex> lock(mutex_);
  for_each_stat(stats_, [](c10::CachingAllocator::Stat& stat) { stat.reset_accumulated(); });
  stats_.num_alloc_retries = stats_.num_ooms = stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = stats_.num_device_free = 0;
}

void Pool::reset_peak() {
  std::lock_guard<std::mutex> lock(mutex_);
  for_each_stat(stats_, [](c10::CachingAllocator::Stat& stat) { stat.reset_peak(); });
}

std::pair<size_t, size_t> Pool::memory_info() {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto total = static_cast<size_t>(device_capacity());
  return {total - static_cast<size_t>(stats_.reserved_bytes[0].current), total};
}

void Pool::each_segment(const std::function<void(const Segment&)>& visit) const {
  for (const auto& [base, segment] : segments_) {
    visit(*segment);
  }
  if (large_ && large_->size > 0) {
    visit(*large_);
  }
}

std::vector<SegmentView> Pool::snapshot() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<SegmentView> result;
  each_segment([&](const Segment& segment) {
    auto& [info, sites] = result.emplace_back();
    info.device = device_;
    info.address = reinterpret_cast<size_t>(segment.base);
    info.total_size = segment.size;
    info.is_large = !segment.small;
    for (const Block* block = segment.first; block != nullptr; block = block->next) {
      sites.push_back(block->allocated ? block->site : kNoSite);
      auto& entry = info.blocks.emplace_back();
      entry.size = block->size;
      entry.requested_size = block->requested;
      entry.allocated = block->allocated;
      entry.active = block->allocated || block->ready_at > 0;
      info.allocated_size += entry.allocated ? entry.size : 0;
      info.active_size += entry.active ? entry.size : 0;
      info.requested_size += entry.allocated ? entry.requested_size : 0;
    }
  });
  return result;
}

std::vector<std::tuple<SiteId, size_t, size_t>> Pool::holders(size_t at_most) {
  std::unordered_map<SiteId, std::pair<size_t, size_t>> by_site;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    each_segment([&](const Segment& segment) {
      for (const Block* block = segment.first; block != nullptr; block = block->next) {
        if (block->allocated && block->site != kNoSite) {
          by_site[block->site].first += block->size;
          by_site[block->site].second += 1;
        }
      }
    });
  }
  std::vector<std::tuple<SiteId, size_t, size_t>> result;
  for (const auto& [site, sum] : by_site) {
    result.emplace_back(site, sum.first, sum.second);
  }
  std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return std::get<1>(a) > std::get<1>(b); });
  result.resize(std::min(result.size(), at_most));
  return result;
}

void Pool::out_of_memory(size_t requested, std::unique_lock<std::mutex>& lock) {
  stats_.num_ooms += 1;
  size_t largest = 0;
  for (const auto& free : free_) {
    largest = std::max(largest, free.empty() ? 0 : (*free.rbegin())->size);
  }
  const auto capacity = static_cast<size_t>(device_capacity());
  const auto reserved = static_cast<size_t>(stats_.reserved_bytes[0].current);
  const auto allocated = static_cast<size_t>(stats_.allocated_bytes[0].current);
  largest = std::max(largest, capacity - reserved);
  lock.unlock();
  std::ostringstream text;
  text << "neuron:" << static_cast<int>(device_) << " is out of memory: requested " << readable(requested) << ", free "
       << readable(capacity - allocated) << " of " << readable(capacity) << " (largest block " << readable(largest)
       << "), allocated " << readable(allocated) << ", reserved but unallocated " << readable(reserved - allocated)
       << ".";
  const auto top = holders(3);
  if (!top.empty()) {
    text << " Most of it is held by:";
    for (const auto& [site, bytes, blocks] : top) {
      text << "\n  " << site_text(site) << ": " << readable(bytes) << " in " << blocks << " block(s)";
    }
  }
  text << "\nUse a smaller batch, activation checkpointing, a smaller dtype, or more cores (FSDP); free tensors you no "
          "longer need. A logical core's memory is set by the chip and LNC.";
  TORCH_CHECK_WITH(OutOfMemoryError, false, text.str());
}

} // namespace trnsim
