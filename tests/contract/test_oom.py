"""Out of memory: the message says what to do, and the device goes on working."""

from __future__ import annotations

import gc
import sys

import pytest
import torch

GIB = 1 << 30


@pytest.fixture(autouse=True)
def _fresh_device() -> None:
    gc.collect()
    torch.neuron.empty_cache()


def test_message_has_requested_free_largest_and_top_sites():
    hog, line = torch.empty(20 * GIB, dtype=torch.uint8, device="neuron"), sys._getframe().f_lineno
    with pytest.raises(torch.OutOfMemoryError) as info:
        torch.empty(6 * GIB, dtype=torch.uint8, device="neuron")
    text = str(info.value)
    assert "neuron:0" in text and "requested 6.00 GiB" in text and "of 24.00 GiB" in text
    assert "largest block" in text
    assert f"test_oom.py:{line}: 20.00 GiB in 1 block" in text
    assert "smaller batch" in text
    del hog


def test_device_works_after_oom():
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(25 * GIB, dtype=torch.uint8, device="neuron")
    x = torch.ones(4, device="neuron") + 1
    assert x.tolist() == [2, 2, 2, 2]
    assert torch.neuron.memory_stats()["num_ooms"] >= 1


def test_oom_inside_an_op_leaves_no_allocation_behind():
    x = torch.empty(7 * GIB, dtype=torch.bool, device="neuron")
    before = torch.neuron.memory_allocated()
    with pytest.raises(torch.OutOfMemoryError):
        x.to(torch.float32)
    assert torch.neuron.memory_allocated() == before
    assert (torch.ones(2, device="neuron") * 3).tolist() == [3, 3]
    del x


def test_full_memory_is_taken_to_the_last_segment():
    blocks = [torch.empty(GIB, dtype=torch.uint8, device="neuron") for _ in range(23)]
    assert torch.neuron.memory_reserved() >= 23 * GIB
    rest = torch.empty(900 << 20, dtype=torch.uint8, device="neuron")
    del blocks, rest


def test_cached_segments_are_given_up_before_failing():
    blocks = [torch.empty(2 * GIB, dtype=torch.uint8, device="neuron") for _ in range(10)]
    del blocks
    assert torch.neuron.memory_reserved() >= 20 * GIB  # cached in pieces too small for what follows
    x = torch.empty(22 * GIB, dtype=torch.uint8, device="neuron")
    assert torch.neuron.memory_stats()["num_alloc_retries"] >= 1
    del x


def test_other_devices_are_not_affected():
    hog = torch.empty(23 * GIB, dtype=torch.uint8, device="neuron:0")
    other = torch.empty(2 * GIB, dtype=torch.uint8, device="neuron:1")
    assert other.device.index == 1
    del hog, other


def test_oom_in_backward_reaches_the_user_and_passes():
    x = torch.ones(4, device="neuron", requires_grad=True)

    class Hungry(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value * 2

        @staticmethod
        def backward(ctx, grad):
            torch.empty(25 * GIB, dtype=torch.uint8, device="neuron")
            return grad

    with pytest.raises(torch.OutOfMemoryError, match=r"requested 25\.00 GiB"):
        Hungry.apply(x).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3, 3, 3]


def test_oom_is_caught_as_runtime_error_too():
    with pytest.raises(RuntimeError, match="out of memory"):
        torch.empty(25 * GIB, dtype=torch.uint8, device="neuron")


def test_negative_and_absurd_sizes_are_errors_of_their_own():
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.empty(-1, device="neuron")
    with pytest.raises(RuntimeError):
        torch.empty(1 << 62, 1 << 10, device="neuron")


def test_failed_resize_leaves_the_tensor_as_it_was():
    x = torch.arange(2.0, device="neuron")
    with pytest.raises(torch.OutOfMemoryError):
        x.resize_(10 * GIB)
    assert x.shape == (2,) and x.untyped_storage().nbytes() == 8 and x.tolist() == [0, 1]
