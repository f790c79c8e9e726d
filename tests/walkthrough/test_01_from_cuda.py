"""1. From cuda to neuron: change the device string, or let torch.accelerator say it."""

import pytest
import torch
from torch import nn


def test_say_neuron_instead_of_cuda():
    model = nn.Linear(4, 2).to("neuron")  # was: .to("cuda")
    x = torch.ones(1, 4, device="neuron")  # was: device="cuda"
    assert model(x).device.type == "neuron"


def test_or_say_nothing():
    """Code on torch.accelerator needs no change at all."""
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
    assert nn.Linear(4, 2).to(device)(torch.ones(1, 4, device=device)).is_neuron


def test_parameters_stay_the_same_objects():
    """An optimizer built before the move trains the moved parameters, and tied weights stay tied."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to("neuron")
    assert model[1].weight is model[0].weight
    assert optimizer.param_groups[0]["params"][0] is model[0].weight


def test_names_of_torch_neuron_are_those_of_torch_cuda():
    for name in (
        "synchronize",
        "memory_allocated",
        "Stream",
        "Event",
        "manual_seed_all",
        "get_rng_state",
        "empty_cache",
    ):
        assert hasattr(torch.cuda, name) and hasattr(torch.neuron, name)


def test_what_differs():
    """Mixing devices raises, as on CUDA, and says what to do."""
    with pytest.raises(RuntimeError, match=r'same device.*\.to\("neuron"\)'):
        torch.ones(2, device="neuron") + torch.ones(2)
