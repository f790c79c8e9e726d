"""Options: defaults, each variable, bad values, visible cores, and the page generated from the table."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trnsim import config
from trnsim.chips import load_instance
from trnsim.errors import ConfigError

ROOT = Path(__file__).parents[2]


def test_defaults():
    options = config.load({})
    assert (options.instance, options.lnc) == ("trn2.3xlarge", 2)
    assert (options.behaviour, options.fallback, options.fallback_allow) == ("helpful", "warn", ())
    assert (options.clock, options.ledger, options.debug_memory, options.rng) == (True, False, False, "device")
    assert options.complex_decompose
    assert options.disable_fallback_execution
    assert options.neff_cache_dir == "/tmp/neff_cache"
    assert config.instance_of(options) is load_instance("trn2.3xlarge")


def test_every_field_has_its_variable():
    fields = {field.name for field in dataclasses.fields(config.Options)}
    assert {variable.field for variable in config.VARIABLES} - {"chip"} == fields
    names = [variable.name for variable in config.VARIABLES]
    assert len(names) == len(set(names))
    assert all(variable.meaning and variable.source for variable in config.VARIABLES)


def test_empty_values_count_as_unset():
    assert config.load({variable.name: " " for variable in config.VARIABLES}) == config.load({})


@pytest.mark.parametrize("variable", [v for v in config.VARIABLES if v.kind == "bool"], ids=lambda v: v.name)
def test_booleans(variable):
    for text, value in {"1": True, "0": False, "True": True, "no": False, "ON": True, "off": False}.items():
        assert getattr(config.load({variable.name: text}), variable.field) is value
    with pytest.raises(ConfigError) as caught:
        config.load({variable.name: "2"})
    message = str(caught.value)
    assert variable.name in message
    assert "'2'" in message
    assert "Allowed: 1" in message
    assert "Fix: set" in message


@pytest.mark.parametrize("variable", [v for v in config.VARIABLES if v.kind == "choice"], ids=lambda v: v.name)
def test_choices(variable):
    for choice in variable.choices:
        assert str(getattr(config.load({variable.name: choice}), variable.field)) == choice
    with pytest.raises(ConfigError) as caught:
        config.load({variable.name: "wrong"})
    message = str(caught.value)
    assert variable.name in message
    assert "'wrong'" in message
    assert all(choice in message for choice in variable.choices)


@pytest.mark.parametrize(
    ("environ", "parts"),
    [
        ({"TRNSIM_INSTANCE": "trn2.4xlarge"}, ["'trn2.4xlarge'", "trn2.48xlarge", "did you mean"]),
        ({"TRNSIM_CHIP": "trn9"}, ["'trn9'", "inf2, trn1, trn2, trn3"]),
        ({"TRNSIM_CHIP": "trn1", "TRNSIM_INSTANCE": "trn2.3xlarge"}, ["TRNSIM_CHIP", "'trn1'", "unset one"]),
        ({"TRNSIM_CHIP": "trn1", "NEURON_LOGICAL_NC_CONFIG": "2"}, ["trn1", "lnc 2", "Allowed: 1"]),
        (
            {"NEURON_LOGICAL_NC_CONFIG": "1", "NEURON_RT_VIRTUAL_CORE_SIZE": "2"},
            ["NEURON_LOGICAL_NC_CONFIG=1", "NEURON_RT_VIRTUAL_CORE_SIZE=2", "unset"],
        ),
        ({"NEURON_RT_VIRTUAL_CORE_SIZE": "4"}, ["NEURON_RT_VIRTUAL_CORE_SIZE", "'4'", "1, 2"]),
        ({"NEURON_RT_NUM_CORES": "0"}, ["NEURON_RT_NUM_CORES", "'0'", "at least 1"]),
        ({"NEURON_RT_NUM_CORES": "-1"}, ["'-1'"]),
        ({"NEURON_RT_NUM_CORES": "5"}, ["'5'", "1 to 4", "TRNSIM_INSTANCE"]),
        ({"NEURON_RT_VISIBLE_CORES": "4"}, ["'4'", "0 to 3", "trn2.3xlarge"]),
        ({"NEURON_RT_VISIBLE_CORES": "3-0"}, ["'3-0'", "ascending"]),
        ({"NEURON_RT_VISIBLE_CORES": "0,0"}, ["'0,0'", "each core once"]),
        ({"NEURON_RT_VISIBLE_CORES": "0-"}, ["'0-'"]),
        ({"NEURON_RT_VISIBLE_CORES": "all"}, ["'all'"]),
        ({"NEURON_RT_VISIBLE_CORES": "0-99999999999"}, ["'0-99999999999'"]),
        ({"TRNSIM_FALLBACK_ALLOW": "sort"}, ["TRNSIM_FALLBACK_ALLOW", "'sort'", "aten::sort"]),
        ({"TORCH_NEURONX_NEFF_CACHE_DIR": __file__}, ["TORCH_NEURONX_NEFF_CACHE_DIR", "directory"]),
        (
            {"TRNSIM_INSTANCE": "trn2.48xlarge", "NEURON_LOGICAL_NC_CONFIG": "1"},
            ["128", "at most 127", "NEURON_RT_VISIBLE_CORES"],
        ),
    ],
)
def test_bad_values(environ, parts):
    with pytest.raises(ConfigError) as caught:
        config.load(environ)
    for part in parts:
        assert part in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("environ", "visible"),
    [
        ({}, (0, 1, 2, 3)),
        ({"NEURON_LOGICAL_NC_CONFIG": "1"}, tuple(range(8))),
        ({"NEURON_RT_VIRTUAL_CORE_SIZE": "1"}, tuple(range(8))),
        ({"NEURON_RT_VIRTUAL_CORE_SIZE": "2", "NEURON_LOGICAL_NC_CONFIG": "2"}, (0, 1, 2, 3)),
        ({"NEURON_RT_VISIBLE_CORES": "2"}, (2,)),
        ({"NEURON_RT_VISIBLE_CORES": "0-3"}, (0, 1, 2, 3)),
        ({"NEURON_RT_VISIBLE_CORES": "0, 2"}, (0, 2)),
        ({"NEURON_RT_VISIBLE_CORES": "3,0-1"}, (3, 0, 1)),
        ({"NEURON_RT_NUM_CORES": "2"}, (0, 1)),
        ({"NEURON_RT_NUM_CORES": "2", "NEURON_RT_VISIBLE_CORES": "3"}, (3,)),
        ({"TRNSIM_CHIP": "trn1"}, (0, 1)),
        ({"TRNSIM_INSTANCE": "inf2.48xlarge"}, tuple(range(24))),
        ({"TRNSIM_INSTANCE": "trn2.48xlarge"}, tuple(range(64))),
        (
            {"TRNSIM_INSTANCE": "trn2.48xlarge", "NEURON_LOGICAL_NC_CONFIG": "1", "NEURON_RT_VISIBLE_CORES": "1-127"},
            tuple(range(1, 128)),
        ),
    ],
)
def test_visible_devices(environ, visible):
    options = config.load(environ)
    assert options.visible_devices(config.instance_of(options)) == visible


def test_the_page_is_current():
    assert (ROOT / "docs" / "environment.md").read_text(encoding="utf-8") == config.markdown()


def test_the_page_names_every_variable_once():
    page = config.markdown()
    for variable in config.VARIABLES:
        assert page.count(f"| `{variable.name}` |") == 1


def test_import_is_cheap_and_needs_no_torch(tmp_path):
    """Best of four, in CPU time, from compiled files, with what torch imports of the standard library already there."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ |= {"PYTHONPYCACHEPREFIX": str(tmp_path)}
    code = (
        "import sys, time, collections, dataclasses, inspect, pathlib, typing\n"
        "start = time.process_time()\n"
        "import trnsim.config, trnsim.chips, trnsim.perf.cost\n"
        "print(time.process_time() - start)\n"
        "assert 'torch' not in sys.modules\n"
    )
    took = [
        float(
            subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environ).stdout
        )
        for _ in range(4)
    ]
    assert min(took) < 0.025, took
