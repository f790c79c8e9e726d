"""Chip and instance facts: TOML files in this directory, read on demand into frozen dataclasses.

`load_chip("trn2")` reads `trn2.toml`, `load_instance("trn2.3xlarge")` reads one table of `instances.toml`; both are cached.
Every number keeps its source and date (`Chip.facts`). Adding a chip is adding a file, adding an instance a table.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from trnsim.errors import ConfigError, describe

__all__ = [
    "DEFAULT_INSTANCE",
    "Chip",
    "Fact",
    "Instance",
    "Source",
    "Topology",
    "chip_names",
    "instance_names",
    "load_chip",
    "load_instance",
    "smallest_instance",
]

DEFAULT_INSTANCE = "trn2.3xlarge"
_DIR = Path(__file__).parent
_TORUS_SIDE = 4

Topology = Literal["none", "torus4x4", "ring", "switched"]
Confidence = Literal["documented", "derived", "unconfirmed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where a number comes from, and the ISO date of that text."""

    text: str
    date: str
    confidence: Confidence


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """One number with its unit and source."""

    value: float
    unit: str
    source: Source
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Chip:
    """One accelerator chip. GB/s and TFLOPS are decimal; `core` is a physical NeuronCore, `device` a logical one."""

    name: str
    neuroncore: str
    physical_cores: int
    lnc_modes: tuple[int, ...]
    lnc_default: int
    clock_tensor: float
    clock_vector: float
    clock_scalar: float
    clock_gpsimd: float
    tflops_bf16: float
    tflops_fp16: float
    tflops_tf32: float
    tflops_fp32: float
    tflops_fp8: float
    partitions: int
    vector_width_16bit: int
    vector_width_32bit: int
    scalar_width_16bit: int
    scalar_width_32bit: int
    sbuf_mib: int
    psum_mib: int
    hbm_gib: int
    hbm_gbps: float
    hbm_gbps_core: float
    dma_engines_core: int
    dma_gbps_core: float
    neuronlink_gbps: float
    facts: dict[str, Fact] = field(repr=False, compare=False)

    def check_lnc(self, lnc: int) -> int:
        """Return `lnc`, or raise when this chip has no such logical-core mode."""
        if lnc not in self.lnc_modes:
            allowed = " or ".join(map(str, self.lnc_modes))
            raise ConfigError(
                describe(
                    f"{self.name} has no logical NeuronCore configuration of this size",
                    seen=f"lnc {lnc}",
                    allowed=allowed,
                    fix=f"set NEURON_LOGICAL_NC_CONFIG={self.lnc_default}, or choose another instance",
                )
            )
        return lnc

    def devices(self, lnc: int) -> int:
        """Return the logical cores of one chip."""
        return self.physical_cores // self.check_lnc(lnc)

    def memory_per_device(self, lnc: int) -> int:
        """Return the HBM bytes of one logical core."""
        return (self.hbm_gib << 30) // self.devices(lnc)


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One instance type. `vcpus`, `host_gib` and `efa_gbps` are None where no public number was found."""

    name: str
    chip: Chip
    chips: int
    topology: Topology
    source: Source
    vcpus: int | None = None
    host_gib: int | None = None
    efa_gbps: int | None = None
    confirmed: bool = True

    def device_count(self, lnc: int | None = None) -> int:
        """Return the logical cores of the instance; `lnc` None means the chip's default."""
        return self.chips * self.chip.devices(self.chip.lnc_default if lnc is None else lnc)

    def neighbours(self, chip: int) -> tuple[int, ...]:
        """Return the chips wired to `chip`, in the order of neuron-ls: up, left, down, right on the torus."""
        if not 0 <= chip < self.chips:
            raise ConfigError(
                describe(
                    f"{self.name} has no chip of this index",
                    seen=str(chip),
                    allowed=f"0 to {self.chips - 1}",
                    fix="use an index in range, or a larger instance",
                )
            )
        n = self.chips
        if self.topology == "torus4x4":
            side = _TORUS_SIDE
            row, col = divmod(chip, side)
            steps = ((row - 1, col), (row, col - 1), (row + 1, col), (row, col + 1))
            return tuple(side * (r % side) + c % side for r, c in steps)
        if self.topology == "ring":
            return (chip - 1) % n, (chip + 1) % n
        if self.topology == "switched":
            return tuple(other for other in range(n) if other != chip)
        return ()


def _read(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    with path.open("rb") as file:
        data: dict[str, Any] = tomllib.load(file)
    return data


def chip_names() -> tuple[str, ...]:
    """Return the chips that have a file here, sorted."""
    return tuple(sorted(path.stem for path in _DIR.glob("*.toml") if path.stem != "instances"))


def instance_names() -> tuple[str, ...]:
    """Return the known instance types, smallest first within a chip."""
    return tuple(name for name in _instances() if name != "sources")


@lru_cache(maxsize=1)
def _instances() -> dict[str, Any]:
    return _read(_DIR / "instances.toml")


def _unknown(kind: str, seen: str, known: tuple[str, ...]) -> ConfigError:
    import difflib

    close = difflib.get_close_matches(seen, known, n=1)
    fix = f"did you mean {close[0]!r}?" if close else f"use one of the {kind}s above"
    return ConfigError(describe(f"Unknown {kind}", seen=repr(seen), allowed=", ".join(known), fix=fix))


@lru_cache(maxsize=8)
def load_chip(name: str) -> Chip:
    """Read the facts of one chip: trn1, trn2, trn3 or inf2."""
    if name not in chip_names():
        raise _unknown("chip", name, chip_names())
    raw = _read(_DIR / f"{name}.toml")
    sources = {key: Source(**value) for key, value in raw["sources"].items()}
    facts = {
        key: Fact(value=fact["value"], unit=fact["unit"], source=sources[fact["source"]], note=fact.get("note", ""))
        for key, fact in raw["facts"].items()
    }
    fields = {key: fact.value for key, fact in facts.items() if key in Chip.__dataclass_fields__}
    return Chip(
        name=raw["name"],
        neuroncore=raw["neuroncore"],
        lnc_modes=tuple(raw["lnc_modes"]["value"]),
        lnc_default=raw["lnc_default"]["value"],
        facts=facts,
        **fields,  # type: ignore[arg-type]
    )


@lru_cache(maxsize=16)
def load_instance(name: str) -> Instance:
    """Read the facts of one instance type, such as trn2.48xlarge."""
    known = instance_names()
    if name not in known:
        raise _unknown("instance", name, known)
    raw = dict(_instances()[name])
    source = Source(**_instances()["sources"][raw.pop("source")])
    return Instance(name=name, source=source, chip=load_chip(raw.pop("chip")), **raw)


def smallest_instance(chip: str) -> Instance:
    """Return the instance type with the fewest chips that has this chip (what `--chip` alone means)."""
    if chip not in chip_names():
        raise _unknown("chip", chip, chip_names())
    names = [name for name in instance_names() if _instances()[name]["chip"] == chip]
    return load_instance(min(names, key=lambda name: int(_instances()[name]["chips"])))
