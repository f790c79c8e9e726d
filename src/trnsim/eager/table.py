"""Which ops the eager Neuron backend runs natively, and why the others run on the CPU.

`capability.toml` is the table; this module reads it once and answers `Table.resolve(key)`. A resolve takes a few
microseconds: the entry of an op name is remembered after its first look-up, and the common answers are shared objects.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast, get_args

from trnsim.eager.keys import KeyLike, dtype_name, is_channels_last, split_op
from trnsim.eager.limits import CHECKS, Check
from trnsim.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:  # the standard library has no TOML reader before 3.11
    import tomli as tomllib

__all__ = [
    "CASTS",
    "Entry",
    "Limit",
    "Reason",
    "Resolution",
    "Status",
    "Table",
    "join_notes",
    "load_table",
    "load_toml",
]

Status = Literal["native", "fallback"]
Reason = Literal["missing_op", "dtype", "layout", "view", "complex", "custom_op", "debug_repr", "limits"]

_WIDE_NOTE = "64-bit data: storage stays 8 bytes, float64 computes as float32 and int64 as int32"
_BOUNCE_NOTE = "64-bit cast: bounces through the host and synchronises"
_COMPLEX: dict[bool | str, Literal["no", "decompose", "any"]] = {False: "no", True: "decompose", "any": "any"}
CASTS = frozenset({"_copy_from", "_copy_from_and_resize", "_to_copy", "copy", "to", "type_as"})
"""Base names of the ops that copy, and may cast or cross between host and device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """Where an op runs and why.

    `note` says what is special, `remedy` what the user can do, `source` where the claim comes from. `wide`: the op
    computes on 64-bit data. `bounce`: native, but it synchronises through the host. `rejected`: the real device raises
    instead of falling back (faithful behaviour). `compiles`: the first call with these shapes makes an executable.
    """

    status: Status
    reason: Reason | None = None
    note: str = ""
    remedy: str = ""
    source: str = ""
    wide: bool = False
    bounce: bool = False
    rejected: bool = False
    compiles: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A condition on an otherwise native op; `advise` only adds the note."""

    check: Check
    value: object
    resolution: Resolution
    advise: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of the table: a pattern of op names and its answer.

    `wide` is the answer for 64-bit data and `bounce` the one for a 64-bit cast, for ops that can cast.
    """

    op: str
    group: str
    resolution: Resolution
    wide: Resolution
    bounce: Resolution | None
    dtypes: frozenset[str]
    wide_dtypes: frozenset[str]
    dtype_classes: str
    complex: Literal["no", "decompose", "any"]
    limits: tuple[Limit, ...] = ()


