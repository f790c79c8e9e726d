"""Rates of one simulated device (a logical NeuronCore), worked out once from the chip facts. Unit of time: ns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from trnsim.perf.opkey import OpKey, TensorSpec

if TYPE_CHECKING:
    from trnsim.chips import Chip

__all__ = ["DESCRIPTOR_BYTES", "Engine", "Machine", "Work", "tensors_bytes"]

Engine = Literal["tensor", "vector", "scalar", "gpsimd", "dma", "host", "none"]

# Below this many contiguous bytes a DMA descriptor takes constant time: knee of AWS's plot, 2 KiB
# (aws-neuron-sdk@81ce03ae nki/deep-dives/nki-dma-bandwidth-guide.rst, 2026-08-21; 1024 B runs at 42 %, 2048 B at 81 %).
DESCRIPTOR_BYTES = 2048

_HALF = frozenset({"bfloat16", "float16"})
_FP8 = frozenset({"float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn_x2"})


class Work(NamedTuple):
    """What a cost function says of one op: device time without the launch, and how sure it is.

    `low` and `high` are factors on `ns`. `binding` is the resource that limits the op.
    """

    engine: Engine
    ns: float
    bytes: int
    flops: int = 0
    binding: str = "hbm bandwidth"
    low: float = 0.8
    high: float = 1.5
    notes: tuple[str, ...] = ()


class Machine:
    """Peak rates of a device of `lnc` physical cores: bytes, elements or FLOPs per ns."""

    __slots__ = (
        "bandwidth",
        "bandwidth_binding",
        "chip",
        "cores",
        "descriptor_ns",
        "gpsimd",
        "link",
        "scalar_16bit",
        "scalar_32bit",
        "tensor_fp8",
        "tensor_fp32",
        "tensor_half",
        "vector",
    )

    def __init__(self, chip: Chip, lnc: int) -> None:
        cores = chip.check_lnc(lnc)
        self.chip = chip.name
        self.cores = cores
        self.bandwidth = cores * min(chip.hbm_gbps_core, chip.dma_gbps_core)
        self.bandwidth_binding = "hbm bandwidth" if chip.hbm_gbps_core <= chip.dma_gbps_core else "dma bandwidth"
        self.descriptor_ns = DESCRIPTOR_BYTES / (cores * chip.dma_gbps_core)
        # Plain vector instructions retire one element per lane and cycle; the wider documented figures are special modes.
        self.vector = cores * chip.partitions * chip.clock_vector
        self.scalar_16bit = cores * chip.scalar_width_16bit * chip.clock_scalar
        self.scalar_32bit = cores * chip.scalar_width_32bit * chip.clock_scalar
        self.gpsimd = cores * chip.partitions * chip.clock_gpsimd
        self.tensor_half = cores * chip.tflops_bf16 * 1e3
        self.tensor_fp32 = cores * chip.tflops_fp32 * 1e3
        self.tensor_fp8 = cores * chip.tflops_fp8 * 1e3
        self.link = chip.neuronlink_gbps

    def tensor(self, dtype: str) -> float:
        """Peak FLOPs per ns of TensorE. Integers and float64 compute as float32."""
        if dtype in _HALF:
            return self.tensor_half
        return self.tensor_fp8 if dtype in _FP8 else self.tensor_fp32

    def scalar(self, dtype: str) -> float:
        """Elements per ns of ScalarE at one cycle an element."""
        return self.scalar_16bit if dtype in _HALF or dtype in _FP8 else self.scalar_32bit

    def move_ns(self, nbytes: int, share: float) -> float:
        """Time to move bytes between HBM and SBUF at a measured share of the peak."""
        return nbytes / (self.bandwidth * share)


def tensors_bytes(key: OpKey) -> int:
    """Bytes of all device inputs and outputs. CPU tensors here are 0-dim scalars and weigh nothing."""
    total = 0
    for spec in key.inputs:
        if spec.device == "neuron":
            total += spec.nbytes
    for spec in key.outputs:
        total += spec.nbytes
    return total


def largest(specs: tuple[TensorSpec, ...]) -> TensorSpec | None:
    """Return the tensor with the most elements."""
    best: TensorSpec | None = None
    size = -1
    for spec in specs:
        numel = spec.numel
        if numel > size:
            best, size = spec, numel
    return best
