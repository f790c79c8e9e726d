"""Scaled dot-product attention. Fit of nki-library's kernels: ScalarE cycles per score, plus time per byte of Q."""

from __future__ import annotations

import math

from trnsim.perf.calibration import COEFFICIENTS as C
from trnsim.perf.calibration import POINTS
from trnsim.perf.machine import Machine, Work, tensors_bytes
from trnsim.perf.opkey import OpKey, TensorSpec

__all__ = ["attention", "attention_backward"]

# The fast kernel's conditions (reference/torchneuron.md section 4).
_MULTIPLE = 512
_MAX_HEAD = 128
_CYCLES = POINTS["attention_cycles"].mid
_IO_NS_PER_BYTE = POINTS["attention_io"].mid / 2  # the fit is per core of an LNC2 device
_MATH = POINTS["sdpa_math"].mid
# trn2 ScalarE GHz, HBM GB/s per core: the io term is scaled by bandwidth to other devices.
_FIT_BANDWIDTH = 2 * 362.0
_BACKWARD = 2.5  # five matrix products against two; assumption, no public measurement


def _time(key: OpKey, q: TensorSpec, k: TensorSpec, *, masked: bool, m: Machine) -> tuple[float, int, bool]:
    head, length, size = math.prod(q.shape[:-2]), q.shape[-2], q.shape[-1]
    source = k.shape[-2]
    dropout = key.arg("dropout_p", 0.0)
    causal = bool(key.arg("is_causal", False))
    fast = (
        not masked
        and not dropout
        and size <= _MAX_HEAD
        and length % _MULTIPLE == 0
        and source % _MULTIPLE == 0
        and length > 0
    )
    pairs = head * length * source
    if causal:
        pairs //= 2
    flops = 4 * size * pairs
    softmax = _CYCLES * pairs / m.scalar_32bit + _IO_NS_PER_BYTE * q.nbytes * _FIT_BANDWIDTH / m.bandwidth
    products = flops / (m.tensor(q.dtype) * (C.matmul_fp32 if m.tensor(q.dtype) == m.tensor_fp32 else C.matmul_bf16))
    return max(softmax, products) * (1.0 if fast else _MATH), flops, fast


def _work(ns: float, nbytes: int, flops: int, fast: bool, extra: tuple[str, ...] = ()) -> Work:
    if fast:
        return Work("scalar", ns, nbytes, flops, "softmax on the scalar engine", 0.85, 1.35, extra)
    note = "math path: the fast kernel needs L and S in multiples of 512, head <= 128, no mask, no dropout"
    return Work("scalar", ns, nbytes, flops, "attention without the fast kernel", 0.4, 1.6, (note, *extra))


def attention(key: OpKey, base: str, m: Machine) -> Work:
    """Forward: q, k, v, optional bias."""
    nbytes = tensors_bytes(key)
    if len(key.inputs) < 3 or len(key.inputs[0].shape) < 2 or len(key.inputs[1].shape) < 2:
        return Work("scalar", m.move_ns(nbytes, C.hbm_pointwise), nbytes, low=0.5, high=6.0)
    masked = len(key.inputs) > 3
    ns, flops, fast = _time(key, key.inputs[0], key.inputs[1], masked=masked, m=m)
    if base.endswith("_math") and fast:
        ns, fast = ns * _MATH, False
    return _work(ns, nbytes, flops, fast)


def attention_backward(key: OpKey, _base: str, m: Machine) -> Work:
    """Backward: grad_out, q, k, v, then bias, out, logsumexp and seeds."""
    nbytes = tensors_bytes(key)
    if len(key.inputs) < 4 or len(key.inputs[1].shape) < 2 or len(key.inputs[2].shape) < 2:
        return Work("scalar", m.move_ns(nbytes, C.hbm_pointwise), nbytes, low=0.5, high=6.0)
    q, k = key.inputs[1], key.inputs[2]
    masked = any(
        s.shape[-2:] == (q.shape[-2], k.shape[-2]) for s in key.inputs[4:] if len(s.shape) > 1 and s.shape != q.shape
    )
    ns, flops, fast = _time(key, q, k, masked=masked, m=m)
    return _work(ns * _BACKWARD, nbytes, int(flops * _BACKWARD), fast, ("backward taken as 2.5 forward passes",))
