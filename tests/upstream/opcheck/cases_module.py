"""Cases of one ModuleInfo and dtype: forward, backward and buffers in train and eval mode, and construction on the device."""

from __future__ import annotations

import copy
import functools
import inspect
import zlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_modules import module_db

from .cases import Case, Item
from .move import Mover

VARIANTS = ("train", "eval", "factory")


@functools.cache
def infos() -> dict[str, Any]:
    """Name -> ModuleInfo."""
    return {info.name: info for info in module_db}


def items() -> list[Item]:
    """Every (module, dtype) of the database."""
    return [
        Item(suite="module", name=name, dtype=str(dtype).removeprefix("torch."))
        for name, info in infos().items()
        for dtype in info.supported_dtypes("cpu")
    ]


def cases(item: Item, limit: int | None) -> Iterator[Case]:
    """All cases of one module and dtype, or `limit` evenly spread inputs of them."""
    info = infos()[item.name]
    dtype = getattr(torch, item.dtype)
    for variant in VARIANTS:
        training = variant != "eval"
        torch.manual_seed(zlib.crc32(item.name.encode()))
        try:
            inputs = list(
                enumerate(
                    info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
                )
            )
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            continue
        if limit is not None and len(inputs) > limit:
            inputs = [inputs[i * len(inputs) // limit] for i in range(limit)]
        if variant == "factory" and (info.is_lazy or "device" not in inspect.signature(info.module_cls).parameters):
            continue
        for index, given in inputs:
            if given.forward_input is None:
                continue
            run = _factory if variant == "factory" else _run
            yield Case(
                variant=variant,
                index=index,
                run=functools.partial(run, info.module_cls, given, dtype, training),
                describe=functools.partial(_describe, given),
            )


def _describe(given: Any) -> str:
    build, call = given.constructor_input, given.forward_input
    shapes = [tuple(a.shape) if isinstance(a, torch.Tensor) else type(a).__name__ for a in call.args]
    return f"constructor {build.args} {build.kwargs}, forward {shapes} {sorted(call.kwargs)}"[:400]


def _run(cls: type[torch.nn.Module], given: Any, dtype: torch.dtype, training: bool, mover: Mover) -> object:
    """Build on the CPU, move, then run forward and backward."""
    build = given.constructor_input
    with torch.random.fork_rng(devices=[], enabled=True):
        module = cls(*copy.deepcopy(build.args), **copy.deepcopy(build.kwargs)).to(dtype)
    moved = mover.move(module)
    assert isinstance(moved, torch.nn.Module)
    return _forward_backward(moved.train(training), given, mover)


def _factory(cls: type[torch.nn.Module], given: Any, dtype: torch.dtype, training: bool, mover: Mover) -> object:
    """Build directly on the device: the same seed gives the same weights."""
    build = given.constructor_input
    kwargs = {**build.kwargs, "device": mover.device, "dtype": dtype}
    args, kwargs = mover.move((build.args, kwargs))
    module = cls(*args, **kwargs)
    weights = [p.detach().clone() for p in module.parameters()]
    return [weights, _forward_backward(module.train(training), given, mover)]


def _forward_backward(module: torch.nn.Module, given: Any, mover: Mover) -> object:
    args, kwargs = mover.move((given.forward_input.args, given.forward_input.kwargs))
    inputs = [t for t in _leaves([list(args), kwargs]) if t.requires_grad]
    torch.manual_seed(3)
    result = module(*args, **kwargs)
    outputs = [t for t in _leaves(result) if t.requires_grad]
    gradients: list[torch.Tensor | None] = []
    if outputs:
        wanted = inputs + [p for p in module.parameters() if p.requires_grad]
        cotangents = [mover.move(torch.ones(t.shape, dtype=t.dtype)) for t in outputs]
        gradients = list(torch.autograd.grad(outputs, wanted, cotangents, allow_unused=True))
    return [result, gradients, dict(module.named_buffers())]


def _leaves(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
