"""Every touch of a private PyTorch API, each with its reason, the PyTorch issue, and when it can go."""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch

from trnsim import _C


class _AfterImport(importlib.abc.MetaPathFinder):
    """Runs a function when a module is first imported, so that start-up does not import it."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        loader, then = spec.loader, self.then
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            then(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def after_import(name: str, then: Callable[[ModuleType], None]) -> None:
    """Calls ``then(module)`` now if ``name`` is imported already, else right after its import."""
    if name in sys.modules:
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, _AfterImport(name, then))


def rename_backend(name: str, module: ModuleType) -> None:
    """PrivateUse1 becomes ``name``; public but order-sensitive (PyTorch #134293): rename, register, then generate."""
    torch.utils.rename_privateuse1_backend(name)
    torch._register_device_module(name, module)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )


def quiet_repr() -> None:
    """``print(tensor)`` runs some 20 ops; they must not pollute the ledger (M19).

    ``torch._tensor_str`` copies the values of only a fixed list of device types to the host. It can go when that list
    is open to PrivateUse1.
    """
    from torch import _tensor_str

    original = _tensor_str._str

    def _str(self: torch.Tensor, *, tensor_contents: str | None = None) -> str:
        _C.enter_untracked()
        try:
            return original(self, tensor_contents=tensor_contents)
        finally:
            _C.leave_untracked()

    _tensor_str._str = _str


def dlpack_device() -> None:
    """``Tensor.__dlpack_device__`` compares with the literal "privateuse1" and so refuses a renamed backend (M15).

    Can go when upstream compares with the backend's name.
    """
    from torch.utils.dlpack import DLDeviceType

    original = torch.Tensor.__dlpack_device__

    def __dlpack_device__(self: torch.Tensor) -> tuple[Any, int]:
        if self.device.type == "neuron":
            return (DLDeviceType.kDLExtDev, self.device.index or 0)
        return original(self)

    torch.Tensor.__dlpack_device__ = __dlpack_device__  # type: ignore[method-assign]


def accelerator_snapshot(snapshot: Callable[..., Any]) -> None:
    """``torch.accelerator.memory._snapshot`` knows only CUDA and XPU. Can go when it asks the device's module."""
    from torch.accelerator import memory

    original = memory._snapshot

    def _snapshot(device: Any = None, augment_with_fx_traces: bool = False) -> Any:
        current = torch.accelerator.current_accelerator()
        if current is not None and current.type == "neuron":
            return snapshot(device)
        return original(device, augment_with_fx_traces)

    memory._snapshot = _snapshot


def _rebuild_shared(cls: type[torch.Tensor], value: torch.Tensor, device: str, requires_grad: bool) -> torch.Tensor:
    """Receiving side of ``share_between_processes``."""
    tensor = value.to(device)
    if cls is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad)


def share_between_processes() -> None:
    """Sends neuron tensors through queues and from DataLoader workers: by host shared memory (M20).

    ``torch.multiprocessing`` knows IPC for CPU and CUDA storages only; anything else ends in ``_share_fd_: only
    available on CPU`` and a loader that times out. Can go when reductions are open to PrivateUse1.
    """
    from multiprocessing.context import get_spawning_popen
    from multiprocessing.reduction import ForkingPickler

    from torch.multiprocessing import reductions

    original = reductions.reduce_tensor

    def reduce_tensor(tensor: torch.Tensor) -> Any:
        if tensor.device.type != "neuron":
            return original(tensor)
        if tensor.requires_grad and not tensor.is_leaf:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
                "crossing process boundaries. Send tensor.detach() instead."
            )
        value = tensor.detach().cpu()
        spawning = get_spawning_popen()
        if spawning is not None:  # its shared memory must live until the child has opened it
            vars(spawning).setdefault("_trnsim_shared", []).append(value)
        return _rebuild_shared, (type(tensor), value, str(tensor.device), tensor.requires_grad)

    reductions.reduce_tensor = reduce_tensor
    for cls in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(cls, reduce_tensor)


def settle_autograd_threads() -> None:
    """A program that ends right after ``backward()`` must not abort.

    The device's autograd thread drops its last references after the main thread has gone on; if Python is finalizing by
    then, taking the GIL ends the thread, and with it the process ("terminate called without an active exception").
    CPU has no such thread; on CUDA the driver's work hides it. The wait lets it finish. Can go when the engine joins
    its threads at exit.
    """
    seconds = 0.005

    def settle() -> None:
        if _C.is_initialized():
            time.sleep(seconds)

    atexit.register(settle)


def refuse_data_parallel() -> None:
    """``nn.DataParallel`` needs C++ parts that only CUDA builds of torch have, and ends in an AttributeError."""
    original = torch.nn.DataParallel.__init__

    def __init__(self: Any, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        if any(parameter.device.type == "neuron" for parameter in module.parameters()):
            from trnsim.errors import UnsupportedError

            raise UnsupportedError(
                "nn.DataParallel does not run on neuron. With one device use the module itself; with several, one process "
                "a device and DistributedDataParallel (not in this version)."
            )
        original(self, module, *args, **kwargs)

    torch.nn.DataParallel.__init__ = __init__  # type: ignore[method-assign]


def register_device_interface() -> None:
    """``get_interface_for_device("neuron")`` (M25). Dynamo has no registry that can be filled before it is imported."""

    def then(module: ModuleType) -> None:
        from trnsim.device.interface import make_interface

        interface = make_interface(module)
        module.register_interface_for_device("neuron", interface)
        for index in range(_C.device_count()):
            module.register_interface_for_device(f"neuron:{index}", interface)

    after_import("torch._dynamo.device_interface", then)


def _run_op_by_op(gm: Any, example_inputs: Any, **options: Any) -> Any:
    """A Dynamo backend that compiles nothing and says so."""
    warnings.warn(
        "This version of trnsim has no graph compiler for neuron: what torch.compile captured runs op by op, with the "
        "values, the predicted time and the ledger of eager mode.",
        stacklevel=2,
    )
    return gm


def stand_in_for_the_compiler() -> None:
    """Programs that compile must run before part B brings the compiler: ``backend="neuron"`` (transformers asks for it
    by itself for a static cache), and no backend, where Inductor ends in ``KeyError: 'neuron'`` (M21).

    Goes with part B.
    """

    def name_backend(registry: ModuleType) -> None:
        registry.register_backend(_run_op_by_op, name="neuron")

    def replace_inductor(module: ModuleType) -> None:
        original = module.compile_fx

        def compile_fx(gm: Any, example_inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if any(isinstance(value, torch.Tensor) and value.device.type == "neuron" for value in example_inputs):
                return _run_op_by_op(gm, example_inputs)
            return original(gm, example_inputs, *args, **kwargs)

        module.compile_fx = compile_fx

    after_import("torch._dynamo.backends.registry", name_backend)
    after_import("torch._inductor.compile_fx", replace_inductor)
