"""One mistake: what the program does, what it must raise, and what the message must say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """`run` gets the device's name. With `as_cpu` the CPU must raise the same type for the same program."""

    name: str
    run: Callable[[str], Any]
    error: type[BaseException]
    says: tuple[str, ...] = field(default=())
    as_cpu: bool = True


def parametrize(mistakes: list[Mistake]) -> pytest.MarkDecorator:
    """Gives a test its argument `mistake`, one run for each."""
    names = [mistake.name for mistake in mistakes]
    assert len(set(names)) == len(names), "two mistakes of one name"
    return pytest.mark.parametrize("mistake", mistakes, ids=names)


def check(mistake: Mistake) -> None:
    """The device raises what it must; where the CPU can make the mistake, it raises the same type."""
    with pytest.raises(mistake.error) as raised:
        mistake.run("neuron")
    text = str(raised.value)
    for part in mistake.says:
        assert part.lower() in text.lower(), f"the message does not say {part!r}: {text}"
    if mistake.as_cpu:
        with pytest.raises(mistake.error) as expected:
            mistake.run("cpu")
        assert type(raised.value) is type(expected.value), (raised.value, expected.value)


def ones(device: str, *sizes: int, **options: Any) -> torch.Tensor:
    """A tensor of ones; short, since the cases are."""
    return torch.ones(*sizes, device=device, **options)


def integers(device: str, *values: int) -> torch.Tensor:
    """A 1-d int64 tensor."""
    return torch.tensor(values, device=device)
