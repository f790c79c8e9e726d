#pragma once
// The simulated clock. Time is in nanoseconds since the process began to use the device, and moves only when work is
// issued or waited for, so a program's times are the same on every run.
//
//   issue:       host += dispatch;  start = max(host, stream tail);  stream tail = start + duration
//   synchronize: host = max(host, stream tail) + sync cost

#include <c10/core/Stream.h>

#include <cstdint>

namespace trnsim {

struct ClockConfig {
  bool enabled = true;
  bool launch_blocking = false;    // NEURON_LAUNCH_BLOCKING
  int64_t dispatch_ns = 0;         // host cost of issuing one eager op
  int64_t sync_ns = 0;             // host round trip of one synchronisation
  int64_t transfer_latency_ns = 0; // fixed cost of a host transfer
  double h2d_bytes_per_ns = 1.0;
  double d2h_bytes_per_ns = 1.0;
};

inline constexpr int kMaxStreams = 64; // per device; stream 0 is the default stream

void configure_clock(const ClockConfig& config);
const ClockConfig& clock_config() noexcept;

int64_t host_now() noexcept;
/// Host work that is not an op dispatch (a data loader's time, say).
void advance_host(int64_t ns) noexcept;
int64_t stream_tail(c10::DeviceIndex device, c10::StreamId stream) noexcept;

/// When all streams of the device are done.
int64_t device_tail(c10::DeviceIndex device) noexcept;

/// Issues work of `duration_ns` on the current stream of `device`; returns its start time.
int64_t issue(c10::DeviceIndex device, int64_t duration_ns) noexcept;
/// Delays the stream until `time`.
void stream_wait(c10::DeviceIndex device, c10::StreamId stream, int64_t time) noexcept;
/// Host waits; each returns how long it stalled, in ns.
int64_t sync_stream(c10::DeviceIndex device, c10::StreamId stream) noexcept;
int64_t sync_device(c10::DeviceIndex device) noexcept;
int64_t sync_until(int64_t time) noexcept;

/// Raises unless `stream` is an id that this device hands out.
c10::StreamId checked_stream(c10::StreamId stream);
c10::StreamId current_stream(c10::DeviceIndex device) noexcept;
c10::StreamId exchange_stream(c10::DeviceIndex device, c10::StreamId stream) noexcept;
c10::StreamId new_stream(c10::DeviceIndex device) noexcept;

/// Host-to-device or device-to-host transfer time of `bytes`.
int64_t transfer_ns(int64_t bytes, bool to_device) noexcept;

} // namespace trnsim
