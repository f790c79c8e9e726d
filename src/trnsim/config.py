"""Every option of trnsim: one frozen dataclass, one environment variable for each field, read once.

`VARIABLES` is the whole list: it drives `load`, and `python -m trnsim.config` prints docs/environment.md from it. TORCH_NEURONX_*
and NEURON_* names are AWS's interface; TRNSIM_* are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trnsim.chips import DEFAULT_INSTANCE, Instance, load_instance, smallest_instance
from trnsim.environ import Variable, bad_value, parse, parse_choice
from trnsim.errors import ConfigError, describe

__all__ = ["MAX_VISIBLE", "VARIABLES", "Options", "Variable", "instance_of", "load", "machine_of", "markdown"]

MAX_VISIBLE = 127
"""Most devices one process may see: the backend refuses 128 or more."""

Behaviour = Literal["helpful", "faithful"]
Fallback = Literal["warn", "allow", "error"]
Rng = Literal["device", "cpu"]

_OPT_LEVELS = ("1", "2", "3", "O1", "O2", "O3", "-O1", "-O2", "-O3")
_DOC = "torch-neuronx documentation, SDK 2.32-2.33, read 2026-10"
_RUNTIME = "Neuron Runtime documentation, SDK 2.32, read 2026-08"
_TRNSIM = "trnsim"


VARIABLES: tuple[Variable, ...] = (
    Variable(
        "TRNSIM_INSTANCE",
        "instance",
        "text",
        DEFAULT_INSTANCE,
        "Instance type to simulate; `trnsim ls` shows it.",
        _TRNSIM,
    ),
    Variable("TRNSIM_CHIP", "chip", "text", "", "Chip to simulate: the smallest instance that has it.", _TRNSIM),
    Variable(
        "TRNSIM_BEHAVIOUR",
        "behaviour",
        "choice",
        "helpful",
        "`helpful` warns, explains and never loses data; `faithful` raises where the real device raises.",
        _TRNSIM,
        ("helpful", "faithful"),
    ),
    Variable(
        "TRNSIM_FALLBACK",
        "fallback",
        "choice",
        "warn",
        "What an op without a Neuron implementation does besides running on the CPU: warn once per op and line, stay "
        "silent, or raise FallbackError.",
        _TRNSIM,
        ("warn", "allow", "error"),
    ),
    Variable(
        "TRNSIM_FALLBACK_ALLOW",
        "fallback_allow",
        "ops",
        "",
        "Ops that may fall back: `aten::sort,aten::topk`.",
        _TRNSIM,
    ),
    Variable(
        "TRNSIM_DEBUG_MEMORY",
        "debug_memory",
        "bool",
        "0",
        "Fill fresh device memory with NaN and make a stray host read fault.",
        _TRNSIM,
    ),
    Variable(
        "TRNSIM_RNG",
        "rng",
        "choice",
        "device",
        "`device`: a counter-based generator; `cpu`: the same numbers as PyTorch's CPU generator for the same seed.",
        _TRNSIM,
        ("device", "cpu"),
    ),
    Variable("TRNSIM_CLOCK", "clock", "bool", "1", "Keep the simulated clock.", _TRNSIM),
    Variable("TRNSIM_LEDGER", "ledger", "bool", "0", "Record events from the start of the process.", _TRNSIM),
    Variable(
        "TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS",
        "fallback_only_for_unimplemented_ops",
        "bool",
        "0",
        "An op that has an implementation but rejects its arguments raises instead of falling back.",
        _DOC,
    ),
    Variable(
        "TORCH_NEURONX_COMPLEX_DECOMPOSE",
        "complex_decompose",
        "bool",
        "1",
        "Compute complex numbers as pairs of real ones; off, complex ops fall back.",
        _DOC,
    ),
    Variable(
        "TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION",
        "disable_fallback_execution",
        "bool",
        "1",
        "A graph that fails to compile raises; 0 runs it eagerly.",
        _DOC,
    ),
    Variable(
        "TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY",
        "dynamo_disable_cpu_autocopy",
        "bool",
        "0",
        "CPU inputs of a compiled graph are an error instead of being copied to the device.",
        _DOC,
    ),
    Variable(
        "TORCH_NEURONX_RETAIN_DEVICE_MODE",
        "retain_device_mode",
        "bool",
        "0",
        "A compiled graph returns its outputs on the device of its inputs.",
        _DOC,
    ),
    Variable("TORCH_NEURONX_DEBUG_DIR", "debug_dir", "path", "", "Where compilation artifacts are kept.", _DOC),
    Variable(
        "TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS",
        "preserve_compilation_artifacts",
        "bool",
        "0",
        "Keep the FX graph, StableHLO and executable of every graph, by rank.",
        _DOC,
    ),
    Variable(
        "TORCH_NEURONX_NEFF_CACHE_DIR",
        "neff_cache_dir",
        "path",
        "/tmp/neff_cache",
        "Directory of the executable cache, shared by eager mode and torch.compile.",
        _DOC,
    ),
    Variable(
        "TORCH_NEURONX_NEFF_DISABLE_CACHE", "neff_disable_cache", "bool", "0", "Do not use the executable cache.", _DOC
    ),
    Variable("NEURON_CC_FLAGS", "cc_flags", "text", "", "Flags for the compiler; part of the cache key.", _DOC),
    Variable(
        "NEURON_COMPILER_OPT_LEVEL",
        "compiler_opt_level",
        "choice",
        "",
        "Optimisation level of the compiler; part of the cache key.",
        _DOC,
        _OPT_LEVELS,
    ),
    Variable(
        "NEURON_LAUNCH_BLOCKING",
        "launch_blocking",
        "bool",
        "0",
        "Run every op synchronously, so errors show at their line.",
        _DOC,
    ),
    Variable(
        "NEURON_LOGICAL_NC_CONFIG",
        "lnc",
        "choice",
        "",
        "Physical cores in one device. Unset: the chip's default (2 on trn2 and trn3, 1 on trn1 and inf2).",
        _RUNTIME,
        ("1", "2"),
    ),
    Variable(
        "NEURON_RT_VIRTUAL_CORE_SIZE",
        "lnc",
        "choice",
        "",
        "Older name of NEURON_LOGICAL_NC_CONFIG; the two must agree when both are set.",
        _RUNTIME,
        ("1", "2"),
    ),
    Variable(
        "NEURON_RT_VISIBLE_CORES",
        "visible_cores",
        "cores",
        "",
        "Logical cores that this process sees: `0`, `0-3`, `0,2` or a mixture. Takes precedence over NEURON_RT_NUM_CORES.",
        _RUNTIME,
    ),
    Variable(
        "NEURON_RT_NUM_CORES",
        "num_cores",
        "count",
        "",
        "How many logical cores this process sees, from core 0.",
        _RUNTIME,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one process. The environment variable of each field is in VARIABLES; nothing else sets them."""

    instance: str
    lnc: int
    """Physical cores per device."""
    behaviour: Behaviour
    fallback: Fallback
    fallback_allow: tuple[str, ...]
    debug_memory: bool
    rng: Rng
    clock: bool
    ledger: bool
    fallback_only_for_unimplemented_ops: bool
    complex_decompose: bool
    disable_fallback_execution: bool
    dynamo_disable_cpu_autocopy: bool
    retain_device_mode: bool
    debug_dir: str
    preserve_compilation_artifacts: bool
    neff_cache_dir: str
    neff_disable_cache: bool
    cc_flags: str
    compiler_opt_level: str
    launch_blocking: bool
    visible_cores: tuple[int, ...] | None
    """None: all of the instance."""
    num_cores: int | None

    def visible_devices(self, instance: Instance) -> tuple[int, ...]:
        """Return the logical cores of `instance` that this process sees; device `i` is the i-th of them."""
        total = instance.device_count(self.lnc)
        where = f"{instance.name} with LNC {self.lnc} has {total} logical cores"
        if self.visible_cores is not None:
            visible = self.visible_cores
            if visible and max(visible) >= total:
                raise bad_value(
                    "NEURON_RT_VISIBLE_CORES", ",".join(map(str, visible)), f"cores 0 to {total - 1}: {where}", _LARGER
                )
        elif self.num_cores is not None:
            if self.num_cores > total:
                raise bad_value("NEURON_RT_NUM_CORES", str(self.num_cores), f"1 to {total}: {where}", _LARGER)
            visible = tuple(range(self.num_cores))
        else:
            visible = tuple(range(total))
        if len(visible) > MAX_VISIBLE:
            raise ConfigError(
                describe(
                    "Too many devices are visible to one process",
                    seen=f"{len(visible)} ({where})",
                    allowed=f"at most {MAX_VISIBLE}",
                    fix="set NEURON_RT_VISIBLE_CORES (0-63, say), or NEURON_LOGICAL_NC_CONFIG=2",
                )
            )
        return visible


