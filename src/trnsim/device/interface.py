"""Dynamo's view of the device (``torch._dynamo.device_interface``), built when Dynamo is imported."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from trnsim import _C
from trnsim.device import streams


def make_interface(module: ModuleType) -> type[Any]:
    """A ``DeviceInterface`` over ``torch.neuron``; ``module`` is the imported device_interface module."""

    class NeuronInterface(module.DeviceInterface):  # type: ignore[name-defined, misc]
        device = torch.neuron.device  # type: ignore[attr-defined]
        Event = streams.Event
        Stream = streams.Stream

        class Worker:
            """What compile workers may ask; they are forked, so nothing here touches the device."""

            @staticmethod
            def set_device(index: int) -> None:
                _C.exchange_device(index)

            @staticmethod
            def current_device() -> int:
                return _C.current_device()

            @staticmethod
            def get_device_properties(index: Any = None) -> Any:
                return torch.neuron.get_device_properties(index)  # type: ignore[attr-defined]

        current_device = staticmethod(lambda: _C.current_device())
        set_device = staticmethod(lambda index: torch.neuron.set_device(index))  # type: ignore[attr-defined]
        device_count = staticmethod(lambda: _C.device_count())
        is_available = staticmethod(lambda: _C.device_count() > 0)
        exchange_device = staticmethod(lambda index: torch.neuron._exchange_device(index))  # type: ignore[attr-defined]
        maybe_exchange_device = exchange_device
        synchronize = staticmethod(lambda index=None: torch.neuron.synchronize(index))  # type: ignore[attr-defined]
        current_stream = staticmethod(lambda index=None: torch.neuron.current_stream(index))  # type: ignore[attr-defined]
        set_stream = staticmethod(lambda stream: torch.accelerator.set_stream(stream))
        get_device_properties = Worker.get_device_properties
        get_compute_capability = staticmethod(lambda index=None: torch.neuron.get_device_name(index))  # type: ignore[attr-defined]
        is_bf16_supported = staticmethod(lambda including_emulation=False: True)
        is_dtype_supported = staticmethod(lambda dtype, including_emulation=False: True)
        is_triton_capable = staticmethod(lambda index=None: False)

        @staticmethod
        def get_raw_stream(index: Any) -> int:
            return int(torch.neuron.current_stream(index).stream_id)  # type: ignore[attr-defined]

        @staticmethod
        def raise_if_triton_unavailable(index: Any = None) -> None:
            raise RuntimeError("neuron has no Triton; write kernels in NKI.")

    return NeuronInterface
