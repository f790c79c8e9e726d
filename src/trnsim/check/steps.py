"""Where a training step ends: at each `step()` of the optimizer that stepped first."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from trnsim.check.report import StepSource

__all__ = ["StepMarks", "StepTimes", "watch_steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """Simulated time of the steps, in nanoseconds."""

    count: int
    source: StepSource
    first_ns: int
    median_ns: int  # without the first, which has the set-up in it


class StepMarks:
    """Simulated times at which steps ended."""

    def __init__(self, now: Callable[[], int]) -> None:
        """`now` gives the simulated time, in ns, at which all work issued so far is done."""
        self._now = now
        self._start = now()
        self._marks: list[int] = []
        self._optimizer = 0

    def on_step(self, optimizer: torch.optim.Optimizer, _: Any, __: Any) -> None:
        """Called after every optimizer's step; only the first optimizer's count."""
        self._optimizer = self._optimizer or id(optimizer)
        if id(optimizer) == self._optimizer:
            self._marks.append(self._now())

    @property
    def count(self) -> int:
        """Steps so far."""
        return len(self._marks)

    def times(self) -> StepTimes:
        """The steps' times; without an optimizer the run is one step."""
        if not self._marks:
            whole = self._now() - self._start
            return StepTimes(count=1, source="whole run", first_ns=whole, median_ns=whole)
        ends = [self._start, *self._marks]
        times = [end - begin for begin, end in zip(ends, self._marks, strict=False)]
        median = int(statistics.median(times[1:] or times))
        return StepTimes(count=len(times), source="optimizer.step", first_ns=times[0], median_ns=median)


@contextmanager
def watch_steps(now: Callable[[], int]) -> Iterator[StepMarks]:
    """Mark the end of each training step while the context is open."""
    marks = StepMarks(now)
    handle = register_optimizer_step_post_hook(marks.on_step)
    try:
        yield marks
    finally:
        handle.remove()
