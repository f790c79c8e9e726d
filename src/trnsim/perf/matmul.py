"""TensorE: matrix products and convolutions.

Time is the padded work of the 128 x 128 array over the measured share of peak, or the operands over HBM bandwidth, whichever is
longer. Padding follows the public nc_matmul formula: the contraction and the stationary side fill whole tiles of 128, the moving
side streams at least 64 rows (reference/hardware.md section 2).
"""

from __future__ import annotations

import math

from trnsim.perf.calibration import COEFFICIENTS as C
from trnsim.perf.machine import Machine, Work, tensors_bytes
from trnsim.perf.opkey import OpKey, TensorSpec

__all__ = ["convolution", "convolution_backward", "matmul", "matmul_time"]

_TILE = 128
_MIN_MOVING = 64


def _tiles(n: int) -> int:
    return -(-n // _TILE) * _TILE


def matmul_time(m: Machine, dtype: str, batch: int, rows: int, inner: int, cols: int, share: float) -> float:
    """Return TensorE ns of `batch` products (rows x inner) @ (inner x cols), the better side held stationary."""
    if not (batch and rows and inner and cols):
        return 0.0
    by_rows = _tiles(cols) * max(rows, _MIN_MOVING)
    by_cols = _tiles(rows) * max(cols, _MIN_MOVING)
    return 2.0 * batch * _tiles(inner) * min(by_rows, by_cols) / (m.tensor(dtype) * share)


def _share(m: Machine, dtype: str) -> float:
    return C.matmul_fp32 if m.tensor(dtype) == m.tensor_fp32 else C.matmul_bf16


def _work(m: Machine, compute: float, nbytes: int, flops: int, high: float = 1.25) -> Work:
    move = m.move_ns(nbytes, C.hbm_pointwise)
    if compute >= move:
        return Work("tensor", compute, nbytes, flops, "tensor engine", 0.9, high)
    return Work("tensor", move, nbytes, flops, m.bandwidth_binding, 0.8, 1.4)


def _product(key: OpKey, base: str) -> tuple[TensorSpec, int, int, int, int] | None:
    """Return (left operand, batch, rows, inner, cols) of a matmul-like key."""
    bias_first = base in {"addmm", "baddbmm", "addbmm", "addmv", "addr", "_addmm_activation", "sspaddmm"}
    specs = key.inputs[1:] if bias_first and len(key.inputs) > 2 else key.inputs
    if len(specs) < 2 or not specs[0].shape or not specs[1].shape:
        return None
    left, right = specs[0], specs[1]
    if base == "linear":
        return left, 1, math.prod(left.shape[:-1]), left.shape[-1], right.shape[0] if len(right.shape) == 2 else 1
    if base in {"addr", "outer", "ger"}:
        return left, 1, left.shape[0], 1, right.shape[0]
    if len(right.shape) == 1:
        return left, 1, math.prod(left.shape[:-1]), left.shape[-1], 1
    if len(left.shape) == 1:
        return left, math.prod(right.shape[:-2]), 1, left.shape[0], right.shape[-1]
    if len(right.shape) == 2:
        return left, 1, math.prod(left.shape[:-1]), left.shape[-1], right.shape[1]
    return left, math.prod(right.shape[:-2]), left.shape[-2], left.shape[-1], right.shape[-1]


def matmul(key: OpKey, base: str, m: Machine) -> Work:
    """mm, addmm, bmm, baddbmm, matmul, linear, mv, dot, _scaled_mm."""
    nbytes = tensors_bytes(key)
    product = _product(key, base)
    if product is None:
        return Work("tensor", m.move_ns(nbytes, C.hbm_pointwise), nbytes, low=0.5, high=3.0)
    left, batch, rows, inner, cols = product
    compute = matmul_time(m, left.dtype, batch, rows, inner, cols, _share(m, left.dtype))
    work = _work(m, compute, nbytes, 2 * batch * rows * inner * cols)
    if m.tensor(left.dtype) == m.tensor_fp8:
        return work._replace(low=0.8, high=1.6, notes=("fp8 reaches the same share of its peak as bf16",))
    return work


def _conv_time(m: Machine, dtype: str, weight: TensorSpec, positions: int, groups: int) -> tuple[float, int]:
    """Return (ns, FLOPs) of a convolution with this many output positions, batch included."""
    out_per_group = max(1, weight.shape[0] // max(1, groups))
    inner = math.prod(weight.shape[1:])
    flops = 2 * positions * weight.numel
    # Measured share is against fp16; float32 keeps the ratio between the two engines' measured matmuls.
    share = C.conv * (C.matmul_fp32 / C.matmul_bf16 if m.tensor(dtype) == m.tensor_fp32 else 1.0)
    on_tensor = matmul_time(m, dtype, groups, positions, inner, out_per_group, share)
    if groups == 1:
        return on_tensor, flops
    # Depthwise and thin groups leave the array empty: a multiply-add per tap on VectorE can be faster.
    return min(on_tensor, flops / 2 / m.vector), flops


def _geometry(key: OpKey, x: TensorSpec, weight: TensorSpec, out: TensorSpec) -> tuple[int, int]:
    groups = key.arg("groups", 1)
    count = groups if isinstance(groups, int) and groups > 0 else 1
    spatial = x if key.arg("transposed", False) else out
    channels_at = -len(weight.shape) + 1
    positions = spatial.numel // max(1, spatial.shape[channels_at])
    return count, positions


def convolution(key: OpKey, _base: str, m: Machine) -> Work:
    """Forward convolution as an implicit matrix product."""
    nbytes = tensors_bytes(key)
    if len(key.inputs) < 2 or not key.outputs or len(key.inputs[1].shape) < 3:
        return Work("tensor", m.move_ns(nbytes, C.hbm_pointwise), nbytes, low=0.5, high=4.0)
    x, weight = key.inputs[0], key.inputs[1]
    groups, positions = _geometry(key, x, weight, key.outputs[0])
    compute, flops = _conv_time(m, x.dtype, weight, positions, groups)
    work = _work(m, compute, nbytes, flops, high=1.8)
    return work._replace(notes=("share of peak from one measured 3x3 kernel",))


def _gradients(mask: object) -> int:
    """Count the wanted gradients of input and weight; the bias is a cheap sum. The core writes lists of bool as text."""
    if isinstance(mask, str):
        mask = [word.strip() == "True" for word in mask.strip("[]()").split(",")]
    return sum(map(bool, mask[:2])) if isinstance(mask, (tuple, list)) else 2


def convolution_backward(key: OpKey, _base: str, m: Machine) -> Work:
    """Gradients of input and weight, each as long as the forward pass, as `output_mask` asks."""
    nbytes = tensors_bytes(key)
    if len(key.inputs) < 3 or len(key.inputs[2].shape) < 3:
        return Work("tensor", m.move_ns(nbytes, C.hbm_pointwise), nbytes, low=0.5, high=4.0)
    grad, x, weight = key.inputs[:3]
    groups, positions = _geometry(key, x, weight, grad)
    compute, flops = _conv_time(m, x.dtype, weight, positions, groups)
    passes = _gradients(key.arg("output_mask"))
    work = _work(m, compute * passes, nbytes, flops * passes, high=2.5)
    return work._replace(notes=("each gradient costs one forward pass",))
