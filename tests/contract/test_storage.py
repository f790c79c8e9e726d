"""Storages: sharing, resizing, set_, hooks, untyped and typed access."""

from __future__ import annotations

import pytest
import torch


def test_views_share_one_storage():
    x = torch.arange(12.0, device="neuron").reshape(3, 4)
    for view in (x[1], x.t(), x.view(-1), x[:, ::2], x.detach(), x.unsqueeze(0), x.expand(2, 3, 4), x.data):
        assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert view.untyped_storage()._cdata == x.untyped_storage()._cdata


def test_size_in_bytes():
    x = torch.empty(5, dtype=torch.float64, device="neuron")
    assert x.untyped_storage().nbytes() == 40 == x.nbytes
    assert len(x.untyped_storage()) == 40


def test_storage_resize_to_zero_and_back_frees_the_memory():
    """What FSDP does to sharded parameters."""
    before = torch.neuron.memory_allocated()
    x = torch.ones(1 << 18, device="neuron")
    size = x.untyped_storage().nbytes()
    x.untyped_storage().resize_(0)
    assert torch.neuron.memory_allocated() == before and x.untyped_storage().nbytes() == 0
    x.untyped_storage().resize_(size)
    assert torch.neuron.memory_allocated() == before + size
    x.fill_(2)
    assert x.sum().item() == 2 * (1 << 18)


def test_storage_resize_keeps_contents():
    x = torch.arange(4.0, device="neuron")
    x.untyped_storage().resize_(64)
    assert x.tolist() == [0, 1, 2, 3]
    y = torch.as_strided(x, (16,), (1,))
    assert y.shape == (16,)


def test_tensor_resize_():
    x = torch.arange(4.0, device="neuron:1")
    x.resize_(2, 3)
    assert x.shape == (2, 3) and x.device.index == 1 and x.view(-1)[:4].tolist() == [0, 1, 2, 3]
    x.resize_(2)
    assert x.tolist() == [0, 1]
    x.resize_as_(torch.empty(3, 3, device="neuron:1"))
    assert x.shape == (3, 3)


def test_set_from_storage_tensor_and_nothing():
    x = torch.arange(6.0, device="neuron")
    y = torch.empty(0, device="neuron")
    y.set_(x.untyped_storage(), 2, (2,), (2,))
    assert y.tolist() == [2, 4]
    y[0] = 50
    assert x[2].item() == 50
    y.set_(x)
    assert y.tolist() == x.tolist()
    y.set_()
    assert y.numel() == 0 and y.device.type == "neuron"


def test_set_from_another_device_is_refused():
    with pytest.raises(RuntimeError, match=r"[Dd]evice"):
        torch.empty(0, device="neuron").set_(torch.ones(3).untyped_storage())
    with pytest.raises(RuntimeError, match=r"[Dd]evice"):
        torch.empty(0, device="neuron").set_(torch.ones(3))


def test_storage_copies_and_moves():
    x = torch.arange(4, dtype=torch.uint8, device="neuron")
    storage = x.untyped_storage()
    assert storage.cpu().tolist() == [0, 1, 2, 3] == storage.tolist()
    clone = storage.clone()
    assert clone.device.type == "neuron" and clone.data_ptr() != storage.data_ptr()
    back = torch.tensor([9, 9, 9, 9], dtype=torch.uint8).untyped_storage()
    storage.copy_(back)
    assert x.tolist() == [9, 9, 9, 9]
    storage.fill_(3)
    assert x.tolist() == [3, 3, 3, 3]


def test_empty_storage_of_the_device():
    storage = torch.UntypedStorage(16, device="neuron")
    assert storage.device == torch.device("neuron:0") and storage.nbytes() == 16
    typed = torch.ones(3, device="neuron").storage()
    assert typed.dtype == torch.float32 and typed.size() == 3


def test_legacy_storage_types():
    x = torch.ones(3, device="neuron")
    assert x.storage_type().__name__ == "FloatStorage"
    assert x.long().storage_type().__name__ == "LongStorage"


def test_data_assignment_swaps_the_storage():
    x = torch.zeros(2, device="neuron")
    y = torch.ones(3, device="neuron")
    x.data = y
    assert x.shape == (3,) and x.data_ptr() == y.data_ptr()


def test_swap_tensors():
    a, b = torch.zeros(2, device="neuron"), torch.ones(3, device="neuron")
    torch.utils.swap_tensors(a, b)
    assert a.tolist() == [1, 1, 1] and b.tolist() == [0, 0]


def test_use_count_and_weakref():
    x = torch.ones(2, device="neuron")
    weak = torch.multiprocessing.reductions.StorageWeakRef(x.untyped_storage())
    assert not weak.expired()
    del x
    assert weak.expired()


def test_storage_and_memory_outlive_the_first_tensor():
    x = torch.arange(8.0, device="neuron")
    view = x[3:5]
    del x
    junk = [torch.full((8,), 7.0, device="neuron") for _ in range(20)]
    assert view.tolist() == [3, 4]
    del junk


def test_lazy_clone_is_a_real_copy():
    x = torch.arange(3.0, device="neuron")
    y = torch._lazy_clone(x)
    x[0] = 9
    assert y.tolist() == [0, 1, 2]


def test_zero_tensors():
    zero = torch._efficientzerotensor((2, 3), device="neuron")
    assert zero.device.type == "neuron" and (zero + 1).tolist() == [[1.0] * 3] * 2
