"""Generators: torch.Generator("neuron"), seeds, states, fork_rng, parity with the CPU's numbers."""

from __future__ import annotations

import pytest
import torch

import trnsim
from trnsim import _C

pytestmark = pytest.mark.filterwarnings("ignore::trnsim.errors.NeuronFallbackWarning")


def draw(generator: torch.Generator | None = None, n: int = 6) -> list[float]:
    return torch.rand(n, device="neuron", generator=generator).tolist()


def test_generator_of_the_device():
    generator = torch.Generator(device="neuron")
    assert generator.device == torch.device("neuron:0")
    assert torch.Generator(device="neuron:1").device.index == 1


def test_same_seed_same_numbers():
    a = draw(torch.Generator("neuron").manual_seed(7))
    b = draw(torch.Generator("neuron").manual_seed(7))
    c = draw(torch.Generator("neuron").manual_seed(8))
    assert a == b != c


def test_numbers_follow_one_another():
    generator = torch.Generator("neuron").manual_seed(7)
    assert draw(generator) != draw(generator)


@pytest.mark.parametrize("seed", [0, 1, 2**32 + 5, 2**63 - 1, -1, -(2**63)])
def test_whole_range_of_seeds(seed: int):
    generator = torch.Generator("neuron").manual_seed(seed)
    assert generator.initial_seed() == seed % 2**64
    assert len(set(draw(generator))) == 6


def test_torch_manual_seed_reaches_every_device():
    torch.manual_seed(5)
    first = draw(), torch.rand(3, device="neuron:1").tolist()
    torch.manual_seed(5)
    assert (draw(), torch.rand(3, device="neuron:1").tolist()) == first


def test_module_seed_functions():
    torch.neuron.manual_seed(3)
    first = draw()
    torch.neuron.manual_seed(3)
    assert draw() == first and torch.neuron.initial_seed() == 3
    torch.neuron.manual_seed_all(4)
    assert [g.initial_seed() for g in torch.neuron.default_generators] == [4] * torch.neuron.device_count()
    torch.neuron.seed()
    assert draw() != draw()
    torch.neuron.seed_all()
    assert len({g.initial_seed() for g in torch.neuron.default_generators}) == 1


def test_state_round_trip():
    generator = torch.Generator("neuron").manual_seed(1)
    draw(generator)
    state = generator.get_state()
    first = draw(generator)
    generator.set_state(state)
    assert draw(generator) == first


def test_module_state_functions():
    state, states = torch.neuron.get_rng_state(), torch.neuron.get_rng_state_all()
    first = draw()
    torch.neuron.set_rng_state(state)
    assert draw() == first
    torch.neuron.set_rng_state_all(states)
    assert draw() == first


def test_state_is_16_bytes_of_seed_and_offset_as_dtensor_needs():
    generator = torch.Generator("neuron").manual_seed(42)
    state = generator.get_state()
    assert state.dtype == torch.uint8 and state.numel() == 16 and state.device.type == "cpu"
    words = state.view(torch.int64)
    assert words.tolist() == [42, 0]
    draw(generator)
    assert generator.get_state().view(torch.int64)[1] % 4 == 0 and generator.get_offset() > 0


def test_setting_the_offset_skips():
    generator = torch.Generator("neuron").manual_seed(42)
    draw(generator)
    offset = generator.get_offset()
    second = draw(generator)
    again = torch.Generator("neuron").manual_seed(42)
    again.set_offset(offset)
    assert draw(again) == second
    with pytest.raises(RuntimeError, match="multiple of 4"):
        again.set_offset(3)


def test_bad_states_are_refused():
    generator = torch.Generator("neuron")
    with pytest.raises((TypeError, RuntimeError)):
        generator.set_state(torch.zeros(16))  # not bytes
    with pytest.raises(RuntimeError):
        generator.set_state(torch.zeros(7, dtype=torch.uint8))
    assert len(draw(generator)) == 6


def test_clone_state_is_independent():
    generator = torch.Generator("neuron").manual_seed(1)
    clone = generator.clone_state()
    assert draw(generator) == draw(clone)
    draw(generator)
    assert draw(generator) != draw(clone)


