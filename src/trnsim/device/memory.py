"""Memory of the simulated device: statistics, snapshots, cache control. Units are bytes."""

from __future__ import annotations

import os
import pickle
from typing import Any

import torch

from trnsim import _C
from trnsim.device.context import index_of


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Statistics of the caching allocator, flat, with PyTorch's names (``allocated_bytes.all.peak``, ...)."""
    return dict(torch.accelerator.memory.memory_stats(index_of(device, optional=True)))


def memory_allocated(device: Any = None) -> int:
    """Bytes held by live tensors, rounded to their size class."""
    return torch.accelerator.memory.memory_allocated(index_of(device, optional=True))


def max_memory_allocated(device: Any = None) -> int:
    """Peak of ``memory_allocated`` since start or ``reset_peak_memory_stats``."""
    return torch.accelerator.memory.max_memory_allocated(index_of(device, optional=True))


def memory_reserved(device: Any = None) -> int:
    """Bytes of segments taken from the device, free parts included."""
    return torch.accelerator.memory.memory_reserved(index_of(device, optional=True))


def max_memory_reserved(device: Any = None) -> int:
    """Peak of ``memory_reserved``."""
    return torch.accelerator.memory.max_memory_reserved(index_of(device, optional=True))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Starts the peaks anew from the current values."""
    torch.accelerator.memory.reset_peak_memory_stats(index_of(device, optional=True))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Sets the sums of all allocations and frees to zero."""
    torch.accelerator.memory.reset_accumulated_memory_stats(index_of(device, optional=True))


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes of the device; free is what no segment has reserved."""
    return torch.accelerator.memory.get_memory_info(index_of(device, optional=True))


def host_memory_stats() -> dict[str, int]:
    """Bytes of pinned host memory: ``allocated_bytes.current``, ``.peak``, ``.allocated`` and ``.freed`` in all."""
    return _C.host_memory_stats()


def empty_cache() -> None:
    """Gives unused segments back."""
    torch.accelerator.memory.empty_cache()


def memory_snapshot(device: Any = None) -> dict[str, Any]:
    """Segments and blocks, as ``torch.cuda.memory._snapshot`` gives them: PyTorch's memory_viz reads it."""
    devices = range(_C.device_count()) if device is None else [index_of(device)]
    segments = [segment for index in devices for segment in _C.memory_segments(index)]
    return {
        "segments": segments,
        "device_traces": [[] for _ in range(_C.device_count())],
        "allocator_settings": {"size_classes_per_power_of_two": 16, "minimum_block": 256},
    }


_snapshot = memory_snapshot


def _dump_snapshot(filename: str | os.PathLike[str] = "dump_snapshot.pickle") -> None:
    """Writes the snapshot as the pickle that pytorch.org/memory_viz and ``torch.cuda._memory_viz`` open."""
    with open(filename, "wb") as file:
        pickle.dump(memory_snapshot(), file)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A readable table of the statistics."""
    index = index_of(device, optional=True)
    stats = memory_stats(index)
    _, total = mem_get_info(index)
    rows = [("allocated", "allocated_bytes"), ("requested", "requested_bytes"), ("reserved", "reserved_bytes")]
    if not abbreviated:
        rows += [("active", "active_bytes"), ("inactive split", "inactive_split_bytes")]
    lines = [f"neuron:{index} memory, of {total / 2**30:.2f} GiB", f"{'':16}{'current':>14}{'peak':>14}"]
    for label, key in rows:
        current, peak = (stats.get(f"{key}.all.{kind}", 0) / 2**20 for kind in ("current", "peak"))
        lines.append(f"{label:16}{current:>10.1f} MiB{peak:>10.1f} MiB")
    lines.append(f"out of memory {stats.get('num_ooms', 0)} times, retried {stats.get('num_alloc_retries', 0)} times")
    return "\n".join(lines)
