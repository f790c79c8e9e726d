"""After every mistake the device must go on working: a little training step, compared with the CPU's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


def training_step(device: str) -> list[torch.Tensor]:
    """Loss and updated weights of one SGD step on a two-layer network with an embedding."""
    generator = torch.Generator().manual_seed(7)
    weights = [torch.randn(*sizes, generator=generator).to(device) for sizes in ((5, 4), (4, 8), (8, 3))]
    for weight in weights:
        weight.requires_grad_()
    optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9)
    embedded = torch.nn.functional.embedding(torch.tensor([0, 3, 4], device=device), weights[0])
    logits = torch.relu(embedded @ weights[1]) @ weights[2]
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor([2, 0, 1], device=device))
    loss.backward()
    optimizer.step()
    return [loss.detach().cpu(), *(weight.detach().cpu() for weight in weights)]


@pytest.fixture(autouse=True)
def goes_on_working() -> Iterator[None]:
    """No later op inherits the error: neither a result, nor the current device, nor memory is left wrong."""
    torch.neuron.set_device(0)
    held = torch.neuron.memory_allocated()
    yield
    device, stream = torch.neuron.current_device(), torch.neuron.current_stream(0)
    torch.neuron.set_device(0)
    torch.neuron.set_stream(torch.neuron.default_stream(0))
    assert device == 0, "the mistake changed the current device"
    assert stream == torch.neuron.default_stream(0), "the mistake changed the current stream"
    for actual, expected in zip(training_step("neuron"), training_step("cpu"), strict=True):
        assert torch.equal(actual, expected)
    torch.neuron.synchronize()
    assert torch.neuron.memory_allocated() - held < 1 << 20, "the mistake leaked device memory"
