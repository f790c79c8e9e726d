"""The persistent executable cache that eager ops (and compiled graphs) share: `<dir>/ab/cd/<key>.neff`.

The first call of an op with new shapes, dtypes or static arguments compiles on a real device. Here nothing is compiled
for an eager op; the cache keeps account of it, so that a second process reports hits as the real one would. The
predicted compile time is recorded and not added to the simulated clock: a cold and a warm run give equal elapsed times.

A key is the SHA-256 of the op, its tensors, its static arguments, the compiler version, flags and optimisation level,
the chip and the logical core configuration. Files appear by atomic rename, so processes may share a directory. A file
that is damaged or not ours is refused, reported and rebuilt; a full or unwritable directory is reported once, and the
process goes on without storing. An op waits for the look-up (20-50 us, once per key and process), not for the writing.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import itertools
import os
import threading
import warnings
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trnsim.eager.container import Container, canonical_json, pack, read_file
from trnsim.eager.keys import KeyLike
from trnsim.eager.writer import BackgroundWriter
from trnsim.errors import CacheError, NeuronCacheWarning, describe

__all__ = [
    "COMPILER_VERSION",
    "DEFAULT_DIR",
    "CacheSettings",
    "CompileRecord",
    "CompileStats",
    "NeffCache",
    "predicted_compile_s",
]

DEFAULT_DIR = "/tmp/neff_cache"  # documented default of TORCH_NEURONX_NEFF_CACHE_DIR
COMPILER_VERSION = "trnsim-1"  # bump when the meaning of a cached executable changes

_NOWHERE = "<neuron executable cache>"  # where warnings about the cache point: no line of the user is at fault

# Two points measured on trn2 (2026-10): 1.4 s for a graph of 8 nodes, 5.1 s for 323. Linear in between, assumed flat
# below.
_SMALL_NODES, _SMALL_S = 8, 1.4
_LARGE_NODES, _LARGE_S = 323, 5.1


def predicted_compile_s(nodes: int) -> float:
    """Seconds that neuronx-cc is predicted to take for a graph of so many nodes."""
    slope = (_LARGE_S - _SMALL_S) / (_LARGE_NODES - _SMALL_NODES)
    return _SMALL_S + slope * max(nodes - _SMALL_NODES, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """Where executables are kept and what, besides the op, makes one differ from another.

    directory: TORCH_NEURONX_NEFF_CACHE_DIR. disabled: TORCH_NEURONX_NEFF_DISABLE_CACHE. cc_flags: NEURON_CC_FLAGS.
    opt_level: NEURON_COMPILER_OPT_LEVEL.
    """

    directory: str = DEFAULT_DIR
    disabled: bool = False
    cc_flags: str = ""
    opt_level: str = ""
    chip: str = "trn2"
    lnc: int = 2
    compiler_version: str = COMPILER_VERSION

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], *, chip: str = "trn2", lnc: int = 2) -> CacheSettings:
        """Read the four documented variables."""
        return cls(
            directory=environ.get("TORCH_NEURONX_NEFF_CACHE_DIR") or DEFAULT_DIR,
            disabled=environ.get("TORCH_NEURONX_NEFF_DISABLE_CACHE", "0").strip().lower() in ("1", "true", "yes", "on"),
            cc_flags=environ.get("NEURON_CC_FLAGS", ""),
            opt_level=environ.get("NEURON_COMPILER_OPT_LEVEL", ""),
            chip=chip,
            lnc=lnc,
        )

    def compiler(self) -> dict[str, Any]:
        """The part of a key that is the same for all ops."""
        return {
            "version": self.compiler_version,
            "flags": self.cc_flags.split(),
            "opt_level": self.opt_level,
            "chip": self.chip,
            "lnc": self.lnc,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRecord:
    """One new key in this process: compiled (predicted seconds) or found in the cache."""

    op: str
    key: str
    outcome: Literal["compiled", "hit"]
    predicted_s: float


@dataclass(slots=True, kw_only=True)
class CompileStats:
    """Counts since the start or the last reset.

    predicted_s: what the compiles would have taken on the real device; saved_s: the same for the hits.
    refusals: (path, reason) of each file that was not trusted.
    """

    compiles: int = 0
    hits: int = 0
    stored: int = 0
    refused: int = 0
    predicted_s: float = 0.0
    saved_s: float = 0.0
    refusals: list[tuple[str, str]] = field(default_factory=list)


def _plain(value: object) -> object:
    """Turn a static argument into JSON: sequences stay lists, everything that JSON has not becomes its text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    # repr tells 1.0 from 1, and JSON has no nan or inf
    return repr(value) if isinstance(value, float) else str(value)


