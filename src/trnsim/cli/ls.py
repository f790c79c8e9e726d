"""`trnsim ls`: the simulated machine, in the table and the JSON of `neuron-ls`.

PCI addresses, CPU affinity and NUMA nodes are made up (chips spread evenly over two sockets from 16 chips on); the rest is from
`trnsim.chips` and the environment.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trnsim import config
from trnsim.chips import Instance
from trnsim.cli import processes

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["describe_devices", "ls", "topology"]

_TWO_SOCKETS_FROM = 16  # chips
_INSTANCE_ID = "i-00000000000000000"  # no EC2 instance behind it
_COMMAND_WIDTH = 40


def _numa(instance: Instance, chip: int) -> int:
    return chip * 2 // instance.chips if instance.chips >= _TWO_SOCKETS_FROM else 0


def _affinity(instance: Instance, chip: int) -> str:
    vcpus = instance.vcpus or os.cpu_count() or 1
    if instance.chips < _TWO_SOCKETS_FROM:
        return f"0-{vcpus - 1}" if vcpus > 1 else "0"
    half = max(1, vcpus // 2)
    start = _numa(instance, chip) * half
    return f"{start}-{start + half - 1}"


def describe_devices(
    instance: Instance, lnc: int, running: list[processes.DeviceProcess] | None = None
) -> list[dict[str, Any]]:
    """Return one record per chip with the keys of `neuron-ls --json-output`."""
    per_chip = instance.chip.devices(lnc)
    records = []
    for chip in range(instance.chips):
        first = chip * per_chip
        cores = range(first, first + per_chip)
        users = [p for p in running or [] if p.instance == instance.name and set(p.cores).intersection(cores)]
        records.append(
            {
                "neuron_device": chip,
                "bdf": f"{0x10 + chip // 8 * 0x10 + chip % 8:02x}:1e.0",
                "cpu_affinity": _affinity(instance, chip),
                "numa_node": str(_numa(instance, chip)),
                "connected_to": list(instance.neighbours(chip)) or None,
                "nc_count": per_chip,
                "logical_neuroncore_config": lnc,
                "memory_size": instance.chip.hbm_gib << 30,
                "neuroncore_ids": list(cores),
                "neuron_processes": [
                    {
                        "pid": p.pid,
                        "command": p.command,
                        "neuroncore_ids": sorted(set(p.cores).intersection(cores)),
                    }
                    for p in users
                ],
            }
        )
    return records


def topology(instance: Instance) -> str:
    """Draw how the chips are wired, as text."""
    ids = [f"{chip:>3}" for chip in range(instance.chips)]
    if instance.topology == "torus4x4":
        rows = [" --".join(ids[start : start + 4]) for start in range(0, len(ids), 4)]
        bars = "\n" + "   ".join(["  |"] * 4) + "\n"
        return bars.join(rows) + "\n(each row and each column closes into a ring)"
    if instance.topology == "ring":
        return " --".join(ids) + "\n(the last chip is wired to the first)"
    if instance.topology == "switched":
        return " ".join(ids).strip() + "\n(all to all, through switches)"
    return "one chip, not wired to another"


def _span(ids: list[int]) -> str:
    return str(ids[0]) if len(ids) == 1 else f"{ids[0]}-{ids[-1]}"


def _print_devices(console: Console, records: list[dict[str, Any]], *, wide: bool) -> None:
    from rich import box
    from rich.table import Table

    columns = ["NEURON DEVICE", "NEURON CORES", "NEURON CORE IDS", "NEURON MEMORY", "CONNECTED DEVICES", "PCI BDF"]
    columns += ["CPU AFFINITY", "NUMA NODE"]
    table = Table(box=box.ASCII2 if console.legacy_windows else box.SQUARE, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold", no_wrap=wide)
    for record in records:
        table.add_row(
            str(record["neuron_device"]),
            str(record["nc_count"]),
            _span(record["neuroncore_ids"]),
            f"{record['memory_size'] >> 30} GB",
            ", ".join(map(str, record["connected_to"] or ())),
            record["bdf"],
            record["cpu_affinity"],
            record["numa_node"],
        )
    console.print(table)


def _print_processes(console: Console, records: list[dict[str, Any]], *, wide: bool) -> None:
    from rich import box
    from rich.table import Table

    rows = [(record["neuron_device"], process) for record in records for process in record["neuron_processes"]]
    if not rows:
        return
    table = Table(box=box.SQUARE, header_style="bold")
    for name in ("NEURON DEVICE", "PID", "NEURON CORE IDS", "COMMAND"):
        table.add_column(name, overflow="fold", no_wrap=wide)
    for device, process in rows:
        command = process["command"]
        if not wide and len(command) > _COMMAND_WIDTH:
            command = command[: _COMMAND_WIDTH - 1] + "…"
        cores = ", ".join(map(str, process["neuroncore_ids"]))
        table.add_row(str(device), str(process["pid"]), cores, command)
    console.print(table)


def ls(
    chip: Annotated[str, typer.Option(help="trn1, trn2, trn3 or inf2: the smallest instance of that chip.")] = "",
    instance: Annotated[str, typer.Option(help="Instance type, such as trn2.48xlarge.")] = "",
    lnc: Annotated[int, typer.Option(help="Physical cores per device: 1 or 2. 0: what the environment says.")] = 0,
    wide: Annotated[bool, typer.Option("--wide", "-w", help="Do not fold or cut columns.")] = False,
    show_all_procs: Annotated[
        bool, typer.Option("--show-all-procs", "-a", help="Show the processes of all users.")
    ] = False,
    show_topology: Annotated[bool, typer.Option("--topology", "-t", help="Show how the chips are wired.")] = False,
    json_output: Annotated[bool, typer.Option("--json-output", "-j", help="JSON, one record per chip.")] = False,
) -> None:
    """List the simulated Neuron devices, as neuron-ls does."""
    environ = dict(os.environ)
    if chip or instance:
        environ["TRNSIM_CHIP"], environ["TRNSIM_INSTANCE"] = chip, instance
    for name in ("NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE"):
        if lnc:
            environ[name] = str(lnc)
    machine, lnc = config.machine_of(environ)
    records = describe_devices(machine, lnc, processes.find(everyone=show_all_procs))
    if json_output:
        typer.echo(json.dumps(records, indent=4))
        return
    from rich.console import Console

    width = 200 if wide else None
    console = Console(highlight=False, width=width, soft_wrap=wide)
    console.print(f"instance-type: {machine.name} (simulated by trnsim)")
    console.print(f"instance-id: {_INSTANCE_ID}")
    console.print(f"logical-neuroncore-config: {lnc}")
    if not machine.confirmed:
        console.print(f"note: {machine.source.text} ({machine.source.confidence})")
    _print_devices(console, records, wide=wide)
    if show_topology:
        console.print("topology:")
        console.print(topology(machine))
    _print_processes(console, records, wide=wide)
