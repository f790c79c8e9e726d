"""Which module is running: hooks that tell the core the path of the innermost `nn.Module` whose forward is active.

A path is the name within the outermost module that was called (`encoder.layers.0.attn`); the outermost itself goes by its
class. Names are read once per outermost module and again when it has gained a submodule that has no name yet.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from trnsim import _C

__all__ = ["track_modules"]


class _Thread(threading.local):
    """What one thread is in: the outermost module, and the path to go back to at each leave."""

    def __init__(self) -> None:
        self.outermost: torch.nn.Module | None = None
        self.before: list[int] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Path:
    """An interned path and its depth in names. The deepest wins: a part that is called alone, as checkpointing does in
    backward, keeps the name that it has within the whole.
    """

    interned: int
    depth: int


class _Tracker:
    def __init__(self) -> None:
        self._paths: weakref.WeakKeyDictionary[torch.nn.Module, _Path] = weakref.WeakKeyDictionary()
        self._read: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._thread = _Thread()

    def _path(self, module: torch.nn.Module, outermost: torch.nn.Module) -> int:
        if outermost not in self._read or module not in self._paths:
            self._read.add(outermost)
            for path, child in outermost.named_modules():
                depth = path.count(".") + 1 if path else 0
                known = self._paths.get(child)
                if known is None or depth > known.depth:
                    name = _C.intern_module(path or type(outermost).__name__)
                    self._paths[child] = _Path(interned=name, depth=depth)
        found = self._paths.get(module)  # one made on the fly has no path
        return found.interned if found else _C.intern_module(type(module).__name__)

    def enter(self, module: torch.nn.Module, _: Any) -> None:
        if torch.compiler.is_dynamo_compiling():
            return  # Dynamo traces through hooks; a compiled graph has no modules
        thread = self._thread
        if thread.outermost is None:
            thread.outermost = module
        thread.before.append(_C.exchange_module(self._path(module, thread.outermost)))

    def leave(self, _: torch.nn.Module, __: Any, ___: Any) -> None:
        if torch.compiler.is_dynamo_compiling():
            return
        thread = self._thread
        if not thread.before:  # entered before the hooks were there
            return
        _C.exchange_module(thread.before.pop())
        if not thread.before:
            thread.outermost = None


@contextmanager
def track_modules() -> Iterator[None]:
    """Tell the core of each module that is entered or left, on every thread, while the context is open."""
    tracker = _Tracker()
    handles = (
        register_module_forward_pre_hook(tracker.enter),
        register_module_forward_hook(tracker.leave, always_call=True),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
