"""TorchNeuron's own tracking calls, over the ledger's counters."""

from __future__ import annotations

from trnsim import _C

_cleared: dict[tuple[str, bool], int] = {}


def _counts() -> dict[tuple[str, bool], int]:
    counts: dict[tuple[str, bool], int] = {}
    for op, native, _reason, _engine, count, *_ in _C.op_entries():
        counts[op, native] = counts.get((op, native), 0) + count
    return counts


def _since_clear(native: bool) -> list[str]:
    return sorted(
        op
        for (op, is_native), count in _counts().items()
        if is_native == native and count > _cleared.get((op, native), 0)
    )


def get_fallback_ops() -> list[str]:
    """Names of operators that ran on the CPU since start or ``clear_op_tracking``: ``["aten::sort"]``."""
    return _since_clear(native=False)


def get_executed_ops() -> list[str]:
    """Names of operators that ran natively since start or ``clear_op_tracking``: ``["aten::add.Tensor"]``."""
    return _since_clear(native=True)


def clear_op_tracking() -> None:
    """Forgets what ran so far, for the two functions above."""
    _cleared.clear()
    _cleared.update(_counts())
