"""What a case is: one sample in one variant, that any device can run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .move import Mover


@dataclass(frozen=True, kw_only=True)
class Case:
    """One comparison. `run` moves its private data with the mover and returns a nest of results."""

    variant: str
    index: int
    run: Callable[[Mover], object]
    describe: Callable[[], str]
    values: bool = True  # False: the values are undefined by contract (torch.empty), only metadata is compared
    any_device: bool = False  # True: the op may answer on another device than its inputs
    keep_on_cpu: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True, order=True)
class Item:
    """A unit of work: one entry of a database with one dtype ("float32"; "-" for optimizers' mixed states)."""

    suite: str
    name: str
    dtype: str