def describe_key(key: KeyLike) -> dict[str, Any]:
    """Return the part of the file header that is the op itself."""
    return {
        "op": key.op,
        "inputs": [[tensor.dtype, list(tensor.shape), tensor.contiguous, tensor.device] for tensor in key.inputs],
        "static": [[name, _plain(value)] for name, value in key.static],
    }


class NeffCache:
    """The cache of one process. All methods may be called from any thread."""

    def __init__(self, settings: CacheSettings | None = None) -> None:
        self.settings = settings or CacheSettings()
        self._compiler = self.settings.compiler()
        self._lock = threading.Lock()
        self._seen: set[str] = set()
        self._records: list[CompileRecord] = []
        self._stats = CompileStats()
        self._writable = not self.settings.disabled
        self._notices: list[str] = []
        self._serial = itertools.count()
        self._writer = BackgroundWriter(self._write)
        _report_at_exit(self)

    # -------------------------------------------------------------------------------------------------------- eager ops
    def compile_op(self, key: KeyLike) -> CompileRecord | None:
        """Account for the executable of an eager op; None if this process has met the key before."""
        parts = {"kind": "eager", "compiler": self._compiler, **describe_key(key)}
        header = canonical_json(parts)
        name = hashlib.sha256(header).hexdigest()
        with self._lock:
            if name in self._seen:
                return None
            self._seen.add(name)
        found = self._read(name)
        hit = found is not None and found.header == parts
        if found is not None and not hit:
            self._refuse(self.path(name), "its header describes another executable")
        if not hit and self._writable:
            self._writer.put(name, pack(header))
        self._deliver()
        return self._count(key.op, name, hit=hit, seconds=predicted_compile_s(1))

    # ------------------------------------------------------------------------------------------------------------ files
    def key_of(self, ir: bytes) -> str:
        """Return the key of a graph: hash of its IR, the compiler arguments and the compiler version."""
        return hashlib.sha256(canonical_json(self._compiler) + b"\0" + ir).hexdigest()

    def path(self, key: str) -> str:
        """Return where the executable of this key lives: `<dir>/ab/cd/<key>.neff`."""
        return os.path.join(self.settings.directory, key[:2], key[2:4], f"{key}.neff")

    def load(self, key: str) -> Container | None:
        """Return the container stored under a key, or None; a file that cannot be trusted is reported and ignored."""
        found = self._read(key)
        self._deliver()
        return found

    def store(self, key: str, header: Mapping[str, Any], payload: bytes = b"") -> bool:
        """Store an executable atomically; False if the cache is disabled or cannot be written."""
        stored = self._write(key, pack(canonical_json({"compiler": self._compiler, **header}), payload))
        self._deliver()
        return stored

    def flush(self) -> None:
        """Wait until every executable met so far is on the disk (also done at exit)."""
        self._writer.flush()
        self._deliver()

    def _read(self, key: str) -> Container | None:
        if self.settings.disabled:
            return None
        path = self.path(key)
        try:
            return read_file(path)
        except CacheError as error:
            self._refuse(path, str(error))
            return None

    def _refuse(self, path: str, why: str) -> None:
        with self._lock:
            self._stats.refused += 1
            self._stats.refusals.append((path, why))
            fix = "none needed: it is rebuilt; remove it if you did not expect it"
            self._notices.append(describe(f"Refused the cached executable {path}", seen=why, fix=fix))

    def _write(self, key: str, data: bytes) -> bool:
        """Write one file under its own name, then rename it. Never raises or warns: the writer's thread runs it."""
        if not self._writable:
            return False
        path = self.path(key)
        directory = os.path.dirname(path)
        temporary = f"{path}.{os.getpid()}.{next(self._serial)}.tmp"
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
        except OSError as error:
            self._give_up(error)
            return False
        try:
            _write_new(temporary, data)
        except FileNotFoundError:  # somebody cleared the cache in this moment
            return False
        except OSError as error:
            _unlink_quietly(temporary)
            self._give_up(error)
            return False
        try:
            os.rename(temporary, path)
        except OSError:  # a foreign file in a sticky directory, or a directory of that name: refused when it was read
            _unlink_quietly(temporary)
            return False
        with self._lock:
            self._stats.stored += 1
        return True

    def _give_up(self, error: OSError) -> None:
        with self._lock:
            if not self._writable:
                return
            self._writable = False
            self._notices.append(
                describe(
                    f"The executable cache {self.settings.directory} cannot be written, so nothing more is stored",
                    seen=f"{error.strerror or error} (errno {error.errno})",
                    cost="later processes compile again",
                    fix="free space, or set TORCH_NEURONX_NEFF_CACHE_DIR to a writable directory; "
                    "TORCH_NEURONX_NEFF_DISABLE_CACHE=1 turns the cache off",
                )
            )

    def _deliver(self) -> None:
        """Warn, on the caller's thread, of what happened on any."""
        if self._notices:
            with self._lock:
                notices, self._notices = self._notices, []
            for notice in notices:
                warnings.warn_explicit(notice, NeuronCacheWarning, _NOWHERE, 1, module=__name__)

    # ------------------------------------------------------------------------------------------------------- statistics
    def _count(self, op: str, key: str, *, hit: bool, seconds: float) -> CompileRecord:
        outcome: Literal["compiled", "hit"] = "hit" if hit else "compiled"
        record = CompileRecord(op=op, key=key, outcome=outcome, predicted_s=seconds)
        with self._lock:
            self._records.append(record)
            if hit:
                self._stats.hits += 1
                self._stats.saved_s += seconds
            else:
                self._stats.compiles += 1
                self._stats.predicted_s += seconds
        return record

    def stats(self) -> CompileStats:
        """Return a copy of the counts."""
        with self._lock:
            stats = self._stats
            return CompileStats(
                compiles=stats.compiles,
                hits=stats.hits,
                stored=stats.stored,
                refused=stats.refused,
                predicted_s=stats.predicted_s,
                saved_s=stats.saved_s,
                refusals=list(stats.refusals),
            )

    def records(self) -> list[CompileRecord]:
        """Return the records of all new keys, oldest first."""
        with self._lock:
            return list(self._records)

    def reset(self) -> None:
        """Forget counts, records and which keys this process has met. The files stay."""
        with self._lock:
            self._seen.clear()
            self._records.clear()
            self._stats = CompileStats()


def _report_at_exit(cache: NeffCache) -> None:
    """A short program still hears that its cache could not be written; does not keep the cache alive."""
    reference = weakref.ref(cache)

    def report() -> None:
        owner = reference()
        if owner is not None:
            owner.flush()
            owner._deliver()

    atexit.register(report)


def _write_new(path: str, data: bytes) -> None:
    """Write a file that must not exist yet, readable and writable by this user only."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def _unlink_quietly(path: str) -> None:
    with contextlib.suppress(OSError):  # it may never have been made; nothing else can be done on a full disk
        os.unlink(path)
