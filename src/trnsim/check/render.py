"""The summary of a check on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from trnsim.check.format import bytes_text, count_text, percent_text, time_text
from trnsim.check.report import Cast, Fallback, Report, Site, Sync

__all__ = ["render"]

_ROWS = 10  # of each table; the JSON has them all


def _site(site: Site) -> str:
    """`train.py:12 (encoder.layers.0)`; the path from the installed packages' folder on, or from the current folder."""
    file = Path(site.file)
    if "site-packages" in file.parts:
        file = Path(*file.parts[file.parts.index("site-packages") + 1 :])
    elif file.is_absolute() and file.is_relative_to(Path.cwd()):
        file = file.relative_to(Path.cwd())
    place = f"{file}:{site.line}" if site.line else site.file or "unknown"
    return f"{place} ({site.module})" if site.module else place


def _table(
    title: str, columns: tuple[tuple[str, bool], ...], rows: Sequence[tuple[str, ...]], left: int
) -> RenderableType:
    """A table; a column's flag says that it holds numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, expand=False)
    for name, numeric in columns:
        table.add_column(name, justify="right" if numeric else "left", overflow="fold", no_wrap=numeric)
    for row in rows:
        table.add_row(*row)
    return Group(table, Text(f"… and {left} more, all in the JSON", style="dim")) if left > 0 else table


def _fallbacks(entries: tuple[Fallback, ...]) -> RenderableType:
    columns = (("op", False), ("reason", False), ("where", False), ("count", True), ("cost", True), ("remedy", False))
    rows = [
        (entry.op, entry.reason, _site(entry.site), count_text(entry.count), time_text(entry.cost_ns), entry.remedy)
        for entry in entries[:_ROWS]
    ]
    return _table("Fallbacks to the CPU", columns, rows, len(entries) - _ROWS)


def _syncs(entries: tuple[Sync, ...]) -> RenderableType:
    columns = (("wait", False), ("where", False), ("count", True), ("stalled", True), ("remedy", False))
    rows = [
        (entry.kind, _site(entry.site), count_text(entry.count), time_text(entry.wait_ns), entry.remedy)
        for entry in entries[:_ROWS]
    ]
    return _table("Waits for the device", columns, rows, len(entries) - _ROWS)


def _casts(entries: tuple[Cast, ...]) -> RenderableType:
    columns = (("cast", False), ("where", False), ("count", True), ("bytes", True), ("remedy", False))
    rows = [
        (entry.dtypes, _site(entry.site), count_text(entry.count), bytes_text(entry.bytes), entry.remedy)
        for entry in entries[:_ROWS]
    ]
    return _table("64-bit values", columns, rows, len(entries) - _ROWS)


def _outcome(report: Report) -> Text:
    script = report.script
    if script.status == "ok":
        return Text(f"finished in {script.wall_s:.1f} s", style="green")
    if script.status == "interrupted":
        return Text(f"interrupted after {script.wall_s:.1f} s; this is what happened until then", style="yellow")
    failure = script.failure
    if failure and "CUDA" in failure.message and not script.from_cuda:
        return Text("failed: the script asks for CUDA; check it with --from-cuda", style="red")
    reason = f"{failure.type} at {failure.file}:{failure.line}" if failure else f"exit code {script.exit_code}"
    return Text(f"failed after {script.wall_s:.1f} s ({reason}); this is what happened until then", style="red")


def _summary(report: Report) -> RenderableType:
    ops, memory, predicted, compiles = report.ops, report.memory, report.predicted, report.compiles
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("script", " ".join((report.script.path, *report.script.arguments)))
    table.add_row("", _outcome(report))
    table.add_row("machine", f"{report.instance}, {report.chip}, LNC {report.lnc} (simulated)")
    table.add_row(
        "on the device",
        f"{percent_text(ops.native_share)} of {count_text(ops.count)} ops, "
        f"{percent_text(ops.native_time_share)} of the predicted time of ops"
        if ops.count
        else "nothing: no op ran on neuron. Say device='neuron' in the script, or add --from-cuda if it says cuda",
    )
    if predicted.step_source == "optimizer.step":
        rest = f", then {time_text(predicted.step_ns)} each (median)" if predicted.steps > 1 else ""
        step = f"{count_text(predicted.steps)} steps: the first {time_text(predicted.first_step_ns)}{rest}"
    else:
        step = f"{time_text(predicted.step_ns)} for the whole run (no optimizer stepped)"
    busy = f"; device busy {time_text(predicted.device_busy_ns)} of {time_text(predicted.total_ns)}"
    table.add_row("predicted", step + busy)
    table.add_row(
        "memory",
        f"peak {bytes_text(memory.peak_allocated_bytes)} allocated, {bytes_text(memory.peak_reserved_bytes)} reserved, "
        f"of {bytes_text(memory.capacity_bytes)} on {memory.device}",
    )
    table.add_row(
        "eager compiles",
        f"{count_text(compiles.compiled)} compiled (predicted {time_text(compiles.compile_ns)}), "
        f"{count_text(compiles.hits)} from the cache",
    )
    return table


def render(report: Report, console: Console) -> None:
    """Print the summary: the totals, then each kind of finding that occurred."""
    console.print()
    console.print(Text("trnsim check", style="bold"))
    console.print(_summary(report))
    tables = (
        _fallbacks(report.fallbacks) if report.fallbacks else None,
        _syncs(report.syncs) if report.syncs else None,
        _casts(report.casts) if report.casts else None,
    )
    for table in tables:
        if table is not None:
            console.print()
            console.print(table)
    for assumption in report.predicted.assumptions:
        console.print(Text(f"assumed: {assumption}", style="dim"))
