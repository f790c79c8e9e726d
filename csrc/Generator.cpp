#include "Generator.h"

#include "Device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <array>
#include <atomic>
#include <cstring>

namespace trnsim {
namespace {

constexpr int64_t kStateBytes = 16;
// Philox counters advance by multiples of 4; DTensor checks that offsets stay so.
constexpr uint64_t kOffsetStep = 4;
std::atomic<bool> g_parity{false};

/// SplitMix64's finalizer: neighbouring (seed, offset) pairs give unrelated engines.
uint64_t scramble(uint64_t value) noexcept {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return value ^ (value >> 31);
}

} // namespace

NeuronGeneratorImpl::NeuronGeneratorImpl(c10::DeviceIndex device)
    : c10::GeneratorImpl(c10::Device(kNeuron, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      seed_(at::default_rng_seed_val) {
  if (parity_mode()) {
    parity_ = at::detail::createCPUGenerator(seed_);
  }
}

void NeuronGeneratorImpl::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
  if (parity_mode()) {
    parity_ = at::detail::createCPUGenerator(seed);
  } else {
    parity_ = at::Generator();
  }
}

void NeuronGeneratorImpl::set_offset(uint64_t offset) {
  TORCH_CHECK(offset % kOffsetStep == 0, "The offset of a neuron generator must be a multiple of 4, got ", offset, ".");
  offset_ = offset;
}

uint64_t NeuronGeneratorImpl::get_offset() const {
  return offset_;
}

uint64_t NeuronGeneratorImpl::current_seed() const {
  return seed_;
}

uint64_t NeuronGeneratorImpl::seed() {
  const uint64_t fresh = c10::detail::getNonDeterministicRandom();
  set_current_seed(fresh);
  return fresh;
}

void NeuronGeneratorImpl::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  at::Generator parity = at::detail::createCPUGenerator();
  const auto parity_bytes = parity.get_state().numel();
  TORCH_CHECK(
      state.numel() == kStateBytes || state.numel() == parity_bytes,
      "The RNG state of a neuron generator has size 16 bytes (seed, offset), or in CPU parity mode ",
      parity_bytes,
      " bytes; got ",
      state.numel(),
      ". Pass what get_state() gave.");
  if (state.numel() != kStateBytes) {
    parity.get<at::CPUGeneratorImpl>()->set_state(state);
    seed_ = parity.current_seed();
    parity_ = std::move(parity);
    return;
  }
  uint64_t words[2];
  std::memcpy(words, state.data(), kStateBytes);
  seed_ = words[0];
  set_offset(words[1]);
  parity_ = at::Generator();
}

c10::intrusive_ptr<c10::TensorImpl> NeuronGeneratorImpl::get_state() const {
  if (parity_.defined()) {
    return parity_.get<at::CPUGeneratorImpl>()->get_state();
  }
  const uint64_t words[2] = {seed_, offset_};
  auto state = at::empty({kStateBytes}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
  std::memcpy(state.mutable_data_ptr(), words, kStateBytes);
  return state.getIntrusivePtr();
}

at::Generator NeuronGeneratorImpl::next() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (parity_.defined()) {
    return parity_;
  }
  thread_local at::Generator engine = at::detail::createCPUGenerator();
  engine.set_current_seed(scramble(seed_ + scramble(offset_ + 0x9E3779B97F4A7C15ull)));
  offset_ += kOffsetStep;
  return engine;
}

NeuronGeneratorImpl* NeuronGeneratorImpl::clone_impl() const {
  auto* copy = new NeuronGeneratorImpl(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  copy->parity_ = parity_.defined() ? parity_.clone() : at::Generator();
  return copy;
}

void set_parity_mode(bool enabled) {
  g_parity.store(enabled);
  for (int index = 0; index < device_count(); ++index) {
    auto generator = default_generator(static_cast<c10::DeviceIndex>(index));
    generator.set_current_seed(generator.current_seed());
  }
}

bool parity_mode() noexcept {
  return g_parity.load(std::memory_order_relaxed);
}

at::Generator make_generator(c10::DeviceIndex device) {
  return at::make_generator<NeuronGeneratorImpl>(resolve_device(device));
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static auto* generators = [] {
    auto* all = new std::array<at::Generator, kMaxDevices>;
    for (int index = 0; index < kMaxDevices; ++index) {
      (*all)[index] = at::make_generator<NeuronGeneratorImpl>(static_cast<c10::DeviceIndex>(index));
    }
    return all;
  }();
  return (*generators)[resolve_device(device)];
}

c10::IValue cpu_generator_for(const c10::IValue& argument, c10::DeviceIndex device) {
  at::Generator generator = argument.isNone() ? default_generator(device) : argument.toGenerator();
  if (!generator.defined()) {
    generator = default_generator(device);
  }
  TORCH_CHECK(
      generator.device().type() == kNeuron,
      "Expected a 'neuron' device type for generator but found '",
      generator.device().type(),
      "'. Make it with torch.Generator(device=\"neuron\").");
  return c10::IValue(static_cast<NeuronGeneratorImpl*>(generator.unsafeGetGeneratorImpl())->next());
}

} // namespace trnsim
