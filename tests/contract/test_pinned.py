"""Pinned host memory and DataLoader."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

import trnsim


def test_pin_memory():
    x = torch.arange(10.0)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned() and pinned.device.type == "cpu" and torch.equal(pinned, x)
    assert pinned.pin_memory() is pinned


def test_factories_and_views():
    x = torch.empty(4, 4, pin_memory=True)
    assert x.is_pinned() and x[2:, 1].is_pinned() and not x.clone().is_pinned()
    assert torch.zeros(3, pin_memory=True).tolist() == [0, 0, 0]
    assert torch.empty(0, pin_memory=True).numel() == 0


def test_pinned_memory_is_given_back():
    x = torch.empty(1000, pin_memory=True)
    address = x.data_ptr()
    del x
    y = torch.empty(10)
    assert not y.is_pinned() or y.data_ptr() != address


def test_device_tensors_cannot_be_pinned():
    with pytest.raises(RuntimeError, match="pin"):
        torch.ones(2, device="neuron").pin_memory()


def test_non_blocking_both_ways():
    x = torch.arange(1000.0).pin_memory()
    y = x.to("neuron", non_blocking=True)
    back = torch.empty(1000, pin_memory=True)
    back.copy_(y, non_blocking=True)
    torch.neuron.synchronize()
    assert torch.equal(back, x)


def test_host_statistics():
    stats = torch.neuron.memory_stats()
    assert isinstance(stats, dict)
    host = torch._C._host_memoryStats() if hasattr(torch._C, "_host_memoryStats") else None
    assert host is None or isinstance(host, dict)


class Squares(Dataset):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3,), float(index)), index * index


@pytest.mark.parametrize("workers", [0, 2])
def test_loader_with_pinned_batches(workers: int):
    loader = DataLoader(Squares(), batch_size=4, num_workers=workers, pin_memory=True)
    total = 0.0
    for x, y in loader:
        assert x.is_pinned() and y.is_pinned()
        total += (x.to("neuron", non_blocking=True).sum() + y.to("neuron", non_blocking=True).sum()).item()
    assert total == 3 * sum(range(12)) + sum(i * i for i in range(12))


def test_loader_workers_after_the_device_was_used():
    """Workers are forked, but touch only the CPU: that must go on working."""
    torch.ones(1, device="neuron")
    batches = list(DataLoader(Squares(), batch_size=6, num_workers=2))
    assert len(batches) == 2


def test_loader_over_device_tensors_in_the_main_process():
    data = TensorDataset(torch.arange(6.0, device="neuron"))
    assert [batch.device.type for (batch,) in DataLoader(data, batch_size=3)] == ["neuron"] * 2


def test_loader_shuffle_with_a_default_device_generator():
    loader = DataLoader(Squares(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(0))
    assert sum(len(x) for x, _ in loader) == 12


class OnDevice(Dataset):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(2).to("neuron")


def test_worker_that_touches_the_device_fails_fast_with_advice(run_python):
    done = run_python(
        """
        from torch.utils.data import DataLoader, Dataset

        class OnDevice(Dataset):
            def __len__(self): return 2
            def __getitem__(self, index): return torch.ones(2).to("neuron")

        torch.ones(1, device="neuron")
        try:
            list(DataLoader(OnDevice(), num_workers=1))
        except RuntimeError as error:
            print(error)
        """,
        timeout=40,
    )
    assert "fork" in done.stdout and "spawn" in done.stdout


def test_pinning_is_cheaper_in_simulated_time():
    def host_ns(x: torch.Tensor) -> int:
        torch.neuron.synchronize()
        before = trnsim.clock().host_ns
        x.to("neuron", non_blocking=True)
        return trnsim.clock().host_ns - before

    x = torch.ones(1 << 20)
    assert host_ns(x.pin_memory()) < host_ns(x)
