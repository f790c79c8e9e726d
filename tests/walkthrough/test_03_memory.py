"""3. Memory: each logical core has its own, and it can run out."""

import pytest
import torch

GIB = 2**30


def test_statistics():
    before = torch.neuron.memory_allocated()
    x = torch.ones(1024, 1024, device="neuron")
    assert torch.neuron.memory_allocated() - before == 4 * 2**20
    assert torch.neuron.memory_reserved() >= torch.neuron.memory_allocated()
    del x
    assert torch.neuron.memory_allocated() == before


def test_peak_of_a_piece_of_code():
    torch.neuron.reset_peak_memory_stats()
    base = torch.neuron.memory_allocated()
    x = torch.ones(1024, 1024, device="neuron")
    y = (x + 1) * 2  # x, x + 1 and y at once
    assert torch.neuron.max_memory_allocated() - base == pytest.approx(12 * 2**20, abs=1024)
    del x, y


def test_capacity_is_the_chips_not_the_laptops():
    """24 GiB a device; pages of the host are taken only when touched."""
    torch.neuron.empty_cache()
    x = torch.empty(20 * GIB, dtype=torch.uint8, device="neuron")
    with pytest.raises(torch.OutOfMemoryError, match=r"requested 5\.00 GiB, free 4\.00 GiB of 24\.00 GiB") as info:
        torch.empty(5 * GIB, dtype=torch.uint8, device="neuron")
    assert "test_03_memory.py" in str(info.value)  # who holds the memory
    del x
    torch.neuron.empty_cache()
    assert torch.ones(2, device="neuron").sum().item() == 2  # and work goes on


def test_snapshot_for_memory_viz(tmp_path):
    """Drop the file on pytorch.org/memory_viz."""
    x = torch.ones(1000, device="neuron")
    torch.neuron.memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
    assert (tmp_path / "snapshot.pickle").stat().st_size > 0
    del x
