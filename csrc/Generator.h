#pragma once
// Random numbers. The device's generator is counter based: its state is a seed and an offset, 16 bytes, the layout that
// DTensor and checkpointing expect. Each random op draws from an engine seeded by (seed, offset) and moves the offset.
// In parity mode (TRNSIM_RNG=cpu) it is PyTorch's CPU generator, so that the same seed gives the CPU's numbers.

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>

namespace trnsim {

class NeuronGeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit NeuronGeneratorImpl(c10::DeviceIndex device);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  /// The CPU generator one op draws from. Valid on this thread until the next call.
  at::Generator next();

 private:
  NeuronGeneratorImpl* clone_impl() const override;

  uint64_t seed_;
  uint64_t offset_ = 0;
  at::Generator parity_; // undefined unless in parity mode
};

void set_parity_mode(bool enabled);
bool parity_mode() noexcept;

at::Generator make_generator(c10::DeviceIndex device);
const at::Generator& default_generator(c10::DeviceIndex device);

/// For an op's Generator argument (None: the device's default): the CPU generator its kernel draws from.
c10::IValue cpu_generator_for(const c10::IValue& argument, c10::DeviceIndex device);

} // namespace trnsim
