"""Copies from and to the host against memcpy of the same bytes between the same kinds of pages.

python benchmarks/bench_copy.py
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.measure import Figure, device_ready, in_turns, ratio, readable, report, typical

BAR = 1.1
SIZES = {"4 KiB": 1 << 12, "256 KiB": 1 << 18, "16 MiB": 1 << 24, "128 MiB": 1 << 27}


def main() -> int:
    device_ready()
    import torch

    memcpy = ctypes.CDLL(None).memcpy
    memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    figures = []
    for label, size in SIZES.items():
        host, other = (torch.ones(size, dtype=torch.uint8) for _ in range(2))
        device = host.to("neuron")
        source, target = host.data_ptr(), other.data_ptr()
        variants = {
            "copy_ to the device": lambda: device.copy_(host),
            "copy_ to the host": lambda: host.copy_(device),
            "CPU copy_": lambda: other.copy_(host),
            "memcpy": lambda: memcpy(target, source, size),
        }
        if size >= 1 << 24:  # a new tensor each time: against a new CPU tensor, whose pages are new too
            variants |= {"to(neuron)": lambda: host.to("neuron"), "clone": lambda: host.clone()}
        times = in_turns(variants, rounds=31, seconds=0.01)
        bases = {"copy_ to the device": "memcpy", "copy_ to the host": "memcpy", "to(neuron)": "clone"}
        for name, base in bases.items():
            if name not in variants:
                continue
            value = ratio(times, name, base)
            # Below 1 MiB the call itself, not the bytes, is what counts: shown against the CPU's own copy_.
            bar = BAR if size >= 1 << 20 else None
            if bar is None:
                base, value = "CPU copy_", ratio(times, name, "CPU copy_")
            rate = size / typical(times[name]) / 1e9
            detail = f"{readable(typical(times[name]))} ({rate:.1f} GB/s), {base} {readable(typical(times[base]))}"
            figures.append(Figure(name=f"{name}, {label}, against {base}", value=value, bar=bar, detail=detail))
    return report("copy", figures)


if __name__ == "__main__":
    sys.exit(main())