class Table:
    """The capability table for one chip and one setting of TORCH_NEURONX_COMPLEX_DECOMPOSE."""

    def __init__(self, *, chip: str = "trn2", complex_decompose: bool = True) -> None:
        self.chip = chip
        self.complex_decompose = complex_decompose
        data = load_toml()
        self.sources: dict[str, str] = data["sources"]
        self._classes = {name: frozenset(text.split()) for name, text in data["dtypes"].items()}
        self._wide = {name: frozenset(text.split()) for name, text in data["wide"].items()}
        self._native_namespaces = frozenset(data["namespaces"]["native"].split())
        self._custom_native: frozenset[str] = frozenset()
        self._exact: dict[str, Entry] = {}
        self._prefixes: list[Entry] = []
        self._by_op: dict[str, Entry] = {}
        self._advised: dict[tuple[int, int], Resolution] = {}
        limits = self._read_limits(data.get("limit", []))
        for group in data["group"]:
            self._read_group(group, limits)
        self._prefixes.sort(key=lambda entry: len(entry.op), reverse=True)
        unused = limits.keys() - self._exact.keys()
        if unused:
            raise ConfigError(f"capability.toml: a limit names ops that no group has: {sorted(unused)}")

    # ---------------------------------------------------------------------------------------------------------- reading
    def _read_limits(self, rows: list[dict[str, Any]]) -> dict[str, tuple[Limit, ...]]:
        limits: dict[str, tuple[Limit, ...]] = {}
        for row in rows:
            advise = row.get("effect") == "advise"
            limit = Limit(
                check=CHECKS[row["check"]],
                value=row.get("value"),
                resolution=self._resolution("native" if advise else "fallback", row),
                advise=advise,
            )
            for op in row["ops"].split():
                limits[op] = (*limits.get(op, ()), limit)
        return limits

    def _resolution(self, status: Status, row: dict[str, Any]) -> Resolution:
        reason = row.get("reason")
        if (reason is None) != (status == "native") or (reason is not None and reason not in get_args(Reason)):
            raise ConfigError(f"capability.toml: {row.get('name', row['ops'])!r} has status {status}, reason {reason}")
        if row["source"] not in self.sources:
            raise ConfigError(f"capability.toml: unknown source {row['source']!r}; known: {sorted(self.sources)}")
        return Resolution(
            status=status,
            reason=cast("Reason | None", reason),
            note=row.get("note", ""),
            remedy=row.get("remedy", ""),
            source=row["source"],
            compiles=status == "native" and row.get("compiles", True),
        )

    def _read_group(self, group: dict[str, Any], limits: dict[str, tuple[Limit, ...]]) -> None:
        status = cast(Status, group["status"])
        resolution = self._resolution(status, group)
        classes = group.get("dtypes", "any")
        dtypes: frozenset[str] = frozenset()
        wide_dtypes: frozenset[str] = frozenset()
        if classes != "any":
            for name in classes.split():
                dtypes |= self._classes[name]
                wide_dtypes |= self._wide.get(name, frozenset())
            if self.chip != "trn3":
                dtypes -= self._classes["mx"]
        wide = replace(resolution, wide=True, note=join_notes(_WIDE_NOTE, resolution.note))
        bounce = replace(wide, bounce=True, note=join_notes(_BOUNCE_NOTE, wide.note))
        for op in group["ops"].split():
            entry = Entry(
                op=op,
                group=group["name"],
                resolution=resolution,
                wide=wide,
                bounce=bounce if op in CASTS else None,
                dtypes=dtypes,
                wide_dtypes=wide_dtypes,
                dtype_classes=classes,
                complex=_COMPLEX[group.get("complex", False)],
                limits=limits.get(op, ()),
            )
            if op in self._exact or any(op == other.op for other in self._prefixes):
                raise ConfigError(f"capability.toml: {op!r} is in two groups: {group['name']!r} and another")
            if op.endswith("*"):
                self._prefixes.append(entry)
            else:
                self._exact[op] = entry

    # -------------------------------------------------------------------------------------------------------- answering
    def entries(self) -> list[Entry]:
        """Every row of the table, in the order of the file (exact names first, then prefixes)."""
        return [*self._exact.values(), *self._prefixes]

    def entry(self, op: str) -> Entry | None:
        """The row that speaks for this aten op (any overload, in-place or out= form), or None if no row does."""
        namespace, base, overload = split_op(op)
        if namespace != "aten":
            return None
        found = self._exact.get(f"{base}.{overload}") or self._exact.get(base)
        if found is None:
            found = next((entry for entry in self._prefixes if base.startswith(entry.op[:-1])), None)
        return found

    def classified(self, op: str) -> bool:
        """Tell whether a row of the table speaks for this op, so that its answer is deliberate."""
        return self.entry(op) is not None

    def register_native(self, op: str) -> None:
        """Declare a custom op (`ns::name`) native, as an NKI kernel is."""
        self._custom_native |= {op.partition(".")[0]}
        self._by_op = {}  # any overload of it may have been answered already

    def resolve(self, key: KeyLike) -> Resolution:
        """Say whether this op, on these dtypes, layouts and static arguments, runs natively or on the CPU, and why."""
        op = key.op
        entry = self._by_op.get(op)
        if entry is None:
            entry = self._by_op[op] = self.entry(op) or self._unlisted(op)
        answer = entry.resolution
        if answer.status == "fallback":
            return answer
        requested: str | None = None
        for name, value in key.static:
            if value is None:
                continue
            if name == "dtype":
                requested = dtype_name(value)
            elif name == "memory_format" and is_channels_last(value):
                return _CHANNELS_LAST
        if entry.dtypes:
            refused, wide = self._judge_dtypes(entry, key, requested)
            if refused is not None:
                return refused
            if wide:
                if entry.bounce is not None and _casts(key, requested):
                    return entry.bounce
                answer = entry.wide
        for limit in entry.limits:
            if limit.check(key, limit.value):
                if not limit.advise:
                    return limit.resolution
                answer = self._advise(answer, limit)
        return answer

    def _advise(self, answer: Resolution, limit: Limit) -> Resolution:
        """Add the note of a limit that only advises; made once per pair, as both live as long as the table."""
        pair = (id(answer), id(limit))
        found = self._advised.get(pair)
        if found is None:
            note = join_notes(limit.resolution.note, answer.note)
            found = self._advised[pair] = replace(answer, note=note, remedy=limit.resolution.remedy)
        return found

    def explain(self, op: str, reason: str) -> tuple[str, str]:
        """Return (note, remedy) for a fallback of which only the op and the reason are known, for messages."""
        entry = self.entry(op) or self._unlisted(op)
        candidates = [entry.resolution, *(limit.resolution for limit in entry.limits)]
        if reason == "layout":
            candidates.append(_CHANNELS_LAST)
        elif reason == "complex":
            candidates.append(_complex_refusal(decomposed=self.complex_decompose))
        elif reason == "dtype":
            candidates.append(_dtype_refusal("this dtype", entry.dtype_classes, self.chip))
        found = [answer for answer in candidates if answer.status == "fallback" and answer.reason == reason]
        if not found:
            return "", ""
        return " or ".join(dict.fromkeys(answer.note for answer in found)), found[0].remedy

    def _judge_dtypes(self, entry: Entry, key: KeyLike, requested: str | None) -> tuple[Resolution | None, bool]:
        """Return (refusal or None, whether 64-bit data is computed on) for the dtypes that the op reads or makes."""
        wide = False
        allowed = entry.dtypes
        wides = entry.wide_dtypes
        for tensor in key.inputs:
            dtype = tensor.dtype
            if dtype in allowed:
                continue
            if dtype in wides:
                wide = wide or tensor.device != "cpu"
            elif (refused := self._refuse_dtype(entry, dtype)) is not None:
                return refused, wide
        if requested is not None and requested not in allowed:
            if requested in wides:
                wide = True
            elif (refused := self._refuse_dtype(entry, requested)) is not None:
                return refused, wide
        return None, wide

    def _refuse_dtype(self, entry: Entry, dtype: str) -> Resolution | None:
        if dtype in self._classes["complex"]:
            if entry.complex == "any" or (entry.complex == "decompose" and self.complex_decompose):
                return None
            return _complex_refusal(decomposed=self.complex_decompose)
        return _dtype_refusal(dtype, entry.dtype_classes, self.chip)

    def _unlisted(self, op: str) -> Entry:
        namespace = op.partition("::")[0]
        if op.partition(".")[0] in self._custom_native:
            answer = Resolution(status="native", note="a kernel registered for the device", source="doc")
        elif namespace in self._native_namespaces:
            answer = Resolution(
                status="native", note="belongs to the device or runs no kernel", source="host", compiles=False
            )
        elif namespace == "aten":
            answer = Resolution(
                status="fallback",
                reason="missing_op",
                note="not in the capability table, so no Neuron implementation is known",
                remedy="express it with ops that docs/capability.md lists as native",
                source="nolowering",
            )
        else:
            answer = Resolution(
                status="fallback",
                reason="custom_op",
                note=f"custom op of namespace {namespace!r} without a Neuron kernel",
                remedy="write it as an NKI kernel and register it with nki_op, or express it with aten ops",
                source="doc",
            )
        return Entry(
            op=op,
            group="",
            resolution=answer,
            wide=answer,
            bounce=None,
            dtypes=frozenset(),
            wide_dtypes=frozenset(),
            dtype_classes="any",
            complex="any",
        )


