"""Cases of one OpInfo and one dtype: forward, noncontiguous, out, inplace, grad, error."""

from __future__ import annotations

import functools
import math
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations as database

from .cases import Case, Item
from .move import Mover

# Results whose values PyTorch leaves undefined: uninitialised memory, and the tail of a grown storage.
UNDEFINED_VALUES = frozenset(
    {
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "resize_",
        "resize_as_",
    }
)
# Ops that answer on the CPU whatever their input's device is.
ANY_DEVICE = frozenset({"to", "cpu"})
# Ops that make a tensor on the CPU unless `device=` says otherwise, as they do beside every accelerator.
FACTORIES = frozenset({"arange", "linspace", "logspace"})
# Ops whose tensor argument must stay on the CPU on every device (tensor_split reads its sections on the host).
HOST_ARGUMENTS = frozenset({"tensor_split"})
# Ops whose CPU kernel in torch 2.13 writes out of bounds when a 4-D `out=` has transposed memory (seen as heap corruption
# with `torch.tril(torch.ones(3, 3, 5, 5), out=...)` on the CPU alone): no reference, so that kind of `out=` is left out.
NO_STRIDED_OUT = frozenset({"tril", "triu", "lu_unpack", "linalg.lu"})
OUT_SEED = 7  # every `out=` call of one sample draws the same numbers
GRAD_DTYPES = ("float32", "float64")


@functools.cache
def infos(suite: str) -> dict[str, Any]:
    """Name -> OpInfo of the suite, in the database's order."""
    if suite == "op":
        return {info.full_name: info for info in database.op_db}
    groups = ("unary", "binary", "pointwise", "reduce", "other")
    return {info.full_name: info for group in groups for info in getattr(database, f"foreach_{group}_op_db")}


def items(suite: str) -> list[Item]:
    """Every (op, dtype) that the CPU supports."""
    found = []
    for name, info in infos(suite).items():
        dtypes = sorted(str(dtype).removeprefix("torch.") for dtype in info.supported_dtypes("cpu"))
        found += [Item(suite=suite, name=name, dtype=dtype) for dtype in dtypes]
    return found


def cases(item: Item, limit: int | None) -> Iterator[Case]:
    """All cases of one item; `limit` keeps that many evenly spread samples of each variant."""
    info = infos(item.suite)[item.name]
    dtype = getattr(torch, item.dtype)
    if item.suite == "op" and item.dtype == _first_dtype(info):
        yield from _error_cases(info)
    samples = _samples(info, dtype, limit, requires_grad=False)
    for index, sample in samples:
        yield _case("forward", index, info, sample, functools.partial(_forward, info.op, sample))
        yield _strided_case(index, info, sample)
        if info.supports_out and item.suite == "op":
            kinds = (
                (_garbage, _garbage_empty)
                if info.name in NO_STRIDED_OUT
                else (_garbage, _garbage_strided, _garbage_empty)
            )
            yield _case("out", index, info, sample, functools.partial(_out, info.op, sample, kinds))
        inplace = info.get_inplace()
        if inplace is not None and not sample.broadcasts_input:
            yield _case("inplace", index, info, sample, functools.partial(_inplace, inplace, sample))
    if info.supports_autograd and item.dtype in GRAD_DTYPES and dtype in info.supported_backward_dtypes("cpu"):
        for index, sample in _samples(info, dtype, limit, requires_grad=True):
            yield _case("grad", index, info, sample, functools.partial(_grad, info.op, sample))


def _first_dtype(info: Any) -> str:
    names = {str(dtype).removeprefix("torch.") for dtype in info.supported_dtypes("cpu")}
    return "float32" if "float32" in names else min(names, default="")


def _error_cases(info: Any) -> Iterator[Case]:
    """Bad input: the device raises the same type of error with the message that PyTorch documents in its database."""
    if info.error_inputs_func is None:
        return
    torch.manual_seed(zlib.crc32(info.full_name.encode()))
    for index, bad in enumerate(info.error_inputs("cpu")):
        run = functools.partial(_error, info.op, bad.sample_input, bad.error_regex)
        yield _case("error", index, info, bad.sample_input, run)


def _error(op: Callable[..., object], sample: Any, regex: str, mover: Mover) -> object:
    """[type of the error, True or the message that does not fit, a result computed after the error]."""
    value, args, kwargs = _move(sample, mover)
    try:
        op(value, *args, **kwargs)
    except Exception as error:
        matched = re.search(regex, str(error)) is not None
        return [type(error).__name__, matched or str(error), mover.move(torch.ones(2)) + 1]
    return ["no error", True, mover.move(torch.ones(2)) + 1]


