"""The fallback policy: process-wide, well nested or not, and warnings that point at the user's line."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest
from eager_keys import key

from trnsim import eager
from trnsim.eager import policy
from trnsim.errors import ConfigError, FallbackError, NeuronFallbackWarning, TrnsimError


@pytest.fixture(autouse=True)
def _fresh_policy() -> Iterator[None]:
    eager.reset_warnings()
    yield
    eager.set_policy(mode="warn", allow=frozenset(), behaviour="helpful", only_unimplemented=False)
    eager.reset_warnings()


def caught(*calls: tuple[str, str, str]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for op, why, site in calls:
            eager.on_fallback(op, why, site, "model.head", 3_200_000, 620_000)
    return seen


def test_the_warning_points_at_the_users_line_and_says_why_what_it_costs_and_what_to_do() -> None:
    (seen,) = caught(("aten::sort.stable", "missing_op", "/home/me/train.py:12"))
    assert (seen.filename, seen.lineno, seen.category) == ("/home/me/train.py", 12, NeuronFallbackWarning)
    text = str(seen.message)
    for part in (
        "aten::sort.stable",
        "missing_op",
        "model.head",
        "3.2 MB",
        "620 us",
        "argmax",
        "allow_fallback('aten::sort')",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("op", "why", "part"),
    [
        ("aten::convolution", "limits", "transposed"),
        ("aten::clone", "layout", "channels_last"),
        ("aten::mm", "dtype", "float"),
        ("aten::native_layer_norm", "complex", "real"),
        ("mylib::f", "custom_op", "nki_op"),
        ("aten::add.Tensor", "debug_repr", "none known"),
    ],
)
def test_each_reason_is_explained(op: str, why: str, part: str) -> None:
    (seen,) = caught((op, why, "a.py:1"))
    assert part in str(seen.message)


def test_once_per_op_and_line() -> None:
    seen = caught(*[("aten::sort", "missing_op", "a.py:1")] * 3, ("aten::sort", "missing_op", "a.py:2"))
    assert [warning.lineno for warning in seen] == [1, 2]


@pytest.mark.parametrize(("site", "place"), [("", ("<unknown>", 1)), ("C:\\a.py:7", ("C:\\a.py", 7)), ("x", ("x", 1))])
def test_odd_sites(site: str, place: tuple[str, int]) -> None:
    (seen,) = caught(("aten::sort", "missing_op", site))
    assert (seen.filename, seen.lineno) == place


def test_a_filter_that_makes_it_an_error_raises_every_time() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", NeuronFallbackWarning)
        for _ in range(2):
            with pytest.raises(NeuronFallbackWarning, match="aten::sort"):
                eager.on_fallback("aten::sort", "missing_op", "a.py:1")


def test_no_warning_when_allowed() -> None:
    with eager.fallback_policy("allow"):
        assert not caught(("aten::sort", "missing_op", "a.py:1"))
    with eager.allow_fallback("aten::sort"):
        assert not caught(("aten::sort.stable", "missing_op", "a.py:1"))
    assert len(caught(("aten::sort", "missing_op", "a.py:1"))) == 1


@pytest.mark.parametrize("name", ["sort", "aten::sort", "aten::sort_", "aten::sort.stable", "aten::sort.values_stable"])
def test_the_error_policy_and_its_allow_list(name: str) -> None:
    assert not eager.refuses(name)
    with eager.fallback_policy("error"):
        assert eager.refuses(name)
        with eager.allow_fallback("sort"):
            assert not eager.refuses(name)
        with eager.allow_fallback("aten::sort.stable"):
            assert eager.refuses(name) == ("sort.stable" not in name)
        assert eager.refuses(name)


def test_managers_nest_and_unwind_after_an_error() -> None:
    with pytest.raises(KeyError), eager.fallback_policy("error"), eager.fallback_policy("allow"):
        assert eager.current().mode == "allow"
        raise KeyError
    assert eager.current().mode == "warn"


def test_a_policy_reaches_every_thread_and_may_close_out_of_order() -> None:
    first, second = eager.fallback_policy("error"), eager.fallback_policy("allow")
    first.__enter__()
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(eager.current().mode))
    thread.start()
    thread.join()
    second.__enter__()
    first.__exit__(None, None, None)
    seen.append(eager.current().mode)
    second.__exit__(None, None, None)
    assert [*seen, eager.current().mode] == ["error", "allow", "warn"]


def test_threads_that_open_and_close_policies_at_once_leave_no_trace() -> None:
    def work(mode: policy.Mode) -> None:
        for _ in range(200):
            with eager.fallback_policy(mode), eager.allow_fallback("aten::sort"):
                assert eager.current().allows("aten::sort")

    modes: tuple[policy.Mode, ...] = ("warn", "allow", "error")
    threads = [threading.Thread(target=work, args=(modes[i % 3],)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert eager.current() == policy.Policy()


def test_only_unimplemented_refuses_rejected_arguments_but_not_missing_ops() -> None:
    eager.set_policy(only_unimplemented=True)
    assert eager.refuses("aten::convolution", "limits")
    assert eager.refuses("aten::mm", "dtype")
    assert not eager.refuses("aten::sort", "missing_op")
    assert not eager.refuses("mylib::f", "custom_op")


def test_the_refusal_names_op_reason_and_fix_and_is_caught_three_ways() -> None:
    answer = eager.resolve(key("aten::topk", "float32"))
    with eager.fallback_policy("error"):
        error = eager.refusal("aten::topk", answer, site="a.py:3", module="router")
    for part in (
        "aten::topk",
        "a.py:3",
        "router",
        "missing_op",
        "policy is 'error'",
        "argmax",
        "allow_fallback('aten::topk')",
    ):
        assert part in str(error)
    assert isinstance(error, FallbackError)
    assert isinstance(error, NotImplementedError)
    assert isinstance(error, TrnsimError)


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: eager.fallback_policy("loud").__enter__(), ("'loud'", "'warn', 'allow', 'error'")),  # type: ignore[arg-type]
        (lambda: eager.behaviour("nice").__enter__(), ("'nice'", "'faithful'")),  # type: ignore[arg-type]
        (lambda: eager.set_policy(mode="x"), ("'x'", "'allow'")),  # type: ignore[arg-type]
        (lambda: eager.allow_fallback("").__enter__(), ("''", "aten::sort")),
        (lambda: eager.allow_fallback("a b").__enter__(), ("'a b'", "aten::sort")),
    ],
)
def test_bad_values_name_what_was_seen_and_what_is_allowed(make: object, parts: tuple[str, ...]) -> None:
    assert callable(make)
    with pytest.raises(ConfigError) as caught_error:
        make()
    for part in parts:
        assert part in str(caught_error.value)
    assert eager.current() == policy.Policy()


def test_listeners_see_each_change_until_they_leave() -> None:
    seen: list[str] = []
    leave = eager.subscribe(lambda state: seen.append(state.mode))
    with eager.fallback_policy("error"):
        pass
    leave()
    with eager.fallback_policy("allow"):
        pass
    assert seen == ["warn", "error", "warn"]


def test_importing_does_not_import_torch_or_read_the_table() -> None:
    code = "import sys, trnsim.eager; print('torch' in sys.modules, trnsim.eager._session)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_environ())
    assert done.stdout.split() == ["False", "None"]


def _environ() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
