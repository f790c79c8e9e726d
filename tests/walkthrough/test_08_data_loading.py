"""8. Feeding the device: pinned memory, DataLoader workers, saving and loading."""

import torch
from torch.utils.data import DataLoader, TensorDataset

import trnsim


def test_pinned_batches_are_copied_while_the_device_works():
    loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=4, pin_memory=True)
    total = torch.zeros((), device="neuron")
    for (batch,) in loader:
        total += batch.to("neuron", non_blocking=True).sum()
    assert total.item() == 28


def test_pinning_saves_time():
    def host_ms(x: torch.Tensor) -> float:
        torch.neuron.synchronize()
        before = trnsim.clock().host_ns
        x.to("neuron", non_blocking=True)
        return (trnsim.clock().host_ns - before) / 1e6

    x = torch.ones(4_000_000)
    assert host_ms(x.pin_memory()) < host_ms(x) / 4


def test_workers_prepare_on_the_cpu():
    """Workers are forked; they may not touch the device (spawn may), and need not."""
    torch.ones(1, device="neuron")
    loader = DataLoader(TensorDataset(torch.arange(6.0)), batch_size=3, num_workers=2)
    assert [batch.to("neuron").sum().item() for (batch,) in loader] == [3, 12]


def test_checkpoints_come_back_on_their_device(tmp_path):
    model = torch.nn.Linear(3, 3).to("neuron:1")
    torch.save(model.state_dict(), tmp_path / "model.pt")
    assert torch.load(tmp_path / "model.pt")["weight"].device == torch.device("neuron:1")
    assert torch.load(tmp_path / "model.pt", map_location="cpu")["weight"].device.type == "cpu"
