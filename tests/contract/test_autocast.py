"""Autocast and GradScaler on the device; lists are CUDA's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

DEV = "neuron"


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(*shape, device=DEV, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "op",
    [
        lambda: ones(2, 2) @ ones(2, 2),
        lambda: F.linear(ones(2, 2), ones(2, 2), ones(2)),
        lambda: F.conv2d(ones(1, 1, 4, 4), ones(1, 1, 3, 3)),
        lambda: torch.bmm(ones(1, 2, 2), ones(1, 2, 2)),
        lambda: torch.addmm(ones(2, 2), ones(2, 2), ones(2, 2)),
        lambda: F.scaled_dot_product_attention(ones(1, 1, 2, 4), ones(1, 1, 2, 4), ones(1, 1, 2, 4)),
        lambda: torch.einsum("ij,jk->ik", ones(2, 2), ones(2, 2)),
    ],
    ids=["matmul", "linear", "conv2d", "bmm", "addmm", "sdpa", "einsum"],
)
def test_lower_precision_list(op, dtype: torch.dtype):
    with torch.autocast("neuron", dtype=dtype):
        assert op().dtype == dtype
    assert op().dtype == torch.float32


@pytest.mark.parametrize(
    "op",
    [
        lambda x: F.softmax(x, -1),
        lambda x: F.layer_norm(x, (4,)),
        lambda x: x.exp(),
        lambda x: x.log(),
        lambda x: x.sum(),
        lambda x: x.norm(),
        lambda x: F.cross_entropy(x, torch.zeros(2, dtype=torch.int64, device=DEV)),
        lambda x: F.mse_loss(x, x),
        lambda x: x.pow(2),
        lambda x: x.cumsum(0),
    ],
    ids=["softmax", "layer_norm", "exp", "log", "sum", "norm", "cross_entropy", "mse_loss", "pow", "cumsum"],
)
def test_float32_list(op):
    x = ones(2, 4, dtype=torch.bfloat16)
    with torch.autocast("neuron", dtype=torch.bfloat16):
        assert op(x).dtype == torch.float32


def test_promote_list():
    with torch.autocast("neuron", dtype=torch.bfloat16):
        low = ones(2, dtype=torch.bfloat16)
        assert torch.cat([low, ones(2)]).dtype == torch.float32
        assert torch.stack([low, low]).dtype == torch.bfloat16


def test_others_are_left_alone():
    with torch.autocast("neuron", dtype=torch.bfloat16):
        assert (ones(2) + 1).dtype == torch.float32
        assert F.relu(ones(2)).dtype == torch.float32
        assert (ones(2, 2, dtype=torch.float64) @ ones(2, 2, dtype=torch.float64)).dtype == torch.float64


def test_default_dtype_is_float16():
    assert torch.get_autocast_dtype("neuron") == torch.float16
    with torch.autocast("neuron"):
        assert (ones(2, 2) @ ones(2, 2)).dtype == torch.float16


def test_disabled_and_nested():
    with torch.autocast("neuron", dtype=torch.bfloat16):
        with torch.autocast("neuron", enabled=False):
            assert (ones(2, 2) @ ones(2, 2)).dtype == torch.float32
        assert (ones(2, 2) @ ones(2, 2)).dtype == torch.bfloat16
        assert torch.is_autocast_enabled("neuron") and not torch.is_autocast_enabled("cpu")


def test_float64_request_warns_and_disables():
    with (
        pytest.warns(UserWarning, match=r"(?i)neuron.*float64|float64.*neuron|not support"),
        torch.autocast("neuron", dtype=torch.float64),
    ):
        assert (ones(2, 2) @ ones(2, 2)).dtype == torch.float32


def test_autocast_of_cpu_leaves_neuron_alone():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (ones(2, 2) @ ones(2, 2)).dtype == torch.float32


def test_unsafe_loss_is_refused_with_advice():
    with torch.autocast("neuron"), pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
        F.binary_cross_entropy(ones(2), ones(2))


def test_decorator_and_backward():
    layer = torch.nn.Linear(4, 4).to(DEV)

    @torch.autocast("neuron", dtype=torch.bfloat16)
    def forward(x: torch.Tensor) -> torch.Tensor:
        return layer(x)

    y = forward(ones(2, 4))
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert layer.weight.grad.dtype == torch.float32


def test_weight_casts_are_cached_within_the_block():
    layer = torch.nn.Linear(64, 64).to(DEV)
    x = ones(2, 64)
    from trnsim import ledger

    with ledger.record() as session, torch.autocast("neuron", dtype=torch.bfloat16):
        layer(x)
        once = sum(stat.count for stat in session.ops() if "_to_copy" in stat.op or stat.op == "aten::copy_")
        layer(x)
        twice = sum(stat.count for stat in session.ops() if "_to_copy" in stat.op or stat.op == "aten::copy_")
    assert twice - once <= 1  # only the input is cast again


def test_custom_fwd_bwd():
    class Square(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="neuron", cast_inputs=torch.float32)
        def forward(ctx, x):
            assert x.dtype == torch.float32 and not torch.is_autocast_enabled("neuron")
            return x * x

        @staticmethod
        @torch.amp.custom_bwd(device_type="neuron")
        def backward(ctx, grad):
            return grad

    with torch.autocast("neuron", dtype=torch.bfloat16):
        Square.apply(ones(2, dtype=torch.bfloat16).requires_grad_()).sum().backward()


def scaled_training(device: str) -> tuple[torch.Tensor, float]:
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 1)
    layer.to(device)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, growth_interval=2)
    for step in range(4):
        optimizer.zero_grad()
        loss = layer(torch.ones(2, 4, device=device)).square().mean()
        if step == 1:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return layer.weight.detach().cpu(), scaler.get_scale()


def test_grad_scaler_as_on_cpu():
    ours, theirs = scaled_training(DEV), scaled_training("cpu")
    torch.testing.assert_close(ours[0], theirs[0])
    assert ours[1] == theirs[1] == 1024.0  # halved by the inf, doubled after two good steps


def test_grad_scaler_state_round_trip():
    scaler = torch.amp.GradScaler("neuron", init_scale=8.0)
    other = torch.amp.GradScaler("neuron")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 8.0
