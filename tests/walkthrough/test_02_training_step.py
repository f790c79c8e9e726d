"""2. A training step: the same losses as on the CPU."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn


def train(device: str, steps: int = 5) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 3))
    x, y = torch.randn(16, 8), torch.randint(0, 3, (16,))
    model.to(device)
    x, y = x.to(device), y.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_losses_are_the_cpus():
    ours = train("neuron")
    assert ours == pytest.approx(train("cpu"), rel=1e-5)
    assert ours[-1] < ours[0]


def test_mixed_precision():
    """autocast("neuron") has CUDA's lists; its default is float16, so name bfloat16."""
    model = nn.Linear(8, 8).to("neuron")
    scaler = torch.amp.GradScaler("neuron")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autocast("neuron", dtype=torch.bfloat16):
        y = model(torch.ones(2, 8, device="neuron"))
    assert y.dtype == torch.bfloat16
    scaler.scale(y.float().square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert model.weight.dtype == torch.float32 and scaler.get_scale() == 65536.0
