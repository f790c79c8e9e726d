"""Reductions, softmax, normalisation, scans and pooling: VectorE over rows, limited by cycles or by HBM."""

from __future__ import annotations

import math

from trnsim.perf.calibration import COEFFICIENTS as C
from trnsim.perf.machine import Machine, Work, largest, tensors_bytes
from trnsim.perf.opkey import OpKey

__all__ = ["ROW_CYCLES", "pooling", "reduce_rows", "reduce_sum"]

# VectorE lane cycles per input element. Measured: reductions by maximum, softmax, layer_norm, rms_norm. Others are
# assumptions by likeness. A backward pass reads twice the tensors and is taken as twice the cycles.
ROW_CYCLES: dict[str, float] = {
    **dict.fromkeys(("max", "min", "amax", "amin", "aminmax", "argmax", "argmin", "median", "mode"), C.max_cycles),
    **dict.fromkeys(
        ("_softmax", "softmax", "_log_softmax", "log_softmax", "logsumexp", "_safe_softmax"), C.softmax_cycles
    ),
    **dict.fromkeys(("_softmax_backward_data", "_log_softmax_backward_data"), 1.5 * C.softmax_cycles),
    **dict.fromkeys(("native_layer_norm", "layer_norm", "native_batch_norm", "native_group_norm"), C.layer_norm_cycles),
    **dict.fromkeys(("_native_batch_norm_legit", "_native_batch_norm_legit_no_training"), C.layer_norm_cycles),
    **dict.fromkeys(("_batch_norm_with_update", "batch_norm", "group_norm", "instance_norm"), C.layer_norm_cycles),
    **dict.fromkeys(("native_layer_norm_backward", "native_batch_norm_backward"), 2 * C.layer_norm_cycles),
    **dict.fromkeys(("native_group_norm_backward", "batch_norm_backward"), 2 * C.layer_norm_cycles),
    **dict.fromkeys(("_fused_rms_norm", "rms_norm"), C.rms_norm_cycles),
    **dict.fromkeys(("_weight_norm_interface", "_weight_norm_interface_backward", "renorm"), C.layer_norm_cycles),
    **dict.fromkeys(("_batch_norm_with_update_functional", "_batch_norm_no_update"), C.layer_norm_cycles),
    "_masked_softmax": 1.5 * C.softmax_cycles,
    "_masked_softmax_backward": 2 * C.softmax_cycles,
    "_fused_rms_norm_backward": 2 * C.rms_norm_cycles,
    **dict.fromkeys(("var", "std", "var_mean", "std_mean", "norm", "linalg_vector_norm"), C.layer_norm_cycles / 2),
    **dict.fromkeys(("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "_cummax_helper"), 2.0),
}


def _rows(key: OpKey) -> tuple[int, int]:
    spec = largest(key.inputs)
    return (spec.numel if spec else 0), tensors_bytes(key)


def reduce_sum(key: OpKey, _base: str, m: Machine) -> Work:
    """sum, mean, prod, any, all: limited by reading."""
    elements, nbytes = _rows(key)
    return Work("vector", m.move_ns(nbytes, C.hbm_reduce), nbytes, elements, m.bandwidth_binding)


def reduce_rows(key: OpKey, base: str, m: Machine) -> Work:
    """Everything in ROW_CYCLES."""
    elements, nbytes = _rows(key)
    cycles = ROW_CYCLES[base]
    compute = cycles * elements / m.vector
    move = m.move_ns(nbytes, C.hbm_pointwise)
    flops = int(cycles * elements)
    if compute > move:
        return Work("vector", compute, nbytes, flops, "vector engine", 0.6, 2.0)
    return Work("vector", move, nbytes, flops, m.bandwidth_binding, 0.8, 1.6)


def pooling(key: OpKey, _base: str, m: Machine) -> Work:
    """Windows: one VectorE pass per tap; adaptive pools read each input element once."""
    nbytes = tensors_bytes(key)
    out = key.outputs[0].numel if key.outputs else 0
    kernel = key.arg("kernel_size", ())
    taps = math.prod(k for k in kernel if isinstance(k, int)) if isinstance(kernel, (tuple, list)) else 1
    if kernel and isinstance(kernel, (tuple, list)) and len(kernel) == 1:
        taps = taps**2
    source = largest(key.inputs)
    elements = max(out * taps, source.numel if source else 0)
    compute = elements / m.vector
    move = m.move_ns(nbytes, C.hbm_pointwise)
    if compute > move:
        return Work("vector", compute, nbytes, elements, "vector engine", 0.6, 2.5)
    return Work("vector", move, nbytes, elements, m.bandwidth_binding, 0.8, 2.5)
