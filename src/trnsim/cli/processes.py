"""Which processes hold simulated devices: those that have the C++ core mapped, read from /proc (Linux)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from trnsim import config
from trnsim.errors import ConfigError

__all__ = ["DeviceProcess", "find"]

_CORE = "/trnsim/_C"


@dataclass(frozen=True, kw_only=True)
class DeviceProcess:
    """One process; `cores` are the logical cores of the instance that it sees."""

    pid: int
    command: str
    instance: str
    cores: tuple[int, ...]


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:  # gone in the meantime, or another user's
        return ""


def _environ(directory: Path) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in _read(directory / "environ").split("\0") if "=" in entry)
    return {name: value for name, _, value in pairs}


def _cores(environ: dict[str, str]) -> tuple[str, tuple[int, ...]]:
    try:
        options = config.load(environ)
        return options.instance, options.visible_devices(config.instance_of(options))
    except ConfigError:  # it changed its environment after it had started: all we know is that it runs
        return "", ()


def find(*, everyone: bool = False, root: Path = Path("/proc")) -> list[DeviceProcess]:
    """Return the processes of this user, or of all users as far as /proc may be read, by process id."""
    found = []
    for directory in root.iterdir() if root.is_dir() else ():
        if not directory.name.isdigit():
            continue
        try:
            mine = directory.stat().st_uid == os.getuid()
        except OSError:
            continue
        if not (everyone or mine) or _CORE not in _read(directory / "maps"):
            continue
        instance, cores = _cores(_environ(directory))
        command = _read(directory / "cmdline").replace("\0", " ").strip()
        found.append(DeviceProcess(pid=int(directory.name), command=command, instance=instance, cores=cores))
    return sorted(found, key=lambda process: process.pid)
