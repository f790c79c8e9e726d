"""Run a script that says `cuda` on the neuron device: `trnsim check --from-cuda`.

What is translated, while the context is open:

- every device argument of a torch function or tensor method: `"cuda"`, `"cuda:1"`, `torch.device("cuda")`, `x.cuda()`,
  `module.cuda()`, `torch.zeros(2, device="cuda")`, `torch.load(map_location="cuda")`, `torch.set_default_device("cuda")`;
- `x.is_cuda`: true on the device;
- `torch.autocast("cuda")`, `torch.cuda.amp.autocast()`, `GradScaler()`, `torch.Generator("cuda")`, `fork_rng`;
- functions of `torch.cuda` that `torch.neuron` has too (is_available, device_count, synchronize, Stream, Event, memory_*,
  manual_seed, …), and `get_device_capability` (8, 0), `mem_get_info`, `nvtx` ranges and `ipc_collect`, which do nothing.

What is not: `x.device` says `neuron:0`, since a report should show what a changed script would see. A `torch.device("cuda")`
that the script made stays as it is, so its own `device.type == "cuda"` holds. CUDA graphs, CUDA extensions, `nccl`, Triton
kernels and `torch.cuda.FloatTensor` have no counterpart here and raise what PyTorch raises without CUDA.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _device as torch_device_context  # DeviceContext: behind `with torch.device(…)`

__all__ = ["from_cuda", "translate"]

_DEVICE = "neuron"


def translate(value: Any) -> Any:
    """A device that says cuda, as text or object, becomes neuron; containers of arguments are searched."""
    if isinstance(value, str):
        kind, colon, index = value.partition(":")
        return f"{_DEVICE}{colon}{index}" if kind == "cuda" and (not colon or index.isdecimal()) else value
    if isinstance(value, torch.device):
        return torch.device(_DEVICE, value.index) if value.type == "cuda" else value
    if type(value) is dict:
        return {key: translate(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(translate(item) for item in value)
    return value


def _may_hold_device(value: Any) -> bool:
    return isinstance(value, (str, torch.device))


class _Translator(TorchFunctionMode):
    """Rewrites the arguments of every torch function on this thread."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call `func` with devices translated."""
        kwargs = kwargs or {}
        if func == torch.Tensor.cuda:
            return _to_device(*args, **kwargs)
        if func == _IS_CUDA:
            return args[0].device.type == _DEVICE
        if func is torch.device:  # the script's own object: translated where it is used
            return func(*args, **kwargs)
        if any(map(_may_hold_device, args)):
            args = tuple(translate(value) if _may_hold_device(value) else value for value in args)
        if any(map(_may_hold_device, kwargs.values())):
            kwargs = {name: translate(value) if _may_hold_device(value) else value for name, value in kwargs.items()}
        return func(*args, **kwargs)


_IS_CUDA: Any = vars(torch._C.TensorBase)["is_cuda"].__get__  # as the mode sees the property


