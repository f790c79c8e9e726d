"""Measured points behind the cost model, each with its source and date, and the coefficients that follow from them.

The points were taken on one LNC2 device of a trn2 (two physical cores). A coefficient has no unit of time: it is a share of an
engine's peak or a number of engine cycles per element, so that the same figure serves another chip or LNC through that
chip's clocks and bandwidths. Where a point was published without shape or dtype the assumption made here is named.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COEFFICIENTS", "POINTS", "Coefficients", "Point"]

_SEC8 = "published user measurements on trn2, one LNC2 core (reference/torchneuron.md section 8)"
_ATTN = "nki-library attention tests, LNC2 fit over 74 rows (reference/hardware.md section 3)"


class Point(NamedTuple):
    """One published number. `low` and `high` span what the source reports; they are equal for a single value."""

    low: float
    high: float
    unit: str
    source: str = _SEC8
    date: str = "2026-10-31"
    note: str = ""

    @property
    def mid(self) -> float:
        """Middle of the reported span."""
        return (self.low + self.high) / 2


def _gbps(value: float, note: str = "bytes read + written; bf16 assumed, size assumed large") -> Point:
    return Point(value, value, "GB/s", note=note)


POINTS: dict[str, Point] = {
    "eager_floor": Point(55, 65, "us", note="steady-state time of one small eager op"),
    "compiled_launch": Point(95, 100, "us"),
    "host_round_trip": Point(
        60, 86, "us", "CS149 students' kernels: wall minus device time (reference/hardware.md section 1)"
    ),
    "fallback": Point(500, 500, "us", "reference/torchneuron.md section 2", note="lower bound: 'more than 500 us'"),
    "strided_write": Point(60, 60, "x", "reference/torchneuron.md section 3", note="even/odd slice assignment (RoPE)"),
    "sdpa_math": Point(6, 6, "x", "reference/torchneuron.md section 4", note="math path against the flash kernel"),
    "gemm_bf16": Point(149, 149, "TFLOPS", note="best seen; peak of two cores is 158"),
    "gemm_fp32": Point(36.9, 36.9, "TFLOPS", note="peak of two cores is 40"),
    "add": _gbps(600),
    "silu": _gbps(587),
    "gelu": _gbps(84),
    "sin": _gbps(119),
    "reduce_sum": _gbps(639),
    "reduce_max": _gbps(177),
    "softmax": _gbps(496),
    "layer_norm": _gbps(259),
    "rms_norm": _gbps(409),
    "index_select": _gbps(632, "int32 indices"),
    "gather": _gbps(1.4, "int64 indices; payload read + written, bf16 assumed"),
    "index_add": _gbps(99),
    "scatter": _gbps(0.8, "payload read + written, bf16 assumed"),
    "attention_cycles": Point(1.911, 1.911, "ScalarE lane cycles per score", _ATTN, "2026-08-21"),
    "attention_io": Point(0.1336, 0.1336, "us per kB of Q and core", _ATTN, "2026-08-21"),
    "attention_fixed": Point(39.92, 39.92, "us", _ATTN, "2026-08-21"),
    "conv_3x3": Point(
        1060,
        1060,
        "us",
        "CS149 students, 256->256 3x3 on 224x224 fp16, one trn2 core",
        note="students' best kernel; no padding assumed",
    ),
    "host_link": Point(16, 16, "GB/s", "trn2 architecture figure (aws-neuron-sdk@81ce03ae)", "2026-08-21"),
}

# The device the points come from: trn2, two cores. Kept as literals so that a corrected chip file does not silently move them.
_HBM = 2 * 362.0  # GB/s
_LANES_VECTOR = 2 * 128 * 0.96  # Gelement/s, one element per lane and cycle
_LANES_SCALAR = 2 * 128 * 1.2
_BF16_PAIR = 4.0  # bytes moved per element of a unary bf16 op: one read, one written


class Coefficients(NamedTuple):
    """What the cost functions use. Shares are of the device's peak; cycles are lane cycles per element."""

    hbm_pointwise: float
    hbm_silu: float
    hbm_reduce: float
    hbm_rows: float
    matmul_bf16: float
    matmul_fp32: float
    conv: float
    gelu_cycles: float
    sin_cycles: float
    max_cycles: float
    softmax_cycles: float
    layer_norm_cycles: float
    rms_norm_cycles: float
    index_add_cycles: float
    gather_ns: float
    scatter_ns: float


def _cycles(name: str, lanes: float, bytes_per_element: float = _BF16_PAIR) -> float:
    return lanes / (POINTS[name].mid / bytes_per_element)


def _conv_share() -> float:
    flops = 2 * 222 * 222 * 256 * 256 * 9
    return flops / (POINTS["conv_3x3"].mid * 1e-6) / 79e12


COEFFICIENTS = Coefficients(
    hbm_pointwise=POINTS["add"].mid / _HBM,
    hbm_silu=POINTS["silu"].mid / _HBM,
    hbm_reduce=POINTS["reduce_sum"].mid / _HBM,
    hbm_rows=POINTS["index_select"].mid / _HBM,
    matmul_bf16=POINTS["gemm_bf16"].mid / 158,
    matmul_fp32=POINTS["gemm_fp32"].mid / 40,
    conv=_conv_share(),
    gelu_cycles=_cycles("gelu", _LANES_SCALAR),
    sin_cycles=_cycles("sin", _LANES_SCALAR),
    max_cycles=_cycles("reduce_max", _LANES_VECTOR, 2.0),
    softmax_cycles=_cycles("softmax", _LANES_VECTOR),
    layer_norm_cycles=_cycles("layer_norm", _LANES_VECTOR),
    rms_norm_cycles=_cycles("rms_norm", _LANES_VECTOR),
    index_add_cycles=_cycles("index_add", _LANES_VECTOR),
    gather_ns=_BF16_PAIR / POINTS["gather"].mid,
    scatter_ns=_BF16_PAIR / POINTS["scatter"].mid,
)
