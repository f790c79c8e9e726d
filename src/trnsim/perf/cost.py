"""The cost model of eager ops: roofline per engine over measured shares of peak, plus the measured floors.

`CostModel(chip, lnc).op(key)` returns device time; the simulated clock adds host time around it:

    host += dispatch_ns; start = max(host, stream tail); tail = start + duration_ns        # an op
    host = max(host, tail) + sync_ns                                                       # a synchronisation

How the three constants follow from measurements (trn2, LNC2; `calibration.POINTS`). A small eager op costs 55-65 us in a steady
queue, yet one op with a synchronisation costs only 60-86 us over its device time, and GEMM and elementwise chains take their
device time *plus* about 57 us each. So the 57 us are spent where they cannot overlap with the previous op, on the device's
queue (`launch_ns`), and the host's own part is small (`dispatch_ns`): it runs ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from trnsim.errors import ConfigError, describe
from trnsim.perf.calibration import POINTS
from trnsim.perf.kinds import FREE, base_name, handler
from trnsim.perf.machine import Engine, Machine, Work
from trnsim.perf.opkey import OpKey

if TYPE_CHECKING:
    from trnsim.chips import Chip

__all__ = ["CostModel", "Engine", "OpCost", "TransferKind"]

TransferKind = Literal["h2d", "d2h", "d2d", "p2p"]

_TRANSFER_KINDS = ("h2d", "d2h", "d2d", "p2p")
_HOST_LINK = POINTS["host_link"].mid  # GB/s
_TRANSFER_FIXED_NS = 25_000  # driver call and DMA start of one host transfer: assumption, no public figure
_HOST_MEMORY = 10.0  # GB/s at which a CPU kernel goes through its tensors: assumption
_STRIDED_WRITE = POINTS["strided_write"].mid
_STRIDED_READ = 2.0  # a transposed or sliced input: assumption, layout unknown
_WIDE_FACTOR = 2.0  # 64-bit storage is narrowed to 32 bits and widened again: assumption
_WIDE = frozenset({"int64", "float64", "uint64", "complex128"})
_INDEXING_NAMES = """
    index_select embedding index _unsafe_index gather take take_along_dim scatter scatter_add scatter_reduce
    masked_scatter index_copy index_put _index_put_impl _unsafe_index_put index_fill index_add embedding_dense_backward
    nll_loss nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward
