"""What happens when an op falls back to the CPU: warn, allow or raise; which ops are excused; how strict the device is.

The policy belongs to the process, not to a thread or a context variable: autograd runs backward ops on its own threads,
and a policy that did not reach them would miss half of the program. A context manager therefore acts on every thread
while it is open. Overlapping managers of different threads may close in any order; the newest one still open wins.

C++ reads the policy on every fallback and keeps a copy; `subscribe` tells it of each change.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast, get_args

from trnsim.eager.keys import split_op
from trnsim.eager.table import Reason, Resolution
from trnsim.errors import ConfigError, FallbackError, NeuronFallbackWarning, describe

__all__ = [
    "Behaviour",
    "Mode",
    "Policy",
    "allow_fallback",
    "behaviour",
    "current",
    "fallback_policy",
    "on_fallback",
    "refusal",
    "refuses",
    "reset_warnings",
    "set_policy",
    "subscribe",
]

Mode = Literal["warn", "allow", "error"]
Behaviour = Literal["helpful", "faithful"]

# Reasons that mean "an implementation exists but does not take these arguments". They become errors under
# TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS, while ops without any implementation go on falling back.
_REJECTED_ARGUMENTS: frozenset[str] = frozenset({"dtype", "layout", "complex", "limits"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The policy in force. Immutable: a change replaces it, so any thread reads one consistent state."""

    mode: Mode = "warn"
    allow: frozenset[str] = frozenset()
    behaviour: Behaviour = "helpful"
    only_unimplemented: bool = False

    def allows(self, op: str) -> bool:
        """Tell whether the allow list excuses this op; `aten::sort` excuses all its overloads and forms."""
        if not self.allow:
            return False
        return op in self.allow or _canonical(op) in self.allow or _canonical(op, overload=True) in self.allow

    def refuses(self, op: str, reason: Reason | None = None) -> bool:
        """Tell whether a fallback of this op must raise."""
        if self.allows(op):
            return False
        return self.mode == "error" or (self.only_unimplemented and reason in _REJECTED_ARGUMENTS)


_Change = Callable[[Policy], Policy]

_lock = threading.RLock()
_base = Policy()
_overrides: list[_Change] = []
_current = _base
_listeners: list[Callable[[Policy], None]] = []
_warned: set[tuple[str, str]] = set()


def _canonical(op: str, *, overload: bool = False) -> str:
    """`sort`, `aten::sort_`, `aten::sort.values_stable` → `aten::sort` (or `aten::sort.values_stable`)."""
    namespace, base, name = split_op(op)
    return f"{namespace}::{base}.{name}" if overload and name else f"{namespace}::{base}"


