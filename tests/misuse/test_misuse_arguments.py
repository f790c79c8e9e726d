"""Wrong shapes, dtypes, sizes, values and out= tensors: the device raises what the CPU raises."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from misuse_case import Mistake, check, integers, ones, parametrize

SHAPES = [
    Mistake(name="add", run=lambda d: ones(d, 3) + ones(d, 4), error=RuntimeError, says=("size of tensor", "(3)", "(4)")),
    Mistake(
        name="mm", run=lambda d: ones(d, 2, 3) @ ones(d, 4, 5), error=RuntimeError, says=("2x3", "4x5"),
    ),
    Mistake(
        name="bmm", run=lambda d: torch.bmm(ones(d, 2, 3, 4), ones(d, 3, 4, 5)), error=RuntimeError, says=("batch",),
    ),
    Mistake(
        name="linear", run=lambda d: torch.nn.Linear(4, 2).to(d)(ones(d, 3, 5)), error=RuntimeError, says=("3x5", "4x2"),
    ),
    Mistake(
        name="dot", run=lambda d: torch.dot(ones(d, 3), ones(d, 4)), error=RuntimeError, says=("same number", "3", "4"),
    ),
    Mistake(
        name="conv2d channels", run=lambda d: F.conv2d(ones(d, 1, 3, 8, 8), ones(d, 4, 2, 3, 3)), error=RuntimeError,
        says=("channels", "3", "2"),
    ),
    Mistake(
        name="conv2d kernel larger than its input", run=lambda d: F.conv2d(ones(d, 1, 1, 2, 2), ones(d, 1, 1, 5, 5)),
        error=RuntimeError, says=("kernel size", "5 x 5"),
    ),
    Mistake(
        name="conv2d of a vector", run=lambda d: F.conv2d(ones(d, 4), ones(d, 1, 1, 3, 3)), error=RuntimeError,
        says=("3d", "4d"),
    ),
    Mistake(
        name="conv2d stride 0", run=lambda d: F.conv2d(ones(d, 1, 1, 4, 4), ones(d, 1, 1, 3, 3), stride=0),
        error=RuntimeError, says=("stride",),
    ),
    Mistake(
        name="conv2d groups", run=lambda d: F.conv2d(ones(d, 1, 3, 4, 4), ones(d, 4, 3, 3, 3), groups=3),
        error=RuntimeError, says=("groups",),
    ),
    Mistake(
        name="max_pool2d padding", run=lambda d: F.max_pool2d(ones(d, 1, 1, 4, 4), 2, padding=2), error=RuntimeError,
        says=("pad",),
    ),
    Mistake(name="view", run=lambda d: ones(d, 6).view(4, 2), error=RuntimeError, says=("[4, 2]", "6")),
    Mistake(
        name="view of a transposed tensor", run=lambda d: ones(d, 2, 3).t().view(6), error=RuntimeError,
        says=("reshape",),
    ),
    Mistake(name="reshape", run=lambda d: ones(d, 6).reshape(-1, 4), error=RuntimeError, says=("[-1, 4]", "6")),
    Mistake(name="expand", run=lambda d: ones(d, 3).expand(4), error=RuntimeError, says=("4", "3")),
    Mistake(name="cat", run=lambda d: torch.cat([ones(d, 2, 3), ones(d, 2, 4)]), error=RuntimeError, says=("3", "4")),
    Mistake(name="stack", run=lambda d: torch.stack([ones(d, 2), ones(d, 3)]), error=RuntimeError, says=("[2]", "[3]")),
    Mistake(name="split", run=lambda d: ones(d, 4).split([1, 2]), error=RuntimeError, says=("4", "[1, 2]")),
    Mistake(name="copy_", run=lambda d: ones(d, 3).copy_(torch.ones(4)), error=RuntimeError, says=("3", "4")),
    Mistake(
        name="layer_norm", run=lambda d: F.layer_norm(ones(d, 2, 3), (4,)), error=RuntimeError, says=("[4]", "[2, 3]"),
    ),
    Mistake(
        name="batch_norm of one value per channel", run=lambda d: torch.nn.BatchNorm1d(3).to(d)(ones(d, 1, 3)),
        error=ValueError, says=("more than 1 value", "[1, 3]"),
    ),
    Mistake(
        name="cross_entropy", run=lambda d: F.cross_entropy(ones(d, 2, 3), integers(d, 0, 1, 2)), error=ValueError,
        says=("(2)", "(3)"),
    ),
    Mistake(name="item of several", run=lambda d: ones(d, 3).item(), error=RuntimeError, says=("3 elements", "Scalar")),
    Mistake(name="truth of several", run=lambda d: bool(ones(d, 3)), error=RuntimeError, says=("ambiguous",)),
    Mistake(name="iterate over a scalar", run=lambda d: list(torch.tensor(1.0, device=d)), error=TypeError, says=("0-d",)),
    Mistake(name="empty max", run=lambda d: ones(d, 0).max(), error=RuntimeError, says=("max",)),
    Mistake(
        name="cholesky of an indefinite matrix", run=lambda d: torch.linalg.cholesky(-torch.eye(3, device=d)),
        error=torch.linalg.LinAlgError, says=("positive-definite",),
    ),
    Mistake(
        name="inverse of a singular matrix", run=lambda d: torch.linalg.inv(torch.zeros(3, 3, device=d)),
        error=torch.linalg.LinAlgError, says=("singular",),
    ),
]  # fmt: skip


@parametrize(SHAPES)
def test_wrong_shape(mistake: Mistake) -> None:
    check(mistake)


VALUES = [
    Mistake(name="negative size", run=lambda d: torch.empty(-1, device=d), error=RuntimeError, says=("negative", "-1")),
    Mistake(
        name="negative size of zeros", run=lambda d: torch.zeros(2, -3, device=d), error=RuntimeError,
        says=("zeros", "non-negative"),
    ),
    Mistake(name="negative resize", run=lambda d: ones(d, 2).resize_(-2), error=RuntimeError),
    Mistake(
        name="negative stride", run=lambda d: ones(d, 4).as_strided((2,), (-1,)), error=RuntimeError, says=("negative",),
    ),
    Mistake(name="slice step", run=lambda d: ones(d, 4)[::-1], error=ValueError, says=("step",)),
    Mistake(name="narrow", run=lambda d: ones(d, 4).narrow(0, 3, 2), error=RuntimeError, says=("3", "2", "4")),
    Mistake(name="dimension", run=lambda d: ones(d, 2, 2).sum(2), error=IndexError, says=("[-2, 1]", "2")),
    Mistake(name="permute", run=lambda d: ones(d, 2, 2).permute(0, 0), error=RuntimeError, says=("permute",)),
    Mistake(name="squeeze", run=lambda d: ones(d, 1).squeeze(3), error=IndexError, says=("3",)),
    Mistake(name="arange", run=lambda d: torch.arange(0, 5, -1, device=d), error=RuntimeError, says=("step",)),
    Mistake(name="arange step 0", run=lambda d: torch.arange(0, 5, 0, device=d), error=RuntimeError, says=("nonzero",)),
    Mistake(
        name="linspace", run=lambda d: torch.linspace(0, 1, -1, device=d), error=RuntimeError, says=("non-negative",),
    ),
    Mistake(name="eye", run=lambda d: torch.eye(-1, device=d), error=RuntimeError, says=("-1",)),
    Mistake(name="dropout", run=lambda d: F.dropout(ones(d, 3), p=1.5), error=ValueError, says=("1.5",)),
    Mistake(
        name="bernoulli", run=lambda d: ones(d, 3).bernoulli_(1.5), error=RuntimeError, says=("1.5",),
    ),
    Mistake(
        name="multinomial of zeros", run=lambda d: torch.zeros(3, device=d).multinomial(1), error=RuntimeError,
        says=("sum",),
    ),
    Mistake(
        name="multinomial of too many", run=lambda d: ones(d, 3).multinomial(4), error=RuntimeError, says=("n_sample",),
    ),
    Mistake(name="normal", run=lambda d: ones(d, 3).normal_(0, -1), error=RuntimeError, says=("-1",)),
    Mistake(name="uniform", run=lambda d: ones(d, 3).uniform_(2, 1), error=RuntimeError, says=("2", "1")),
    Mistake(name="randint", run=lambda d: torch.randint(5, 5, (2,), device=d), error=RuntimeError, says=("from",)),
    Mistake(name="topk", run=lambda d: ones(d, 3).topk(4), error=RuntimeError, says=("k",)),
    Mistake(name="kthvalue", run=lambda d: ones(d, 3).kthvalue(0), error=RuntimeError, says=("k",)),
    Mistake(name="one_hot", run=lambda d: F.one_hot(integers(d, 5), 3), error=RuntimeError, says=("5", "3")),
    Mistake(
        name="interpolate to nothing", run=lambda d: F.interpolate(ones(d, 1, 1, 4, 4), size=(0, 0)),
        error=RuntimeError, says=("0",),
    ),
    Mistake(name="repeat", run=lambda d: ones(d, 3).repeat(-1), error=RuntimeError, says=("negative",)),
    Mistake(name="unfold", run=lambda d: ones(d, 3).unfold(0, 5, 1), error=RuntimeError, says=("5", "3")),
    Mistake(name="einsum", run=lambda d: torch.einsum("ij,jk", ones(d, 2, 3)), error=RuntimeError, says=("operands",)),
    Mistake(name="unknown pad mode", run=lambda d: F.pad(ones(d, 1, 3), (1, 1), "odd"), error=NotImplementedError),
    Mistake(name="sum of an unknown keyword", run=lambda d: ones(d, 3).sum(axes=0), error=TypeError, says=("axes",)),
    Mistake(
        name="size that overflows", run=lambda d: torch.empty(2**62, 8, device=d), error=RuntimeError,
        says=("overflow",),
    ),
]  # fmt: skip


@parametrize(VALUES)
def test_wrong_value(mistake: Mistake) -> None:
    check(mistake)


DTYPES = [
    Mistake(
        name="mm of two dtypes", run=lambda d: ones(d, 2, 2) @ ones(d, 2, 2, dtype=torch.float64), error=RuntimeError,
        says=("float", "double"),
    ),
    Mistake(
        name="linear", run=lambda d: F.linear(ones(d, 2, 2), ones(d, 2, 2, dtype=torch.bfloat16)), error=RuntimeError,
        says=("BFloat16", "float"),
    ),
    Mistake(
        name="conv2d bias",
        run=lambda d: F.conv2d(ones(d, 1, 1, 3, 3), ones(d, 1, 1, 3, 3), ones(d, 1, dtype=torch.float16)),
        error=RuntimeError, says=("bias", "type"),
    ),
    Mistake(
        name="embedding with float indices", run=lambda d: F.embedding(ones(d, 2), ones(d, 3, 3)), error=RuntimeError,
        says=("Float", "Long, Int"),
    ),
    Mistake(
        name="gather with float indices", run=lambda d: ones(d, 3).gather(0, ones(d, 1)), error=RuntimeError,
        says=("int64",),
    ),
    Mistake(
        name="index with floats", run=lambda d: ones(d, 3)[ones(d, 1)], error=IndexError, says=("long", "bool"),
    ),
    Mistake(
        name="mask of another shape", run=lambda d: ones(d, 3)[torch.tensor([True, False], device=d)], error=IndexError,
        says=("[2]", "[3]"),
    ),
    Mistake(
        name="masked_fill with a float mask", run=lambda d: ones(d, 3).masked_fill(ones(d, 3), 0), error=RuntimeError,
        says=("bool",),
    ),
    Mistake(
        name="cross_entropy with int32 targets",
        run=lambda d: F.cross_entropy(ones(d, 2, 3), integers(d, 0, 1).int()), error=RuntimeError, says=("Int",),
    ),
    Mistake(name="mean of integers", run=lambda d: integers(d, 1, 2).mean(), error=RuntimeError, says=("Long",)),
    Mistake(name="integer in-place division", run=lambda d: integers(d, 1).div_(2), error=RuntimeError, says=("Long",)),
    Mistake(name="bool subtraction", run=lambda d: ones(d, 2, dtype=torch.bool) - ones(d, 2, dtype=torch.bool),
            error=RuntimeError, says=("bool",)),
    Mistake(name="bitwise of floats", run=lambda d: ones(d, 2) & ones(d, 2), error=NotImplementedError, says=("Float",)),
    Mistake(
        name="scatter of another dtype",
        run=lambda d: ones(d, 3).scatter(0, integers(d, 0), ones(d, 1, dtype=torch.float64)), error=RuntimeError,
        says=("dtype",),
    ),
    Mistake(
        name="index_put of another dtype",
        run=lambda d: ones(d, 3).index_put_((integers(d, 0),), ones(d, 1, dtype=torch.float64)), error=RuntimeError,
        says=("Float", "Double"),
    ),
    Mistake(
        name="lstm input of another dtype",
        run=lambda d: torch.nn.LSTM(3, 3).to(d)(ones(d, 2, 1, 3, dtype=torch.float64)), error=ValueError,
        says=("float64", "float32"),
    ),
    Mistake(
        name="complex comparison", run=lambda d: ones(d, 2, dtype=torch.complex64) < ones(d, 2, dtype=torch.complex64),
        error=NotImplementedError, says=("Complex",),
    ),
    Mistake(
        name="gradients of integers", run=lambda d: integers(d, 1).requires_grad_(), error=RuntimeError,
        says=("floating point",),
    ),
    Mistake(
        name="float16 determinant", run=lambda d: torch.linalg.det(torch.eye(2, device=d).half()), error=RuntimeError,
        says=("half",),
    ),
]  # fmt: skip


@parametrize(DTYPES)
def test_wrong_dtype(mistake: Mistake) -> None:
    check(mistake)


OUT = [
    Mistake(
        name="dtype", run=lambda d: torch.add(ones(d, 2), 1.5, out=integers(d, 1, 2)), error=RuntimeError,
        says=("Float", "Long"),
    ),
    Mistake(
        name="device", run=lambda d: torch.add(ones(d, 2), ones(d, 2), out=torch.empty(2)), error=RuntimeError,
        says=("cpu", "neuron", "out"), as_cpu=False,
    ),
    Mistake(
        name="device, the other way", run=lambda d: torch.mm(torch.ones(2, 2), torch.ones(2, 2), out=ones(d, 2, 2)),
        error=RuntimeError, says=("cpu", "neuron"), as_cpu=False,
    ),
    Mistake(
        name="partly overlapping", run=lambda d: _overlap(d), error=RuntimeError, says=("single memory location", "clone"),
    ),
    Mistake(
        name="expanded", run=lambda d: torch.add(ones(d, 2), 1, out=ones(d, 1).expand(2)), error=RuntimeError,
        says=("more than one element",),
    ),
    Mistake(
        name="requires grad", run=lambda d: torch.add(ones(d, 2), 1, out=ones(d, 2, requires_grad=True)),
        error=RuntimeError, says=("out=", "grad"),
    ),
    Mistake(
        name="a tuple too short", run=lambda d: torch.max(ones(d, 2, 2), 0, out=(ones(d, 2),)), error=TypeError,
    ),
]  # fmt: skip


def _overlap(device: str) -> None:
    base = ones(device, 5)
    torch.add(base[:4], 1, out=base[1:])


@parametrize(OUT)
def test_wrong_out(mistake: Mistake) -> None:
    check(mistake)
