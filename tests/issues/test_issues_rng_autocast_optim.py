"""RNG, autocast, optimizers, autograd: what users of other backends reported (repository#number in each name)."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from trnsim import ledger

DEV = "neuron"
pytestmark = pytest.mark.filterwarnings("ignore::trnsim.errors.NeuronFallbackWarning")


def test_pt_165837_158917_generators_per_device():
    generators = [torch.Generator(f"neuron:{index}").manual_seed(1) for index in range(2)]
    assert [g.device.index for g in generators] == [0, 1]
    draws = [torch.rand(3, device=g.device, generator=g).tolist() for g in generators]
    assert draws[0] == draws[1]  # a number depends on seed and offset, not on the device
    assert torch.neuron.default_generators[1].device == torch.device("neuron:1")
    with pytest.raises(IndexError):
        torch.neuron.default_generators[4]
    with pytest.raises(RuntimeError, match="does not exist"):
        torch.Generator("neuron:4")


def test_pt_165837_current_devices_generator_is_used():
    torch.neuron.manual_seed_all(1)
    with torch.neuron.device(1):
        torch.neuron.manual_seed(9)
        assert torch.neuron.initial_seed() == 9
    assert torch.neuron.initial_seed() == 1


def test_pt_147584_195245_195246_197495_ascend_165_state_is_seed_and_offset():
    torch.neuron.manual_seed(1234)
    state = torch.neuron.get_rng_state()
    assert state.view(torch.uint64).tolist() == [1234, 0]
    state.view(torch.int64)[1] = 8
    torch.neuron.set_rng_state(state)
    assert torch.neuron.get_rng_state().view(torch.int64).tolist() == [1234, 8]


DROPOUT = nn.Sequential(nn.Dropout(0.5), nn.Identity())


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("index", [0, 1])
def test_pt_128671_157390_194478_194572_196951_121462_checkpoint_repeats_the_mask(reentrant: bool, index: int):
    x = torch.ones(200, device=f"neuron:{index}", requires_grad=True)
    y = checkpoint(F.dropout, x, use_reentrant=reentrant)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_pt_128671_checkpoint_of_a_list_of_tensors_and_of_none_on_the_device():
    x = torch.ones(100, device=DEV, requires_grad=True)
    y = checkpoint(lambda pair: F.dropout(pair[0]), [x], use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_pt_157390_checkpoint_whose_first_input_is_on_the_cpu():
    x = torch.ones(100, device=DEV, requires_grad=True)
    y = checkpoint(lambda scale, v: F.dropout(v) * scale.item(), torch.ones(()), x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_pt_194478_checkpoint_sequential_and_nested():
    x = torch.ones(100, device=DEV, requires_grad=True)
    y = checkpoint_sequential([nn.Dropout(0.3), nn.Dropout(0.3)], 2, x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    z = torch.ones(100, device=DEV, requires_grad=True)
    w = checkpoint(lambda v: checkpoint(F.dropout, v, use_reentrant=False), z, use_reentrant=False)
    w.sum().backward()
    assert torch.equal(z.grad, w.detach())


def test_pt_194572_checkpoint_leaves_the_generator_where_it_was():
    x = torch.ones(10, device=DEV, requires_grad=True)
    torch.manual_seed(0)
    y = checkpoint(F.dropout, x, use_reentrant=False)
    state = torch.neuron.get_rng_state()
    y.sum().backward()
    assert torch.equal(torch.neuron.get_rng_state(), state)


def test_pt_196951_checkpoint_keeps_autocast():
    layer = nn.Linear(4, 4).to(DEV)
    seen = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = layer(x)
        seen.append(y.dtype)
        return y.sin()  # saves y, so that recomputation comes this far

    with torch.autocast(DEV, dtype=torch.bfloat16):
        y = checkpoint(forward, torch.ones(2, 4, device=DEV), use_reentrant=False)
    y.float().sum().backward()
    assert seen == [torch.bfloat16, torch.bfloat16]


def test_pt_121462_dropout_gradient_matches_the_forward_mask():
    for layer in (nn.Dropout(0.4), nn.AlphaDropout(0.4), nn.Dropout1d(0.4), nn.FeatureAlphaDropout(0.4)):
        x = torch.ones(8, 6, 5, device=DEV, requires_grad=True)
        y = layer(x)
        y.sum().backward()
        assert torch.equal(
            x.grad != 0, (y != y.min()) if isinstance(layer, (nn.AlphaDropout, nn.FeatureAlphaDropout)) else y != 0
        )


def test_pt_101509_162037_xla_8672_torch_fl_127_autocast_policies():
    x, y = torch.ones(2, 2, device=DEV), torch.ones(2, 2, device=DEV)
    with torch.autocast(DEV, dtype=torch.bfloat16):
        assert (x @ y).dtype == torch.bfloat16 and x.sum().dtype == torch.float32
        assert torch.cat([x, y.bfloat16()]).dtype == torch.float32
        assert F.scaled_dot_product_attention(x[None], x[None], x[None]).dtype == torch.bfloat16
        assert nn.GRU(2, 3).to(DEV)(x[None])[0].dtype in {torch.bfloat16, torch.float32}


def test_pt_162037_message_of_an_unsupported_dtype_names_it():
    with pytest.warns(UserWarning, match=r"(?si)(?=.*neuron)(?=.*float32|.*bfloat16)"):
        with torch.autocast(DEV, dtype=torch.int8):
            pass


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "NAdam", "RAdam", "Adadelta", "Adamax", "ASGD", "Rprop"]
)
@pytest.mark.parametrize("foreach", [True, False])
def test_pt_102047_veomni_345_foreach_on_the_device(name: str, foreach: bool):
    def train(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        layer = nn.Linear(3, 3).to(device)
        optimizer = getattr(torch.optim, name)(layer.parameters(), foreach=foreach)
        for _ in range(3):
            optimizer.zero_grad()
            layer(torch.ones(2, 3, device=device)).square().sum().backward()
            optimizer.step()
        return [p.detach().cpu() for p in layer.parameters()]

    for a, b in zip(train(DEV), train("cpu"), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_pt_102047_fused_optimizers_are_accepted(name: str):
    p = nn.Parameter(torch.ones(3, device=DEV))
    p.grad = torch.ones_like(p)
    with ledger.record() as session:
        getattr(torch.optim, name)([p], lr=0.1, fused=True).step()
    assert any("fused" in stat.op for stat in session.ops())
    assert p[0].item() < 1


def test_pt_102047_clip_grad_norm_uses_foreach():
    ours = [nn.Parameter(torch.ones(3, device=DEV)) for _ in range(2)]
    for p in ours:
        p.grad = torch.full_like(p, 3.0)
    norm = nn.utils.clip_grad_norm_(ours, 1.0, foreach=True)
    assert norm.device.type == DEV and norm.item() == pytest.approx(54**0.5)
    assert ours[0].grad.norm().item() == pytest.approx(0.5**0.5, rel=1e-4)
    nn.utils.clip_grad_value_(ours, 0.1)
    assert ours[0].grad.max().item() <= 0.1 + 1e-6
