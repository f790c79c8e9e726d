"""Environment variables with bad or contradicting values: each message names the variable, the value, what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from trnsim import config
from trnsim.errors import ConfigError

BAD: list[tuple[dict[str, str], tuple[str, ...]]] = [
    ({"TRNSIM_INSTANCE": "trn9.48xlarge"}, ("trn9.48xlarge", "trn2.48xlarge", "trn2.3xlarge")),
    ({"TRNSIM_INSTANCE": "p5.48xlarge"}, ("p5.48xlarge", "trn2.48xlarge")),
    ({"TRNSIM_CHIP": "h100"}, ("h100", "trn1", "trn2", "trn3")),
    ({"TRNSIM_CHIP": "../trn2"}, ("../trn2", "trn2")),
    ({"TRNSIM_INSTANCE": "trn2.3xlarge", "TRNSIM_CHIP": "trn1"}, ("TRNSIM_CHIP", "trn1", "trn2", "unset")),
    ({"TRNSIM_BEHAVIOUR": "kind"}, ("TRNSIM_BEHAVIOUR", "'kind'", "helpful, faithful")),
    ({"TRNSIM_FALLBACK": "raise"}, ("TRNSIM_FALLBACK", "'raise'", "warn, allow, error", "default warn")),
    ({"TRNSIM_FALLBACK": "Error"}, ("TRNSIM_FALLBACK", "'Error'")),
    ({"TRNSIM_FALLBACK_ALLOW": "sort"}, ("TRNSIM_FALLBACK_ALLOW", "'sort'", "aten::sort")),
    ({"TRNSIM_DEBUG_MEMORY": "maybe"}, ("TRNSIM_DEBUG_MEMORY", "'maybe'", "1, true", "0, false")),
    ({"TRNSIM_DEBUG_MEMORY": "2"}, ("TRNSIM_DEBUG_MEMORY", "'2'")),
    ({"TRNSIM_RNG": "cuda"}, ("TRNSIM_RNG", "'cuda'", "device, cpu")),
    ({"TRNSIM_CLOCK": "-1"}, ("TRNSIM_CLOCK", "'-1'")),
    ({"TRNSIM_LEDGER": "file.json"}, ("TRNSIM_LEDGER", "'file.json'")),
    ({"NEURON_LOGICAL_NC_CONFIG": "3"}, ("NEURON_LOGICAL_NC_CONFIG", "'3'", "1, 2")),
    ({"NEURON_RT_VIRTUAL_CORE_SIZE": "two"}, ("NEURON_RT_VIRTUAL_CORE_SIZE", "'two'", "1, 2")),
    (
        {"NEURON_LOGICAL_NC_CONFIG": "1", "NEURON_RT_VIRTUAL_CORE_SIZE": "2"},
        ("NEURON_LOGICAL_NC_CONFIG=1", "NEURON_RT_VIRTUAL_CORE_SIZE=2", "unset"),
    ),
    ({"TRNSIM_CHIP": "trn1", "NEURON_LOGICAL_NC_CONFIG": "2"}, ("trn1", "2", "1")),
    ({"NEURON_RT_VISIBLE_CORES": "4"}, ("NEURON_RT_VISIBLE_CORES", "'4'", "0 to 3", "TRNSIM_INSTANCE")),
    ({"NEURON_RT_VISIBLE_CORES": "3-1"}, ("NEURON_RT_VISIBLE_CORES", "'3-1'", "ascending")),
    ({"NEURON_RT_VISIBLE_CORES": "0,0"}, ("NEURON_RT_VISIBLE_CORES", "'0,0'", "once")),
    ({"NEURON_RT_VISIBLE_CORES": "a"}, ("NEURON_RT_VISIBLE_CORES", "'a'", "0-3")),
    ({"NEURON_RT_VISIBLE_CORES": "-1"}, ("NEURON_RT_VISIBLE_CORES", "'-1'")),
    ({"NEURON_RT_VISIBLE_CORES": "0-99999999999"}, ("NEURON_RT_VISIBLE_CORES",)),
    ({"NEURON_RT_NUM_CORES": "0"}, ("NEURON_RT_NUM_CORES", "'0'", "at least 1")),
    ({"NEURON_RT_NUM_CORES": "5"}, ("NEURON_RT_NUM_CORES", "'5'", "1 to 4", "TRNSIM_INSTANCE")),
    ({"NEURON_RT_NUM_CORES": "1.5"}, ("NEURON_RT_NUM_CORES", "'1.5'")),
    ({"NEURON_RT_NUM_CORES": "²"}, ("NEURON_RT_NUM_CORES",)),
    (
        {"TRNSIM_INSTANCE": "trn2.48xlarge", "NEURON_LOGICAL_NC_CONFIG": "1"},
        ("128", "127", "NEURON_RT_VISIBLE_CORES"),
    ),
    ({"NEURON_COMPILER_OPT_LEVEL": "9"}, ("NEURON_COMPILER_OPT_LEVEL", "'9'", "O1")),
    ({"NEURON_LAUNCH_BLOCKING": "sometimes"}, ("NEURON_LAUNCH_BLOCKING", "'sometimes'")),
    ({"TORCH_NEURONX_NEFF_DISABLE_CACHE": "x"}, ("TORCH_NEURONX_NEFF_DISABLE_CACHE", "'x'")),
    ({"TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS": "5"}, ("TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS",)),
    ({"TORCH_NEURONX_COMPLEX_DECOMPOSE": "none"}, ("TORCH_NEURONX_COMPLEX_DECOMPOSE", "'none'")),
    ({"TORCH_NEURONX_RETAIN_DEVICE_MODE": "cpu"}, ("TORCH_NEURONX_RETAIN_DEVICE_MODE", "'cpu'")),
    ({"TORCH_NEURONX_NEFF_CACHE_DIR": __file__}, ("TORCH_NEURONX_NEFF_CACHE_DIR", "test_misuse_environment.py", "directory")),
    ({"TORCH_NEURONX_DEBUG_DIR": __file__}, ("TORCH_NEURONX_DEBUG_DIR", "directory")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "says"), BAD, ids=[" ".join(f"{k}={v[-24:]}" for k, v in v.items()) for v, _ in BAD]
)
def test_bad_value(variables: dict[str, str], says: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as raised:
        options = config.load(variables)
        options.visible_devices(config.instance_of(options))
    assert isinstance(raised.value, ValueError)
    for part in says:
        assert part in str(raised.value), f"no {part!r} in: {raised.value}"


def test_every_variable_has_a_bad_value_here() -> None:
    free_text = {"NEURON_CC_FLAGS"}
    booleans = {variable.name for variable in config.VARIABLES if variable.kind == "bool"}
    tried = {name for variables, _ in BAD for name in variables}
    assert {variable.name for variable in config.VARIABLES} - tried - free_text - booleans == set()


@pytest.mark.parametrize("name", sorted(v.name for v in config.VARIABLES if v.kind == "bool"))
def test_every_switch_refuses_other_words(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name}.*'perhaps'.*true.*false"):
        config.load({name: "perhaps"})


def test_an_empty_value_counts_as_unset() -> None:
    assert config.load({variable.name: "" for variable in config.VARIABLES}) == config.load({})


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"TRNSIM_INSTANCE": "trn9"}, ("ConfigError", "trn9", "trn2.3xlarge")),
        ({"TRNSIM_FALLBACK": "never"}, ("ConfigError", "TRNSIM_FALLBACK", "'never'", "warn, allow, error")),
        ({"NEURON_RT_VISIBLE_CORES": "9"}, ("ConfigError", "NEURON_RT_VISIBLE_CORES", "'9'", "0 to 3")),
        ({"NEURON_LOGICAL_NC_CONFIG": "4"}, ("ConfigError", "NEURON_LOGICAL_NC_CONFIG", "'4'", "1, 2")),
    ],
    ids=["instance", "policy", "cores", "lnc"],
)
def test_a_bad_value_stops_the_program_at_import(
    variables: dict[str, str], says: tuple[str, ...], run_python: Callable[..., CompletedProcess[str]]
) -> None:
    done = run_python("print('went on')", check=False, **variables)
    assert done.returncode != 0 and "went on" not in done.stdout
    for part in says:
        assert part in done.stderr, done.stderr[-2000:]


def test_a_cache_directory_that_cannot_be_written_warns_and_goes_on(
    run_python: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = run_python(
        "print((torch.ones(3, device='neuron') + 1).tolist())", TORCH_NEURONX_NEFF_CACHE_DIR=str(blocked / "cache")
    )
    assert "[2.0, 2.0, 2.0]" in done.stdout
    assert str(blocked / "cache") in done.stderr and "Traceback" not in done.stderr, done.stderr
