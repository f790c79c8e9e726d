"""Types of the ledger. Times are simulated nanoseconds, sizes are bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EventKind = Literal["fallback", "sync", "transfer", "cast64", "compile", "cache_hit", "overflow64"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One thing that happened.

    ``site`` is "file.py:12", or a backward node's name where no Python line issued the work. ``detail``: a fallback's
    reason; "item", "copy to host", "synchronize" for a sync; "h2d", "d2h", "d2d" for a transfer; "Long to Int" for a
    cast; the value for an int64 that does not fit the int32 the device computes with ("overflow64").
    """

    kind: EventKind
    op: str
    site: str
    module: str
    detail: str
    bytes: int
    start_ns: int
    duration_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OpStat:
    """All runs of one operator. ``device_ns`` is its time on the device's engines; ``host_ns`` its dispatch."""

    op: str
    count: int
    native: int
    fallback: int
    engine: str
    device_ns: int
    host_ns: int
    bytes: int
    flops: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FallbackStat:
    """All runs of one operator that went to the CPU from one line. ``bytes`` read there; ``cost_ns`` the predicted cost."""

    op: str
    reason: str
    site: str
    module: str
    count: int
    bytes: int
    cost_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryStat:
    """Memory of one device: peak in the session, now, and capacity."""

    device: int
    peak_allocated: int
    peak_reserved: int
    allocated: int
    capacity: int
    holders: tuple[tuple[str, int, int], ...]  # (site, bytes, blocks) that hold most of it now
