"""get_interface_for_device: what Dynamo and frameworks ask about the device."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="module")
def interface():
    from torch._dynamo.device_interface import get_interface_for_device

    return get_interface_for_device("neuron")


def test_found_by_type_index_and_device(interface):
    from torch._dynamo.device_interface import get_interface_for_device, get_registered_device_interfaces

    assert get_interface_for_device("neuron:1") is interface
    assert get_interface_for_device(torch.device("neuron")) is interface
    assert "neuron" in dict(get_registered_device_interfaces())


def test_answers(interface):
    assert interface.device_count() == 4 and interface.is_available() and interface.current_device() == 0
    assert interface.get_device_properties().name == "trn2"
    assert interface.Worker.get_device_properties(1).total_memory == 24 << 30
    assert interface.is_bf16_supported() and not interface.is_triton_capable()
    assert interface.current_stream(0) == torch.neuron.current_stream(0)
    assert interface.get_raw_stream(0) == 0
    assert isinstance(interface.Event(enable_timing=True), torch.Event)
    interface.synchronize()
    with pytest.raises(RuntimeError, match="NKI"):
        interface.raise_if_triton_unavailable()


def test_exchange_device(interface):
    assert interface.exchange_device(2) == 0
    assert interface.maybe_exchange_device(0) == 2
    assert interface.maybe_exchange_device(-1) == -1
    with interface.device(1):
        assert torch.neuron.current_device() == 1


def test_stream_context_of_the_interface(interface):
    side = interface.Stream()
    with torch.neuron.stream(side):
        assert interface.current_stream(0) == side


def test_eager_backends_of_compile_work():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).to("neuron")
    x = torch.ones(2, 4, device="neuron")
    expected = model(x)
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        assert torch.equal(torch.compile(model, backend=backend)(x), expected)
