"""Progress while a script runs: whole lines on stderr, now and then.

No live display: the script owns the terminal, and a line that redraws itself would tear its output and its own progress bars.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch  # noqa: F401  its libraries first, then the core

from trnsim import _C
from trnsim.check.format import count_text, time_text
from trnsim.check.steps import StepMarks
from trnsim.ledger import Session

__all__ = ["default_interval_s", "show_progress"]


def default_interval_s() -> float:
    """Seconds between lines: often where someone watches, seldom in a log."""
    return 10.0 if sys.stderr.isatty() else 60.0


def _line(session: Session, marks: StepMarks, elapsed_s: float) -> str:
    ops = session.ops()
    total = sum(op.count for op in ops)
    native = sum(op.native for op in ops)
    share = f"{100 * native / total:.1f} % on the device" if total else "none yet"
    steps = f"{marks.count} steps, " if marks.count else ""
    return (
        f"trnsim check: {elapsed_s:.0f} s, {steps}{count_text(total)} ops ({share}), "
        f"{len(session.fallbacks())} fallback sites, {time_text(_C.host_now())} simulated"
    )


@contextmanager
def show_progress(session: Session, marks: StepMarks, *, every_s: float) -> Iterator[None]:
    """Print a line every `every_s` seconds while the context is open; nothing when it is 0."""
    if every_s <= 0:
        yield
        return
    done = threading.Event()
    started = time.perf_counter()

    def watch() -> None:
        while not done.wait(every_s):
            print(_line(session, marks, time.perf_counter() - started), file=sys.stderr, flush=True)

    thread = threading.Thread(target=watch, name="trnsim-check-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
