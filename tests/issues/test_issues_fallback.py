"""Fallback: what users of other backends reported (repository#number in each name)."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import torch_neuronx
import trnsim
from trnsim import eager, ledger
from trnsim.errors import NeuronFallbackWarning

DEV = "neuron"
quiet = pytest.mark.filterwarnings("ignore::trnsim.errors.NeuronFallbackWarning")


@quiet
@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sort(),
        lambda x: x.sort().values,
        lambda x: x.normal_(),
        lambda x: torch.sort(x, out=(torch.empty_like(x), torch.empty(4, dtype=torch.int64, device=DEV))),
        lambda x: torch.linalg.inv(torch.eye(2, device=DEV)),
        lambda x: torch.fft.fft(x),
        lambda x: torch.randint(0, 3, (4,), device=DEV),
        lambda x: x.unique(),
    ],
)
def test_torch_spyre_1769_every_fallback_path_records(call):
    with ledger.record() as session:
        call(torch.ones(4, device=DEV))
    assert session.fallbacks() and all(stat.site and stat.count for stat in session.fallbacks())


def test_torch_spyre_1769_full_and_fill_run_and_are_counted():
    with ledger.record() as session:
        torch.full((3,), 2.0, device=DEV).fill_(1)
    assert sum(stat.count for stat in session.ops() if "fill" in stat.op or "full" in stat.op) >= 2


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_torch_spyre_2087_1981_all_overloads_of_comparisons(name: str):
    x, y = torch.arange(4.0, device=DEV), torch.tensor([0.0, 2, 2, 2], device=DEV)
    op, method = getattr(torch, name), getattr(x.clone(), f"{name}_")
    out = torch.empty(4, dtype=torch.bool, device=DEV)
    expected = op(x.cpu(), y.cpu()).tolist()
    with ledger.assert_no_fallback():
        assert op(x, y).tolist() == expected
        assert op(x, y, out=out).tolist() == expected
        assert method(y).bool().tolist() == expected
        assert op(x, 2, out=out).tolist() == op(x.cpu(), 2).tolist() == op(x, 2).tolist()


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "maximum", "fmod", "remainder", "atan2"])
def test_torch_spyre_2087_1981_status_is_one_for_all_overloads(name: str):
    """Functional, in-place and out= of an op are all native or all fall back, and agree."""
    x, y = torch.tensor([1.0, 2, 3], device=DEV), torch.tensor([2.0, 2, 2], device=DEV)
    op = getattr(torch, name)
    with trnsim.fallback_policy("allow"), ledger.record() as session:
        a = op(x, y)
        b = op(x, y, out=torch.empty(3, device=DEV))
        c = getattr(x.clone(), f"{name}_")(y) if hasattr(x, f"{name}_") else a
    assert torch.equal(a, b) and torch.equal(a, c)
    assert len({(stat.native > 0, stat.fallback > 0) for stat in session.ops() if f"::{name}" in stat.op}) == 1


@quiet
@pytest.mark.parametrize(
    "name", ["relu_", "sigmoid_", "erfinv_", "digamma_", "cumsum_", "exponential_", "sinc_", "i0_"]
)
def test_torch_spyre_2746_in_place_overloads(name: str):
    arguments = (0,) if name == "cumsum_" else ()
    x = torch.tensor([0.1, 0.5, 0.3], device=DEV)
    y = x.cpu()
    result = getattr(x, name)(*arguments)
    assert result is x and x.device.type == DEV
    if name != "exponential_":
        torch.testing.assert_close(x.cpu(), getattr(y, name)(*arguments))


def test_torch_xpu_ops_262_318_pt_126488_no_class_of_fallback_is_muted():
    """Every op the table calls a fallback warns when it first runs at a line."""
    x = torch.rand(4, 4).to(DEV) + torch.eye(4).to(DEV)
    for call in (lambda: torch.linalg.det(x), lambda: x.sort(), lambda: torch.fft.fft(x), lambda: x.normal_()):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert [w for w in caught if issubclass(w.category, NeuronFallbackWarning)]


def test_torch_xpu_ops_76_77_view_ops_never_fall_back():
    x = torch.arange(16.0, device=DEV).reshape(4, 4)
    with trnsim.fallback_policy("error"):
        for view in (x.t(), x[1:], x[:, None], x.diagonal(), x.unfold(0, 2, 1), x.view(2, 8), x.expand(2, 4, 4)):
            assert view.untyped_storage()._cdata == x.untyped_storage()._cdata
        x.unfold(0, 2, 1).select(0, 0).fill_(5)
        x.diagonal(1).zero_()
    assert x[0, 1].item() == 0 and x[0, 0].item() == 5


@quiet
@pytest.mark.parametrize(
    ("call", "outs"),
    [
        (lambda x, out: torch.sort(x, out=out), (torch.float32, torch.int64)),
        (lambda x, out: torch.topk(x, 2, out=out), (torch.float32, torch.int64)),
        (lambda x, out: torch.linalg.svdvals(x, out=out[0]), (torch.float32,)),
        (lambda x, out: torch.cumsum(x, 0, out=out[0]), (torch.float32,)),
        (lambda x, out: torch.logsumexp(x, 0, out=out[0]), (torch.float32,)),
        (lambda x, out: torch.index_select(x, 0, torch.tensor([1]).to(x.device), out=out[0]), (torch.float32,)),
        (lambda x, out: torch.nonzero(x, out=out[0]), (torch.int64,)),
    ],
)
def test_torch_xpu_ops_1950_2254_out_variants_through_fallback(call, outs):
    x = torch.tensor([[3.0, 1.0], [0.0, 2.0]])
    theirs = tuple(torch.empty(0, dtype=dtype) for dtype in outs)
    ours = tuple(torch.empty(0, dtype=dtype, device=DEV) for dtype in outs)
    call(x, theirs)
    call(x.to(DEV), ours)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.cpu(), b)


@quiet
def test_ascend_40_ms_swift_1047_llamafactory_4836_mineru_1695_isin_reports_how_much_it_matters():
    elements = torch.tensor([1, 2, 3], device=DEV)
    with ledger.record() as session:
        found = torch.isin(elements, torch.tensor([2], device=DEV))
        torch.isin(elements, 3), torch.isin(2, elements)
    assert found.tolist() == [False, True, False]
    assert all(stat.cost_ns > 0 for stat in session.fallbacks())
    total = sum(stat.device_ns + stat.host_ns for stat in session.ops())
    assert sum(stat.cost_ns for stat in session.fallbacks()) <= total  # the share of time can be told


@quiet
def test_ascend_51_encoder_fast_path_is_split_into_native_ops():
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval().to(DEV)
    with torch.no_grad(), ledger.record() as session:
        layer(torch.ones(1, 4, 8).to(DEV))
    names = {stat.op for stat in session.ops()}
    assert "aten::_transformer_encoder_layer_fwd" not in names
    assert any("mm" in name or "linear" in name for name in names)


@quiet
def test_pytorch_dlprim_97_53_share_of_ops_on_the_device_can_be_told():
    x = torch.ones(4, device=DEV)
    with ledger.record() as session:
        for _ in range(9):
            x + 1
        x.sort()
    native, fallen = (sum(getattr(stat, kind) for stat in session.ops()) for kind in ("native", "fallback"))
    assert native / (native + fallen) == 0.9


def test_pytorch_xla_6559_tests_can_assert_that_nothing_fell_back():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).to(DEV)
    x, y = torch.ones(2, 4).to(DEV), torch.tensor([0, 1]).to(DEV)
    optimizer = torch.optim.AdamW(model.parameters())
    with ledger.assert_no_fallback():
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    with (
        pytest.raises(AssertionError, match="aten::sort"),
        trnsim.fallback_policy("allow"),
        ledger.assert_no_fallback(),
    ):
        x.sort()


@quiet
@pytest.mark.parametrize(
    "call", [lambda x: x.median(), lambda x: x.median(0).values, lambda x: x.nanmedian(), lambda x: x.mode(0).values]
)
def test_pytorch_xla_6288_5000_median_is_right_and_on_the_device(call):
    x = torch.tensor([[5.0, 1], [2, 4], [3, 3]])
    ours = call(x.to(DEV))
    assert ours.device.type == DEV and torch.equal(ours.cpu(), call(x))


@quiet
def test_torch_spyre_3748_one_source_of_truth():
    """The table, the tracking calls and the ledger tell the same of an op."""
    x = torch.ones(4, device=DEV)
    torch_neuronx.clear_op_tracking()
    with ledger.record() as session:
        x.sort(), x + 1, x.cumsum(0)
    fallen = {stat.op for stat in session.fallbacks()}
    assert fallen == set(torch_neuronx.get_fallback_ops())
    assert {stat.op for stat in session.ops()} - fallen == set(torch_neuronx.get_executed_ops())
    assert all(eager.table() is eager.table() for _ in range(2))


REDUCTIONS = """sum mean prod std var amax amin max min argmax argmin all any norm logsumexp cumsum cumprod nansum
std_mean var_mean aminmax count_nonzero median""".split()


@quiet
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dim", [None, 0, -1])
def test_torch_musa_72_17_reductions(name: str, dim: int | None):
    x = torch.tensor([[3.0, 1, 2], [4, 6, 5]])
    if dim is None and name in {"logsumexp", "cumsum", "cumprod", "amax", "amin"}:
        dim = 1
    arguments = {} if dim is None else {"dim": dim}
    function = getattr(torch, name)
    ours, theirs = function(x.to(DEV), **arguments), function(x, **arguments)
    ours = ours if isinstance(ours, tuple) else (ours,)
    theirs = theirs if isinstance(theirs, tuple) else (theirs,)
    for a, b in zip(ours, theirs, strict=True):
        assert a.device.type == DEV
        torch.testing.assert_close(a.cpu(), b)


@quiet
@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.zeros(2, 3, device=d),
        lambda d: torch.ones(2, dtype=torch.int8, device=d),
        lambda d: torch.full((2,), True, device=d),
        lambda d: torch.arange(1, 9, 3, device=d),
        lambda d: torch.linspace(0, 1, 5, device=d),
        lambda d: torch.eye(3, 2, device=d),
        lambda d: torch.tril_indices(3, 3, device=d),
        lambda d: torch.tensor([[1.5]], device=d),
        lambda d: torch.zeros_like(torch.empty(2, device=d)),
        lambda d: torch.empty(2, device=d).new_zeros(3),
        lambda d: torch.vander(torch.arange(3, device=d)),
        lambda d: torch.complex(torch.ones(2, device=d), torch.zeros(2, device=d)),
        lambda d: torch.where(torch.tensor([True, False], device=d), 1.0, 2.0),
        lambda d: torch.std(torch.tensor([1.0, 2.0, 4.0], device=d), correction=0),
        lambda d: torch.std(torch.tensor([1.0, 2.0, 4.0], device=d), 0, correction=2),
        lambda d: torch.bartlett_window(5, device=d),
    ],
)
def test_torch_musa_72_17_factories_where_and_std(make):
    ours, theirs = make(DEV), make("cpu")
    assert ours.device.type == DEV and ours.dtype == theirs.dtype
    torch.testing.assert_close(ours.cpu(), theirs)
