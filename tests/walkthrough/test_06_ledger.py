"""6. The ledger: what happened, where, and what it cost."""

import pytest
import torch
from torch import nn

import torch_neuronx
import trnsim
from trnsim import ledger


def test_record_a_piece_of_code():
    model = nn.Linear(64, 64).to("neuron")
    x = torch.ones(8, 64)
    with trnsim.fallback_policy("allow"), ledger.record() as session:
        y = model(x.to("neuron"))
        y.sort()
        if y.sum() > 0:  # a hidden wait for the device
            pass
    by_op = {stat.op: stat for stat in session.ops()}
    assert by_op["aten::addmm"].flops >= 2 * 8 * 64 * 64 and by_op["aten::addmm"].engine == "tensor"
    assert [(stat.op.split(".")[0], stat.reason) for stat in session.fallbacks()] == [("aten::sort", "missing_op")]
    assert [event.detail for event in session.transfers()] == ["h2d"]
    assert [event.site.split("/")[-1] for event in session.syncs()] == ["test_06_ledger.py:18"]
    assert session.elapsed_ns() > 0 and session.memory()[0].capacity == 24 * 2**30


def test_no_fallback_allowed_in_a_test():
    x = torch.ones(4, device="neuron")
    with ledger.assert_no_fallback():
        x.softmax(0)
    with (
        pytest.raises(AssertionError, match="aten::sort"),
        trnsim.fallback_policy("allow"),
        ledger.assert_no_fallback(),
    ):
        x.sort()


def test_torch_neuronx_names():
    x = torch.ones(4, device="neuron")
    torch_neuronx.clear_op_tracking()
    with trnsim.fallback_policy("allow"):
        x.mul(x).sort()
    assert torch_neuronx.get_executed_ops() == ["aten::mul.Tensor"]
    assert torch_neuronx.get_fallback_ops()[0].startswith("aten::sort")
