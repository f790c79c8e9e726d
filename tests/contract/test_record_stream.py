"""record_stream: memory stays taken until the recorded stream has passed, in simulated time."""

from __future__ import annotations

import torch


def busy(stream: torch.Stream) -> None:
    """Puts some milliseconds of simulated work on a stream: gathers are slow on the device, cheap here."""
    with torch.neuron.stream(stream):
        index = torch.zeros(1 << 20, dtype=torch.int64, device="neuron")
        torch.ones(1 << 20, device="neuron").gather(0, index)


def make(value: int = 0) -> torch.Tensor:
    return torch.empty(3 << 20, dtype=torch.uint8, device="neuron")


def test_without_record_the_memory_is_reused_at_once():
    x = make()
    address = x.data_ptr()
    del x
    assert make().data_ptr() == address


def test_memory_waits_for_the_recorded_stream():
    torch.neuron.synchronize()
    side = torch.neuron.Stream()
    x = make()
    address = x.data_ptr()
    busy(side)
    x.record_stream(side)
    allocated = torch.neuron.memory_allocated()
    del x
    assert torch.neuron.memory_allocated() == allocated - (3 << 20)
    assert not side.query()
    y = make()
    assert y.data_ptr() != address
    stats = torch.neuron.memory_stats()
    assert stats["active_bytes.all.current"] > stats["allocated_bytes.all.current"]
    torch.neuron.synchronize()
    z = make()
    assert z.data_ptr() == address


def test_record_stream_of_a_view_and_of_a_freed_stream_object():
    x = make()
    x[10:20].record_stream(torch.neuron.Stream())
    del x
    torch.neuron.synchronize()
    torch.neuron.empty_cache()
    assert make().numel() == 3 << 20


def test_record_stream_of_the_current_stream_is_harmless():
    x = make()
    x.record_stream(torch.neuron.current_stream())
    del x
    torch.neuron.synchronize()
    before = torch.neuron.memory_allocated()
    assert torch.neuron.memory_stats()["active_bytes.all.current"] >= before


def test_stream_of_another_device_is_waited_for_too():
    """A copy to a peer runs on the peer's stream: the source must stay until it has passed."""
    torch.neuron.synchronize(0)
    torch.neuron.synchronize(1)
    peer = torch.neuron.Stream(device=1)
    x = make()
    address = x.data_ptr()
    with torch.neuron.stream(peer):
        index = torch.zeros(1 << 20, dtype=torch.int64, device="neuron:1")
        torch.ones(1 << 20, device="neuron:1").gather(0, index)
    assert not peer.query()
    x.record_stream(peer)
    del x
    y = make()
    assert y.data_ptr() != address
    peer.synchronize()
    assert make().data_ptr() == address
