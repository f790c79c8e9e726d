"""What `trnsim check` found: plain data, with the JSON form other tools read.

The JSON is the `asdict` of `Report`: every field below is a key. Within one `SCHEMA_VERSION` keys are added, never removed,
renamed or given another meaning. Times are nanoseconds of the simulated clock unless a name says otherwise; `wall_s` is
seconds of the machine the check ran on.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

SCHEMA_VERSION = 1

Status = Literal["ok", "error", "interrupted"]
StepSource = Literal["optimizer.step", "whole run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where in the user's program. `line` is 0 where there is no Python line: then `file` names an autograd node."""

    file: str
    line: int
    module: str  # "encoder.layers.0.attn"; empty outside modules


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """All executions of one operator."""

    op: str
    count: int
    native: int
    fallback: int
    engine: str  # that most of its time goes to: trnsim.perf.cost.OpCost.engine
    device_ns: int  # on the device
    host_ns: int  # dispatch, and all of a fallback
    bytes: int
    flops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ops:
    """Totals over all operators, and each one, the most expensive first."""

    count: int
    native: int
    fallback: int
    native_share: float  # of executions, 0 to 1; 1 when nothing ran
    native_time_share: float  # device time over device time plus the cost of fallbacks, 0 to 1
    by_op: tuple[Op, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """One operator that ran on the CPU at one line, for one reason."""

    op: str
    reason: str  # trnsim.eager.capability.Reason
    site: Site
    count: int
    bytes: int  # copied out and back
    cost_ns: int  # synchronise, copy out, compute, copy back
    note: str  # why, in words
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """One line where the program waited for the device."""

    kind: str  # "item", "copy to host", "synchronize", "stream.synchronize", "event.synchronize"
    site: Site
    count: int
    wait_ns: int
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """One line that made the device handle 64-bit values, which it computes with 32."""

    dtypes: str  # "int64 to int32"
    site: Site
    count: int
    bytes: int
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiles:
    """Eager executables: one per (op, shapes, dtypes, static arguments), kept on disk between runs."""

    compiled: int
    hits: int
    compile_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The fullest device."""

    device: str
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    capacity_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Time on the simulated machine. A step ends where the first optimizer steps; without one the run is the step."""

    total_ns: int
    device_busy_ns: int
    steps: int
    step_source: StepSource
    first_step_ns: int  # from the start of the script, so with its set-up
    step_ns: int  # median of the others
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The exception that ended the script."""

    type: str
    message: str
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What was run and how it ended."""

    path: str  # a file, or a module's name
    arguments: tuple[str, ...]
    from_cuda: bool
    status: Status
    exit_code: int  # as Python would have given it
    failure: Failure | None
    wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine and the versions of this run."""

    trnsim: str
    torch: str
    python: str
    platform: str
    cpu_count: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One checked run."""

    schema_version: int
    chip: str
    instance: str
    lnc: int
    script: Script
    ops: Ops
    fallbacks: tuple[Fallback, ...]  # the most expensive first
    syncs: tuple[Sync, ...]
    casts: tuple[Cast, ...]
    compiles: Compiles
    memory: Memory
    predicted: Predicted
    host: Host

    def to_json(self) -> str:
        """The JSON text, with a newline at its end."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    def write(self, path: Path) -> None:
        """Write the JSON, whole or not at all."""
        partial = path.with_name(f".{path.name}.part")
        partial.write_text(self.to_json(), encoding="utf-8")
        partial.replace(path)
