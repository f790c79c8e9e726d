"""Device indices and the device context managers."""

from __future__ import annotations

from typing import Any

import torch

from trnsim import _C


def index_of(value: Any, *, optional: bool = False) -> int:
    """The index meant by an int, "neuron", "neuron:1" or torch.device; none given means the current device.

    Raises ValueError for another device type, TypeError for another kind of value.
    """
    if value is None:
        if not optional:
            raise TypeError("a neuron device is needed: an index, 'neuron:N' or torch.device, got None")
        return _C.current_device()
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        value = torch.device(value)
    if not isinstance(value, torch.device):
        raise TypeError(
            f"a neuron device is an index, 'neuron:N' or torch.device, got {type(value).__name__} {value!r}"
        )
    if value.type != "neuron":
        raise ValueError(f"Expected a neuron device, but got: {value}. Use 'neuron' or 'neuron:N'.")
    return _C.current_device() if value.index is None else value.index


class device:  # noqa: N801  the name is PyTorch's
    """Context manager that makes a device current: ``with torch.neuron.device(1): ...``. A negative index does nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = index_of(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = _C.exchange_device(self.idx)

    def __exit__(self, *exc: object) -> None:
        if self.idx >= 0:
            _C.exchange_device(self.prev_idx)


class device_of(device):  # noqa: N801
    """Makes the device of a tensor or storage current; does nothing for those of another device."""

    def __init__(self, obj: Any) -> None:
        self.idx = obj.device.index if obj.device.type == "neuron" else -1
        self.prev_idx = -1
