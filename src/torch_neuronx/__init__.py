"""The drop-in name: TorchNeuron's public module, over trnsim. Re-exports only."""

from __future__ import annotations

import torch  # noqa: F401  registers the device through the entry point; importing this module first works as well

import trnsim

trnsim._autoload()

from trnsim.device import *  # noqa: E402, F403
from trnsim.device import __all__ as _device_names  # noqa: E402
from trnsim.ledger import clear_op_tracking, get_executed_ops, get_fallback_ops  # noqa: E402

__version__ = trnsim.__version__
__all__ = [*_device_names, "clear_op_tracking", "get_executed_ops", "get_fallback_ops"]
