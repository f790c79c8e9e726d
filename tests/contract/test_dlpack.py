"""DLPack: named device, exchange within torch, refusal of consumers that cannot read it."""

from __future__ import annotations

import pytest
import torch
from torch.utils.dlpack import DLDeviceType, from_dlpack, to_dlpack


def test_device_is_an_extension_device():
    assert torch.ones(1, device="neuron:1").__dlpack_device__() == (DLDeviceType.kDLExtDev, 1)
    assert torch.ones(1).__dlpack_device__()[0] == DLDeviceType.kDLCPU


def test_round_trip_shares_memory():
    x = torch.arange(6.0, device="neuron").reshape(2, 3)
    y = from_dlpack(to_dlpack(x))
    assert y.device == x.device and y.data_ptr() == x.data_ptr() and torch.equal(x, y)
    y[0, 0] = 9
    assert x[0, 0].item() == 9
    assert (y + 1).device.type == "neuron"


def test_round_trip_by_protocol_and_other_device():
    x = torch.arange(4, device="neuron:2")[1:]
    y = torch.from_dlpack(x)
    assert y.device.index == 2 and y.tolist() == [1, 2, 3]


def test_memory_outlives_the_producer():
    x = torch.arange(100.0, device="neuron")
    y = from_dlpack(to_dlpack(x))
    del x
    junk = [torch.zeros(100, device="neuron") for _ in range(10)]
    assert y.tolist() == list(range(100))
    del junk


def test_numpy_refuses_it():
    import numpy

    with pytest.raises((TypeError, RuntimeError, BufferError, ValueError)):
        numpy.from_dlpack(torch.ones(2, device="neuron"))
    assert numpy.from_dlpack(torch.ones(2, device="neuron").cpu()).tolist() == [1, 1]


def test_from_numpy_to_the_device():
    import numpy

    assert torch.from_dlpack(numpy.arange(3)).to("neuron").tolist() == [0, 1, 2]
