#include "Timeline.h"

#include "Device.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>

namespace trnsim {
namespace {

ClockConfig g_clock;
std::atomic<int64_t> g_host{0};

struct DeviceStreams {
  std::array<std::atomic<int64_t>, kMaxStreams> tail{};
  std::atomic<int> used{1};
};
std::array<DeviceStreams, kMaxDevices> g_streams;

thread_local std::array<uint8_t, kMaxDevices> t_current_stream{};

void raise_to(std::atomic<int64_t>& clock, int64_t time) noexcept {
  int64_t seen = clock.load(std::memory_order_relaxed);
  while (seen < time && !clock.compare_exchange_weak(seen, time, std::memory_order_relaxed)) {
  }
}

} // namespace

void configure_clock(const ClockConfig& config) {
  g_clock = config;
}

const ClockConfig& clock_config() noexcept {
  return g_clock;
}

int64_t host_now() noexcept {
  return g_host.load(std::memory_order_relaxed);
}

void advance_host(int64_t ns) noexcept {
  g_host.fetch_add(ns, std::memory_order_relaxed);
}

int64_t stream_tail(c10::DeviceIndex device, c10::StreamId stream) noexcept {
  return g_streams[device].tail[stream].load(std::memory_order_relaxed);
}

int64_t issue(c10::DeviceIndex device, int64_t duration_ns) noexcept {
  const int64_t now = g_host.fetch_add(g_clock.dispatch_ns, std::memory_order_relaxed) + g_clock.dispatch_ns;
  auto& tail = g_streams[device].tail[t_current_stream[device]];
  int64_t seen = tail.load(std::memory_order_relaxed);
  int64_t start = 0;
  do {
    start = seen > now ? seen : now;
  } while (!tail.compare_exchange_weak(seen, start + duration_ns, std::memory_order_relaxed));
  if (g_clock.launch_blocking) {
    raise_to(g_host, start + duration_ns);
  }
  return start;
}

void stream_wait(c10::DeviceIndex device, c10::StreamId stream, int64_t time) noexcept {
  raise_to(g_streams[device].tail[stream], time);
}

int64_t sync_until(int64_t time) noexcept {
  const int64_t before = host_now();
  raise_to(g_host, time);
  advance_host(g_clock.sync_ns);
  return host_now() - before;
}

int64_t sync_stream(c10::DeviceIndex device, c10::StreamId stream) noexcept {
  return sync_until(stream_tail(device, stream));
}

int64_t device_tail(c10::DeviceIndex device) noexcept {
  int64_t last = 0;
  for (int stream = 0; stream < g_streams[device].used.load(std::memory_order_relaxed); ++stream) {
    last = std::max(last, stream_tail(device, stream));
  }
  return last;
}

int64_t sync_device(c10::DeviceIndex device) noexcept {
  return sync_until(device_tail(device));
}

c10::StreamId current_stream(c10::DeviceIndex device) noexcept {
  return t_current_stream[device];
}

c10::StreamId exchange_stream(c10::DeviceIndex device, c10::StreamId stream) noexcept {
  const auto previous = t_current_stream[device];
  t_current_stream[device] = static_cast<uint8_t>(stream);
  return previous;
}

c10::StreamId new_stream(c10::DeviceIndex device) noexcept {
  // Round robin over the pool, as CUDA does, once every slot has been handed out.
  auto& used = g_streams[device].used;
  static std::array<std::atomic<unsigned>, kMaxDevices> next{};
  const unsigned id = 1 + next[device].fetch_add(1, std::memory_order_relaxed) % (kMaxStreams - 1);
  int seen = used.load(std::memory_order_relaxed);
  while (seen <= static_cast<int>(id) && !used.compare_exchange_weak(seen, static_cast<int>(id) + 1)) {
  }
  // A fresh stream cannot have started before the host asked for it.
  stream_wait(device, id, host_now());
  return id;
}

c10::StreamId checked_stream(c10::StreamId stream) {
  TORCH_CHECK(
      stream >= 0 && stream < kMaxStreams,
      "There is no neuron stream with id ",
      stream,
      ": ids run from 0 to ",
      kMaxStreams - 1,
      ". Make streams with torch.neuron.Stream().");
  return stream;
}

int64_t transfer_ns(int64_t bytes, bool to_device) noexcept {
  const double rate = to_device ? g_clock.h2d_bytes_per_ns : g_clock.d2h_bytes_per_ns;
  return g_clock.transfer_latency_ns + static_cast<int64_t>(static_cast<double>(bytes) / rate);
}

} // namespace trnsim
