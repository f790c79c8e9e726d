"""The key of an eager op: what decides its executable, and so its cost.

C++ builds one for each op it has not seen. Python scalars of schema type `Scalar` are run-time inputs on Neuron, so they are
not part of it; `static` arguments (dims, sizes, flags, dtypes) are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

__all__ = ["DTYPE_BYTES", "OpKey", "TensorSpec"]

# Storage bytes of one element, by torch dtype name without the prefix. Dtypes of half a byte count as one here.
DTYPE_BYTES: dict[str, int] = {
    **dict.fromkeys(("bool", "uint8", "int8", "qint8", "quint8", "quint4x2", "quint2x4", "float4_e2m1fn_x2"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"), 1),
    **dict.fromkeys(("bits1x8", "bits2x4", "bits4x2", "bits8"), 1),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16", "bits16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32", "qint32", "complex32"), 4),
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8),
    "complex128": 16,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """One tensor argument or result."""

    dtype: str
    shape: tuple[int, ...]
    contiguous: bool = True
    device: Literal["neuron", "cpu"] = "neuron"

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, as if dense."""
        return math.prod(self.shape) * DTYPE_BYTES.get(self.dtype, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpKey:
    """One eager op: name with namespace and overload, tensors (lists flattened, in argument order), static arguments."""

    op: str
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    static: tuple[tuple[str, object], ...] = ()

    def arg(self, name: str, default: object = None) -> object:
        """Return a static argument by schema name."""
        for key, value in self.static:
            if key == name:
                return value
        return default
