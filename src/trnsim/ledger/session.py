"""A stretch of the program whose events are kept."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch

from trnsim import _C
from trnsim._clock import settled_ns
from trnsim.ledger.events import Event, EventKind, FallbackStat, MemoryStat, OpStat

_lock = threading.Lock()
_open_sessions = 0
_recorded_before = False


class Session:
    """What happened between ``start`` and ``stop`` (or now, while it records)."""

    def __init__(self) -> None:
        self._first = _C.event_count()
        self._entries = _totals(_C.op_entries())
        self._fallbacks = _fallback_totals()
        self._start_ns = settled_ns()
        self._final: tuple[list[Event], dict[Any, Any], dict[Any, Any], tuple[MemoryStat, ...], int] | None = None

    @property
    def events(self) -> list[Event]:
        """All events so far, oldest first."""
        return self._final[0] if self._final else self._events_now()

    def _events_now(self) -> list[Event]:
        return [Event(**event) for event in _C.events_since(self._first)]

    def stop(self) -> None:
        """Freezes the session's numbers; later ones no longer count."""
        if self._final is None:
            self._final = (
                self._events_now(),
                _totals(_C.op_entries()),
                _fallback_totals(),
                self.memory(),
                self.elapsed_ns(),
            )

    def elapsed_ns(self) -> int:
        """Simulated time from the session's start until everything issued in it, on any device, is done."""
        return self._final[4] if self._final else settled_ns() - self._start_ns

    def ops(self) -> list[OpStat]:
        """One entry per operator, the one with the most device time first."""
        from trnsim.eager.bridge import ENGINES
        from trnsim.runtime import machine

        dispatch = machine.cost.dispatch_ns
        sums: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        engines: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        now = self._final[1] if self._final else _totals(_C.op_entries())
        for (op, native, engine), values in now.items():
            before = self._entries.get((op, native, engine), (0, 0, 0, 0))
            count, duration, nbytes, flops = (new - old for new, old in zip(values, before, strict=True))
            if count == 0:
                continue
            total = sums[op]
            total["count"] += count
            total["native" if native else "fallback"] += count
            total["device_ns"] += duration if native else 0
            total["host_ns"] += count * dispatch if native else duration
            total["bytes"] += nbytes
            total["flops"] += flops
            engines[op][engine] += duration
        stats = [
            OpStat(
                op=op,
                count=total["count"],
                native=total["native"],
                fallback=total["fallback"],
                engine=ENGINES[max(engines[op], key=lambda code, of=op: engines[of][code])],  # type: ignore[misc]
                device_ns=total["device_ns"],
                host_ns=total["host_ns"],
                bytes=total["bytes"],
                flops=total["flops"],
            )
            for op, total in sums.items()
        ]
        return sorted(stats, key=lambda stat: -(stat.device_ns + stat.host_ns))

    def fallbacks(self) -> list[FallbackStat]:
        """One entry per (operator, reason, site, module), the costliest first."""
        stats = []
        for key, (count, nbytes, cost) in (self._final[2] if self._final else _fallback_totals()).items():
            before = self._fallbacks.get(key, (0, 0, 0))
            if count > before[0]:
                op, reason, site, module = key
                stats.append(
                    FallbackStat(
                        op=op,
                        reason=reason,
                        site=site,
                        module=module,
                        count=count - before[0],
                        bytes=nbytes - before[1],
                        cost_ns=cost - before[2],
                    )
                )
        return sorted(stats, key=lambda stat: -stat.cost_ns)

    def _of(self, *kinds: EventKind) -> list[Event]:
        return [event for event in self.events if event.kind in kinds]

    def syncs(self) -> list[Event]:
        """Waits of the host for the device: ``item``, copies to the host, ``synchronize``."""
        return self._of("sync")

    def transfers(self) -> list[Event]:
        """Copies between host and device, or between devices."""
        return self._of("transfer")

    def casts(self) -> list[Event]:
        """Casts from or to a 64-bit dtype, which bounce through the host."""
        return self._of("cast64")

    def overflows(self) -> list[Event]:
        """Copies to the device of int64 values that do not fit int32, in which the device computes."""
        return self._of("overflow64")

    def compiles(self) -> list[Event]:
        """Eager executables: kind "compile" for a new one, "cache_hit" for one found in the persistent cache."""
        return self._of("compile", "cache_hit")

    def memory(self) -> tuple[MemoryStat, ...]:
        """Memory of every device that was used."""
        if self._final:
            return self._final[3]
        stats = []
        for index in range(_C.device_count()):
            values = torch.accelerator.memory.memory_stats(index)
            if values.get("reserved_bytes.all.peak", 0) == 0:
                continue
            stats.append(
                MemoryStat(
                    device=index,
                    peak_allocated=values["allocated_bytes.all.peak"],
                    peak_reserved=values["reserved_bytes.all.peak"],
                    allocated=values["allocated_bytes.all.current"],
                    capacity=torch.accelerator.memory.get_memory_info(index)[1],
                    holders=tuple(_C.memory_holders(index, 5)),
                )
            )
        return tuple(stats)


def _totals(entries: list[tuple[Any, ...]]) -> dict[tuple[str, bool, int], tuple[int, int, int, int]]:
    """(op, native, engine) -> (count, duration ns, bytes, flops), summed over keys."""
    sums: dict[tuple[str, bool, int], tuple[int, int, int, int]] = {}
    for op, native, _reason, engine, count, duration, nbytes, flops in entries:
        old = sums.get((op, native, engine), (0, 0, 0, 0))
        sums[op, native, engine] = (
            old[0] + count,
            old[1] + count * duration,
            old[2] + count * nbytes,
            old[3] + count * flops,
        )
    return sums


def _fallback_totals() -> dict[tuple[str, str, str, str], tuple[int, int, int]]:
    return {
        (op, reason, site, module): (count, nbytes, cost)
        for op, reason, site, module, count, nbytes, cost in _C.fallback_counts()
    }


@contextlib.contextmanager
def record() -> Iterator[Session]:
    """Records events until the block ends; the session stays readable afterwards."""
    global _open_sessions, _recorded_before
    with _lock:
        if _open_sessions == 0:
            _recorded_before = _C.recording()
        _open_sessions += 1
        _C.set_recording(True)
        session = Session()
    try:
        yield session
    finally:
        with _lock:
            session.stop()
            _open_sessions -= 1
            if _open_sessions == 0 and not _recorded_before:
                _C.set_recording(False)
                _C.clear_events()
