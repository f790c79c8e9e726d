"""What a minimal backend already did right on torch 2.13: it must stay so. Compile and distributed parts: README.md."""

from __future__ import annotations

import copy
import io
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::trnsim.errors.NeuronFallbackWarning")
DEV = "neuron"


def test_fine_deepcopy():
    layer = nn.Linear(2, 2).to(DEV)
    assert copy.deepcopy(layer).weight.device.type == DEV


def test_fine_save_and_load_with_shared_views():
    x = torch.arange(4.0, device=DEV)
    buffer = io.BytesIO()
    torch.save((x, x[1:]), buffer)
    buffer.seek(0)
    a, b = torch.load(buffer)
    a[1] = 9
    assert b[0].item() == 9


def test_fine_in_place_on_columns_and_transposes_through_fallback():
    ours, theirs = torch.zeros(4, 4, device=DEV), torch.zeros(4, 4)
    for x in (ours, theirs):
        x[:, 1].copy_(torch.sort(torch.tensor([3.0, 1.0, 2.0, 0.0]).to(x.device)).values)
        x.t()[2].cumsum_(0)
        x.t()[1].cumsum_(0)
    assert torch.equal(ours.cpu(), theirs)


def test_fine_out_resizes_and_takes_non_contiguous():
    out = torch.empty(0, device=DEV)
    torch.add(torch.ones(3, device=DEV), 1, out=out)
    assert out.tolist() == [2, 2, 2]
    wide = torch.zeros(3, 2, device=DEV)
    torch.cumsum(torch.ones(3, device=DEV), 0, out=wide[:, 0])
    assert wide[:, 0].tolist() == [1, 2, 3] and wide[:, 1].tolist() == [0, 0, 0]


def test_fine_expand_to_cpu():
    assert torch.arange(2.0, device=DEV)[:, None].expand(2, 3).cpu().tolist() == [[0] * 3, [1] * 3]


def test_fine_empty_and_0_dim():
    empty = torch.empty(0, 3, device=DEV)
    assert empty.sum().item() == 0 and (empty + 1).shape == (0, 3) and empty.cpu().shape == (0, 3)
    assert torch.cat([empty, torch.ones(1, 3, device=DEV)]).shape == (1, 3)
    scalar = torch.tensor(3.0, device=DEV)
    assert scalar.shape == () and (scalar * scalar).item() == 9 and scalar.sum().item() == 3


def test_fine_index_put_accumulate():
    x = torch.zeros(3, device=DEV)
    x.index_put_((torch.tensor([1, 1, 2], device=DEV),), torch.ones(3, device=DEV), accumulate=True)
    assert x.tolist() == [0, 2, 1]


def test_fine_jagged_nested():
    x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged, device=DEV)
    assert nn.Linear(3, 5).to(DEV)(x).device.type == DEV


def test_fine_fp8_cast():
    x = torch.tensor([1.0, 300.0, -2.5], device=DEV)
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        assert torch.equal(x.to(dtype).float().cpu(), x.cpu().to(dtype).float())


def test_fine_storage_resize():
    x = torch.ones(4, device=DEV)
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(16)
    assert x.fill_(1).sum().item() == 4


def test_fine_vmap():
    x = torch.arange(6.0, device=DEV).reshape(2, 3)
    assert torch.vmap(lambda v: v.dot(v))(x).tolist() == [5, 50]


def test_fine_backward_in_four_threads():
    def work(seed: int) -> float:
        x = torch.full((3,), float(seed), device=DEV, requires_grad=True)
        x.square().sum().backward()
        return x.grad.sum().item()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0, 6, 12, 18]


def test_fine_grad_scaler():
    x = nn.Parameter(torch.ones(1, device=DEV))
    optimizer, scaler = torch.optim.SGD([x], lr=1.0), torch.amp.GradScaler(DEV)
    scaler.scale(x.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert x.item() == 0


def test_fine_fused_adamw():
    x = nn.Parameter(torch.ones(3, device=DEV))
    x.grad = torch.ones_like(x)
    torch.optim.AdamW([x], lr=0.1, fused=True).step()
    assert x[0].item() == pytest.approx(0.899, abs=1e-3)


def test_fine_batch_norm():
    ours, theirs = nn.BatchNorm2d(3).to(DEV), nn.BatchNorm2d(3)
    x = torch.randn(2, 3, 4, 4)
    torch.testing.assert_close(ours(x.to(DEV)).cpu(), theirs(x))
    torch.testing.assert_close(ours.running_var.cpu(), theirs.running_var)
    assert ours.num_batches_tracked.item() == 1


def test_fine_checkpoint_with_dropout():
    x = torch.ones(100, device=DEV, requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(lambda v: nn.functional.dropout(v, 0.5), x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_fine_fake_tensor():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode() as mode:
        y = mode.from_tensor(torch.ones(2, 2, device=DEV)) @ torch.ones(2, 2, device=DEV)
    assert y.device.type == DEV


def test_fine_to_of_an_index():
    assert torch.ones(1).to(0).device == torch.device("neuron:0")


def test_fine_cpu_1_d_and_device_raise():
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device=DEV) + torch.ones(3)


def test_fine_default_device():
    with torch.device(DEV):
        assert nn.Linear(2, 2)(torch.ones(1, 2)).device.type == DEV
