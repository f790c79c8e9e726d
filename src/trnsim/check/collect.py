"""From a ledger session to a report: sums by call site, and the order in which a reader wants them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from trnsim.check import remedies
from trnsim.check.report import (
    SCHEMA_VERSION,
    Cast,
    Compiles,
    Fallback,
    Host,
    Memory,
    Op,
    Ops,
    Predicted,
    Report,
    Script,
    Site,
    Sync,
)
from trnsim.check.steps import StepTimes
from trnsim.eager.neff_cache import CompileRecord
from trnsim.ledger import Event, Session
from trnsim.runtime import machine

__all__ = ["report"]

ASSUMPTIONS = (
    "times come from a first model: the slowest engine of each op, with measured floors for dispatch and launch",
    "the host issues ops and waits for them; its other work (Python, data loading) takes no predicted time",
    "eager compilations are counted apart and are in no step's time",
)


def _site(text: str, module: str) -> Site:
    """`/path/train.py:12` → file and line; an autograd node's name has no line."""
    file, colon, line = text.rpartition(":")
    if colon and line.isdecimal():
        return Site(file=file, line=int(line), module=module)
    return Site(file=text, line=0, module=module)


def _share(part: int, whole: int) -> float:
    """A share of 0 to 1; of nothing, all of it."""
    return part / whole if whole else 1.0


def _ops(session: Session) -> Ops:
    stats = session.ops()
    native = sum(stat.native for stat in stats)
    fallback = sum(stat.fallback for stat in stats)
    on_device_ns = sum(stat.device_ns for stat in stats)
    fallback_ns = sum(stat.cost_ns for stat in session.fallbacks())
    return Ops(
        count=native + fallback,
        native=native,
        fallback=fallback,
        native_share=_share(native, native + fallback),
        native_time_share=_share(on_device_ns, on_device_ns + fallback_ns),
        by_op=tuple(
            Op(
                op=stat.op,
                count=stat.count,
                native=stat.native,
                fallback=stat.fallback,
                engine=stat.engine,
                device_ns=stat.device_ns,
                host_ns=stat.host_ns,
                bytes=stat.bytes,
                flops=stat.flops,
            )
            for stat in stats
        ),
    )


def _fallbacks(session: Session) -> tuple[Fallback, ...]:
    found = []
    for stat in session.fallbacks():
        note, remedy = remedies.for_fallback(stat.op, stat.reason)
        found.append(
            Fallback(
                op=stat.op,
                reason=stat.reason,
                site=_site(stat.site, stat.module),
                count=stat.count,
                bytes=stat.bytes,
                cost_ns=stat.cost_ns,
                note=note,
                remedy=remedy,
            )
        )
    return tuple(found)


def _by_site(events: Iterable[Event]) -> dict[tuple[str, str, str], list[Event]]:
    """Events of the same detail at the same place."""
    groups: dict[tuple[str, str, str], list[Event]] = defaultdict(list)
    for event in events:
        groups[event.detail, event.site, event.module].append(event)
    return groups


def _syncs(session: Session) -> tuple[Sync, ...]:
    found = [
        Sync(
            kind=kind,
            site=_site(site, module),
            count=len(events),
            wait_ns=sum(event.duration_ns for event in events),
            remedy=remedies.for_sync(kind),
        )
        for (kind, site, module), events in _by_site(session.syncs()).items()
    ]
    return tuple(sorted(found, key=lambda entry: -entry.wait_ns))


def _casts(session: Session) -> tuple[Cast, ...]:
    found = [
        Cast(
            dtypes=dtypes,
            site=_site(site, module),
            count=len(events),
            bytes=sum(event.bytes for event in events),
            remedy=remedies.for_cast(dtypes),
        )
        for (dtypes, site, module), events in _by_site(session.casts()).items()
    ]
    return tuple(sorted(found, key=lambda entry: -entry.bytes))


def _compiles(records: Sequence[CompileRecord]) -> Compiles:
    compiled = [record for record in records if record.outcome == "compiled"]
    return Compiles(
        compiled=len(compiled),
        hits=len(records) - len(compiled),
        compile_ns=round(1e9 * sum(record.predicted_s for record in compiled)),
    )


def _memory(session: Session) -> Memory:
    """Of the device with the highest peak; of device 0 when none was used."""
    stats = session.memory()
    if not stats:
        capacity = machine.chip.memory_per_device(machine.options.lnc)
        return Memory(device="neuron:0", peak_allocated_bytes=0, peak_reserved_bytes=0, capacity_bytes=capacity)
    fullest = max(stats, key=lambda stat: stat.peak_reserved)
    return Memory(
        device=f"neuron:{fullest.device}",
        peak_allocated_bytes=fullest.peak_allocated,
        peak_reserved_bytes=fullest.peak_reserved,
        capacity_bytes=fullest.capacity,
    )


def report(
    session: Session, steps: StepTimes, compiles: Sequence[CompileRecord], *, script: Script, host: Host
) -> Report:
    """The report of a session that has ended, its steps and its eager compilations."""
    ops = _ops(session)
    return Report(
        schema_version=SCHEMA_VERSION,
        chip=machine.chip.name,
        instance=machine.instance.name,
        lnc=machine.options.lnc,
        script=script,
        ops=ops,
        fallbacks=_fallbacks(session),
        syncs=_syncs(session),
        casts=_casts(session),
        compiles=_compiles(compiles),
        memory=_memory(session),
        predicted=Predicted(
            total_ns=session.elapsed_ns(),
            device_busy_ns=sum(op.device_ns for op in ops.by_op),
            steps=steps.count,
            step_source=steps.source,
            first_step_ns=steps.first_ns,
            step_ns=steps.median_ns,
            assumptions=ASSUMPTIONS,
        ),
        host=host,
    )
