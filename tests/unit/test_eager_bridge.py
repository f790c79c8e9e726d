"""The functions that the C++ core calls, with a stand-in for the core and for the cost model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from eager_keys import Key, Tensor, key

import trnsim
from trnsim import eager
from trnsim.eager import bridge, policy
from trnsim.errors import FallbackError, NeuronFallbackWarning, UnsupportedError


@dataclass(frozen=True)
class Cost:
    duration_ns: int
    engine: str = "vector"
    bytes: int = 32
    flops: int = 16


class Model:
    """A cost model with two prices."""

    def op(self, asked: Key) -> Cost:
        return Cost(60_000)

    def fallback(self, asked: Key) -> Cost:
        return Cost(620_000, engine="host", flops=0)


class Core:
    """Records what the policy tells the core."""

    def __init__(self) -> None:
        self.policies: list[str] = []
        self.forgotten = 0

    def set_policy(self, name: str) -> None:
        self.policies.append(name)

    def forget_entries(self) -> None:
        self.forgotten += 1


def options(directory: Path, **changes: object) -> SimpleNamespace:
    values: dict[str, object] = {
        "lnc": 2,
        "complex_decompose": True,
        "neff_cache_dir": str(directory),
        "neff_disable_cache": False,
        "cc_flags": "",
        "compiler_opt_level": "",
        "fallback": "warn",
        "fallback_allow": (),
        "behaviour": "helpful",
        "fallback_only_for_unimplemented_ops": False,
    }
    return SimpleNamespace(**{**values, **changes})


@pytest.fixture
def core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Core]:
    fake = Core()
    monkeypatch.setattr(trnsim, "_C", fake, raising=False)
    monkeypatch.setattr(policy, "_listeners", [])  # the real core's, if the device is loaded
    monkeypatch.setattr(bridge, "_leave", None)
    before = eager.settings()
    eager.reset_warnings()
    setup(tmp_path)
    yield fake
    eager.configure(before)
    eager.set_policy(mode="warn", allow=frozenset(), behaviour="helpful", only_unimplemented=False)
    eager.reset_warnings()


def setup(directory: Path, **changes: object) -> None:
    bridge.configure(options(directory, **changes), "trn2")  # type: ignore[arg-type]
    vars(eager._now())["cost_model"] = Model()


def test_accounting_in_the_cores_terms(core: Core) -> None:
    add = key("aten::add.Tensor", "float32", "float32")
    vector = bridge.ENGINES.index("vector")
    assert bridge.account(add, False) == (60_000, vector, 32, 16, 1, 1_400_000_000)
    assert bridge.account(add, False)[4:] == (0, 0)
    eager.cache().flush()
    eager.reset_compile_stats()
    assert bridge.account(add, False)[4:] == (2, 1_400_000_000)


@pytest.mark.parametrize(
    ("asked", "fallback"),
    [
        (key("aten::sort", "float32"), True),
        (key("aten::add.Tensor", "float32"), True),
        (key("aten::_to_copy", "int64", dtype="int32"), False),
    ],
)
def test_a_fallback_and_a_bounce_cost_the_hosts_way_and_compile_nothing(core: Core, asked: Key, fallback: bool) -> None:
    host = bridge.ENGINES.index("host")
    assert bridge.account(asked, fallback) == (620_000, host, 32, 0, 0, 0)
    assert eager.compile_stats().compiles == 0


@pytest.mark.parametrize("op", ["aten::view", "aten::empty.memory_format", "aten::_local_scalar_dense"])
def test_views_allocations_and_reads_compile_nothing(core: Core, op: str) -> None:
    assert bridge.account(key(op, "float32"), False)[4] == 0


def test_the_first_warning_knows_the_cost_before_it_is_accounted(core: Core) -> None:
    assert bridge.resolve(key("aten::sort", "float32")).reason == "missing_op"
    with pytest.warns(NeuronFallbackWarning, match="620 us"):
        bridge.on_fallback("aten::sort", "missing_op", "a.py:1", "", 64, 0)
    with pytest.warns(NeuronFallbackWarning, match="more than 500 us"):
        bridge.on_fallback("aten::topk", "missing_op", "a.py:1", "", 64, 0)


def test_the_core_follows_the_policy(core: Core) -> None:
    with eager.fallback_policy("error"), eager.fallback_policy("allow"):
        pass
    eager.set_policy(only_unimplemented=True)
    assert core.policies == ["warn", "error", "allow", "error", "warn", "error"]
    assert core.forgotten == 0


def test_a_change_of_behaviour_makes_the_core_ask_again(core: Core) -> None:
    asked = key("aten::clone", "float32", memory_format=2)
    assert bridge.resolve(asked).reason == "layout"
    with eager.behaviour("faithful"):
        assert core.forgotten == 1
        with pytest.raises(UnsupportedError):
            bridge.resolve(asked)
    assert core.forgotten == 2


def test_refuse_raises_unless_excused(core: Core, tmp_path: Path) -> None:
    with eager.fallback_policy("error"):
        with pytest.raises(FallbackError, match=r"aten::topk at a\.py:3 in module router.*missing_op.*argmax"):
            bridge.refuse("aten::topk", "missing_op", "a.py:3", "router", 64, 0)
        with eager.allow_fallback("aten::topk"):
            bridge.refuse("aten::topk", "missing_op", "a.py:3", "router", 64, 0)


def test_only_unimplemented_refuses_arguments_and_warns_of_missing_ops(core: Core, tmp_path: Path) -> None:
    setup(tmp_path, fallback_only_for_unimplemented_ops=True, fallback_allow=("mm",))
    with pytest.raises(FallbackError, match="TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS"):
        bridge.refuse("aten::bmm", "dtype", "a.py:1", "", 64, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bridge.refuse("aten::mm", "dtype", "a.py:1", "", 64, 0)
    with pytest.warns(NeuronFallbackWarning, match="aten::sort"):
        bridge.refuse("aten::sort", "missing_op", "a.py:1", "", 64, 0)


def test_transfers_compile_nothing(core: Core) -> None:
    host = Tensor(device="cpu")
    assert bridge.account(key("aten::copy_", "float32", host), False)[4] == 0
    assert bridge.account(key("aten::copy_", "float32", "bfloat16"), False)[4] == 1


def test_the_real_options_and_cost_model_fit(core: Core, tmp_path: Path) -> None:
    from trnsim import config
    from trnsim.perf.opkey import OpKey, TensorSpec

    bridge.configure(
        config.load({"TORCH_NEURONX_NEFF_CACHE_DIR": str(tmp_path), "TRNSIM_FALLBACK_ALLOW": "aten::sort"}), "trn2"
    )
    assert eager.current().allows("aten::sort.stable")
    spec = TensorSpec(dtype="bfloat16", shape=(128, 128))
    asked = OpKey(op="aten::mm", inputs=(spec, spec), outputs=(spec,))
    duration, engine, nbytes, flops, compiled, _ = bridge.account(asked, False)
    assert duration > 0
    assert bridge.ENGINES[engine] == "tensor"
    assert (nbytes, flops, compiled) == (3 * 128 * 128 * 2, 2 * 128**3, 1)
    slow, engine, *_ = bridge.account(OpKey(op="aten::sort", inputs=(spec,), outputs=(spec,)), True)
    assert slow > duration
    assert bridge.ENGINES[engine] == "host"


def test_every_engine_of_the_cost_model_has_a_code() -> None:
    from typing import get_args

    from trnsim.perf.cost import Engine

    assert set(get_args(Engine)) == set(bridge.ENGINES)
