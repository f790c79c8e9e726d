"""Streams and events on the simulated clock."""

from __future__ import annotations

from typing import Any

import torch

from trnsim import _C
from trnsim.device.context import index_of


class Stream(torch.Stream):
    """A queue of device work. Work on one stream runs in order; two streams overlap unless events order them."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        if kwargs:  # rebuilt from (stream_id, device_index, device_type), as torch.Stream itself allows
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, device=torch.device("neuron", index_of(device, optional=True)), priority=priority)

    def wait_event(self, event: torch.Event) -> None:
        """Later work on this stream starts after ``event``."""
        event.wait(self)

    def __repr__(self) -> str:
        return f"<torch.neuron.Stream device={self.device} id={self.stream_id}>"


class Event(torch.Event):
    """A mark in a stream. ``elapsed_time`` gives predicted Trainium milliseconds, the same on every run."""

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, device: Any = None
    ) -> Event:
        index = index_of(device, optional=True)
        return super().__new__(
            cls,
            device=torch.device("neuron", index),
            enable_timing=enable_timing,
            blocking=blocking,
            interprocess=interprocess,
        )

    def elapsed_time(self, end: torch.Event) -> float:
        """Predicted milliseconds from this event to ``end``; both need ``enable_timing=True`` and a record."""
        if not isinstance(end, torch.Event):
            raise TypeError(f"elapsed_time needs the later event, got {type(end).__name__} {end!r}")
        return _C.elapsed_ms(self.event_id, end.event_id)  # torch.Event's own takes no subclass

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Makes ``stream`` (the current one by default) wait for this event."""
        super().wait(current_stream() if stream is None else stream)


class stream:  # noqa: N801  the name is PyTorch's
    """Context manager that makes a stream current. ``None`` does nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self.previous: torch.Stream | None = None
        self.device_index = -1

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self.device_index = torch.accelerator.current_device_index()
        self.previous = torch.accelerator.current_stream(self.stream.device)
        torch.accelerator.set_stream(self.stream)

    def __exit__(self, *exc: object) -> None:
        if self.previous is not None:
            torch.accelerator.set_stream(self.previous)
            torch.accelerator.set_device_index(self.device_index)


StreamContext = stream


def _named(raw: torch.Stream) -> Stream:
    return Stream(stream_id=raw.stream_id, device_index=raw.device_index, device_type=raw.device_type)


def current_stream(device: Any = None) -> Stream:
    """The stream on which this thread's next op on ``device`` runs."""
    return _named(torch.accelerator.current_stream(index_of(device, optional=True)))


def default_stream(device: Any = None) -> Stream:
    """The device's stream 0."""
    index = index_of(device, optional=True)
    kind = current_stream(index).device_type
    return Stream(stream_id=0, device_index=index, device_type=kind)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes ``stream`` current for this thread; prefer the context manager ``torch.neuron.stream``."""
    if stream is not None:
        torch.accelerator.set_stream(stream)
