#include "Device.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <atomic>

namespace trnsim {
namespace {

DeviceConfig g_config;
std::atomic<bool> g_initialized{false};
std::atomic<bool> g_forked{false};
thread_local c10::DeviceIndex t_current = 0;

void mark_forked_child() {
  if (g_initialized.load(std::memory_order_relaxed)) {
    g_forked.store(true, std::memory_order_relaxed);
  }
}

} // namespace

void configure_devices(const DeviceConfig& config) {
  TORCH_CHECK_VALUE(
      config.device_count >= 0 && config.device_count <= kMaxDevices,
      "A process can see at most ",
      kMaxDevices,
      " neuron devices, asked for ",
      config.device_count,
      ". Restrict them with NEURON_RT_VISIBLE_CORES or NEURON_RT_NUM_CORES.");
  g_config = config;
  static const int registered = pthread_atfork(nullptr, nullptr, &mark_forked_child);
  TORCH_CHECK(registered == 0, "pthread_atfork failed with ", registered);
}

c10::DeviceIndex device_count() noexcept {
  return static_cast<c10::DeviceIndex>(g_config.device_count);
}

int64_t device_capacity() noexcept {
  return g_config.capacity_bytes;
}

c10::DeviceIndex current_device() noexcept {
  return t_current;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex index) noexcept {
  const auto previous = t_current;
  t_current = index;
  return previous;
}

c10::DeviceIndex checked_device_index(int64_t index) {
  check_device(index);
  return static_cast<c10::DeviceIndex>(index);
}

void check_device(int64_t index) {
  TORCH_CHECK(
      index >= 0 && index < device_count(),
      "neuron:",
      index,
      " does not exist: this process sees ",
      static_cast<int>(device_count()),
      " neuron device(s), indices 0 to ",
      static_cast<int>(device_count()) - 1,
      ". Use a smaller index, or a larger instance (TRNSIM_INSTANCE), or widen NEURON_RT_VISIBLE_CORES.");
}

c10::DeviceIndex resolve_device(c10::DeviceIndex index) {
  if (index < 0) {
    return t_current;
  }
  check_device(index);
  return index;
}

void touch_device() {
  if (C10_UNLIKELY(g_forked.load(std::memory_order_relaxed))) {
    TORCH_CHECK(
        false,
        "Cannot use neuron in a process forked after the device was initialized: the device's state does not survive "
        "fork. Start workers with the 'spawn' method (torch.multiprocessing.set_start_method('spawn'), or "
        "DataLoader(multiprocessing_context='spawn')), or touch neuron only in the children.");
  }
  if (C10_UNLIKELY(!g_initialized.load(std::memory_order_relaxed))) {
    g_initialized.store(true, std::memory_order_relaxed);
  }
}

bool is_initialized() noexcept {
  return g_initialized.load(std::memory_order_relaxed);
}

bool in_forked_child() noexcept {
  return g_forked.load(std::memory_order_relaxed);
}

} // namespace trnsim
