"""The command `trnsim`, put together from its subcommands. Nothing here imports torch, so that help and `ls` are quick."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from trnsim import __version__
from trnsim.check.cli import check
from trnsim.cli.ls import ls
from trnsim.errors import ConfigError

__all__ = ["app", "main"]

app = typer.Typer(
    name="trnsim",
    help="AWS Trainium as a PyTorch device, simulated.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
# The script's own options are not ours: parsing stops at the script.
app.command("check", context_settings={"allow_interspersed_args": False})(check)
app.command("ls")(ls)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trnsim {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """AWS Trainium as a PyTorch device, simulated."""


def main() -> None:
    """Entry point: a bad option or environment variable is a message, not a traceback."""
    try:
        app()
    except ConfigError as error:
        print(f"trnsim: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