def _check(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise ConfigError(
            describe(f"Unknown {name}", seen=repr(value), allowed=allowed, fix=f"choose one of {allowed}")
        )


def _refresh() -> None:
    """Recompute the policy in force and tell the listeners. The caller holds the lock."""
    global _current
    policy = _base
    for change in _overrides:
        policy = change(policy)
    _current = policy
    for listener in _listeners:
        listener(policy)


@contextmanager
def _override(change: _Change) -> Iterator[Policy]:
    with _lock:
        _overrides.append(change)
        _refresh()
    try:
        yield _current
    finally:
        with _lock:
            # By identity: two equal managers must not close each other.
            index = next(i for i, other in enumerate(_overrides) if other is change)
            del _overrides[index]
            _refresh()


def current() -> Policy:
    """Return the policy in force."""
    return _current


def set_policy(
    *,
    mode: Mode | None = None,
    allow: frozenset[str] | None = None,
    behaviour: Behaviour | None = None,
    only_unimplemented: bool | None = None,
) -> Policy:
    """Set the process-wide base policy (what the environment variables say); None leaves a field as it is.

    Context managers that are open stay in force on top of it.
    """
    global _base
    if mode is not None:
        _check("fallback policy", mode, get_args(Mode))
    if behaviour is not None:
        _check("behaviour", behaviour, get_args(Behaviour))
    with _lock:
        _base = Policy(
            mode=_base.mode if mode is None else mode,
            allow=_base.allow if allow is None else _names(tuple(allow)),
            behaviour=_base.behaviour if behaviour is None else behaviour,
            only_unimplemented=_base.only_unimplemented if only_unimplemented is None else only_unimplemented,
        )
        _refresh()
    return _current


def _names(ops: tuple[str, ...]) -> frozenset[str]:
    """Bring the names of an allow list to canonical form; a name may lack `aten::` and may have an overload."""
    for op in ops:
        if not op or any(character.isspace() for character in op):
            raise ConfigError(
                describe(
                    "Bad op name in a fallback allow list", seen=repr(op), allowed="'aten::sort' or 'aten::sort.stable'"
                )
            )
    return frozenset(_canonical(op, overload=True) for op in ops)


@contextmanager
def fallback_policy(mode: Mode) -> Iterator[Policy]:
    """Set what a fallback does inside the block: `warn`, `allow` or `error`. Holds for every thread."""
    _check("fallback policy", mode, get_args(Mode))
    with _override(lambda policy: replace(policy, mode=mode)) as policy:
        yield policy


@contextmanager
def allow_fallback(*ops: str) -> Iterator[Policy]:
    """Excuse these ops (`aten::sort`, any form; or one overload, `aten::sort.stable`) inside the block."""
    names = _names(ops)
    with _override(lambda policy: replace(policy, allow=policy.allow | names)) as policy:
        yield policy


@contextmanager
def behaviour(kind: Behaviour) -> Iterator[Policy]:
    """Switch between `helpful` and `faithful` (the real device's limits raise) inside the block."""
    _check("behaviour", kind, get_args(Behaviour))
    with _override(lambda policy: replace(policy, behaviour=kind)) as policy:
        yield policy


def subscribe(listener: Callable[[Policy], None]) -> Callable[[], None]:
    """Call `listener(policy)` now and after each change; returns a function that ends the subscription."""
    with _lock:
        _listeners.append(listener)
        listener(_current)

    def unsubscribe() -> None:
        with _lock:
            if listener in _listeners:
                _listeners.remove(listener)

    return unsubscribe


def refuses(op: str, reason: str | None = None) -> bool:
    """Tell whether a fallback of this op must raise under the policy in force."""
    return _current.refuses(op, cast("Reason | None", reason))


def refusal(op: str, resolution: Resolution, *, site: str = "", module: str = "") -> FallbackError:
    """Build the error for a refused fallback. (Building does not raise, so C++ can add its own traceback.)"""
    policy = _current
    if policy.mode == "error":
        cause = "the fallback policy is 'error'"
    else:
        cause = "TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS=1 and the op has a Neuron implementation"
    where = "".join((f" at {site}" if site else "", f" in module {module}" if module else ""))
    return FallbackError(
        describe(
            f"{op}{where} would run on the CPU ({resolution.reason}: {resolution.note}), and {cause}",
            fix=f"{_or_none(resolution.remedy)}; or excuse it: trnsim.allow_fallback('{_canonical(op)}')",
        )
    )


def on_fallback(
    op: str,
    reason: str,
    site: str,
    module: str = "",
    nbytes: int = 0,
    cost_ns: int = 0,
    *,
    note: str = "",
    remedy: str = "",
) -> None:
    """Warn at the user's line that `op` ran on the CPU: once per (op, site), and only under the policy `warn`.

    `site` is "file.py:12", `nbytes` what crossed between device and host both ways, `cost_ns` the simulated time of one
    such call. Raises NeuronFallbackWarning where the user's filters turn it into an error.
    """
    policy = _current
    if policy.mode != "warn" or policy.allows(op):
        return
    key = (op, site)
    with _lock:
        if key in _warned:
            return
        _warned.add(key)
    filename, line = _split_site(site)
    stall = f"{cost_ns / 1000:.0f} us" if cost_ns else "more than 500 us (measured on trn2)"
    message = describe(
        f"{op} ran on the CPU ({reason}{': ' + note if note else ''})" + (f" in module {module}" if module else ""),
        cost=f"{_si(nbytes)} copied and {stall} of device stall, at each call",
        fix=f"{_or_none(remedy)}. Silence it: trnsim.allow_fallback('{_canonical(op)}') or TRNSIM_FALLBACK_ALLOW",
    )
    try:
        warnings.warn_explicit(message, NeuronFallbackWarning, filename, line, module=Path(filename).stem)
    except NeuronFallbackWarning:
        with _lock:
            _warned.discard(key)  # an error must come back at the next call, not hide
        raise


def reset_warnings() -> None:
    """Forget which (op, line) pairs have been warned about."""
    with _lock:
        _warned.clear()


def _or_none(remedy: str) -> str:
    return remedy or "none known; move the tensors to the CPU explicitly"


def _split_site(site: str) -> tuple[str, int]:
    filename, _, line = site.rpartition(":")
    if filename and line.isdigit():
        return sys.intern(filename), int(line)
    return site or "<unknown>", 1


def _si(nbytes: int) -> str:
    size = float(nbytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
