"""Layouts, kinds of tensors and programs that the device does not hold or know."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from misuse_case import Mistake, check, ones, parametrize

pytestmark = pytest.mark.filterwarnings("ignore:.*(beta|prototype|Sparse|TypedStorage|quant).*")


def _sparse() -> torch.Tensor:
    return torch.eye(3).to_sparse()


def _quantized() -> torch.Tensor:
    return torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)


def _nested() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


LAYOUTS: dict[str, tuple[Callable[[], object], tuple[str, ...]]] = {
    "move a sparse tensor": (lambda: _sparse().to("neuron"), ("neuron", "sparse", "to_dense()")),
    "move a CSR tensor": (lambda: torch.eye(3).to_sparse_csr().to("neuron").sum(), ("neuron", "sparse", "to_dense()")),
    "create a sparse tensor": (
        lambda: torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), device="neuron"), ("neuron", "sparse", "to_dense()"),
    ),
    "create a CSR tensor": (
        lambda: torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), device="neuron").sum(), ("neuron", "sparse", "to_dense()"),
    ),
    "to_sparse": (lambda: torch.eye(3, device="neuron").to_sparse(), ("neuron", "sparse")),
    "to_sparse_csr": (lambda: torch.eye(3, device="neuron").to_sparse_csr(), ("neuron", "sparse")),
    "empty with a sparse layout": (
        lambda: torch.empty(2, 2, device="neuron", layout=torch.sparse_coo), ("neuron", "sparse", "to_dense()"),
    ),
    "sparse embedding gradients": (
        lambda: torch.nn.functional.embedding(
            torch.tensor([0], device="neuron"), ones("neuron", 3, 3, requires_grad=True), sparse=True).sum().backward(),
        ("neuron", "sparse"),
    ),
    "sparse times device": (lambda: torch.sparse.mm(_sparse(), ones("neuron", 3, 3)), ("neuron",)),
    "move a quantized tensor": (lambda: _quantized().to("neuron"), ("neuron", "quantized", "dequantize()")),
    "quantize": (
        lambda: torch.quantize_per_tensor(ones("neuron", 3), 0.1, 0, torch.qint8), ("neuron", "quantized", "dequantize()"),
    ),
    "move a nested tensor": (lambda: _nested().to("neuron"), ("neuron", "nested", "jagged")),
    "create a nested tensor": (
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device="neuron") + 1, ("neuron", "nested", "jagged"),
    ),
    "mkldnn": (lambda: ones("neuron", 3).to_mkldnn(), ("neuron", "mkldnn")),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout_the_device_does_not_hold(name: str) -> None:
    run, says = LAYOUTS[name]
    with pytest.raises((NotImplementedError, RuntimeError)) as raised:
        run()
    for part in says:
        assert part.lower() in str(raised.value).lower(), f"no {part!r} in: {raised.value}"


@pytest.fixture
def library() -> torch.library.Library:
    """A library of a user's operators that ends with the test."""
    made = torch.library.Library("misuse", "FRAGMENT")
    yield made
    made._destroy()


