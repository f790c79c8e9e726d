"""Every exception and warning category that trnsim raises on its own account.

Each class mixes `TrnsimError` into the builtin that PyTorch users already catch, so
`except NotImplementedError` and `except trnsim.errors.TrnsimError` both work. Messages name the
operation, the value seen, the limit and the fix; `describe` lays them out alike everywhere.

This module imports nothing, so any piece of trnsim (and any test) can import it first.
"""

from __future__ import annotations

__all__ = [
    "CacheError",
    "ConfigError",
    "DeviceError",
    "FallbackError",
    "ForkError",
    "NeuronCacheWarning",
    "NeuronFallbackWarning",
    "TrnsimError",
    "UnsupportedError",
    "describe",
]


class TrnsimError(Exception):
    """Base of every error that comes from the simulator rather than from PyTorch."""


class ConfigError(TrnsimError, ValueError):
    """An option or environment variable holds a value that is not allowed."""


class FallbackError(TrnsimError, NotImplementedError):
    """An op would have run on the CPU, and the fallback policy is `error`."""


class UnsupportedError(TrnsimError, NotImplementedError):
    """The device refuses this (layout, dtype, API) and offers no fallback either."""


class DeviceError(TrnsimError, RuntimeError):
    """The device was used wrongly: bad index, mixed devices, use before initialisation."""


class ForkError(TrnsimError, RuntimeError):
    """The device was touched in a forked child; start processes with `spawn` instead."""


class CacheError(TrnsimError, RuntimeError):
    """A file of the executable cache is damaged, foreign or of another format."""


class NeuronFallbackWarning(UserWarning):
    """An op ran on the CPU: once per op and user line."""


class NeuronCacheWarning(UserWarning):
    """The executable cache refused a file, or goes on without storing anything."""


def describe(what: str, *, seen: str = "", allowed: str = "", cost: str = "", fix: str = "") -> str:
    """Lay out a message: what happened, then the value seen, what is allowed, the cost and the fix.

    Empty parts are left out, so that a short message stays on one line.
    """
    parts = [what.rstrip(". ") + "."]
    for label, text in (("Seen", seen), ("Allowed", allowed), ("Cost", cost), ("Fix", fix)):
        if text:
            parts.append(f"{label}: {text.rstrip('. ')}.")
    return " ".join(parts)
