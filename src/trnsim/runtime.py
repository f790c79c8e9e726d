"""Start-up: from the environment to a registered device. Everything here runs inside ``import torch``."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from trnsim.chips import Chip, Instance
    from trnsim.config import Options
    from trnsim.perf.cost import CostModel

_started = False
_module_pending = False


class Machine:
    """What is simulated: options, chip, instance and the cost model. Set once by ``start``."""

    options: Options
    chip: Chip
    instance: Instance
    cost: CostModel


machine = Machine()


def real_backend_installed() -> bool:
    """Whether AWS's torch-neuronx is installed: then the device is theirs."""
    try:
        importlib.metadata.distribution("torch-neuronx")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def start() -> None:
    """Registers the device; later calls do nothing. Raises ``ConfigError`` on a bad environment value."""
    global _started
    if _started:
        return
    _started = True
    if real_backend_installed():
        warnings.warn(
            "trnsim: torch-neuronx is installed, so 'neuron' is the real device and trnsim stays out of the way. "
            "Uninstall one of the two to choose.",
            stacklevel=2,
        )
        return
    import torch

    from trnsim import _C

    _load_machine()
    _configure_core()
    _C.register()
    _register_module()
    _connect_policy()
    _run_backward_in_the_calling_thread()
    prefixes = [str(Path(torch.__file__).parent) + os.sep, str(Path(__file__).parent) + os.sep]
    _C.set_skipped_prefixes([*prefixes, str(Path(contextlib.__file__))])


def _run_backward_in_the_calling_thread() -> None:
    """Autograd has a thread per accelerator; ours would only wake up, compute on the same CPU and hand back.

    Measured on 2 idle cores, 3-layer 64-wide MLP step against CPU: 1.44-2.1x with the thread, 1.08-1.17x without. The
    results are the same; a fallback in a backward is then reported at the line of ``backward()``. A program that wants
    the thread calls ``torch.autograd.set_multithreading_enabled(True)``; threads it starts itself have it anyway.
    """
    import torch

    if not torch.cuda.is_available():
        torch.autograd.set_multithreading_enabled(False)


def _load_machine() -> None:
    from trnsim import config
    from trnsim.perf.cost import CostModel

    machine.options = config.load(os.environ)
    machine.instance = config.instance_of(machine.options)
    machine.chip = machine.instance.chip
    machine.cost = CostModel(machine.chip, lnc=machine.options.lnc)


def _configure_core() -> None:
    from trnsim import _C

    options = machine.options
    visible = options.visible_devices(machine.instance)
    _C.configure_devices(len(visible), machine.chip.memory_per_device(options.lnc))
    configure_clock(enabled=options.clock)
    _C.set_memory_debug(options.debug_memory)
    _C.set_parity_mode(options.rng == "cpu")
    _C.set_recording(options.ledger)


def configure_clock(*, enabled: bool) -> None:
    """Hands the cost model's constants to the core."""
    from trnsim import _C

    cost = machine.cost
    latency = cost.transfer_ns(0, "h2d")
    probe = 1 << 30
    _C.configure_clock(
        enabled=enabled,
        launch_blocking=machine.options.launch_blocking,
        dispatch_ns=cost.dispatch_ns,
        sync_ns=cost.sync_ns,
        transfer_latency_ns=latency,
        h2d_bytes_per_ns=probe / (cost.transfer_ns(probe, "h2d") - latency),
        d2h_bytes_per_ns=probe / (cost.transfer_ns(probe, "d2h") - cost.transfer_ns(0, "d2h")),
    )


def _register_module() -> None:
    global _module_pending
    _module_pending = True
    importlib.import_module("trnsim.device")
    register_module()


def register_module() -> None:
    """Gives PyTorch the device's name and module, once it is whole.

    ``trnsim.device`` calls it at its end: where a program imports it before torch, ``start`` runs in the middle of it.
    """
    global _module_pending
    from trnsim import _upstream, device

    if not _module_pending or not getattr(device, "_whole", False):
        return
    _module_pending = False
    _upstream.rename_backend("neuron", sys.modules[device.__name__])
    _upstream.quiet_repr()
    _upstream.dlpack_device()
    _upstream.accelerator_snapshot(device.memory_snapshot)
    _upstream.share_between_processes()
    _upstream.refuse_data_parallel()
    _upstream.settle_autograd_threads()
    _upstream.register_device_interface()
    _upstream.stand_in_for_the_compiler()


def _connect_policy() -> None:
    from trnsim import _C
    from trnsim.eager import bridge
    from trnsim.perf.opkey import OpKey, TensorSpec

    bridge.configure(machine.options, machine.chip.name)
    _C.set_callbacks(TensorSpec, OpKey, bridge.resolve, bridge.account, bridge.on_fallback, bridge.refuse)


@contextlib.contextmanager
def rng(mode: Literal["device", "cpu"]) -> Iterator[None]:
    """Within it, ``cpu`` makes neuron's generators give the CPU generator's numbers for the same seed.

    Entering and leaving reseeds the default generators with their current seed.
    """
    from trnsim import _C

    before = _C.parity_mode()
    _C.set_parity_mode(mode == "cpu")
    try:
        yield
    finally:
        _C.set_parity_mode(before)
