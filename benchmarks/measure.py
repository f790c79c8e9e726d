"""Timing side by side, and the table with the bar of each figure.

Import this before torch: it sets the threads' waiting policy, without which a busy machine measures libgomp's spinning.
The variants of one figure run in turns in one process, so that noise of a shared machine hits them alike.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import gc
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "benchmarks"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured ratio against its bar. `value` passes when it is at most `bar`, or at least it for `more_is_better`."""

    name: str
    value: float
    bar: float | None
    unit: str = "x"
    detail: str = ""
    more_is_better: bool = False

    @property
    def verdict(self) -> str:
        """PASS, FAIL, or nothing where no bar is set."""
        if self.bar is None:
            return ""
        return "PASS" if (self.value >= self.bar if self.more_is_better else self.value <= self.bar) else "FAIL"


def device_ready() -> None:
    """Loads torch and the device, also where the package is not installed."""
    import torch

    if not hasattr(torch, "neuron"):
        sys.path.insert(0, str(ROOT / "src"))
        import trnsim

        trnsim._autoload()
    from trnsim.errors import NeuronFallbackWarning

    warnings.simplefilter("ignore", NeuronFallbackWarning)  # what falls back is no matter here
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def in_turns(
    variants: Mapping[str, Callable[[], object]], *, rounds: int = 15, seconds: float = 0.02, warmup: int = 2
) -> dict[str, list[float]]:
    """Seconds per call of each variant in each round. A round calls each often enough to take about `seconds`.

    The order alternates, so that neither variant always follows the other.
    """
    counts: dict[str, int] = {}
    for name, run in variants.items():
        for _ in range(warmup):
            run()
        start = time.perf_counter()
        run()
        once = max(time.perf_counter() - start, 1e-7)
        counts[name] = max(1, round(seconds / once))
    times: dict[str, list[float]] = {name: [] for name in variants}
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            names = list(variants) if turn % 2 == 0 else list(reversed(variants))
            for name in names:
                run, count = variants[name], counts[name]
                start = time.perf_counter()
                for _ in range(count):
                    run()
                times[name].append((time.perf_counter() - start) / count)
    finally:
        gc.enable()
    return times


def typical(rounds: list[float]) -> float:
    """The time of an undisturbed call: the first quintile, or the minimum of few rounds. Noise only adds time."""
    return sorted(rounds)[len(rounds) // 5 if len(rounds) >= 20 else 0]


def ratio(times: Mapping[str, list[float]], name: str, base: str) -> float:
    """How `name` compares with `base`."""
    return typical(times[name]) / typical(times[base])


def readable(seconds: float) -> str:
    """Seconds in the unit that fits."""
    for limit, factor, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds:.2f} s"


def compared(name: str, times: Mapping[str, list[float]], variant: str, base: str, bar: float | None) -> Figure:
    """The figure of one variant against the baseline."""
    detail = f"{variant} {readable(typical(times[variant]))}, {base} {readable(typical(times[base]))}"
    return Figure(name=name, value=ratio(times, variant, base), bar=bar, detail=detail)


def fresh_python(code: str, **environment: str) -> str:
    """Output of `code` in a new interpreter."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def report(title: str, figures: list[Figure], extra: Mapping[str, Any] | None = None) -> int:
    """Prints the table, writes `build/benchmarks/<title>.json`, returns how many figures fail."""
    width = max(len(figure.name) for figure in figures)
    print(f"\n{title}")
    for figure in figures:
        sign = ">=" if figure.more_is_better else "<="
        bar = "" if figure.bar is None else f"{sign} {figure.bar:g} {figure.unit}"
        print(
            f"  {figure.name:{width}}  {figure.value:8.3f} {figure.unit:3}  {bar:10}  {figure.verdict:4}  {figure.detail}"
        )
    RESULTS.mkdir(parents=True, exist_ok=True)
    rows = [asdict(figure) | {"verdict": figure.verdict} for figure in figures]
    text = json.dumps({"title": title, "figures": rows, **(extra or {})}, indent=1)
    (RESULTS / f"{title}.json").write_text(text + "\n", encoding="utf-8")
    return sum(figure.verdict == "FAIL" for figure in figures)
