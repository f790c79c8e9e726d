"""What the C++ core calls: plain tuples and names instead of objects, and the policy pushed down to it.

`runtime` hands these functions to `_C.set_callbacks`. Each is called with the GIL held, from any thread (autograd has
its own), once per new op key or per new fallback line; an exception from here reaches the user's call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from trnsim import eager
from trnsim.eager.policy import Policy
from trnsim.eager.table import Resolution

if TYPE_CHECKING:
    from trnsim.config import Options
    from trnsim.perf.opkey import OpKey

__all__ = ["ENGINES", "account", "configure", "on_fallback", "refuse", "resolve"]

ENGINES = ("tensor", "vector", "scalar", "gpsimd", "dma", "host", "none")
"""Names by the code that the core keeps for each op (the order of OpCost.engine)."""

_NO_COMPILE, _COMPILED, _CACHE_HIT = 0, 1, 2
_engine_codes = {name: code for code, name in enumerate(ENGINES)}


class _Last(threading.local):
    """The fallback key that this thread resolved last: its first warning comes before its cost is accounted."""

    key: OpKey | None = None


_last = _Last()
_leave: Callable[[], None] | None = None


def configure(options: Options, chip: str) -> None:
    """Take over the options of the process and keep the core's copy of the policy current.

    May be called again, for another machine.
    """
    global _leave
    eager.configure(
        eager.Settings(
            chip=chip,
            lnc=options.lnc,
            complex_decompose=options.complex_decompose,
            cache=eager.CacheSettings(
                directory=options.neff_cache_dir,
                disabled=options.neff_disable_cache,
                cc_flags=options.cc_flags,
                opt_level=options.compiler_opt_level,
            ),
        )
    )
    eager.set_policy(
        mode=options.fallback,
        allow=frozenset(options.fallback_allow),
        behaviour=options.behaviour,
        only_unimplemented=options.fallback_only_for_unimplemented_ops,
    )
    if _leave is not None:
        _leave()
    _leave = eager.subscribe(_Push())


class _Push:
    """Tells the core of each change of policy."""

    def __init__(self) -> None:
        self._behaviour = eager.current().behaviour

    def __call__(self, policy: Policy) -> None:
        from trnsim import _C

        # Under only_unimplemented the core must ask at each fallback, as under "error": some are refused, some are not.
        _C.set_policy("error" if policy.only_unimplemented else policy.mode)
        if policy.behaviour != self._behaviour:
            self._behaviour = policy.behaviour
            _C.forget_entries()  # what was answered under the other behaviour may now raise, or no longer


def resolve(key: OpKey) -> Resolution:
    """Native or fallback; see `eager.resolve`."""
    answer = eager.resolve(key)
    if answer.status == "fallback":
        _last.key = key
    return answer


def account(key: OpKey, fallback: bool) -> tuple[int, int, int, int, int, int]:
    """Return (duration ns, engine code, bytes, flops, compile: 0 none 1 compiled 2 cache hit, predicted compile ns)."""
    cost, record = eager.account_with_record(key, fallback=fallback)
    compiled = _NO_COMPILE
    compile_ns = 0
    if record is not None:
        compiled = _COMPILED if record.outcome == "compiled" else _CACHE_HIT
        compile_ns = round(record.predicted_s * 1e9)
    return cost.duration_ns, _engine_codes[cost.engine], cost.bytes, cost.flops, compiled, compile_ns


def on_fallback(op: str, reason: str, site: str, module: str, nbytes: int, cost_ns: int) -> None:
    """Warn at the user's line; see `policy.on_fallback`."""
    key = _last.key
    if cost_ns == 0 and key is not None and key.op == op:
        cost_ns = eager.fallback_cost(key).duration_ns
    eager.on_fallback(op, reason, site, module, nbytes, cost_ns)


def refuse(op: str, reason: str, site: str, module: str, nbytes: int, cost_ns: int) -> None:
    """Raise FallbackError if the policy refuses this fallback; otherwise do what the policy wants."""
    if eager.refuses(op, reason):
        note, remedy = eager.table().explain(op, reason)
        answer = Resolution(status="fallback", reason=cast("eager.Reason", reason), note=note, remedy=remedy)
        raise eager.refusal(op, answer, site=site, module=module)
    on_fallback(op, reason, site, module, nbytes, cost_ns)
