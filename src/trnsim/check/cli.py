"""The command `trnsim check`.

torch is imported only after the options have been turned into environment variables: the device reads them as it starts.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["check"]

# Exit codes: the script's success or failure, wrong use of the command, ctrl-C.
OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def _set_environment(chip: str | None, instance: str | None, lnc: int | None) -> None:
    """Options win over the environment."""
    if chip is not None or instance is not None:
        os.environ["TRNSIM_CHIP"], os.environ["TRNSIM_INSTANCE"] = chip or "", instance or ""
    if lnc is not None:
        os.environ["NEURON_LOGICAL_NC_CONFIG"] = os.environ["NEURON_RT_VIRTUAL_CORE_SIZE"] = str(lnc)


def _wrong(message: str) -> typer.Exit:
    typer.echo(f"trnsim check: {message}", err=True)
    return typer.Exit(USAGE)


def _module_exists(name: str) -> bool:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False
    finally:
        sys.path.pop(0)


def check(
    script: Annotated[str, typer.Argument(help="Python file to run; with -m, a module's name.", show_default=False)],
    arguments: Annotated[list[str] | None, typer.Argument(help="Its arguments.", show_default=False)] = None,
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is a module, as with python -m.")] = False,
    from_cuda: Annotated[
        bool, typer.Option("--from-cuda", help="Run code that says cuda on the neuron device.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")] = None,
    chip: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Chip, such as trn2; alone it means the smallest instance that has it."),
    ] = None,
    instance: Annotated[str | None, typer.Option(metavar="NAME", help="Instance, such as trn2.48xlarge.")] = None,
    lnc: Annotated[int | None, typer.Option(min=1, max=2, help="Physical cores of a logical core.")] = None,
    progress: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Time between progress lines; 0: none.")
    ] = None,
) -> None:
    """Run SCRIPT unmodified on the simulated device; report fallbacks, waits, casts, memory and predicted time.

    Options of this command come before SCRIPT; everything after it is the script's. The summary goes to stderr, so the
    script's own output stays as it is. Exit codes: 0 the script succeeded, 1 it failed, 2 wrong use of this command,
    130 interrupted (ctrl-C). The report is made in each case but the third.
    """
    if not module and not Path(script).is_file():
        raise _wrong(f"no file {script!r}; for a module say: trnsim check -m {script}")
    if module and not _module_exists(script):
        raise _wrong(f"no module named {script!r} on sys.path or in this folder")
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise _wrong(f"--json {json_file}: no folder {json_file.absolute().parent}")
    json_file = json_file and json_file.absolute()  # the script may change the folder
    _set_environment(chip, instance, lnc)
    from trnsim import config

    # A ConfigError now, instead of torch's error about a backend that fails to load.
    config.instance_of(config.load(os.environ))

    from rich.console import Console

    from trnsim.check.progress import default_interval_s
    from trnsim.check.render import render
    from trnsim.check.run import Target
    from trnsim.check.run import check as run_check

    target = Target(name=script, arguments=tuple(arguments or ()), module=module, from_cuda=from_cuda)
    report = run_check(target, progress_s=default_interval_s() if progress is None else progress)
    if json_file is not None:
        report.write(json_file)
    render(report, Console(stderr=True, width=None if sys.stderr.isatty() else 160, highlight=False))
    raise typer.Exit({"ok": OK, "error": FAILED, "interrupted": INTERRUPTED}[report.script.status])