_CHANNELS_LAST = Resolution(
    status="fallback",
    reason="layout",
    note="channels_last is rejected: the device takes contiguous or preserve only",
    remedy="drop memory_format=torch.channels_last; the compiler chooses its own layout",
    source="meas",
    rejected=True,
    compiles=False,
)


@lru_cache(maxsize=2)
def _complex_refusal(*, decomposed: bool) -> Resolution:
    if decomposed:
        note, remedy = "no decomposition of this op into real ops", "compute on view_as_real, or on the CPU"
    else:
        note, remedy = "complex decomposition is off", "set TORCH_NEURONX_COMPLEX_DECOMPOSE=1, or use view_as_real"
    return Resolution(status="fallback", reason="complex", note=note, remedy=remedy, source="doc", compiles=False)


@lru_cache(maxsize=256)
def _dtype_refusal(dtype: str, classes: str, chip: str) -> Resolution:
    fix = "cast to bfloat16 or float32 first"
    if dtype.startswith(("float8_e8m0", "float4")):
        note, fix = f"MX formats exist on trn3 only, the chip is {chip}", "use bfloat16, or fp8 for casts"
    elif dtype.startswith("float8"):
        note = f"{dtype}: only e4m3fn and e5m2 exist, for casts, copies and scaled matrix products"
    elif dtype.startswith(("qint", "quint")):
        note, fix = f"{dtype}: quantized tensors have no Neuron implementation", "dequantize before moving the tensor"
    elif dtype.startswith("uint"):
        note, fix = f"{dtype} is not supported by the device", "use int32, or int64 if the values need it"
    else:
        note = f"{dtype} is not supported by this op; it takes: {classes}"
    return Resolution(status="fallback", reason="dtype", note=note, remedy=fix, source="doc", compiles=False)


def _casts(key: KeyLike, requested: str | None) -> bool:
    """Tell whether a copy within the device changes the dtype: copy_ has the target first, others name the dtype."""
    if any(tensor.device == "cpu" for tensor in key.inputs):
        return False  # crosses the host anyway
    if requested is not None:
        return bool(key.inputs) and key.inputs[0].dtype != requested
    return len(key.inputs) > 1 and key.inputs[0].dtype != key.inputs[1].dtype


def join_notes(*parts: str) -> str:
    """Put the notes that are not empty behind one another."""
    return "; ".join(part for part in parts if part)


def load_toml() -> dict[str, Any]:
    """Return the parsed capability.toml."""
    return tomllib.loads(Path(__file__).with_name("capability.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=8)
def load_table(*, chip: str = "trn2", complex_decompose: bool = True) -> Table:
    """Return the table for a chip (trn2, trn3, …), read once per setting."""
    return Table(chip=chip, complex_decompose=complex_decompose)
