"""Views: metadata only, writes through, autograd's view tracking."""

from __future__ import annotations

import pytest
import torch

VIEWS = {
    "select": lambda x: x[1],
    "slice": lambda x: x[:, 1:3],
    "strided_slice": lambda x: x[:, ::2],
    "transpose": lambda x: x.t(),
    "permute": lambda x: x.view(2, 2, 4).permute(2, 0, 1),
    "view": lambda x: x.view(2, 8),
    "reshape": lambda x: x.reshape(16),
    "flatten": lambda x: x.flatten(),
    "unflatten": lambda x: x.unflatten(1, (2, 2)),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1),
    "narrow": lambda x: x.narrow(0, 1, 2),
    "diagonal": lambda x: x.diagonal(),
    "diagonal_offset": lambda x: x.diagonal(1),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "as_strided": lambda x: x.as_strided((3, 3), (4, 1), 1),
    "split": lambda x: x.split(2)[1],
    "chunk": lambda x: x.chunk(2, 1)[0],
    "tensor_split": lambda x: x.tensor_split(3)[0],
    "unbind": lambda x: x.unbind()[2],
    "hsplit": lambda x: x.hsplit(2)[1],
    "movedim": lambda x: x.movedim(0, 1),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "view_dtype": lambda x: x.view(torch.int32),
    "view_dtype_wider": lambda x: x.view(torch.float64),
    "detach": lambda x: x.detach(),
    "alias": lambda x: torch.ops.aten.alias(x),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "expand": lambda x: x[:1].expand(3, 4),
    "lift_fresh": lambda x: torch.ops.aten.lift_fresh(x),
    "view_as": lambda x: x.view_as(torch.empty(2, 8)),
    "real_of_real": lambda x: x.real,
}


def base(device: str) -> torch.Tensor:
    return torch.arange(16.0, device=device).reshape(4, 4)


@pytest.mark.parametrize("name", VIEWS)
def test_view_has_cpus_metadata_and_shares_memory(name: str):
    ours, theirs = base("neuron"), base("cpu")
    view, expected = VIEWS[name](ours), VIEWS[name](theirs)
    assert (view.shape, view.stride(), view.storage_offset()) == (
        expected.shape,
        expected.stride(),
        expected.storage_offset(),
    )
    assert view.untyped_storage()._cdata == ours.untyped_storage()._cdata
    assert torch.equal(view.cpu(), expected)


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in {"expand", "unfold"}])
def test_write_through_a_view_reaches_the_base(name: str):
    ours, theirs = base("neuron"), base("cpu")
    VIEWS[name](ours).fill_(7)
    VIEWS[name](theirs).fill_(7)
    assert torch.equal(ours.cpu(), theirs)


@pytest.mark.parametrize("name", VIEWS)
def test_ops_read_views_right(name: str):
    view, expected = VIEWS[name](base("neuron")), VIEWS[name](base("cpu"))
    assert torch.equal((view + view).cpu(), expected + expected)
    assert torch.equal(view.contiguous().cpu(), expected.contiguous())
    assert torch.equal(view.clone().cpu(), expected.clone())
    assert view.clone().stride() == expected.clone().stride()


def test_write_of_one_element_of_an_unfolded_view():
    x = torch.zeros(4, device="neuron")
    x.unfold(0, 2, 1)[1, 0] = 9
    assert x.tolist() == [0, 9, 0, 0]


def test_complex_views():
    z = torch.zeros(2, dtype=torch.complex64, device="neuron")
    torch.view_as_real(z)[1, 0] = 3
    z.imag[0] = 5
    assert z.tolist() == [5j, 3]
    assert torch.view_as_complex(torch.tensor([[1.0, 2.0]], device="neuron")).tolist() == [1 + 2j]


def test_conj_and_neg_bits_are_lazy_and_resolve():
    z = torch.tensor([1 + 2j, 3 - 1j], device="neuron")
    conj = z.conj()
    assert conj.is_conj() and conj.data_ptr() == z.data_ptr()
    assert conj.tolist() == [1 - 2j, 3 + 1j] == conj.resolve_conj().tolist() == conj.clone().tolist()
    assert conj.imag.is_neg() and conj.imag.tolist() == [-2, 1] == conj.imag.resolve_neg().tolist()
    assert (conj * z).tolist() == [5, 10]
    conj[0] = 7 + 1j
    assert z[0].item() == 7 - 1j
    assert torch.equal(z.conj().cpu(), z.cpu().conj())
    assert torch.dot(z, conj).item() == torch.dot(z.cpu(), z.cpu().conj()).item()


def test_autograd_knows_views():
    x = base("neuron").requires_grad_()
    y = x * 1
    view = y[0]
    assert view._is_view() and view._base is y
    view.mul_(3)
    y.sum().backward()
    assert x.grad.cpu().tolist() == [[3.0] * 4] + [[1.0] * 4] * 3


def test_in_place_on_a_leaf_is_refused():
    x = torch.ones(2, device="neuron", requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.add_(1)


def test_version_counter_catches_modified_saved_tensors():
    x = torch.ones(2, device="neuron", requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_impossible_view_says_so():
    with pytest.raises(RuntimeError, match=r"\.reshape"):
        base("neuron").t().view(16)
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        base("neuron").view(5, 5)


def test_overlapping_writes_are_refused():
    x = torch.zeros(1, device="neuron").expand(3)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.add_(1)
    y = torch.arange(4.0, device="neuron")
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.add(y[:3], 1, out=y[1:])
    with pytest.raises(RuntimeError, match="single memory location"):
        y[1:].mul_(y[:3])
    assert y.tolist() == [0, 1, 2, 3]


def test_vmap_and_functional_transforms():
    x = base("neuron")
    assert torch.equal(torch.vmap(torch.sum)(x).cpu(), x.cpu().sum(1))
    jacobian = torch.func.jacrev(lambda v: v**2)(x[0])
    assert torch.equal(jacobian.cpu(), torch.diag(2 * x[0].cpu()))
