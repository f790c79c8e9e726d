"""Cases of one optimizer and dtype: five steps with each implementation (for-loop, foreach, fused), parameters and state."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_optimizers import optim_db

from .cases import Case, Item
from .move import Mover

IMPLEMENTATIONS = ("forloop", "foreach", "fused", "built_before_move")
STEPS = 5
HOST_STATE = ("step", "mu_product")
# Its constructor makes the state, which stays behind when the parameters move: an error on every accelerator.
STATE_AT_CONSTRUCTION = frozenset({"Adagrad"})
# torch 2.13's fused CPU kernel reads the momentum that the first step has not written yet: garbage in bfloat16.
NO_FUSED_REFERENCE = frozenset({("SGD", "bfloat16")})


@functools.cache
def infos() -> dict[str, Any]:
    """Name -> OptimizerInfo."""
    infos: list[Any] = list(optim_db)
    return {info.optim_cls.__name__: info for info in infos}


def items() -> list[Item]:
    """Every optimizer in float32, float64 and bfloat16."""
    return [
        Item(suite="optim", name=name, dtype=dtype) for name in infos() for dtype in ("float32", "float64", "bfloat16")
    ]


def cases(item: Item, limit: int | None) -> Iterator[Case]:
    """All configurations of one optimizer, or `limit` evenly spread ones."""
    info = infos()[item.name]
    dtype = getattr(torch, item.dtype)
    configurations = list(enumerate(info.optim_inputs_func(device="cpu")))
    if limit is not None and len(configurations) > limit:
        configurations = [configurations[i * len(configurations) // limit] for i in range(limit)]
    for variant in IMPLEMENTATIONS:
        if variant in ("foreach", "fused") and variant not in info.supported_impls:
            continue
        if variant == "fused" and (item.name, item.dtype) in NO_FUSED_REFERENCE:
            continue
        if variant == "built_before_move" and item.name in STATE_AT_CONSTRUCTION:
            continue
        for index, configuration in configurations:
            yield Case(
                variant=variant,
                index=index,
                run=functools.partial(_run, info, configuration, dtype, variant),
                describe=functools.partial(str, f"{configuration.desc} {configuration.kwargs}"),
            )


def _run(info: Any, configuration: Any, dtype: torch.dtype, variant: str, mover: Mover) -> object:
    generator = torch.Generator().manual_seed(11)
    shapes = ((6, 5), (4, 6)) if info.optim_cls.__name__ == "Muon" else ((6, 5), (6,), (3, 6), ())
    sources = [torch.randn(s, generator=generator, dtype=dtype) for s in shapes]
    kwargs = copy.deepcopy(configuration.kwargs)
    if variant in ("foreach", "fused"):
        kwargs[variant] = True
    elif "foreach" in info.supported_impls:  # the default differs: for-loop on the CPU, foreach on accelerators
        kwargs["foreach"] = False
    kwargs = mover.move(kwargs)
    if variant == "built_before_move":
        module = torch.nn.ParameterList([torch.nn.Parameter(s.clone()) for s in sources])
        optimizer = info.optim_cls(module.parameters(), **kwargs)
        module.to(mover.device)
        parameters = list(module.parameters())
    else:
        parameters = [torch.nn.Parameter(mover.move(s.clone())) for s in sources]
        optimizer = info.optim_cls(parameters, **kwargs)
    steps = []
    for _step in range(STEPS):
        for parameter in parameters:
            gradient = torch.randn(parameter.shape, generator=generator, dtype=dtype)
            parameter.grad = mover.move(gradient.to_sparse() if info.only_supports_sparse_grads else gradient)
        if info.step_requires_closure:
            optimizer.step(functools.partial(_closure, parameters))
        else:
            optimizer.step()
        steps.append([p.detach().clone() for p in parameters])
    state = optimizer.state_dict()["state"]
    return [steps, {k: _state(v) for k, v in state.items()}]


def _closure(parameters: list[torch.nn.Parameter]) -> torch.Tensor:
    for parameter in parameters:
        parameter.grad = 2 * parameter.detach()
    return torch.stack([(p.detach() ** 2).sum() for p in parameters]).sum()


def _state(values: object) -> object:
    """Optimizer state without the counters that PyTorch keeps on the CPU unless `capturable`."""
    if isinstance(values, dict):
        return {k: _state(v) for k, v in values.items() if k not in HOST_STATE}
    return values
