"""Chip and instance facts: documented values, provenance of every number, and what an unknown name says."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from trnsim import chips
from trnsim.chips import chip_names, instance_names, load_chip, load_instance, smallest_instance
from trnsim.errors import ConfigError

DIRECTORY = Path(chips.__file__).parent


def numbers(table: dict[str, Any], source: str | None, path: str = ""):
    """Yield (path, number, name of the source in force); a table's own `source` covers the numbers in it."""
    source = table.get("source", source)
    for key, value in table.items():
        where = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            yield from numbers(value, source, where)
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, (int, float)) and not isinstance(item, bool):
                yield where, item, source


@pytest.mark.parametrize("file", sorted(DIRECTORY.glob("*.toml")), ids=lambda path: path.stem)
def test_every_number_has_a_source_and_a_date(file):
    data = chips._read(file)
    found = list(numbers(data, None))
    assert len(found) >= 20
    for where, _, source in found:
        assert source in data["sources"], f"{file.name}: {where} names no source"
    for name, source in data["sources"].items():
        assert len(source["text"]) > 20, name
        assert datetime.date(2024, 1, 1) < datetime.date.fromisoformat(source["date"]) <= datetime.date(2026, 12, 31)
        assert source["confidence"] in {"documented", "derived", "unconfirmed"}


def test_facts_of_trn2():
    chip = load_chip("trn2")
    assert (chip.neuroncore, chip.physical_cores, chip.lnc_modes, chip.lnc_default) == ("v3", 8, (1, 2), 2)
    assert (chip.hbm_gib, chip.hbm_gbps, chip.sbuf_mib, chip.psum_mib) == (96, 2900, 28, 2)
    assert (chip.tflops_bf16, chip.tflops_fp8, chip.tflops_fp32) == (79, 158, 20)
    assert chip.memory_per_device(2) == 24 << 30
    assert chip.memory_per_device(1) == 12 << 30
    assert chip.facts["hbm_gbps"].unit == "GB/s per chip"


@pytest.mark.parametrize("name", chip_names())
def test_facts_are_consistent(name):
    chip = load_chip(name)
    # 128 x 128 multiply-adds a cycle.
    assert chip.tflops_bf16 == pytest.approx(2 * 128 * 128 * chip.clock_tensor / 1e3, rel=0.02)
    assert chip.hbm_gbps_core == pytest.approx(chip.hbm_gbps / chip.physical_cores, rel=0.01)
    assert chip.sbuf_mib * 1024 == 128 * chip.facts["sbuf_partition_kib"].value
    assert chip.lnc_default in chip.lnc_modes


@pytest.mark.parametrize(
    ("name", "lnc1", "lnc2"),
    [
        ("trn2.3xlarge", 8, 4),
        ("trn2.48xlarge", 128, 64),
        ("trn2u.48xlarge", 128, 64),
        ("trn1.2xlarge", 2, None),
        ("trn1.32xlarge", 32, None),
        ("inf2.xlarge", 2, None),
        ("inf2.24xlarge", 12, None),
        ("inf2.48xlarge", 24, None),
    ],
)
def test_device_count(name, lnc1, lnc2):
    instance = load_instance(name)
    assert instance.device_count(1) == lnc1
    if lnc2 is None:
        with pytest.raises(ConfigError, match=r"lnc 2.*Allowed: 1"):
            instance.device_count(2)
        assert instance.device_count() == lnc1
    else:
        assert instance.device_count(2) == instance.device_count() == lnc2


def test_torus_neighbours_come_up_left_down_right():
    instance = load_instance("trn2.48xlarge")
    assert instance.neighbours(0) == (12, 3, 4, 1)
    assert instance.neighbours(15) == (11, 14, 3, 12)


@pytest.mark.parametrize("name", instance_names())
def test_wiring_is_symmetric(name):
    instance = load_instance(name)
    for chip in range(instance.chips):
        for other in instance.neighbours(chip):
            assert chip in instance.neighbours(other)
    with pytest.raises(ConfigError, match=f"Allowed: 0 to {instance.chips - 1}"):
        instance.neighbours(instance.chips)


def test_smallest_instance_of_a_chip():
    assert [smallest_instance(chip).name for chip in ("trn1", "trn2", "inf2")] == [
        "trn1.2xlarge",
        "trn2.3xlarge",
        "inf2.xlarge",
    ]
    assert smallest_instance("trn3").chip.name == "trn3"


def test_trn3_names_are_marked_unconfirmed():
    for name in instance_names():
        assert load_instance(name).confirmed is not name.startswith("trn3")


@pytest.mark.parametrize(
    ("load", "name", "fix"),
    [
        (load_chip, "trn22", "'trn2'"),
        (load_chip, "instances", "use one of"),
        (load_chip, "", "use one of"),
        (load_chip, "../trn2", "did you mean 'trn2'"),
        (load_instance, "trn2.48xl", "'trn2.48xlarge'"),
        (load_instance, "sources", "use one of"),
        (smallest_instance, "h100", "use one of"),
    ],
)
def test_unknown_names(load, name, fix):
    with pytest.raises(ConfigError) as caught:
        load(name)
    message = str(caught.value)
    assert repr(name) in message
    assert "trn2" in message
    assert fix in message


def test_loading_is_cached_and_frozen():
    chip = load_chip("trn2")
    assert load_chip("trn2") is chip
    assert load_instance("trn2.3xlarge").chip is chip
    with pytest.raises(AttributeError):
        chip.hbm_gib = 1
