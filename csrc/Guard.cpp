// c10::impl::DeviceGuardImplInterface: current device, streams and events, on the simulated clock.

#include "Device.h"
#include "Ledger.h"
#include "Pool.h"
#include "Timeline.h"

#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace trnsim {
namespace {

/// What a void* event points to.
struct NeuronEvent {
  bool timing = false;
  int64_t time = 0; // simulated ns at which the work before it is done
  c10::DeviceIndex device = 0;
};

NeuronEvent& as_event(void* event) {
  return *static_cast<NeuronEvent*>(event);
}

void note_sync(const char* kind, int64_t stall_ns) {
  record_here(EventKind::sync, 0, kind, 0, host_now() - stall_ns, stall_ns);
}

int64_t tail_of(const c10::Stream& stream) {
  return stream_tail(checked_device_index(stream.device_index()), checked_stream(stream.id()));
}

class NeuronGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override {
    return kNeuron;
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    check_device(device.index());
    return {kNeuron, exchange_device(device.index())};
  }
  c10::Device getDevice() const override {
    return {kNeuron, current_device()};
  }
  void setDevice(c10::Device device) const override {
    check_device(device.index());
    exchange_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    exchange_device(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return in_forked_child() ? c10::DeviceIndex{0} : device_count();
  }

  c10::Stream getStream(c10::Device device) const override {
    const auto index = resolve_device(device.index());
    return stream(index, current_stream(index));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return stream(resolve_device(device.index()), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high_priority*/) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int /*priority*/) const override {
    touch_device();
    const auto index = resolve_device(device.index());
    return stream(index, new_stream(index));
  }
  c10::Stream exchangeStream(c10::Stream next) const override {
    const auto index = checked_device_index(next.device_index());
    return stream(index, exchange_stream(index, checked_stream(next.id())));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(static_cast<uintptr_t>(stream.id())); // NOLINT: opaque to callers
  }
  bool queryStream(const c10::Stream& stream) const override {
    return tail_of(stream) <= host_now();
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    note_sync(
        "stream.synchronize", sync_stream(checked_device_index(stream.device_index()), checked_stream(stream.id())));
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    check_device(device);
    touch_device();
    note_sync("synchronize", sync_device(device));
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex /*device*/, const c10::EventFlag flag)
      const override {
    if (*event == nullptr) {
      *event = new NeuronEvent; // owned by c10::Event, freed in destroyEvent
    }
    NeuronEvent& mark = as_event(*event);
    mark.timing = flag == c10::EventFlag::BACKEND_DEFAULT;
    mark.device = stream.device_index();
    // An event on an idle stream completes when the host gets to it.
    mark.time = std::max(tail_of(stream), host_now());
    stream_wait(stream.device_index(), stream.id(), mark.time);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) {
      stream_wait(checked_device_index(stream.device_index()), checked_stream(stream.id()), as_event(event).time);
    }
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || as_event(event).time <= host_now();
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) {
      note_sync("event.synchronize", sync_until(as_event(event).time));
    }
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<NeuronEvent*>(event);
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex /*device*/) const override {
    TORCH_CHECK(
        start != nullptr && end != nullptr,
        "Both events must be recorded before calculating elapsed time: call event.record() first.");
    TORCH_CHECK(
        as_event(start).timing && as_event(end).timing,
        "Both events must be created with enable_timing=True to measure elapsed time.");
    constexpr double kNsPerMs = 1e6;
    return static_cast<double>(as_event(end).time - as_event(start).time) / kNsPerMs;
  }

  void recordDataPtrOnStream(const c10::DataPtr& ptr, const c10::Stream& stream) const override {
    c10::getDeviceAllocator(kNeuron)->recordStream(ptr, stream);
  }
  c10::DeviceCapability getDeviceCapability(c10::Device /*device*/) const override {
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = (uint64_t{1} << c10::NUMBER_OF_DEVICE_CAPABILITIES) - 1;
    return capability;
  }

 private:
  static c10::Stream stream(c10::DeviceIndex device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNeuron, device), id);
  }
};

const NeuronGuard g_guard;
const c10::impl::DeviceGuardImplRegistrar g_registrar(kNeuron, &g_guard);

} // namespace
} // namespace trnsim
