"""The ledger: what happened on the device, by operator, call site and module.

    with trnsim.ledger.record() as session:
        train_step()
    session.fallbacks()   # what ran on the CPU, where, why, and what it cost

Counts of operators and fallbacks are always kept; events (synchronisations, transfers, casts, compiles) only while a
session records. Sessions nest.
"""

from __future__ import annotations

from trnsim.ledger.checks import assert_no_fallback
from trnsim.ledger.events import Event, EventKind, FallbackStat, MemoryStat, OpStat
from trnsim.ledger.session import Session, record
from trnsim.ledger.tracking import clear_op_tracking, get_executed_ops, get_fallback_ops

__all__ = [
    "Event",
    "EventKind",
    "FallbackStat",
    "MemoryStat",
    "OpStat",
    "Session",
    "assert_no_fallback",
    "clear_op_tracking",
    "get_executed_ops",
    "get_fallback_ops",
    "record",
]
