"""Copies of every direction, dtype and layout."""

from __future__ import annotations

import pytest
import torch

DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.uint16,
]
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "column": lambda x: x[:, 1],
    "strided": lambda x: x[::2, ::2],
    "offset": lambda x: x[1:, 1:],
    "expanded": lambda x: x[:1].expand(4, 6),
    "empty": lambda x: x[:0],
    "scalar": lambda x: x[0, 0],
}


def source(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(24).reshape(4, 6).remainder(7).to(dtype)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype.itemsize == 1 and a.dtype.is_floating_point:
        return torch.equal(a.float(), b.float())
    return torch.equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_round_trip(dtype: torch.dtype, layout: str):
    x = LAYOUTS[layout](source(dtype))
    there = x.to("neuron")
    assert there.dtype == dtype and there.shape == x.shape and there.device.type == "neuron"
    assert there.stride() == x.to("cpu", copy=True).stride()
    assert same(there.cpu(), x)
    on_device = LAYOUTS[layout](source(dtype).to("neuron"))
    assert same(on_device.cpu(), x)


@pytest.mark.parametrize("to", [torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.float16, torch.bool], ids=str)
def test_casts_within_and_across(dtype: torch.dtype, to: torch.dtype):
    x = source(dtype)
    expected = x.to(to)
    assert same(x.to("neuron").to(to).cpu(), expected)
    assert same(x.to("neuron", to).cpu(), expected)
    assert same(x.to("neuron").to("cpu", to), expected)


@pytest.mark.parametrize("pair", [("cpu", "neuron"), ("neuron", "cpu"), ("neuron", "neuron"), ("neuron", "neuron:1")])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided", "column"])
def test_copy_into_a_view(pair: tuple[str, str], layout: str):
    src, dst = pair
    target, expected = torch.zeros(4, 6, device=dst), torch.zeros(4, 6)
    x = source(torch.float32)
    LAYOUTS[layout](target).copy_(LAYOUTS[layout](x.to(src)))
    LAYOUTS[layout](expected).copy_(LAYOUTS[layout](x))
    assert torch.equal(target.cpu(), expected)


@pytest.mark.parametrize("pair", [("cpu", "neuron"), ("neuron", "cpu"), ("neuron:1", "neuron")])
def test_copy_broadcasts_and_casts(pair: tuple[str, str]):
    target = torch.zeros(3, 2, device=pair[1])
    target.copy_(torch.tensor([1, 2], device=pair[0]))
    assert target.tolist() == [[1, 2]] * 3
    with pytest.raises(RuntimeError, match=r"must match the size|expanded size"):
        target.copy_(torch.ones(5, device=pair[0]))


def test_to_the_same_device_is_the_same_tensor():
    x = torch.ones(2, device="neuron")
    assert x.to("neuron") is x and x.to("neuron:0") is x and x.to(0) is x
    assert x.to("neuron", copy=True) is not x
    assert x.cpu().to("cpu") is not x


def test_to_other_device_moves():
    x = torch.arange(3.0, device="neuron:1")
    assert x.to("neuron:2").device.index == 2 and x.to("neuron:2").tolist() == [0, 1, 2]
    with torch.neuron.device(1):
        assert x.to("neuron") is x


def test_copies_do_not_share_memory():
    x = torch.ones(3)
    y = x.to("neuron")
    y.add_(1)
    assert x.tolist() == [1, 1, 1]
    z = y.cpu()
    z.add_(1)
    assert y.tolist() == [2, 2, 2]


def test_copy_is_differentiable():
    x = torch.ones(3, requires_grad=True)
    (x.to("neuron") * torch.arange(3.0, device="neuron")).sum().backward()
    assert x.grad.tolist() == [0, 1, 2] and x.grad.device.type == "cpu"
    y = torch.ones(2, device="neuron", requires_grad=True)
    y.cpu().sum().backward()
    assert y.grad.device.type == "neuron"


def test_memory_format():
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert x.to("neuron").stride() == x.stride()
    assert torch.equal(x.to("neuron", memory_format=torch.contiguous_format).cpu(), x)


def test_numpy_both_ways():
    import numpy

    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    assert torch.from_numpy(array).to("neuron").cpu().numpy().tolist() == array.tolist()
    assert torch.as_tensor(array, device="neuron").device.type == "neuron"
    assert torch.tensor(array, device="neuron").sum().item() == 15
    with pytest.raises(TypeError, match=r"neuron.*Tensor\.cpu\(\)"):
        torch.ones(1, device="neuron").numpy()
    with pytest.raises(TypeError, match="neuron"):
        numpy.asarray(torch.ones(1, device="neuron"))


def test_items():
    assert torch.tensor(3, device="neuron").item() == 3
    assert torch.tensor([2.5], device="neuron").item() == 2.5
    assert torch.tensor(1 + 2j, device="neuron").item() == 1 + 2j
    assert torch.tensor(True, device="neuron").item() is True
    assert int(torch.tensor(2**40, device="neuron")) == 2**40
    assert [0, 1, 2][torch.tensor(1, device="neuron")] == 1
    assert "1.50" in f"{torch.tensor(1.5, device='neuron'):.2f}"
    with pytest.raises(RuntimeError, match="2 elements cannot be converted"):
        torch.ones(2, device="neuron").item()


def test_python_data_and_factories():
    assert torch.tensor([[1, 2], [3, 4]], device="neuron").tolist() == [[1, 2], [3, 4]]
    x = torch.ones(2, device="neuron")
    for made in (
        torch.zeros(2, device="neuron"),
        torch.full((2,), 3.0, device="neuron"),
        torch.arange(2, device="neuron"),
        torch.linspace(0, 1, 2, device="neuron"),
        torch.eye(2, device="neuron"),
        torch.empty_like(x),
        x.new_tensor([1]),
        x.new_full((2,), 1),
        torch.ones_like(torch.ones(2), device="neuron"),
        torch.empty_strided((2, 2), (1, 2), device="neuron"),
        torch.triu_indices(3, 3, device="neuron"),
        torch.hann_window(4, device="neuron"),
        torch.scalar_tensor(2, device="neuron"),
        torch.logspace(0, 1, 3, device="neuron"),
        torch.full_like(x, 5),
    ):
        assert made.device == torch.device("neuron:0")


def test_deferred_module_and_to_empty():
    with torch.device("meta"):
        layer = torch.nn.Linear(3, 3)
    layer.to_empty(device="neuron")
    assert layer.weight.device.type == "neuron"
    with pytest.raises(NotImplementedError, match="meta tensor"):
        torch.empty(2, device="meta").to("neuron")
