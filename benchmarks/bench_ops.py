"""Small operations and a small training step: what the device's own layer costs per call.

python benchmarks/bench_ops.py        One process each with the clock off (and so the ledger), and with both on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.measure import Figure, device_ready, fresh_python, in_turns, ratio, readable, report, typical

# name: (bar with the ledger off, bar with clock and ledger on); None: shown only
BARS: dict[str, tuple[float | None, float | None]] = {
    "add of 4 floats": (1.3, 1.5),
    "add_ of 4 floats": (None, None),
    "add of 4 floats, requires grad": (None, None),
    "view": (None, None),
    "linear 64x64": (None, None),
    "mm 64x64": (None, None),
    "softmax 64x64": (None, None),
    "cat of two": (None, None),
    "MLP training step": (1.3, None),
}


def cases(device: str) -> dict[str, Callable[[], object]]:
    """What is timed, on one device."""
    import torch

    a, b = (torch.ones(4, device=device) for _ in range(2))
    leaf = torch.ones(4, device=device, requires_grad=True)
    square = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)).to(device)
    bias = torch.ones(64, device=device)
    torch.manual_seed(0)
    layers = [
        torch.nn.Linear(64, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 64),
    ]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, target = torch.ones(32, 64, device=device), torch.zeros(32, 64, device=device)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), target).backward()
        optimizer.step()

    return {
        "add of 4 floats": lambda: a + b,
        "add_ of 4 floats": lambda: a.add_(b),
        "add of 4 floats, requires grad": lambda: leaf + b,
        "view": lambda: a.view(2, 2),
        "linear 64x64": lambda: torch.nn.functional.linear(square, square, bias),
        "mm 64x64": lambda: square @ square,
        "softmax 64x64": lambda: square.softmax(-1),
        "cat of two": lambda: torch.cat([a, b]),
        "MLP training step": step,
    }


def run(recorded: bool) -> dict[str, tuple[float, float, float]]:
    """(ratio, neuron seconds, CPU seconds) of each case in this process."""
    import contextlib

    device_ready()
    import torch

    from trnsim import ledger

    neuron, cpu = cases("neuron"), cases("cpu")
    result = {}
    with ledger.record() if recorded else contextlib.nullcontext():
        for name in neuron:
            # A call through a lambda and the loop cost both sides the same 50 ns.
            times = in_turns({"neuron": neuron[name], "cpu": cpu[name]}, rounds=151, seconds=0.001, warmup=30)
            result[name] = (ratio(times, "neuron", "cpu"), typical(times["neuron"]), typical(times["cpu"]))
    assert torch.neuron.memory_allocated() > 0
    return result


def main() -> int:
    code = "from benchmarks import bench_ops; import json; print(json.dumps(bench_ops.run({})))"
    figures = []
    runs = {
        "ledger and clock off": json.loads(fresh_python(code.format(False), TRNSIM_CLOCK="0")),
        "clock on": json.loads(fresh_python(code.format(False))),
        "clock and ledger on": json.loads(fresh_python(code.format(True))),
    }
    for position, (mode, result) in enumerate(runs.items()):
        for name, (value, neuron, cpu) in result.items():
            bar = (BARS[name][0], BARS[name][0], BARS[name][1])[position]
            detail = f"neuron {readable(neuron)}, cpu {readable(cpu)}"
            figures.append(Figure(name=f"{name}, {mode}", value=value, bar=bar, detail=detail))
    return report("ops", figures)


if __name__ == "__main__":
    sys.exit(main())
