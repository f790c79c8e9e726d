"""What the ledger costs an operation: counters that are always on, and events while nobody listens or somebody does.

python benchmarks/bench_ledger.py

`.item()` and copies to the host are the operations that make events; counting an operation is the clock's work as well.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.measure import Figure, device_ready, fresh_python, in_turns, readable, report, typical

BAR_NS = 100.0
COUNT = """
from benchmarks import bench_ledger
print(bench_ledger.seconds_of({what!r}))
"""


def seconds_of(what: str) -> float:
    """Seconds of one call in this process, whose environment says whether the clock runs."""
    device_ready()
    import torch

    x = torch.ones(4, device="neuron")
    calls = {"add_": lambda: x.add_(1.0), "item": lambda: x[0].item(), "to the host": lambda: x.cpu()}
    return typical(in_turns({what: calls[what]}, rounds=201, seconds=0.001, warmup=100)[what])


def main() -> int:
    figures = []
    for what in ("add_", "item", "to the host"):
        runs = [
            [float(fresh_python(COUNT.format(what=what), TRNSIM_CLOCK=clock)) for clock in ("0", "1")] for _ in range(5)
        ]
        off, on = (min(run[side] for run in runs) for side in (0, 1))
        detail = f"clock and counters on {readable(on)}, off {readable(off)}; nobody listens"
        figures.append(Figure(name=what, value=(on - off) * 1e9, bar=BAR_NS, unit="ns", detail=detail))
    device_ready()
    import torch

    from trnsim import _C

    x = torch.ones(4, device="neuron")

    def switched(on: bool) -> None:
        _C.set_recording(on)

    def listened() -> None:
        switched(True)
        for _ in range(100):
            x.cpu()
        switched(False)
        _C.clear_events()

    def unheard() -> None:
        for _ in range(100):
            x.cpu()

    times = in_turns({"listened": listened, "unheard": unheard}, rounds=101, seconds=0.001)
    extra = (typical(times["listened"]) - typical(times["unheard"])) / 200 * 1e9  # two events each: transfer and sync
    figures.append(
        Figure(name="one event, when somebody listens", value=extra, bar=None, unit="ns", detail="with its call site")
    )
    return report("ledger", figures)


if __name__ == "__main__":
    sys.exit(main())
