"""Views, strides, copies and dtypes: what users of other backends reported (repository#number in each name)."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from trnsim import ledger

DEV = "neuron"
pytestmark = pytest.mark.filterwarnings("ignore::trnsim.errors.NeuronFallbackWarning")


def test_torch_spyre_1470_1899_expand_then_cpu():
    x = torch.arange(3.0, device=DEV)
    wide = x.expand(1000, 3)
    assert wide.stride() == (0, 1) and wide.untyped_storage().nbytes() == 12
    assert torch.equal(wide.cpu(), x.cpu().expand(1000, 3))
    assert torch.equal(x[:1].expand(5).cpu(), torch.zeros(5))
    assert wide.to("neuron:1").sum().item() == 3000
    assert torch.ones((), device=DEV).expand(2, 2).tolist() == [[1, 1], [1, 1]]


def test_torch_spyre_3180_large_ids_are_not_truncated_in_helpful_mode():
    big = torch.tensor([2**31, 2**40 + 3, -(2**35)], device=DEV)
    assert big.tolist() == [2**31, 2**40 + 3, -(2**35)]
    assert (big + 1).tolist() == [2**31 + 1, 2**40 + 4, -(2**35) + 1]
    assert (big * 2)[1].item() == 2**41 + 6
    assert big.sum().item() == 2**31 + 2**40 + 3 - 2**35


def test_torch_spyre_3180_casts_from_and_to_64_bits_are_reported():
    x = torch.ones(4, dtype=torch.int64, device=DEV)
    with ledger.record() as session:
        x.int(), x.float(), x.double()
    assert len(session.casts()) == 3 and all(event.bytes > 0 and event.site for event in session.casts())


def layouts(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The same values in several layouts."""
    padded = torch.zeros(*x.shape[:-1], x.shape[-1] * 2, dtype=x.dtype, device=x.device)
    padded[..., ::2] = x
    wide = torch.zeros(x.numel() + 3, dtype=x.dtype, device=x.device)
    wide[3:] = x.flatten()
    return {
        "transposed": x.transpose(0, 1).contiguous().transpose(0, 1),
        "strided": padded[..., ::2],
        "offset": wide[3:].view(x.shape),
        "permuted": x.permute(*reversed(range(x.dim()))).contiguous().permute(*reversed(range(x.dim()))),
    }


OPS = {
    "nonzero": lambda x: x.nonzero(),
    "where1": lambda x: torch.stack(torch.where(x > 0)),
    "where3": lambda x: torch.where(x > 0, x, -x),
    "softplus": lambda x: F.softplus(x),
    "gelu": lambda x: F.gelu(x),
    "silu": lambda x: F.silu(x),
    "softmax": lambda x: F.softmax(x, 0),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "sum": lambda x: x.sum(0),
    "max": lambda x: x.max(-1).indices,
    "cumsum": lambda x: x.cumsum(0),
    "exp": lambda x: x.exp(),
    "add": lambda x: x + x.clone(),
    "matmul": lambda x: x @ x.transpose(-1, -2),
    "bmm": lambda x: torch.bmm(x, x.transpose(1, 2)),
    "baddbmm": lambda x: torch.baddbmm(x @ x.transpose(1, 2), x, x.transpose(1, 2)),
    "linear": lambda x: F.linear(x, torch.ones(2, x.shape[-1], device=x.device)),
    "conv1d": lambda x: F.conv1d(x, torch.ones(2, x.shape[1], 2, device=x.device)),
    "conv2d": lambda x: F.conv2d(x[None], torch.ones(2, x.shape[0], 2, 2, device=x.device)),
    "avg_pool": lambda x: F.avg_pool2d(x, 2),
    "max_pool": lambda x: F.max_pool2d(x, 2),
    "sort": lambda x: x.sort(-1).values,
    "topk": lambda x: x.topk(2, -1).values,
    "gather": lambda x: x.gather(0, torch.zeros_like(x, dtype=torch.int64)),
    "index": lambda x: x[[1, 0]],
    "mask": lambda x: x[x > 0],
    "masked_fill": lambda x: x.masked_fill(x > 0, 9.0),
    "scatter": lambda x: torch.zeros_like(x).scatter(0, torch.zeros_like(x, dtype=torch.int64), x),
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, 0),
    "cat": lambda x: torch.cat([x, x], -1),
    "repeat": lambda x: x.repeat(2, 1, 1),
    "half": lambda x: x.half().float(),
    "argmax": lambda x: x.argmax(),
    "median": lambda x: x.median(),
    "histc": lambda x: x.histc(4),
    "unique": lambda x: x.unique(),
    "inverse": lambda x: torch.linalg.norm(x, dim=-1),
    "clamp_": lambda x: x.clone(memory_format=torch.preserve_format).clamp_(-0.5, 0.5),
    "sdpa": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "interpolate": lambda x: F.interpolate(x[None], scale_factor=2.0),
    "tril": lambda x: x.tril(),
    "cdist": lambda x: torch.cdist(x, x),
    "any": lambda x: (x > 0).any(0),
}