def test_custom_operator_without_any_kernel(library: torch.library.Library) -> None:
    library.define("bare(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError) as raised:
        torch.ops.misuse.bare(ones("neuron", 3))
    for part in ("misuse::bare", "neuron", "CPU", "register_kernel"):
        assert part in str(raised.value), raised.value


def test_custom_operator_with_a_cuda_kernel_only(library: torch.library.Library) -> None:
    library.define("cuda_only(Tensor x) -> Tensor")
    library.impl("cuda_only", lambda x: x, "CUDA")
    with pytest.raises(NotImplementedError, match=r"misuse::cuda_only.*neuron"):
        torch.ops.misuse.cuda_only(ones("neuron", 3))


def test_custom_operator_whose_kernel_raises(library: torch.library.Library) -> None:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        raise KeyError("from the kernel")

    library.define("raising(Tensor x) -> Tensor")
    library.impl("raising", kernel, "CPU")
    with pytest.raises(KeyError, match="from the kernel"):
        torch.ops.misuse.raising(ones("neuron", 3))


def test_custom_operator_that_returns_no_tensor(library: torch.library.Library) -> None:
    library.define("wrong(Tensor x) -> Tensor")
    library.impl("wrong", lambda x: 3, "CPU")
    with pytest.raises(RuntimeError, match="Tensor"):
        torch.ops.misuse.wrong(ones("neuron", 3))


AUTOCAST = [
    Mistake(
        name="autocast of an integer dtype", run=lambda d: _autocast(torch.int32), error=RuntimeError, as_cpu=False,
        says=("neuron autocast", "only supports", "bfloat16"),
    ),
    Mistake(
        name="autocast of no dtype", run=lambda d: _autocast("bf16"), error=(TypeError, RuntimeError, ValueError),
        as_cpu=False,
    ),
    Mistake(
        name="autocast of a device that does not exist", run=lambda d: torch.autocast("neurom").__enter__(),
        error=RuntimeError, as_cpu=False, says=("neurom",),
    ),
    Mistake(
        name="scaler stepped twice", run=lambda d: _scaler(d, twice=True), error=RuntimeError, says=("step()",),
    ),
    Mistake(
        name="scaler with float16 gradients", run=lambda d: _scaler(d, dtype=torch.float16), error=ValueError, says=("FP16",),
    ),
    Mistake(
        name="fused optimizer with parameters on two devices", run=lambda d: _fused(), error=RuntimeError, as_cpu=False,
        says=("device",),
    ),
    Mistake(
        name="compile backend misspelt", run=lambda d: torch.compile(lambda x: x + 1, backend="neurom")(ones(d, 2)),
        error=RuntimeError, says=("neurom",), as_cpu=False,
    ),
]  # fmt: skip


def _autocast(dtype: object) -> None:
    with pytest.warns(UserWarning) as caught:  # PyTorch warns and switches autocast off: that is its contract
        with torch.autocast("neuron", dtype=dtype):  # type: ignore[arg-type]
            assert (ones("neuron", 2, 2) @ ones("neuron", 2, 2)).dtype == torch.float32
    raise RuntimeError(str(caught[0].message))


def _scaler(device: str, *, twice: bool = False, dtype: torch.dtype = torch.float32) -> None:
    weight = ones(device, 3, requires_grad=True, dtype=dtype)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler(device)
    scaler.scale(weight.float().sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    if twice:
        scaler.step(optimizer)


def _fused() -> None:
    weights = [ones("neuron", 3, requires_grad=True), ones("neuron:1", 3, requires_grad=True)]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    weights[1].grad = None
    weights[1].data = weights[1].data
    optimizer = torch.optim.AdamW(weights, fused=True)
    torch._fused_sgd_(
        [weights[0].detach()], [ones("neuron:1", 3)], [], weight_decay=0, momentum=0, lr=0.1, dampening=0, nesterov=False,
        maximize=False, is_first_step=True,
    )  # fmt: skip
    optimizer.step()


@parametrize(AUTOCAST)
def test_amp_and_optimizers(mistake: Mistake) -> None:
    check(mistake)


def _saved(value: object) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def test_checkpoint_of_a_device_that_does_not_exist_here() -> None:
    text = _saved({"w": torch.ones(3, device="neuron:1")}).getvalue().replace(b"neuron:1", b"neuron:9")
    with pytest.raises(RuntimeError) as raised:
        torch.load(io.BytesIO(text))
    for part in ("neuron", "9", "map_location"):
        assert part in str(raised.value), raised.value
    assert torch.load(io.BytesIO(text), map_location="cpu")["w"].tolist() == [1, 1, 1]


def test_map_location_that_does_not_exist() -> None:
    with pytest.raises(RuntimeError, match="9"):
        torch.load(_saved(torch.ones(3)), map_location="neuron:9")


def test_load_state_dict_of_other_shapes() -> None:
    module = torch.nn.Linear(2, 3).to("neuron")
    before = module.weight.detach().clone()
    with pytest.raises(RuntimeError, match=r"size mismatch for weight"):
        module.load_state_dict({"weight": torch.ones(3, 4), "bias": torch.ones(3)})
    assert torch.equal(module.weight, before)


def test_truncated_checkpoint(tmp_path: Path) -> None:
    whole = _saved(torch.ones(300, device="neuron")).getvalue()
    (tmp_path / "half.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RuntimeError, match="zip archive"):
        torch.load(tmp_path / "half.pt")
