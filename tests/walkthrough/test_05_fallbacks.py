"""5. Fallbacks: what the device cannot do runs on the CPU, costs a lot, and says so."""

import warnings

import pytest
import torch

import trnsim
from trnsim.errors import FallbackError, NeuronFallbackWarning


def test_it_works_and_warns_once_at_your_line():
    x = torch.tensor([3.0, 1.0, 2.0], device="neuron")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            values = x.sort().values  # sorting has no Neuron implementation
    assert values.tolist() == [1, 2, 3] and values.is_neuron
    (warning,) = [w for w in caught if w.category is NeuronFallbackWarning]
    assert warning.filename == __file__
    assert "aten::sort" in str(warning.message) and "Fix" in str(warning.message)


def test_it_is_slow_there():
    """Synchronise, copy out, compute, copy back: more than 500 us in simulated time."""
    x = torch.ones(4, device="neuron")
    torch.neuron.synchronize()
    with trnsim.fallback_policy("allow"):
        before = trnsim.clock()
        x.sort()
        assert trnsim.clock() - before > 0.4  # ms


def test_policy_error_makes_it_an_exception():
    """TRNSIM_FALLBACK=error does the same for a whole program: good for CI."""
    x = torch.ones(4, device="neuron")
    with trnsim.fallback_policy("error"):
        (x + 1).exp()
        with pytest.raises(FallbackError, match="aten::sort"):
            x.sort()


def test_except_what_you_allow():
    """TRNSIM_FALLBACK_ALLOW=aten::sort,aten::topk."""
    with trnsim.fallback_policy("error"), trnsim.allow_fallback("aten::sort"):
        assert torch.tensor([2.0, 1.0], device="neuron").sort().values.tolist() == [1, 2]
