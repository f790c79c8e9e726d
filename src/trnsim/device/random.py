"""The devices' random generators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from trnsim import _C
from trnsim.device.context import index_of


class _DefaultGenerators(Sequence[torch.Generator]):
    """One generator per visible device, made when asked for."""

    def __len__(self) -> int:
        return _C.device_count()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [_C.default_generator(position) for position in range(len(self))[index]]
        if not -len(self) <= index < len(self):
            raise IndexError(f"neuron has {len(self)} generators, one per visible device; there is no number {index}")
        return _C.default_generator(index % len(self))

    def __iter__(self) -> Iterator[torch.Generator]:
        return (_C.default_generator(index) for index in range(len(self)))


default_generators = _DefaultGenerators()


def _generator(device: Any) -> torch.Generator:
    return _C.default_generator(index_of(device, optional=True))


def get_rng_state(device: Any = "neuron") -> torch.Tensor:
    """The state: 16 bytes, (seed, offset) as two uint64; in CPU parity mode the CPU engine's state."""
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "neuron") -> None:
    """Restores what ``get_rng_state`` gave."""
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all visible devices."""
    return [generator.get_state() for generator in default_generators]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Restores what ``get_rng_state_all`` gave."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds every visible device's generator."""
    for generator in default_generators:
        generator.manual_seed(int(seed))


def seed() -> None:
    """Seeds the current device's generator with a random number."""
    _generator(None).seed()


def seed_all() -> None:
    """Seeds every device's generator with one random number."""
    manual_seed_all(_generator(0).seed())


def initial_seed() -> int:
    """The current device's seed."""
    return _generator(None).initial_seed()
