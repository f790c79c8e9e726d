"""Indices out of range, overlapping writes, and in-place changes that autograd forbids."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from misuse_case import Mistake, check, integers, ones, parametrize

OUT_OF_RANGE = [
    Mistake(name="python index", run=lambda d: ones(d, 3)[3], error=IndexError, says=("3", "size 3")),
    Mistake(name="tensor index", run=lambda d: ones(d, 3)[integers(d, 7)], error=IndexError, says=("7", "size 3")),
    Mistake(name="negative index", run=lambda d: ones(d, 3)[integers(d, -4)], error=IndexError, says=("-4", "size 3")),
    Mistake(
        name="index with CPU indices", run=lambda d: ones(d, 3)[torch.tensor([7])], error=IndexError, says=("7", "size 3"),
    ),
    Mistake(name="too many indices", run=lambda d: ones(d, 3)[0, 0], error=IndexError, says=("too many",)),
    Mistake(name="gather", run=lambda d: ones(d, 3).gather(0, integers(d, 9)), error=RuntimeError, says=("9", "size 3")),
    Mistake(
        name="index_select", run=lambda d: ones(d, 3).index_select(0, integers(d, 9)), error=(IndexError, RuntimeError),
        says=("out of range",),
    ),
    Mistake(
        name="embedding", run=lambda d: F.embedding(integers(d, 9), ones(d, 3, 3)), error=IndexError,
        says=("out of range",),
    ),
    Mistake(
        name="negative embedding", run=lambda d: F.embedding(integers(d, -1), ones(d, 3, 3)), error=IndexError,
        says=("out of range",),
    ),
    Mistake(
        name="scatter", run=lambda d: ones(d, 3).scatter_(0, integers(d, 9), 1.0), error=RuntimeError,
        says=("9", "size 3"),
    ),
    Mistake(
        name="scatter_add", run=lambda d: ones(d, 3).scatter_add_(0, integers(d, 9), ones(d, 1)), error=RuntimeError,
        says=("9", "size 3"),
    ),
    Mistake(
        name="index_add", run=lambda d: ones(d, 3).index_add_(0, integers(d, 9), ones(d, 1)), error=IndexError,
        says=("out of range",),
    ),
    Mistake(
        name="index_put", run=lambda d: ones(d, 3).index_put_((integers(d, 9),), ones(d, 1)), error=IndexError,
        says=("9", "size 3"),
    ),
    Mistake(name="take", run=lambda d: ones(d, 3).take(integers(d, 9)), error=IndexError, says=("out of range",)),
    Mistake(name="select", run=lambda d: ones(d, 3).select(0, 5), error=IndexError, says=("5",)),
    Mistake(
        name="class of cross_entropy", run=lambda d: F.cross_entropy(ones(d, 1, 3), integers(d, 9)), error=IndexError,
        says=("Target 9",),
    ),
    Mistake(
        name="class of nll_loss", run=lambda d: F.nll_loss(ones(d, 1, 3), integers(d, -1)), error=IndexError,
        says=("Target -1",),
    ),
    Mistake(
        name="as_strided beyond the storage", run=lambda d: ones(d, 4).as_strided((3, 3), (3, 1)), error=RuntimeError,
        says=("storage",),
    ),
    Mistake(
        name="max_unpool2d", run=lambda d: F.max_unpool2d(ones(d, 1, 1, 1, 1), integers(d, 99).view(1, 1, 1, 1), 2),
        error=RuntimeError, says=("99",),
    ),
]  # fmt: skip


@parametrize(OUT_OF_RANGE)
def test_index_out_of_range(mistake: Mistake) -> None:
    check(mistake)


def _later_change(device: str) -> None:
    x = ones(device, 3, requires_grad=True)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


def _backward_twice(device: str) -> None:
    loss = ones(device, 3, requires_grad=True).exp().sum()
    loss.backward()
    loss.backward()


def _view_of_no_grad(device: str) -> None:
    first, _ = ones(device, 2, 2, requires_grad=True).clone().unbind()
    first.mul_(2)


def _gradient_of_another_shape(device: str) -> None:
    x = ones(device, 3, requires_grad=True)
    x.grad = ones(device, 4)


def _gradient_on_another_device(device: str) -> None:
    x = ones(device, 3, requires_grad=True)
    x.grad = torch.ones(3, device="meta")


WRITES = [
    Mistake(
        name="leaf that requires grad", run=lambda d: ones(d, 3, requires_grad=True).add_(1), error=RuntimeError,
        says=("leaf",),
    ),
    Mistake(
        name="expanded tensor", run=lambda d: ones(d, 1).expand(3).add_(1), error=RuntimeError,
        says=("more than one element", "clone"),
    ),
    Mistake(
        name="copy into an expanded tensor", run=lambda d: ones(d, 1).expand(3).copy_(torch.ones(3)), error=RuntimeError,
        says=("more than one element",),
    ),
    Mistake(
        name="neighbour overlaps", run=lambda d: (lambda x: x[1:].add_(x[:-1]))(ones(d, 5)), error=RuntimeError,
        says=("single memory location", "clone"),
    ),
    Mistake(
        name="in-place broadcast", run=lambda d: ones(d, 3).add_(ones(d, 2, 3)), error=RuntimeError, says=("[3]", "[2, 3]"),
    ),
    Mistake(
        name="random fill of an expanded tensor", run=lambda d: ones(d, 1).expand(3).normal_(), error=RuntimeError,
        says=("more than one element",),
    ),
    Mistake(name="change before backward", run=_later_change, error=RuntimeError, says=("inplace", "version")),
    Mistake(name="backward twice", run=_backward_twice, error=RuntimeError, says=("second time",)),
    Mistake(name="one of several views", run=_view_of_no_grad, error=RuntimeError, says=("view", "inplace")),
    Mistake(
        name="backward without grad", run=lambda d: ones(d, 3).sum().backward(), error=RuntimeError,
        says=("does not require grad",),
    ),
    Mistake(
        name="backward of a vector", run=lambda d: ones(d, 3, requires_grad=True).exp().backward(), error=RuntimeError,
        says=("scalar",),
    ),
    Mistake(name="gradient of another shape", run=_gradient_of_another_shape, error=RuntimeError, says=("[4]", "[3]")),
    Mistake(name="gradient on another device", run=_gradient_on_another_device, error=RuntimeError, says=("meta",)),
    Mistake(
        name="inference tensor saved for backward", run=lambda d: _inference(d), error=RuntimeError,
        says=("inference",),
    ),
    Mistake(
        name="optimizer without parameters", run=lambda d: torch.optim.SGD([], lr=0.1), error=ValueError,
        says=("empty parameter list",),
    ),
]  # fmt: skip


def _inference(device: str) -> None:
    with torch.inference_mode():
        x = ones(device, 3)
    (ones(device, 3, requires_grad=True) * x).sum().backward()


@parametrize(WRITES)
def test_forbidden_write(mistake: Mistake) -> None:
    check(mistake)


def test_a_failed_write_leaves_the_tensor_alone() -> None:
    x = torch.arange(4.0, device="neuron")
    with pytest.raises(IndexError):
        x.index_put_((integers("neuron", 0, 9),), torch.tensor([5.0, 6.0], device="neuron"))
    with pytest.raises(RuntimeError):
        x.add_(torch.ones(3, device="neuron"))
    assert x.shape == (4,) and x[1:].tolist() == [1.0, 2.0, 3.0]


def test_nan_and_infinity_to_int_is_no_error_as_on_the_cpu() -> None:
    values = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.5])
    assert torch.equal(values.to("neuron").to(torch.int32).cpu(), values.to(torch.int32))
    assert torch.equal(values.to("neuron").to(torch.int64).cpu(), values.to(torch.int64))


def test_anomaly_mode_names_the_operation_that_made_nan() -> None:
    with pytest.raises(RuntimeError, match=r"SqrtBackward0.*nan"), torch.autograd.detect_anomaly(check_nan=True):
        x = torch.zeros(2, device="neuron", requires_grad=True)
        (x.sqrt() * 0).sum().backward()


def test_an_exception_in_a_backward_hook_reaches_the_caller() -> None:
    x = torch.ones(2, device="neuron", requires_grad=True)
    y = x * 2

    def hook(gradient: torch.Tensor) -> None:
        raise KeyError("mine")

    y.register_hook(hook)
    with pytest.raises(KeyError, match="mine"):
        y.sum().backward()