@pytest.mark.parametrize("name", OPS)
def test_pt_78001_150967_131736_192212_197636_noncontiguous_inputs(name: str):
    torch.manual_seed(1)
    x = torch.randn(3, 4, 4)
    expected = OPS[name](x)
    for layout, value in layouts(x.to(DEV)).items():
        assert torch.equal(value.cpu(), x)
        torch.testing.assert_close(
            OPS[name](value).cpu(), expected, msg=lambda text, layout=layout: f"{layout}: {text}"
        )


@pytest.mark.parametrize(
    "name", ["softplus", "gelu", "softmax", "matmul", "conv1d", "layer_norm", "where3", "masked_fill"]
)
def test_pt_78001_150967_131736_gradients_of_noncontiguous_inputs(name: str):
    torch.manual_seed(1)
    base = torch.randn(3, 4, 4)

    def gradient(device: str) -> torch.Tensor:
        x = base.to(device).requires_grad_()
        OPS[name](x.transpose(1, 2)).square().sum().backward()
        return x.grad.cpu()

    torch.testing.assert_close(gradient(DEV), gradient("cpu"), rtol=1e-4, atol=1e-4)


def test_pt_78001_out_into_noncontiguous():
    x = torch.randn(4, 4)
    wide, expected = torch.zeros(4, 8, device=DEV), torch.zeros(4, 8)
    for function in (
        torch.exp,
        torch.neg,
        lambda v, out: torch.matmul(v, v, out=out),
        lambda v, out: torch.cumsum(v, 0, out=out),
    ):
        function(x.to(DEV), out=wide[:, ::2])
        function(x, out=expected[:, ::2])
        torch.testing.assert_close(wide.cpu(), expected)


def test_pt_197636_indices_beyond_2_to_32_elements():
    """A large tensor whose pages are touched only where used."""
    x = torch.empty(2**32 + 8, dtype=torch.int8, device=DEV)
    x[-3:] = 5
    assert x[2**32 + 5 :].tolist() == [5, 5, 5] and x[-3:].sum().item() == 15
    assert x.narrow(0, 2**32 + 6, 2).cpu().tolist() == [5, 5]
    del x
    torch.neuron.empty_cache()


@pytest.mark.filterwarnings("ignore:.*[Ss]parse.*:UserWarning")
def test_pt_123826_121797_126384_sparse_is_refused_at_once_with_advice(tmp_path):
    for make in (
        lambda: torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), device=DEV),
        lambda: torch.sparse_csr_tensor([0, 1, 1], [0], [1.0], (2, 2), device=DEV).sum(),
        lambda: torch.eye(2).to_sparse().to(DEV),
        lambda: torch.eye(2).to_sparse_csr().to(DEV).sum(),
    ):
        with pytest.raises((NotImplementedError, RuntimeError), match=r"(?i)sparse.*to_dense"):
            make()
    torch.save(torch.eye(2).to_sparse(), tmp_path / "sparse.pt")
    with pytest.raises((NotImplementedError, RuntimeError), match=r"(?i)sparse"):
        torch.load(tmp_path / "sparse.pt", map_location=DEV)
    assert torch.load(tmp_path / "sparse.pt").to_dense().to(DEV).sum().item() == 2
