"""Move a nest of Python values to a device, keeping strides, offsets, lazy bits and shared storages.

The same move is made towards the CPU, so that both sides of a comparison start from equal private copies.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch


class Mover:
    """Moves nests to one device. Tensors that share a storage in one `move` call still share one afterwards."""

    def __init__(self, device: str, *, keep_on_cpu: frozenset[int] = frozenset()) -> None:
        self.device = torch.device(device)
        self._keep = keep_on_cpu
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._tensors: dict[int, torch.Tensor] = {}
        self._alive: list[torch.Tensor] = []

    def move(self, value: Any) -> Any:
        """A copy of `value` in which every tensor, generator and CPU device is replaced by one of the target device."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.device):
            return self.device if value.type == "cpu" else value
        if isinstance(value, str):
            return str(self.device) if value == "cpu" else value
        if isinstance(value, torch.Generator):
            generator = torch.Generator(device=self.device)
            generator.manual_seed(value.initial_seed())
            return generator
        if isinstance(value, (torch.Size, torch.dtype, torch.layout, type)) or value is None:
            return value
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self.move(item) for item in value))
        if isinstance(value, (list, tuple)):
            return type(value)(self.move(item) for item in value)
        if isinstance(value, dict):
            return {key: self.move(item) for key, item in value.items()}
        if isinstance(value, torch.nn.Module):
            return self._module(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.replace(
                value, **{f.name: self.move(getattr(value, f.name)) for f in dataclasses.fields(value)}
            )
        return value

    def storage_ids(self) -> dict[int, int]:
        """Address of each moved storage -> order of its first use, to compare which inputs an output aliases."""
        return {s.data_ptr(): i for i, s in enumerate(self._storages.values()) if s.nbytes() > 0}

    def _tensor(self, source: torch.Tensor) -> torch.Tensor:
        if id(source) in self._tensors:
            return self._tensors[id(source)]
        if id(source) in self._keep:
            return source
        if isinstance(source, torch.nn.Parameter):
            moved: torch.Tensor = torch.nn.Parameter(self._raw(source.detach()), requires_grad=source.requires_grad)
        else:
            moved = self._raw(source.detach()).requires_grad_(source.requires_grad)
        self._tensors[id(source)] = moved
        self._alive.append(source)
        return moved

    def _raw(self, source: torch.Tensor) -> torch.Tensor:
        if (
            source.layout != torch.strided
            or source.is_quantized
            or source.is_nested
            or type(source) is not torch.Tensor
        ):
            return copy.deepcopy(source) if self.device.type == "cpu" else source.to(self.device)
        storage = source.untyped_storage()
        key = storage._cdata
        if key not in self._storages:
            flat = torch.empty(0, dtype=torch.uint8).set_(storage)
            self._storages[key] = flat.to(self.device, copy=True).untyped_storage()
            self._alive.append(source)
        moved = torch.empty(0, dtype=source.dtype, device=self.device)
        moved.set_(self._storages[key], source.storage_offset(), source.size(), source.stride())
        if source.is_conj():
            moved = torch._conj(moved)
        return torch._neg_view(moved) if source.is_neg() else moved

    def _module(self, source: torch.nn.Module) -> torch.nn.Module:
        twin = copy.deepcopy(source)
        return twin if self.device.type == "cpu" else twin.to(self.device)