"""
_INDEXING = frozenset(_INDEXING_NAMES.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCost:
    """Predicted cost of one op.

    `duration_ns` is device time (launch included), or host time for a fallback. `range_ns` spans what the model's
    assumptions leave open. `binding` names what limits the op; `assumptions` what was not measured.
    """

    duration_ns: int
    engine: Engine
    bytes: int
    flops: int
    range_ns: tuple[int, int]
    binding: str
    assumptions: tuple[str, ...] = ()


_NOTHING = OpCost(duration_ns=0, engine="none", bytes=0, flops=0, range_ns=(0, 0), binding="host")


class CostModel:
    """Predicts ops on one device of `chip` with `lnc` physical cores. Times in ns."""

    dispatch_ns: int = 10_000
    """Host time per eager op, in which Python cannot go on (from the chain of 1 against 64 ops)."""

    launch_ns: int = 57_000
    """Device-queue time of each executable; a queue of tiny ops runs at this rate (measured: 55-65 us)."""

    sync_ns: int = 8_000
    """Host time of a synchronisation once the device is done: round trip of 73 us less dispatch and launch."""

    launch_range_ns: tuple[int, int] = (50_000, 65_000)

    def __init__(self, chip: Chip, lnc: int) -> None:
        self.chip = chip
        self.lnc = lnc
        self.machine = Machine(chip, lnc)
        self._scaled: tuple[str, ...] = ()
        if chip.name != "trn2":
            self._scaled = (f"shares of peak measured on trn2, applied to {chip.name}",)
        elif lnc != 2:
            self._scaled = ("shares of peak measured at LNC 2, applied to LNC 1",)

    def op(self, key: OpKey) -> OpCost:
        """Return the cost of a native op. Views and metadata cost no device time."""
        base = base_name(key.op)
        if base in FREE:
            return _NOTHING
        if base in {"copy", "_to_copy", "_copy_from"}:
            crossing = _crosses_host(key)
            if crossing is not None:
                return self._host_copy(crossing, key)
        work = handler(base)(key, base, self.machine)
        factor, low, high, notes = _penalties(key, base, work)
        ns = work.ns * factor
        return OpCost(
            duration_ns=self.launch_ns + round(ns),
            engine=work.engine,
            bytes=work.bytes,
            flops=work.flops,
            range_ns=(
                self.launch_range_ns[0] + int(ns * work.low * low),
                self.launch_range_ns[1] + int(ns * work.high * high),
            ),
            binding=work.binding if ns > self.launch_ns else "launch",
            assumptions=work.notes + notes + self._scaled,
        )

    def fallback(self, key: OpKey) -> OpCost:
        """Return the host-side total of an op on the CPU: synchronise, copy out, run, copy back."""
        read = sum(spec.nbytes for spec in key.inputs if spec.device == "neuron")
        written = sum(spec.nbytes for spec in key.outputs)
        link = (read + written) / _HOST_LINK
        compute = (read + written) / _HOST_MEMORY
        fixed = POINTS["fallback"].mid * 1e3
        total = round(fixed + link + compute)
        return OpCost(
            duration_ns=total,
            engine="host",
            bytes=read + written,
            flops=0,
            range_ns=(round(fixed + link), round(2 * fixed + link + 10 * compute)),
            binding="cpu fallback" if link < fixed else "host link",
            assumptions=("at least 500 us each, as measured", "the CPU goes through its tensors at 10 GB/s"),
        )

    def transfer_ns(self, nbytes: int, kind: TransferKind) -> int:
        """Return ns of a copy: h2d and d2h over the host link, d2d within a device, p2p between chips."""
        if kind not in _TRANSFER_KINDS:
            raise ConfigError(
                describe(
                    "Unknown transfer kind", seen=repr(kind), allowed=", ".join(_TRANSFER_KINDS), fix="use one of these"
                )
            )
        if kind == "d2d":
            return self.launch_ns + round(2 * nbytes / self.machine.bandwidth)
        return _TRANSFER_FIXED_NS + round(nbytes / (self.machine.link if kind == "p2p" else _HOST_LINK))

    def _host_copy(self, kind: TransferKind, key: OpKey) -> OpCost:
        nbytes = key.outputs[0].nbytes if key.outputs else key.inputs[-1].nbytes
        ns = self.transfer_ns(nbytes, kind)
        return OpCost(
            duration_ns=ns,
            engine="dma",
            bytes=nbytes,
            flops=0,
            range_ns=(ns // 2, ns * 2),
            binding="host link",
            assumptions=("25 us per host transfer assumed",),
        )


def _crosses_host(key: OpKey) -> TransferKind | None:
    """Tell whether a copy goes between host and device, and which way."""
    if not key.outputs or not key.inputs:
        return None
    source, target = key.inputs[-1].device, key.outputs[0].device
    if source == target:
        return None
    return "h2d" if target == "neuron" else "d2h"


def _writes_in_place(op: str) -> bool:
    """Tell whether the result is memory that was there before. Fresh results are dense, permuted at most."""
    name, _, overload = op.rpartition("::")[2].partition(".")
    return name.endswith("_") or overload.endswith("out")


def _penalties(key: OpKey, base: str, work: Work) -> tuple[float, float, float, tuple[str, ...]]:
    """Return (factor, low, high, notes) for 64-bit elements and for memory that is not contiguous.

    `low` and `high` widen the range relative to the factor.
    """
    factor, low, high = 1.0, 1.0, 1.0
    notes: tuple[str, ...] = ()
    if base not in _INDEXING:
        for spec in (*key.inputs, *key.outputs[:1]):  # a second output of int64 is an index
            if spec.dtype in _WIDE and spec.shape and spec.device == "neuron":
                factor, low = _WIDE_FACTOR, 0.5
                notes = ("64-bit elements compute at 32 bits: narrowing assumed to double the time",)
                break
    if _writes_in_place(key.op) and any(not spec.contiguous for spec in key.outputs):
        note = "write to strided memory: 60x as measured for even/odd slices; long runs cost much less"
        return factor * _STRIDED_WRITE, low / _STRIDED_WRITE, high, (*notes, note)
    if work.engine != "tensor" and any(not s.contiguous and s.device == "neuron" for s in key.inputs):
        note = "strided input: 2x assumed"
        return factor * _STRIDED_READ, low / _STRIDED_READ, high * 10.0, (*notes, note)
    return factor, low, high, notes
