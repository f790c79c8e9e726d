"""The simulated clock, as Python reads it."""

from __future__ import annotations

from dataclasses import dataclass

from trnsim import _C


@dataclass(frozen=True, kw_only=True)
class ClockReading:
    """Simulated times in nanoseconds since the device was first used: the host's, and the end of the device's work."""

    host_ns: int
    device_ns: int

    @property
    def ns(self) -> int:
        """When everything issued so far is done."""
        return max(self.host_ns, self.device_ns)

    def __sub__(self, earlier: ClockReading) -> float:
        """Predicted milliseconds between two readings."""
        return (self.ns - earlier.ns) / 1e6


def settled_ns() -> int:
    """Simulated time at which all work issued so far, on any device, is done."""
    return max(_C.host_now(), *(_C.device_tail(index) for index in range(_C.device_count())))


def clock(device: int | None = None) -> ClockReading:
    """Reads the clock; ``device`` is an index, the current device by default. Reading does not synchronise."""
    index = _C.current_device() if device is None else device
    return ClockReading(host_ns=_C.host_now(), device_ns=_C.device_tail(index))
