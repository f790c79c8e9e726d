#pragma once
// Devices: how many logical NeuronCores this process sees, which one is current, and the refusal to go on after fork.

#include <c10/core/Device.h>

namespace trnsim {

inline constexpr c10::DeviceType kNeuron = c10::DeviceType::PrivateUse1;
// Backends index per-device state with a fixed array; TorchNeuron itself refuses 128 or more visible devices.
inline constexpr int kMaxDevices = 127;

struct DeviceConfig {
  int device_count = 0;
  int64_t capacity_bytes = 0; // HBM of one logical core
};

/// Fixes the simulated machine. Called once, from Python, before the first tensor.
void configure_devices(const DeviceConfig& config);

c10::DeviceIndex device_count() noexcept;
int64_t device_capacity() noexcept;
c10::DeviceIndex current_device() noexcept;
/// Returns the previous index. `index` is not checked: guards restore through here from destructors.
c10::DeviceIndex exchange_device(c10::DeviceIndex index) noexcept;
/// Raises when `index` names no device; the message gives the valid range.
void check_device(int64_t index);
/// The same, as a c10 index.
c10::DeviceIndex checked_device_index(int64_t index);
/// -1 and absent indices mean the current device.
c10::DeviceIndex resolve_device(c10::DeviceIndex index);

/// Marks the device as in use (so that a later fork is refused) and raises in a child forked after that.
void touch_device();
bool is_initialized() noexcept;
bool in_forked_child() noexcept;

} // namespace trnsim
