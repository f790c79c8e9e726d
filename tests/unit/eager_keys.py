"""Op keys for the tests of eager mode, independent of trnsim.perf."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    dtype: str = "float32"
    shape: tuple[int, ...] = (4, 4)
    contiguous: bool = True
    device: str = "neuron"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    op: str
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    static: tuple[tuple[str, object], ...] = ()


def key(op: str, *inputs: str | Tensor, **static: object) -> Key:
    """Build a key: a string is a dtype with shape (4, 4)."""
    tensors = tuple(Tensor(dtype=tensor) if isinstance(tensor, str) else tensor for tensor in inputs)
    return Key(op=op, inputs=tensors, static=tuple(static.items()))
