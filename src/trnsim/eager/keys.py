"""What the eager policy needs to see of an op key, as protocols, and how to read one.

`trnsim.perf.opkey.OpKey` is the real class; anything with these attributes will do, so the capability
table and the executable cache can be used and tested without the C++ core.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = ["SCALAR_TYPES", "KeyLike", "TensorLike", "dtype_name", "is_channels_last", "split_op", "static_arg"]


class TensorLike(Protocol):
    """One tensor argument: dtype without the `torch.` prefix, sizes, density, and where it lives."""

    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def contiguous(self) -> bool: ...
    @property
    def device(self) -> str: ...


class KeyLike(Protocol):
    """One eager op as compiled: name with overload, tensors, and the arguments that are baked in."""

    @property
    def op(self) -> str: ...
    @property
    def inputs(self) -> Sequence[TensorLike]: ...
    @property
    def outputs(self) -> Sequence[TensorLike]: ...
    @property
    def static(self) -> Sequence[tuple[str, object]]: ...


# c10::ScalarType codes (torch 2.13, c10/core/ScalarType.h): schema arguments of type `ScalarType` arrive as these.
SCALAR_TYPES: dict[int, str] = dict(
    enumerate(
        [
            "uint8",
            "int8",
            "int16",
            "int32",
            "int64",
            "float16",
            "float32",
            "float64",
            "complex32",
            "complex64",
            "complex128",
            "bool",
            "qint8",
            "quint8",
            "qint32",
            "bfloat16",
            "quint4x2",
            "quint2x4",
            "bits1x8",
            "bits2x4",
            "bits4x2",
            "bits8",
            "bits16",
            "float8_e5m2",
            "float8_e4m3fn",
            "float8_e5m2fnuz",
            "float8_e4m3fnuz",
            "uint16",
            "uint32",
            "uint64",
        ]
    )
)
SCALAR_TYPES.update({44: "float8_e8m0fnu", 45: "float4_e2m1fn_x2"})

_CHANNELS_LAST_CODES = (2, 3)  # c10::MemoryFormat::ChannelsLast and ChannelsLast3d


def split_op(op: str) -> tuple[str, str, str]:
    """Split `aten::mul_.Tensor_out` into namespace `aten`, base `mul` and overload `Tensor`.

    In-place and out= forms share the base and overload of the functional form; `__and__` keeps its underscores.
    """
    namespace, found, name = op.partition("::")
    if not found:
        namespace, name = "aten", op
    base, _, overload = name.partition(".")
    if base.endswith("_") and not base.endswith("__"):
        base = base[:-1]
    if overload == "out":
        overload = ""
    elif overload.endswith("_out"):
        overload = overload[:-4]
    return namespace, base, overload


def static_arg(key: KeyLike, name: str) -> object:
    """Return the static argument called `name`, or None if the key has none."""
    for argument, value in key.static:
        if argument == name:
            return value
    return None


def dtype_name(value: object) -> str:
    """Return the bare dtype name of a static `dtype` argument: `torch.int64`, `int64` and 4 are the same."""
    if isinstance(value, int):
        return SCALAR_TYPES.get(value, f"ScalarType({value})")
    return str(value).removeprefix("torch.")


def is_channels_last(value: object) -> bool:
    """Tell whether a static `memory_format` argument asks for channels_last (2-d or 3-d)."""
    if isinstance(value, int):
        return value in _CHANNELS_LAST_CODES
    return "channels_last" in str(value)