def _to_device(
    tensor: torch.Tensor,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> torch.Tensor:
    """`Tensor.cuda` with its own signature, to the neuron device."""
    target = _DEVICE if device is None else translate(torch.device(device))
    return tensor.to(target, non_blocking=non_blocking, memory_format=memory_format)


class _GeneratorType(type):
    """Makes isinstance(x, torch.Generator) hold for generators of PyTorch's own class."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _Generator)


_Generator = torch.Generator


class _TranslatedGenerator(metaclass=_GeneratorType):
    """Stands in for `torch.Generator`, whose constructor no mode sees."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return _Generator(device=translate(device))


def _translating(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the devices among its arguments translated."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*translate(args), **translate(kwargs))

    return call


def _scaler(initialise: Callable[..., None]) -> Callable[..., None]:
    """`GradScaler.__init__`, whose default device is cuda."""

    @functools.wraps(initialise)
    def call(self: Any, device: Any = "cuda", *args: Any, **kwargs: Any) -> None:
        initialise(self, translate(device), *args, **kwargs)

    return call


def _on_threads(run: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    """`Thread.run` under the translator: modes belong to one thread."""

    @functools.wraps(run)
    def call(self: threading.Thread) -> None:
        with _Translator():
            run(self)

    return call


def _capability(device: Any = None) -> tuple[int, int]:
    """What scripts ask in order to choose bf16 and fused attention: both are there."""
    return (8, 0)


def _has_bf16(including_emulation: bool = True) -> bool:
    """Every Trainium computes bf16."""
    return True


def _no() -> bool:
    return False


def _without_cuda_activity(initialise: Callable[..., None]) -> Callable[..., None]:
    """The profiler's CUDA activity needs CUDA; there is no trace of the simulated engines yet."""

    @functools.wraps(initialise)
    def call(self: Any, *args: Any, activities: Any = None, **kwargs: Any) -> None:
        if activities is not None:
            kinds = torch.profiler.ProfilerActivity
            activities = [kind for kind in activities if kind is not kinds.CUDA] or [kinds.CPU]
        initialise(self, *args, activities=activities, **kwargs)

    return call


def _nothing(*_: Any, **__: Any) -> None:
    """Accepts anything, does nothing."""


@contextmanager
def _no_range(*_: Any, **__: Any) -> Iterator[None]:
    """An nvtx range that leaves no mark."""
    yield


def _cuda_replacements(device_module: ModuleType) -> dict[str, Any]:
    """Names of torch.cuda and what they become."""
    replaced = {
        name: getattr(device_module, name)
        for name in dir(device_module)
        if name in torch.cuda.__all__ and not isinstance(getattr(device_module, name), ModuleType)
    }
    replaced |= {
        "get_device_capability": _capability,
        "mem_get_info": _translating(torch.accelerator.get_memory_info),
        "ipc_collect": _nothing,
        "is_bf16_supported": _has_bf16,
        "get_arch_list": list,
        "is_current_stream_capturing": _no,
        "memory_cached": device_module.memory_reserved,
        "max_memory_cached": device_module.max_memory_reserved,
        "reset_max_memory_allocated": device_module.reset_peak_memory_stats,
        "reset_max_memory_cached": device_module.reset_peak_memory_stats,
        "_lazy_init": _nothing,
    }
    # Device arguments of these go through no torch function.
    return {
        name: _translating(value) if callable(value) and not isinstance(value, type) else value
        for name, value in replaced.items()
    }


def _replacements() -> Iterator[tuple[Any, str, Any]]:
    """(object, attribute, new value) of everything that the mode alone cannot reach."""
    neuron = torch.get_device_module(_DEVICE)
    for name, value in _cuda_replacements(neuron).items():
        for module in (torch.cuda, torch.cuda.memory, torch.cuda.random, torch.cuda.streams, torch.cuda.graphs):
            if module is torch.cuda or hasattr(module, name):
                yield module, name, value
    yield torch.profiler.profile, "__init__", _without_cuda_activity(torch.profiler.profile.__init__)
    # In place, not by subclass: isinstance(torch.cuda.current_stream(), torch.cuda.Stream) must hold.
    yield neuron.device, "__init__", _translating(neuron.device.__init__)
    for constructed in (neuron.Stream, neuron.Event):
        yield constructed, "__new__", staticmethod(_translating(constructed.__new__))
    for name in ("mark", "range_push", "range_pop"):
        yield torch.cuda.nvtx, name, _nothing
    yield torch.cuda.nvtx, "range", _no_range
    for owner, names in (
        (torch, ("load", "set_default_device", "get_device_module", "is_autocast_enabled", "get_autocast_dtype")),
        (torch, ("set_autocast_enabled", "set_autocast_dtype")),
        (torch.random, ("fork_rng",)),
        (torch.amp.autocast, ("__init__",)),
        (torch_device_context.DeviceContext, ("__init__",)),
    ):
        for name in names:
            yield owner, name, _translating(getattr(owner, name))
    yield torch.amp.GradScaler, "__init__", _scaler(torch.amp.GradScaler.__init__)
    yield torch, "Generator", _TranslatedGenerator
    yield threading.Thread, "run", _on_threads(threading.Thread.run)


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = vars(owner).get(name)  # as it is stored: a staticmethod stays one
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is None:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


@contextmanager
def from_cuda() -> Iterator[None]:
    """While open, code that says cuda runs on the neuron device. Everything is put back at the end."""
    with contextlib.ExitStack() as stack:
        patches: list[AbstractContextManager[None]] = [_replaced(*patch) for patch in _replacements()]
        for patch in patches:
            stack.enter_context(patch)
        stack.enter_context(_Translator())
        yield