def test_fork_rng_restores():
    torch.manual_seed(0)
    with torch.random.fork_rng(device_type="neuron"):
        torch.manual_seed(99)
        draw()
    first = draw()
    torch.manual_seed(0)
    assert draw() == first


def test_generators_of_other_devices_are_refused():
    with pytest.raises(RuntimeError, match="'neuron' device type"):
        torch.rand(3, device="neuron", generator=torch.Generator("cpu"))
    with pytest.raises(RuntimeError):
        torch.rand(3, generator=torch.Generator("neuron"))


def test_default_generators_is_a_sequence():
    generators = torch.neuron.default_generators
    assert len(generators) == torch.neuron.device_count()
    assert generators[-1].device.index == len(generators) - 1
    with pytest.raises(IndexError, match="no number 99"):
        generators[99]


@pytest.mark.parametrize(
    "sample",
    [
        lambda d, g: torch.randn(5, device=d, generator=g),
        lambda d, g: torch.randint(0, 100, (5,), device=d, generator=g),
        lambda d, g: torch.randperm(10, device=d, generator=g),
        lambda d, g: torch.empty(5, device=d).normal_(1, 2, generator=g),
        lambda d, g: torch.empty(5, device=d).exponential_(generator=g),
        lambda d, g: torch.full((5,), 0.5, device=d).bernoulli(generator=g),
        lambda d, g: torch.multinomial(torch.ones(10, device=d), 4, generator=g),
        lambda d, g: torch.nn.init.xavier_uniform_(torch.empty(3, 3, device=d), generator=g),
    ],
    ids=["randn", "randint", "randperm", "normal_", "exponential_", "bernoulli", "multinomial", "xavier"],
)
def test_parity_gives_the_cpus_numbers(sample):
    with trnsim.rng("cpu"):
        ours = sample("neuron", torch.Generator("neuron").manual_seed(11))
    assert torch.equal(ours.cpu(), sample("cpu", torch.Generator("cpu").manual_seed(11)))


def test_parity_of_the_default_generator_and_dropout():
    with trnsim.rng("cpu"):
        torch.manual_seed(3)
        ours = torch.nn.functional.dropout(torch.ones(100, device="neuron"), 0.3), torch.randn(4, device="neuron")
    torch.manual_seed(3)
    theirs = torch.nn.functional.dropout(torch.ones(100), 0.3), torch.randn(4)
    assert all(torch.equal(a.cpu(), b) for a, b in zip(ours, theirs, strict=True))


def test_parity_leaves_with_its_block():
    before = _C.parity_mode()
    with trnsim.rng("cpu"):
        assert _C.parity_mode()
        assert torch.neuron.get_rng_state().numel() > 16
    assert _C.parity_mode() == before


def test_parity_state_round_trip():
    with trnsim.rng("cpu"):
        state = torch.neuron.get_rng_state()
        first = draw()
        torch.neuron.set_rng_state(state)
        assert draw() == first


def test_device_numbers_have_the_right_moments():
    torch.neuron.manual_seed(0)
    x = torch.randn(20000, device="neuron").cpu()
    assert abs(x.mean()) < 0.03 and abs(x.std() - 1) < 0.03
    u = torch.cat([torch.rand(10, device="neuron").cpu() for _ in range(500)])
    assert abs(u.mean() - 0.5) < 0.02  # many short draws: the counters must not correlate


def test_drawing_does_not_touch_the_cpu_generator():
    state = torch.get_rng_state()
    draw()
    torch.nn.functional.dropout(torch.ones(10, device="neuron"))
    assert torch.equal(torch.get_rng_state(), state)


def test_dropout_uses_the_device_generator():
    x = torch.ones(1000, device="neuron")
    torch.neuron.manual_seed(1)
    a = torch.nn.functional.dropout(x)
    b = torch.nn.functional.dropout(x)
    torch.neuron.manual_seed(1)
    c = torch.nn.functional.dropout(x)
    assert torch.equal(a, c) and not torch.equal(a, b)


def test_parity_by_environment(run_python):
    run_python(
        """
        torch.manual_seed(1)
        a = torch.randn(5, device="neuron").cpu()
        torch.manual_seed(1)
        assert torch.equal(a, torch.randn(5))
        """,
        TRNSIM_RNG="cpu",
    )
