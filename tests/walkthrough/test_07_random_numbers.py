"""7. Random numbers: a generator per device, and a mode in which they are the CPU's."""

import pytest
import torch
import torch.nn.functional as F

import trnsim

pytestmark = pytest.mark.filterwarnings("ignore::trnsim.errors.NeuronFallbackWarning")


def test_seeds():
    torch.manual_seed(7)  # seeds every device
    a = torch.rand(4, device="neuron")
    torch.manual_seed(7)
    assert torch.equal(a, torch.rand(4, device="neuron"))


def test_a_generator_of_your_own():
    generator = torch.Generator("neuron").manual_seed(1)
    first = torch.randn(3, device="neuron", generator=generator)
    assert not torch.equal(first, torch.randn(3, device="neuron", generator=generator))


def test_state_is_seed_and_offset():
    """16 bytes, as DTensor expects."""
    torch.neuron.manual_seed(5)
    state = torch.neuron.get_rng_state()
    mask = F.dropout(torch.ones(100, device="neuron"))
    torch.neuron.set_rng_state(state)
    assert state.numel() == 16 and torch.equal(mask, F.dropout(torch.ones(100, device="neuron")))


def test_parity_mode_compares_with_the_cpu():
    """For one seed the device gives the CPU's numbers: dropout included. TRNSIM_RNG=cpu for a whole program."""

    def sample(device: str) -> torch.Tensor:
        torch.manual_seed(3)
        return F.dropout(torch.randn(100, device=device), 0.2).cpu()

    with trnsim.rng("cpu"):
        assert torch.equal(sample("neuron"), sample("cpu"))
    assert not torch.equal(sample("neuron"), sample("cpu"))


def test_fork_rng():
    state = torch.neuron.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type="neuron"):
        torch.rand(10, device="neuron")
    assert torch.equal(torch.neuron.get_rng_state(), state)
