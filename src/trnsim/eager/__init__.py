"""Eager mode: what runs natively, what a fallback does, and which executables have been compiled.

The C++ core calls `resolve` before and `account` after the first run of each new op key, and `on_fallback` for each new
(op, line) pair; users see the policy through `trnsim.fallback_policy` and `trnsim.allow_fallback`. Nothing here imports
torch. The capability table, the executable cache and the cost model are made at first use, so this import is cheap.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from trnsim.eager import policy as _policy
from trnsim.eager.keys import KeyLike, split_op
from trnsim.eager.neff_cache import CacheSettings, CompileRecord, CompileStats, NeffCache
from trnsim.eager.policy import (
    Policy,
    allow_fallback,
    behaviour,
    current,
    fallback_policy,
    refusal,
    refuses,
    reset_warnings,
    set_policy,
    subscribe,
)
from trnsim.eager.table import CASTS, Reason, Resolution, Status, Table, load_table
from trnsim.errors import UnsupportedError, describe

if TYPE_CHECKING:
    from trnsim.perf.cost import CostModel, OpCost
    from trnsim.perf.opkey import OpKey

__all__ = [
    "CacheSettings",
    "CompileRecord",
    "CompileStats",
    "NeffCache",
    "Policy",
    "Reason",
    "Resolution",
    "Settings",
    "Status",
    "account",
    "account_with_record",
    "allow_fallback",
    "behaviour",
    "cache",
    "compile_records",
    "compile_stats",
    "configure",
    "current",
    "fallback_cost",
    "fallback_policy",
    "on_fallback",
    "refusal",
    "refuses",
    "register_native",
    "reset_compile_stats",
    "reset_warnings",
    "resolve",
    "set_policy",
    "settings",
    "subscribe",
    "table",
    "wide_dtypes",
]

_WIDE = frozenset({"float64", "int64"})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What eager mode needs to know of the simulated machine."""

    chip: str = "trn2"
    lnc: int = 2
    complex_decompose: bool = True
    cache: CacheSettings = field(default_factory=CacheSettings)


class _Session:
    """The parts that follow from the settings, each made at first use."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def table(self) -> Table:
        return load_table(chip=self.settings.chip, complex_decompose=self.settings.complex_decompose)

    @cached_property
    def cache(self) -> NeffCache:
        return NeffCache(replace(self.settings.cache, chip=self.settings.chip, lnc=self.settings.lnc))

    @cached_property
    def cost_model(self) -> CostModel:
        from trnsim.chips import load_chip
        from trnsim.perf.cost import CostModel

        return CostModel(load_chip(self.settings.chip), self.settings.lnc)


_lock = threading.RLock()
_session: _Session | None = None


def configure(settings: Settings) -> None:
    """Set the machine that eager mode simulates. Counts start anew; the policy is not touched."""
    global _session
    with _lock:
        previous, _session = _session, _Session(settings)
    if previous is not None and "cache" in vars(previous):
        previous.cache.flush()


def _now() -> _Session:
    global _session
    session = _session
    if session is None:
        with _lock:
            if _session is None:
                _session = _Session(Settings(cache=CacheSettings.from_environ(os.environ)))
            session = _session
    return session


def settings() -> Settings:
    """Return the settings in force."""
    return _now().settings


def table() -> Table:
    """Return the capability table of the simulated chip."""
    return _now().table


def cache() -> NeffCache:
    """Return the executable cache of this process."""
    return _now().cache


def resolve(key: KeyLike) -> Resolution:
    """Say before an op runs whether it is native or falls back, and why.

    Under `faithful` behaviour an op that the real device rejects outright raises UnsupportedError here.
    """
    answer = _now().table.resolve(key)
    if answer.rejected and current().behaviour == "faithful":
        raise UnsupportedError(
            describe(f"{key.op}: {answer.note}", fix=f"{answer.remedy}; or set TRNSIM_BEHAVIOUR=helpful to go on")
        )
    return answer


def account(key: OpKey) -> OpCost:
    """Return the predicted cost of an op that has just run for the first time, and count its executable.

    A fallback, and a 64-bit cast that bounces through the host, make no executable and cost the host's way.
    """
    return account_with_record(key)[0]


def account_with_record(key: OpKey, *, fallback: bool = False) -> tuple[OpCost, CompileRecord | None]:
    """Do what `account` does and return the compile record too, if the op makes an executable that is new.

    `fallback`: the op did fall back, whatever the table says.
    """
    session = _now()
    answer = session.table.resolve(key)
    if fallback or answer.status == "fallback" or answer.bounce:
        return session.cost_model.fallback(key), None
    record = session.cache.compile_op(key) if answer.compiles and not _is_transfer(key) else None
    return session.cost_model.op(key), record


def _is_transfer(key: KeyLike) -> bool:
    """Tell whether the op only moves data between host and device, which needs no executable."""
    tensors = (*key.inputs, *key.outputs)
    return split_op(key.op)[1] in CASTS and any(tensor.device == "cpu" for tensor in tensors)


def fallback_cost(key: OpKey) -> OpCost:
    """Return what running this op on the CPU is predicted to cost."""
    return _now().cost_model.fallback(key)


def on_fallback(op: str, reason: str, site: str, module: str = "", nbytes: int = 0, cost_ns: int = 0) -> None:
    """Warn at the user's line "file.py:12" that an op ran on the CPU; once per (op, line). See `policy.on_fallback`."""
    note, remedy = _now().table.explain(op, reason)
    _policy.on_fallback(op, reason, site, module, nbytes, cost_ns, note=note, remedy=remedy)


def register_native(op: str) -> None:
    """Declare a custom op (`ns::name`) native: an NKI kernel runs on the device."""
    _now().table.register_native(op)


def wide_dtypes(key: KeyLike) -> tuple[str, ...]:
    """Return the 64-bit dtypes that an op reads or writes on the device, sorted; these compute at 32 bits."""
    found = {tensor.dtype for tensor in (*key.inputs, *key.outputs) if tensor.device != "cpu"}
    return tuple(sorted(found & _WIDE))


def compile_stats() -> CompileStats:
    """Return how many executables this process compiled and found in the cache, and the predicted seconds."""
    return _now().cache.stats()


def compile_records() -> list[CompileRecord]:
    """Return one record per new key of this process, oldest first."""
    return _now().cache.records()


def reset_compile_stats() -> None:
    """Start the compile counts anew; files in the cache stay, so the same ops then count as hits."""
    _now().cache.reset()