_LARGER = "name cores that exist, or simulate a larger instance with TRNSIM_INSTANCE"


_EMPTY: dict[str, Any] = {"count": None, "cores": None, "ops": ()}


def _instance(instance: str, chip: str) -> Instance:
    """Reconcile TRNSIM_INSTANCE with TRNSIM_CHIP."""
    if not instance:
        return smallest_instance(chip) if chip else load_instance(DEFAULT_INSTANCE)
    found = load_instance(instance)
    if chip and found.chip.name != smallest_instance(chip).chip.name:
        raise bad_value(
            "TRNSIM_CHIP", chip, f"{found.chip.name}, the chip of TRNSIM_INSTANCE={instance}", "unset one of the two"
        )
    return found


def _lnc(environ: Mapping[str, str], instance: Instance) -> int:
    seen: dict[str, int] = {}
    for variable in VARIABLES:
        text = environ.get(variable.name, "").strip() if variable.field == "lnc" else ""
        if text:
            seen[variable.name] = int(parse_choice(variable, text))
    if len(set(seen.values())) > 1:
        both = " and ".join(f"{name}={value}" for name, value in seen.items())
        raise ConfigError(
            describe(
                "Two variables set the logical NeuronCore size differently",
                seen=both,
                allowed="one of them, or equal values",
                fix="unset NEURON_RT_VIRTUAL_CORE_SIZE",
            )
        )
    return instance.chip.check_lnc(next(iter(seen.values()), instance.chip.lnc_default))


