"""A background writer, so that an op never waits for the disk.

Making two directories and a file costs 0.1-0.5 ms on an ordinary disk, an op a few microseconds. The first item wakes
one daemon thread, which lets more arrive for a moment and writes them together; what is left is written at exit. An
item may be lost if the process is killed within that moment, which a cache can bear.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable

__all__ = ["BackgroundWriter"]

_GATHER_S = 0.05  # seconds between the first item of a batch and its writing


class BackgroundWriter:
    """Hands items to `write(name, data)` on a thread of its own. `write` must not raise."""

    def __init__(self, write: Callable[[str, bytes], object]) -> None:
        self._write = write
        self._pending: list[tuple[str, bytes]] = []
        self._lock = threading.Lock()
        self._drain_lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        _at_exit(self)

    def put(self, name: str, data: bytes) -> None:
        """Queue an item. In a forked child, where the thread does not exist, nothing is queued."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._pending.append((name, data))
            if self._thread is None:
                self._thread = threading.Thread(target=_run, args=(weakref.ref(self), self._wake), daemon=True)
                self._thread.name = "trnsim-cache-writer"
                self._thread.start()
        self._wake.set()

    def flush(self) -> None:
        """Write everything that was queued before this call."""
        if os.getpid() != self._pid:
            return
        with self._drain_lock:
            with self._lock:
                batch, self._pending = self._pending, []
            for name, data in batch:
                self._write(name, data)


def _run(writer: weakref.ref[BackgroundWriter], wake: threading.Event) -> None:
    while wake.wait(timeout=5.0) or writer() is not None:
        if not wake.is_set():
            continue
        time.sleep(_GATHER_S)
        wake.clear()
        owner = writer()
        if owner is None:
            return
        owner.flush()
        del owner


def _at_exit(writer: BackgroundWriter) -> None:
    """Flush at exit without keeping the writer alive until then."""
    reference = weakref.ref(writer)

    def flush() -> None:
        owner = reference()
        if owner is not None:
            owner.flush()

    atexit.register(flush)
    # Not at exit itself: that would run first and take the flush away.
    weakref.finalize(writer, atexit.unregister, flush).atexit = False
