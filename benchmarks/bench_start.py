"""What the device adds to `import torch`: a fresh interpreter with and without it, in turns.

python benchmarks/bench_start.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.measure import Figure, fresh_python, report

BAR_SECONDS = 0.3
ROUNDS = 9
CODE = """
import time
start = time.perf_counter()
import torch
if {load} and not hasattr(torch, "neuron"):
    import trnsim
    trnsim._autoload()
took = time.perf_counter() - start
if {use}:
    (torch.ones(2, device="neuron") + 1).cpu()
import resource
print(took, time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def main() -> int:
    def once(device: bool) -> list[float]:
        code = CODE.format(load=device, use=device)
        return [float(word) for word in fresh_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD=str(int(device))).split()]

    once(True), once(False)  # compiled bytecode and files in memory
    runs = [(once(True), once(False)) for _ in range(ROUNDS)]
    device, plain = ([min(run[side][part] for run in runs) for part in range(3)] for side in (0, 1))
    detail = f"with the device {device[0]:.3f} s, torch alone {plain[0]:.3f} s"
    first = f"import and a first operation {device[1]:.3f} s, torch alone {plain[1]:.3f} s"
    memory = f"{device[2] / 1024:.0f} MiB, torch alone {plain[2] / 1024:.0f} MiB"
    return report(
        "start",
        [
            Figure(name="import torch", value=device[0] - plain[0], bar=BAR_SECONDS, unit="s", detail=detail),
            Figure(name="until a first result", value=device[1] - plain[1], bar=None, unit="s", detail=first),
            Figure(name="resident memory", value=device[2] / plain[2], bar=None, detail=memory),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
