"""Devices that do not exist, are of another kind, or are mixed in one operation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from misuse_case import Mistake, check, integers, ones, parametrize

COUNT = torch.neuron.device_count()

WRONG_INDEX: list[Mistake] = [
    Mistake(
        name=name,
        run=lambda device, run=run: run(),
        error=RuntimeError,
        as_cpu=False,
        says=(f"neuron:{shown}", "does not exist", f"{COUNT} neuron device", "TRNSIM_INSTANCE"),
    )
    for name, shown, run in [
        ("create", 99, lambda: torch.ones(2, device="neuron:99")),
        ("to", 99, lambda: torch.ones(2).to("neuron:99")),
        ("first that does not exist", COUNT, lambda: torch.ones(2).to(f"neuron:{COUNT}")),
        ("set_device", 99, lambda: torch.neuron.set_device(99)),
        ("set_device beyond a byte", 256, lambda: torch.neuron.set_device(256)),
        ("set_device that would wrap to 44", 300, lambda: torch.neuron.set_device(300)),
        ("accelerator.set_device_index", 99, lambda: torch.accelerator.set_device_index(99)),
        ("device context", 99, lambda: torch.neuron.device(99).__enter__()),
        ("synchronize", 99, lambda: torch.neuron.synchronize(99)),
        ("properties", 99, lambda: torch.neuron.get_device_properties(99)),
        ("properties beyond a byte", 256, lambda: torch.neuron.get_device_properties(256)),
        ("memory_allocated", 99, lambda: torch.neuron.memory_allocated(99)),
        ("generator", 99, lambda: torch.Generator(device="neuron:99")),
        ("rng state", 99, lambda: torch.neuron.get_rng_state("neuron:99")),
        ("stream", 99, lambda: torch.neuron.Stream(device=99)),
        ("Module.to", 99, lambda: torch.nn.Linear(2, 2).to("neuron:99")),
        ("empty_like", 99, lambda: torch.empty_like(torch.ones(2), device="neuron:99")),
    ]
]


@parametrize(WRONG_INDEX)
def test_index_that_does_not_exist(mistake: Mistake) -> None:
    check(mistake)


WRONG_KIND = [
    Mistake(
        name="set_device of another type", run=lambda d: torch.neuron.set_device("cpu"), error=ValueError, as_cpu=False,
        says=("neuron", "cpu"),
    ),
    Mistake(
        name="set_device of a float", run=lambda d: torch.neuron.set_device(1.5), error=TypeError, as_cpu=False,
        says=("float", "1.5", "neuron:N"),
    ),
    Mistake(
        name="set_device of None", run=lambda d: torch.neuron.set_device(None), error=TypeError, as_cpu=False,
        says=("None", "neuron"),
    ),
    Mistake(
        name="device of a misspelt type", run=lambda d: torch.ones(2, device="neurom"), error=RuntimeError, as_cpu=False,
        says=("neurom",),
    ),
    Mistake(
        name="device string without an index", run=lambda d: torch.device(f"{d}:"), error=RuntimeError,
        says=("invalid device string",),
    ),
    Mistake(
        name="negative index", run=lambda d: torch.device("neuron:-2"), error=RuntimeError, as_cpu=False,
        says=("neuron:-2",),
    ),
    Mistake(
        name="stream of the CPU", run=lambda d: torch.neuron.Stream(device="cpu"), error=ValueError, as_cpu=False,
        says=("neuron", "cpu"),
    ),
    Mistake(
        name="properties of another type", run=lambda d: torch.neuron.get_device_properties("cuda:0"), error=ValueError,
        as_cpu=False, says=("neuron", "cuda:0"),
    ),
    Mistake(
        name="cuda", run=lambda d: torch.ones(2, device=d).cuda(), error=AssertionError, as_cpu=True, says=("CUDA",),
    ),
]  # fmt: skip


@parametrize(WRONG_KIND)
def test_device_of_another_kind(mistake: Mistake) -> None:
    check(mistake)


X = ones
TWO_DEVICES: dict[str, Callable[[str, str], object]] = {
    "add": lambda a, b: X(a, 3) + X(b, 3),
    "add_": lambda a, b: X(a, 3).add_(X(b, 3)),
    "mul": lambda a, b: X(a, 3) * X(b, 3),
    "comparison": lambda a, b: X(a, 3) < X(b, 3),
    "where": lambda a, b: torch.where(X(a, 3) > 0, X(b, 3), X(b, 3)),
    "mm": lambda a, b: X(a, 3, 3) @ X(b, 3, 3),
    "addmm": lambda a, b: torch.addmm(X(a, 3), X(a, 3, 3), X(b, 3, 3)),
    "bmm": lambda a, b: torch.bmm(X(a, 2, 3, 3), X(b, 2, 3, 3)),
    "linear weight": lambda a, b: F.linear(X(a, 2, 3), X(b, 4, 3)),
    "linear bias": lambda a, b: F.linear(X(a, 2, 3), X(a, 4, 3), X(b, 4)),
    "conv2d": lambda a, b: F.conv2d(X(a, 1, 1, 4, 4), X(b, 1, 1, 3, 3)),
    "cat": lambda a, b: torch.cat([X(a, 3), X(b, 3)]),
    "stack": lambda a, b: torch.stack([X(a, 3), X(b, 3)]),
    "embedding": lambda a, b: F.embedding(integers(a, 0, 1), X(b, 3, 3)),
    "gather": lambda a, b: X(a, 3).gather(0, integers(b, 0, 1)),
    "index_select": lambda a, b: X(a, 3).index_select(0, integers(b, 0, 1)),
    "scatter": lambda a, b: X(a, 3).scatter(0, integers(a, 0), X(b, 1)),
    "masked_fill": lambda a, b: X(a, 3).masked_fill(X(b, 3) > 0, 1.0),
    "layer_norm": lambda a, b: F.layer_norm(X(a, 2, 3), (3,), X(b, 3)),
    "batch_norm": lambda a, b: F.batch_norm(X(a, 2, 3), X(b, 3), X(b, 3)),
    "cross_entropy": lambda a, b: F.cross_entropy(X(a, 2, 3), integers(b, 0, 1)),
    "mse_loss": lambda a, b: F.mse_loss(X(a, 2, 3), X(b, 2, 3)),
    "attention": lambda a, b: F.scaled_dot_product_attention(X(a, 1, 1, 2, 4), X(b, 1, 1, 2, 4), X(a, 1, 1, 2, 4)),
    "_foreach_add": lambda a, b: torch._foreach_add([X(a, 3), X(a, 3)], [X(a, 3), X(b, 3)]),
    "out": lambda a, b: torch.add(X(a, 3), X(a, 3), out=X(b, 3)),
    "lstm": lambda a, b: torch.nn.LSTM(3, 3).to(a)(X(b, 2, 1, 3)),
    "set_ to a storage of another device": lambda a, b: X(a, 3).set_(X(b, 3).untyped_storage()),
}


@pytest.mark.parametrize("other", ["cpu", "neuron:1"])
@pytest.mark.parametrize("name", TWO_DEVICES)
def test_mixed_devices(name: str, other: str) -> None:
    """Both orders. The message names both devices, wherever PyTorch itself does not check first."""
    for first, second in (("neuron:0", other), (other, "neuron:0")):
        with pytest.raises(RuntimeError) as raised:
            TWO_DEVICES[name](first, second)
        text = str(raised.value)
        assert "neuron" in text and other.split(":")[0] in text and "device" in text, text
        assert not isinstance(raised.value, NotImplementedError), text


def test_a_cpu_scalar_may_be_mixed_in_but_not_written() -> None:
    x = torch.ones(3, device="neuron")
    assert (x + torch.tensor(2.0)).device.type == "neuron"
    with pytest.raises(RuntimeError, match="neuron"):
        torch.tensor(1.0).add_(x.sum())


def test_a_mixed_operation_says_what_to_do() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.ones(3, device="neuron") + torch.ones(3)
    for part in ("neuron:0", "cpu", "other", "aten::add", "[3]", '.to("neuron")'):
        assert part in str(raised.value), raised.value
    with pytest.raises(RuntimeError) as raised:
        torch.ones(3, device="neuron") + torch.ones(3, device="neuron:1")
    for part in ("neuron:0", "neuron:1", '.to("neuron:0")'):
        assert part in str(raised.value), raised.value
