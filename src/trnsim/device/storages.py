"""Legacy typed storages: ``torch.neuron.FloatStorage`` and so on, which ``tensor.storage()`` looks up by name."""

from __future__ import annotations

import torch
from torch._utils import classproperty
from torch.storage import _LegacyStorage

_DTYPES = {
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Long": torch.int64,
    "Int": torch.int32,
    "Short": torch.int16,
    "Char": torch.int8,
    "Byte": torch.uint8,
    "Bool": torch.bool,
    "ComplexDouble": torch.complex128,
    "ComplexFloat": torch.complex64,
}


def _storage_class(name: str, dtype: torch.dtype) -> type[_LegacyStorage]:
    class Storage(_LegacyStorage):
        @classproperty
        def dtype(self) -> torch.dtype:
            return self._dtype

        @classproperty
        def _dtype(self) -> torch.dtype:
            return dtype

    Storage.__name__ = Storage.__qualname__ = f"{name}Storage"
    Storage.__module__ = "torch.neuron"
    return Storage


globals().update({f"{name}Storage": _storage_class(name, dtype) for name, dtype in _DTYPES.items()})
__all__ = [f"{name}Storage" for name in _DTYPES]
