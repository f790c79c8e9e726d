"""Out of memory, storages, resizing, and memory that the host may not touch."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest
import torch
from misuse_case import Mistake, check, ones, parametrize

GIB = 1 << 30
CAPACITY = torch.neuron.mem_get_info()[1] if hasattr(torch.neuron, "mem_get_info") else 24 * GIB

TOO_LARGE: dict[str, Callable[[], object]] = {
    "one tensor larger than the device": lambda: torch.empty(CAPACITY + 1, dtype=torch.uint8, device="neuron"),
    "a tebibyte": lambda: torch.empty(1 << 40, dtype=torch.uint8, device="neuron"),
    "nearly all the address space": lambda: torch.empty(2**62, dtype=torch.uint8, device="neuron"),
    "empty_strided": lambda: torch.empty_strided((2**20, 2**20), (2**20, 1), device="neuron"),
    "from the host": lambda: torch.empty(1).expand(CAPACITY).to("neuron").contiguous(),
    "the result of an operation": lambda: torch.ones(1, device="neuron").expand(CAPACITY).exp(),
    "the result of a matrix product": lambda: ones("neuron", 2**18, 1) @ ones("neuron", 1, 2**18),
    "storage resize": lambda: ones("neuron", 1).untyped_storage().resize_(CAPACITY + 1),
    "tensor resize": lambda: ones("neuron", 1).resize_(CAPACITY),
    "cat": lambda: torch.cat([ones("neuron", 1).expand(CAPACITY // 4)] * 2),
    "a broadcast": lambda: ones("neuron", 2**18, 1) + ones("neuron", 1, 2**18),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_larger_than_the_device(name: str) -> None:
    with pytest.raises(torch.OutOfMemoryError) as raised:
        TOO_LARGE[name]()
    text = str(raised.value)
    for part in ("neuron:0", "out of memory", "requested", "free", "24.00 GiB", "largest block", "smaller batch"):
        assert part in text, f"no {part!r} in: {text}"
    assert isinstance(raised.value, RuntimeError)


def test_many_small_tensors_fill_the_device_and_freeing_them_empties_it() -> None:
    held = []
    before = torch.neuron.memory_allocated()
    with pytest.raises(torch.OutOfMemoryError) as raised:
        while True:
            held.append(torch.empty(GIB, dtype=torch.uint8, device="neuron"))
    assert 22 <= len(held) <= 24
    text = str(raised.value)
    assert "requested 1.00 GiB" in text and "test_misuse_memory.py:" in text, text
    assert f"in {len(held)} block(s)" in text, text
    held.clear()
    del raised
    gc.collect()
    assert torch.neuron.memory_allocated() - before < 1 << 20
    assert torch.empty(20 * GIB, dtype=torch.uint8, device="neuron").numel() == 20 * GIB


def test_fragments_are_returned_before_the_device_gives_up() -> None:
    held = [torch.empty(GIB, dtype=torch.uint8, device="neuron") for _ in range(20)]
    del held[::2]
    with pytest.raises(torch.OutOfMemoryError, match="largest block"):
        torch.empty(20 * GIB, dtype=torch.uint8, device="neuron")
    del held
    assert torch.empty(20 * GIB, dtype=torch.uint8, device="neuron").is_neuron


def test_out_of_memory_inside_backward() -> None:
    x = torch.ones(1, device="neuron", requires_grad=True)
    wide = x.expand(CAPACITY // 4)
    with pytest.raises(torch.OutOfMemoryError):
        (wide * wide).sum().backward()
    assert x.grad is None


def test_out_of_memory_counts() -> None:
    before = torch.neuron.memory_stats()["num_ooms"]
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 40, dtype=torch.uint8, device="neuron")
    assert torch.neuron.memory_stats()["num_ooms"] == before + 1


def test_other_devices_are_not_touched_by_one_that_is_full() -> None:
    full = torch.empty(23 * GIB, dtype=torch.uint8, device="neuron:0")
    with pytest.raises(torch.OutOfMemoryError, match="neuron:0"):
        torch.empty(2 * GIB, dtype=torch.uint8, device="neuron:0")
    other = torch.empty(2 * GIB, dtype=torch.uint8, device="neuron:1")
    assert other.device.index == 1 and full.device.index == 0


HOST = [
    Mistake(
        name="numpy()", run=lambda d: ones("neuron", 2).numpy(), error=TypeError, as_cpu=False,
        says=("neuron", "Tensor.cpu()"),
    ),
    Mistake(
        name="numpy.asarray", run=lambda d: np.asarray(ones("neuron", 2)), error=TypeError, as_cpu=False,
        says=("neuron", "Tensor.cpu()"),
    ),
    Mistake(
        name="a numpy function", run=lambda d: np.add(np.ones(2), ones("neuron", 2)), error=TypeError, as_cpu=False,
        says=("neuron", "Tensor.cpu()"),
    ),
    Mistake(
        name="DLPack to numpy", run=lambda d: np.from_dlpack(ones("neuron", 2)), error=(BufferError, RuntimeError),
        as_cpu=False, says=("device",),
    ),
    Mistake(
        name="the buffer protocol", run=lambda d: memoryview(ones(d, 2)), error=TypeError, says=("bytes-like",),
    ),
    Mistake(
        name="pin", run=lambda d: ones("neuron", 2).pin_memory(), error=RuntimeError, as_cpu=False,
        says=("neuron", "dense CPU tensors can be pinned"),
    ),
    Mistake(
        name="create pinned", run=lambda d: torch.empty(2, device="neuron", pin_memory=True), error=RuntimeError,
        as_cpu=False, says=("pinned",),
    ),
    Mistake(
        name="share", run=lambda d: torch.multiprocessing.reductions.reduce_storage(ones("neuron", 2).untyped_storage()),
        error=RuntimeError, as_cpu=False, says=("only available on CPU",),
    ),
    Mistake(
        name="untyped storage of the CPU", run=lambda d: ones("neuron", 2).set_(torch.UntypedStorage(8), 0, (2,)),
        error=RuntimeError, as_cpu=False, says=("neuron:0", "cpu"),
    ),
    Mistake(
        name="data of another device type", run=lambda d: setattr(ones("neuron", 2), "data", torch.empty(2, device="meta")),
        error=RuntimeError, as_cpu=False, says=("incompatible",),
    ),
    Mistake(
        name="view of another size of item", run=lambda d: ones(d, 3, dtype=torch.uint8).view(torch.int32),
        error=RuntimeError, says=("divisible",),
    ),
    Mistake(
        name="index of storage", run=lambda d: ones(d, 2).untyped_storage()[99], error=(IndexError, RuntimeError),
        says=("99",),
    ),
]  # fmt: skip


@parametrize(HOST)
def test_host_access(mistake: Mistake) -> None:
    check(mistake)
