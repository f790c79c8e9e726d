"""Memory snapshots: readable by PyTorch's own memory_viz."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch


@pytest.fixture
def snapshot():
    held = [torch.empty(n, device="neuron") for n in (10, 5000, 2_000_000)]
    yield torch.neuron.memory_snapshot()
    del held


def test_segments_describe_the_blocks(snapshot):
    assert snapshot["segments"]
    for segment in snapshot["segments"]:
        blocks = segment["blocks"]
        assert sum(block["size"] for block in blocks) == segment["total_size"]
        assert segment["allocated_size"] == sum(b["size"] for b in blocks if b["state"] == "active_allocated")
        assert {block["state"] for block in blocks} <= {"active_allocated", "active_pending_free", "inactive"}
        address = segment["address"]
        for block in blocks:
            assert block["address"] == address
            address += block["size"]


def test_snapshot_agrees_with_the_statistics(snapshot):
    mine = [segment for segment in snapshot["segments"] if segment["device"] == 0]
    assert sum(segment["total_size"] for segment in mine) == torch.neuron.memory_reserved(0)
    assert sum(segment["allocated_size"] for segment in mine) == torch.neuron.memory_allocated(0)


@pytest.mark.parametrize("view", ["segsum", "segment_plot", "trace_plot"])
def test_memory_viz_reads_it(snapshot, view: str):
    from torch.cuda import _memory_viz

    text = getattr(_memory_viz, view)(snapshot)
    assert isinstance(text, str) and len(text) > 50


@pytest.mark.parametrize("view", ["memory", "segments"])
def test_memory_viz_flame_graphs_read_it(snapshot, view: str):
    from torch.cuda import _memory_viz

    lines = getattr(_memory_viz, view)(
        snapshot, format_flamegraph=lambda lines: lines
    )  # the default needs a Perl script
    assert "active_allocated" in lines


def test_dumped_file_is_a_pickle_of_the_snapshot(tmp_path: Path):
    file = tmp_path / "snapshot.pickle"
    torch.neuron.memory._dump_snapshot(str(file))
    loaded = pickle.loads(file.read_bytes())
    assert loaded.keys() >= {"segments", "device_traces"}


def test_accelerator_snapshot_is_ours():
    x = torch.empty(1000, device="neuron")
    snapshot = torch.accelerator.memory._snapshot()
    assert any(segment["allocated_size"] for segment in snapshot["segments"])
    del x
