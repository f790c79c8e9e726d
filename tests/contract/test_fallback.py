"""Fallback policy: warn once at the user's line, allow, error, allow list, environment, behaviour."""

from __future__ import annotations

import sys
import warnings

import pytest
import torch

import trnsim
from trnsim import ledger
from trnsim.errors import FallbackError, NeuronFallbackWarning, TrnsimError


def line() -> int:
    return sys._getframe(1).f_lineno


def test_result_of_a_fallback_is_on_the_device_and_right():
    x = torch.tensor([3.0, 1.0, 2.0], device="neuron")
    with trnsim.fallback_policy("allow"):
        values, indices = x.sort()
    assert values.device.type == "neuron" and values.tolist() == [1, 2, 3] and indices.tolist() == [1, 2, 0]


def test_warning_points_at_the_users_line_once():
    x = torch.randn(10).to("neuron")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            here = line() + 1
            x.argsort()
    mine = [w for w in caught if issubclass(w.category, NeuronFallbackWarning)]
    assert len(mine) == 1
    assert mine[0].filename == __file__ and mine[0].lineno == here
    text = str(mine[0].message)
    assert "sort" in text and "CPU" in text and "Fix" in text and "trnsim.allow_fallback" in text


def test_each_line_warns():
    x = torch.randn(10).to("neuron")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x.msort()
        x.msort()
    assert len({w.lineno for w in caught if issubclass(w.category, NeuronFallbackWarning)}) == 2


def test_warning_names_the_line_of_the_user_not_of_torch():
    layer = torch.nn.GroupNorm(2, 4).to("neuron")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        layer(torch.ones(1, 4, 3).to("neuron"))
    assert all(w.filename == __file__ for w in caught if issubclass(w.category, NeuronFallbackWarning))


def test_allow_is_silent_but_counted():
    with warnings.catch_warnings(), trnsim.fallback_policy("allow"), ledger.record() as session:
        warnings.simplefilter("error")
        torch.randn(10).to("neuron").sort()
    assert [stat.op.split(".")[0] for stat in session.fallbacks()] == ["aten::sort"]


def test_error_names_op_line_reason_and_fix():
    x = torch.randn(10).to("neuron")
    with trnsim.fallback_policy("error"), pytest.raises(FallbackError) as info:
        x.sort()
    text = str(info.value)
    assert "aten::sort" in text and f"test_fallback.py:{info.traceback[0].lineno + 1}" in text and "Fix" in text
    assert isinstance(info.value, NotImplementedError) and isinstance(info.value, TrnsimError)


def test_error_leaves_the_device_working():
    x = torch.tensor([2.0, 1.0], device="neuron")
    with trnsim.fallback_policy("error"):
        with pytest.raises(FallbackError):
            x.sort()
        assert (x + 1).tolist() == [3, 2]
    with trnsim.fallback_policy("allow"):
        assert x.sort().values.tolist() == [1, 2]


def test_error_refuses_before_an_in_place_op_changes_anything():
    x = torch.zeros(4, device="neuron")
    with trnsim.fallback_policy("error"), pytest.raises(FallbackError):
        x.normal_()
    assert x.tolist() == [0, 0, 0, 0]


def test_allow_list_excuses_one_op():
    x = torch.randn(10).to("neuron")
    with trnsim.fallback_policy("error"), trnsim.allow_fallback("aten::sort"):
        x.sort()
        with pytest.raises(FallbackError):
            x.normal_()
    with trnsim.fallback_policy("error"), pytest.raises(FallbackError):
        x.sort()


def test_policy_holds_on_autograds_threads():
    x = torch.ones(3, device="neuron", requires_grad=True)

    class UsesSort(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value * 1

        @staticmethod
        def backward(ctx, grad):
            return grad.sort().values

    with trnsim.fallback_policy("error"), pytest.raises(FallbackError):
        UsesSort.apply(x).sum().backward()


def test_warning_as_error_raises_each_time():
    x = torch.randn(10).to("neuron")
    with warnings.catch_warnings():
        warnings.simplefilter("error", NeuronFallbackWarning)
        for _ in range(2):
            with pytest.raises(NeuronFallbackWarning):
                x.sort()


def test_bad_policy_name():
    with pytest.raises(ValueError, match=r"'sometimes'.*'warn', 'allow', 'error'"), trnsim.fallback_policy("sometimes"):
        pass


def test_policy_by_environment(run_python):
    done = run_python(
        """
        from trnsim.errors import FallbackError
        x = torch.ones(3, device="neuron")
        x.sort()            # on the list
        try:
            x.normal_()
        except FallbackError as error:
            print("refused", error)
        """,
        TRNSIM_FALLBACK="error",
        TRNSIM_FALLBACK_ALLOW="aten::sort",
    )
    assert "refused" in done.stdout and done.stderr == ""


def test_warning_reaches_a_plain_programs_stderr(run_python):
    done = run_python("x = torch.ones(3, device='neuron')\nx.sort()\nx.sort()\n")
    assert (
        done.stderr.count("NeuronFallbackWarning") == 2
        and "script.py:4" in done.stderr
        and "script.py:5" in done.stderr
    )


def test_only_unimplemented_switch(run_python):
    run_python(
        """
        x = torch.ones(3, device="neuron")
        x.sort()            # no implementation at all: still falls back
        """,
        TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS="1",
    )


def test_faithful_refuses_what_the_device_refuses(run_python):
    done = run_python(
        """
        conv = torch.nn.Conv2d(2, 2, 1).to("neuron")
        x = torch.ones(1, 2, 4, 4).to("neuron")
        conv(x)
        try:
            x.to(memory_format=torch.channels_last)
        except NotImplementedError as error:
            print(error)
        """,
        TRNSIM_BEHAVIOUR="faithful",
    )
    assert "channels_last" in done.stdout and "TRNSIM_BEHAVIOUR=helpful" in done.stdout


def test_printing_does_not_warn_nor_count():
    x = torch.randn(10).to("neuron")
    with warnings.catch_warnings(), ledger.record() as session:
        warnings.simplefilter("error")
        repr(x), str(torch.nn.Parameter(x)), f"{x}"
    assert session.ops() == [] and session.fallbacks() == [] and session.events == []
