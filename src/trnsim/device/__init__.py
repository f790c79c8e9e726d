"""``torch.neuron``: the device module. Names are TorchNeuron's, which are ``torch.cuda``'s wherever both have one."""

from __future__ import annotations

from typing import Any

import torch

from trnsim import _C
from trnsim import runtime as _runtime
from trnsim.device import memory as memory
from trnsim.device import random as random
from trnsim.device.amp import get_amp_supported_dtype, is_bf16_supported
from trnsim.device.context import device, device_of, index_of
from trnsim.device.memory import (
    empty_cache,
    host_memory_stats,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from trnsim.device.properties import get_device_capability, get_device_name, get_device_properties
from trnsim.device.random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from trnsim.device.storages import *  # noqa: F403  legacy types: torch.neuron.FloatStorage, ...
from trnsim.device.streams import (
    Event,
    Stream,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

__all__ = [
    "Event",
    "Stream",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "host_memory_stats",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "random",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """Whether at least one neuron device is visible."""
    return _C.device_count() > 0


def is_initialized() -> bool:
    """Whether this process has used the device (after that, fork is refused)."""
    return _C.is_initialized()


def init() -> None:
    """Initializes the device. Needed by no program: first use does it."""
    _C.touch_device()


_lazy_init = init


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that had initialized the device."""
    return _C.in_forked_child()


def device_count() -> int:
    """Number of visible logical NeuronCores."""
    return _C.device_count()


def current_device() -> int:
    """Index of the current device of this thread."""
    return _C.current_device()


def set_device(device: int | str | torch.device) -> None:
    """Makes ``device`` current for this thread. Raises RuntimeError if there is no such device."""
    index = index_of(device)
    if index >= 0:
        _C.exchange_device(index)


def _exchange_device(index: int) -> int:
    return _C.exchange_device(index) if index >= 0 else -1


def _maybe_exchange_device(index: int) -> int:
    return _exchange_device(index)


def synchronize(device: int | str | torch.device | None = None) -> None:
    """Waits (in simulated time) for all streams of the device."""
    torch.accelerator.synchronize(index_of(device, optional=True))


def can_device_access_peer(device: int, peer: int) -> bool:
    """Whether two logical cores reach each other's memory: all cores of an instance do (NeuronLink)."""
    _C.check_device(device)
    _C.check_device(peer)
    return device != peer


def __getattr__(name: str) -> Any:
    if name == "_initialized":  # torch.utils.checkpoint asks it before it saves the generators' states
        return _C.is_initialized()
    raise AttributeError(
        f"torch.neuron has no attribute {name!r}. Names are those of torch.cuda that TorchNeuron documents; "
        "see docs/device.md for the list."
    )


_whole = True
_runtime.register_module()
