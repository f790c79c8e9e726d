"""trnsim: the ``neuron`` device of PyTorch on any Linux machine, with a simulated Trainium's time, memory and limits.

``import torch`` is enough to use it (entry point group ``torch.backends``); ``import trnsim`` gives the tools around it:
the ledger, fallback policies, the clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"


def _autoload() -> None:
    """Entry point of group ``torch.backends``: called by ``import torch`` once torch is complete."""
    from trnsim import runtime

    runtime.start()


if TYPE_CHECKING:
    from trnsim._clock import ClockReading as ClockReading
    from trnsim._clock import clock as clock
    from trnsim.eager import allow_fallback as allow_fallback
    from trnsim.eager import fallback_policy as fallback_policy
    from trnsim.runtime import rng as rng

_LAZY = {
    "clock": "trnsim._clock",
    "ClockReading": "trnsim._clock",
    "allow_fallback": "trnsim.eager",
    "fallback_policy": "trnsim.eager",
    "rng": "trnsim.runtime",
}

_MODULES = ("chips", "check", "config", "device", "eager", "errors", "ledger", "perf")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES})


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in _MODULES:
        import importlib

        return importlib.import_module(f"trnsim.{name}")
    raise AttributeError(f"module 'trnsim' has no attribute {name!r}")
