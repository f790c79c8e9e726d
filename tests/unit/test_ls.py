"""`trnsim ls`: the keys and columns of neuron-ls, the flags, and the processes it finds."""

from __future__ import annotations

import json
import os

import pytest
import typer
from typer.testing import CliRunner

from trnsim.chips import load_instance
from trnsim.cli import processes
from trnsim.cli.ls import describe_devices, ls, topology
from trnsim.errors import ConfigError

KEYS = [
    "neuron_device",
    "bdf",
    "cpu_affinity",
    "numa_node",
    "connected_to",
    "nc_count",
    "logical_neuroncore_config",
    "memory_size",
    "neuroncore_ids",
    "neuron_processes",
]
COLUMNS = [
    "NEURON DEVICE",
    "NEURON CORES",
    "NEURON CORE IDS",
    "NEURON MEMORY",
    "CONNECTED DEVICES",
    "PCI BDF",
    "CPU AFFINITY",
    "NUMA NODE",
]


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("TRNSIM_", "NEURON_", "TORCH_NEURONX_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(processes, "find", lambda **_: [])


def run(*args: str):
    app = typer.Typer()
    app.command()(ls)
    return CliRunner().invoke(app, list(args))


def test_json_has_the_keys_of_neuron_ls():
    result = run("--instance", "trn2.48xlarge", "-j")
    assert result.exit_code == 0
    records = json.loads(result.stdout)
    assert len(records) == 16
    assert all(list(record) == KEYS for record in records)
    first = records[0]
    assert first["nc_count"] == 4
    assert first["neuroncore_ids"] == [0, 1, 2, 3]
    assert first["memory_size"] == 103079215104
    assert first["connected_to"] == [12, 3, 4, 1]
    assert first["logical_neuroncore_config"] == 2
    assert records[15]["neuroncore_ids"] == [60, 61, 62, 63]
    assert len({record["bdf"] for record in records}) == 16
    assert {record["numa_node"] for record in records} == {"0", "1"}


def test_table_has_three_header_lines_and_eight_columns():
    result = run("--instance", "trn2.48xlarge", "--wide")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("instance-type: trn2.48xlarge")
    assert lines[1].startswith("instance-id: ")
    assert lines[2] == "logical-neuroncore-config: 2"
    positions = [next(line for line in lines if "NUMA" in line).index(column) for column in COLUMNS]
    assert positions == sorted(positions)
    row = next(line for line in lines if "12, 3, 4, 1" in line)
    assert [cell.strip() for cell in row.strip("│").split("│")][:5] == ["0", "4", "0-3", "96 GB", "12, 3, 4, 1"]


@pytest.mark.parametrize(
    ("args", "chips", "cores", "lnc"),
    [
        ((), 1, 4, 2),
        (("--lnc", "1"), 1, 8, 1),
        (("--chip", "trn1"), 1, 2, 1),
        (("--chip", "inf2"), 1, 2, 1),
        (("--instance", "inf2.24xlarge"), 6, 2, 1),
        (("--instance", "trn2.48xlarge", "--lnc", "1"), 16, 8, 1),
    ],
)
def test_machine_flags(args, chips, cores, lnc):
    records = json.loads(run(*args, "--json-output").stdout)
    assert len(records) == chips
    assert {record["nc_count"] for record in records} == {cores}
    assert {record["logical_neuroncore_config"] for record in records} == {lnc}


def test_environment_is_the_default_and_a_flag_wins(monkeypatch):
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn2.48xlarge")
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "0")
    assert [r["nc_count"] for r in json.loads(run("-j").stdout)] == [8] * 16
    assert [r["nc_count"] for r in json.loads(run("-j", "--chip", "trn2", "--lnc", "2").stdout)] == [4]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("--chip", "h100"), "Unknown chip"),
        (("--instance", "p5.48xlarge"), "Unknown instance"),
        (("--chip", "trn1", "--lnc", "2"), "lnc 2"),
        (("--chip", "trn1", "--instance", "trn2.3xlarge"), "unset one"),
        (("--lnc", "3"), "'3'"),
    ],
)
def test_bad_flags(args, text):
    result = run(*args)
    assert isinstance(result.exception, ConfigError)
    assert text in str(result.exception)


def test_topology():
    drawn = topology(load_instance("trn2.48xlarge")).splitlines()
    assert drawn[0].replace("-", "").split() == ["0", "1", "2", "3"]
    assert drawn[6].replace("-", "").split() == ["12", "13", "14", "15"]
    assert [drawn[0].index("1"), drawn[0].index("3")] == [i for i, c in enumerate(drawn[1]) if c == "|"][1::2]
    assert "first" in topology(load_instance("inf2.48xlarge"))
    assert "one chip" in topology(load_instance("trn2.3xlarge"))
    assert "topology:" in run("-t").stdout
    assert "topology:" not in run().stdout


def test_unconfirmed_instance_says_so():
    assert "unconfirmed" in run("--chip", "trn3", "--wide").stdout
    assert "unconfirmed" not in run("--wide").stdout


def test_processes_are_shown_at_the_devices_they_see(monkeypatch):
    instance = load_instance("trn2.48xlarge")
    mine = processes.DeviceProcess(pid=42, command="python train.py", instance=instance.name, cores=(3, 4))
    other = processes.DeviceProcess(pid=43, command="python x.py", instance="trn2.3xlarge", cores=(0,))
    records = describe_devices(instance, 2, [mine, other])
    shown = {r["neuron_device"]: r["neuron_processes"] for r in records if r["neuron_processes"]}
    assert shown == {
        0: [{"pid": 42, "command": "python train.py", "neuroncore_ids": [3]}],
        1: [{"pid": 42, "command": "python train.py", "neuroncore_ids": [4]}],
    }
    monkeypatch.setattr(processes, "find", lambda **_: [mine])
    assert "python train.py" in run("--instance", instance.name, "--wide").stdout


def test_find_reads_proc(tmp_path):
    def process(pid: int, maps: str, environ: str) -> None:
        directory = tmp_path / str(pid)
        directory.mkdir()
        (directory / "maps").write_text(maps)
        (directory / "environ").write_text(environ)
        (directory / "cmdline").write_text("python\0train.py\0")

    process(7, "7f00 r-xp /x/trnsim/_C.so", "NEURON_RT_VISIBLE_CORES=1\0TRNSIM_CHIP=trn2\0")
    process(8, "7f00 r-xp /lib/libc.so", "")
    process(9, "7f00 r-xp /x/trnsim/_C.so", "NEURON_RT_VISIBLE_CORES=bad\0")
    (tmp_path / "self").mkdir()
    found = _find(root=tmp_path)
    assert [(p.pid, p.command, p.instance, p.cores) for p in found] == [
        (7, "python train.py", "trn2.3xlarge", (1,)),
        (9, "python train.py", "", ()),
    ]
    assert _find(root=tmp_path / "none") == []


_find = processes.find  # the real one: the fixture replaces it for the command
