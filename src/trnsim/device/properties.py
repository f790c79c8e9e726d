"""What the device says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from trnsim import _C
from trnsim.device.context import index_of
from trnsim.runtime import machine


@dataclass(frozen=True, kw_only=True)
class DeviceProperties:
    """One logical NeuronCore. ``total_memory`` in bytes; ``multi_processor_count`` is its physical cores."""

    name: str
    total_memory: int
    multi_processor_count: int
    instance: str
    lnc: int

    # Read by code written for CUDA: the architecture, as a version.
    @property
    def major(self) -> int:
        """NeuronCore generation: 2 for trn1 and inf2, 3 for trn2, 4 for trn3."""
        return int(machine.chip.neuroncore.removeprefix("v"))

    @property
    def minor(self) -> int:
        """Always 0: generations have no minor number."""
        return 0


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Properties of a device. ``name`` is the chip's, as torchtitan reads it (trn1, inf2, trn2, trn3, ...)."""
    _C.check_device(index_of(device, optional=True))
    lnc = machine.options.lnc
    return DeviceProperties(
        name=machine.chip.name,
        total_memory=machine.chip.memory_per_device(lnc),
        multi_processor_count=lnc,
        instance=machine.instance.name,
        lnc=lnc,
    )


def get_device_name(device: Any = None) -> str:
    """The chip's name: "trn2"."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> dict[str, Any]:
    """As ``torch.accelerator.get_device_capability``: supported dtypes."""
    return dict(torch.accelerator.get_device_capability(index_of(device, optional=True)))