def _samples(info: Any, dtype: torch.dtype, limit: int | None, *, requires_grad: bool) -> list[tuple[int, Any]]:
    torch.manual_seed(zlib.crc32(info.full_name.encode()))
    try:
        samples = list(enumerate(info.sample_inputs("cpu", dtype, requires_grad=requires_grad)))
    except (RuntimeError, NotImplementedError, TypeError, ValueError):
        return []  # the CPU itself cannot build the samples of this dtype
    if limit is None or len(samples) <= limit:
        return samples
    return [samples[i * len(samples) // limit] for i in range(limit)]


def _case(variant: str, index: int, info: Any, sample: Any, run: Callable[[Mover], object]) -> Case:
    kept: frozenset[int] = frozenset()
    if info.name in HOST_ARGUMENTS:
        kept = frozenset(id(a) for a in sample.args if isinstance(a, torch.Tensor))
    return Case(
        variant=variant,
        index=index,
        run=run,
        describe=lambda: str(sample.summary()),
        values=info.name not in UNDEFINED_VALUES,
        any_device=info.name in ANY_DEVICE or (info.name in FACTORIES and "device" not in sample.kwargs),
        keep_on_cpu=kept,
    )


def _strided_case(index: int, info: Any, sample: Any) -> Case:
    if info.name in HOST_ARGUMENTS:  # made now, so that the case knows which tensors stay on the CPU
        strided = sample.noncontiguous()
        return _case("noncontiguous", index, info, strided, functools.partial(_forward, info.op, strided))
    return _case("noncontiguous", index, info, sample, functools.partial(_forward_strided, info.op, sample))


def _move(sample: Any, mover: Mover) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    value, args, kwargs = mover.move((sample.input, sample.args, sample.kwargs))
    return value, args, kwargs


def _forward(op: Callable[..., object], sample: Any, mover: Mover) -> object:
    value, args, kwargs = _move(sample, mover)
    return op(value, *args, **kwargs)


def _forward_strided(op: Callable[..., object], sample: Any, mover: Mover) -> object:
    return _forward(op, sample.noncontiguous(), mover)


def _inplace(op: Callable[..., object], sample: Any, mover: Mover) -> object:
    value, args, kwargs = _move(sample, mover)
    result = op(value, *args, **kwargs)
    return [result, value, result is value]


def _out(
    op: Callable[..., Any], sample: Any, kinds: tuple[Callable[[torch.Tensor], torch.Tensor], ...], mover: Mover
) -> object:
    """Kinds of `out=`: garbage of the right size, transposed memory, and an empty one to be resized."""
    value, args, kwargs = _move(sample, mover)
    shapes = op(value, *args, **kwargs)
    tensors = [shapes] if isinstance(shapes, torch.Tensor) else list(shapes)
    if not all(isinstance(t, torch.Tensor) for t in tensors):
        raise TypeError("out= needs tensor results")
    answers = []
    for make in kinds:
        outs = [make(t) for t in tensors]
        torch.manual_seed(OUT_SEED)
        result = op(value, *args, **kwargs, out=outs[0] if isinstance(shapes, torch.Tensor) else tuple(outs))
        results = [result] if isinstance(shapes, torch.Tensor) else list(result)
        answers.append([outs, [r is o for r, o in zip(results, outs)]])
    return answers


def _garbage(like: torch.Tensor) -> torch.Tensor:
    filled = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=like.device)
    return filled.fill_(math.nan if like.dtype.is_floating_point or like.dtype.is_complex else 1)


def _garbage_strided(like: torch.Tensor) -> torch.Tensor:
    dims = list(range(like.dim()))[::-1]
    return torch.ones([like.size(d) for d in dims] + [2], dtype=like.dtype, device=like.device)[..., 0].permute(dims)


def _garbage_empty(like: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=like.dtype, device=like.device)


def _grad(op: Callable[..., object], sample: Any, mover: Mover) -> object:
    value, args, kwargs = _move(sample, mover)
    inputs = [t for t in _leaves([value, list(args), kwargs]) if t.requires_grad]
    result = sample.output_process_fn_grad(op(value, *args, **kwargs))
    outputs = [t for t in _leaves(result) if t.requires_grad]
    if not outputs or not inputs:
        raise TypeError("nothing to differentiate")
    cotangents = [mover.move(_cotangent(i, t)) for i, t in enumerate(outputs)]
    gradients = torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True)
    return [result, list(gradients)]


def _cotangent(index: int, like: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(index)
    return torch.randn(like.shape, dtype=like.dtype, generator=generator)


def _leaves(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