def machine_of(environ: Mapping[str, str]) -> tuple[Instance, int]:
    """Return the simulated instance and its LNC, whatever this process sees of it."""
    instance = _instance(environ.get("TRNSIM_INSTANCE", "").strip(), environ.get("TRNSIM_CHIP", "").strip())
    return instance, _lnc(environ, instance)


def load(environ: Mapping[str, str]) -> Options:
    """Read all variables; raise ConfigError for the first bad value. An empty value counts as unset."""
    fields: dict[str, Any] = {}
    for variable in VARIABLES:
        if variable.field in {"instance", "chip", "lnc"}:
            continue
        text = environ.get(variable.name, "").strip() or variable.default
        fields[variable.field] = parse(variable, text) if text else _EMPTY.get(variable.kind, "")
    instance, lnc = machine_of(environ)
    options = Options(instance=instance.name, lnc=lnc, **fields)
    options.visible_devices(instance)
    return options


def instance_of(options: Options) -> Instance:
    """Return the facts of the instance that the options name."""
    return load_instance(options.instance)


def _allowed(variable: Variable) -> str:
    if variable.choices:
        return ", ".join(f"`{choice}`" for choice in variable.choices)
    words = {"bool": "`0`, `1`", "ops": "op names", "count": "≥ 1", "cores": "core list", "path": "directory"}
    return words.get(variable.kind, "text")


def markdown() -> str:
    """Return docs/environment.md."""
    lines = [
        "# Environment variables",
        "",
        "<!-- Made by `python -m trnsim.config > docs/environment.md` from src/trnsim/config.py. Do not edit. -->",
        "",
        "Each is read once, at `import torch`. An empty value counts as unset. A bad value makes that import fail, with",
        "PyTorch's error for a backend that does not load; its cause is",
        "`trnsim.errors.ConfigError` (a `ValueError`) that names the variable, the value, what is allowed and the fix.",
    ]
    for title, prefixes in (
        ("trnsim's own", ("TRNSIM_",)),
        ("AWS's, as the real backend reads them", ("TORCH_NEURONX_", "NEURON_")),
    ):
        lines += ["", f"## {title}", "", "| variable | values | default | meaning | source |", "|---|---|---|---|---|"]
        for v in VARIABLES:
            if v.name.startswith(prefixes):
                default = f"`{v.default}`" if v.default else "unset"
                lines.append(f"| `{v.name}` | {_allowed(v)} | {default} | {v.meaning} | {v.source} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
