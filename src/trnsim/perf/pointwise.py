"""VectorE and ScalarE: elementwise ops, fills, random numbers, and the fused optimizer steps."""

from __future__ import annotations

from trnsim.perf.calibration import COEFFICIENTS as C
from trnsim.perf.machine import Machine, Work, largest, tensors_bytes
from trnsim.perf.opkey import OpKey

__all__ = ["SCALAR_CYCLES", "elementwise", "fill", "multi_tensor", "random", "transcendental", "unknown"]

# ScalarE lane cycles per element. One table lookup is one cycle; gelu and sin are measured; the others are assumptions by
# the number of lookups and multiplications of the usual composition. Backward forms are twice their forward form.
SCALAR_CYCLES: dict[str, float] = {
    **dict.fromkeys(("exp", "exp2", "sigmoid", "tanh", "silu", "log", "log2", "log10", "sqrt", "rsqrt", "relu6"), 1.0),
    **dict.fromkeys(
        ("hardsigmoid", "hardswish", "log_sigmoid_forward", "log_sigmoid_backward", "elu", "selu", "celu"), 2.0
    ),
    **dict.fromkeys(
        ("expm1", "log1p", "softplus", "softplus_backward", "elu_backward", "logaddexp", "xlogy", "glu"), 2.0
    ),
    **dict.fromkeys(
        ("pow", "mish", "logit", "sinh", "cosh", "asinh", "acosh", "atanh", "logaddexp2", "float_power"), 3.0
    ),
    "silu_backward": 2.0,
    "mish_backward": 6.0,
    "gelu": C.gelu_cycles,
    "gelu_backward": 2 * C.gelu_cycles,
    **dict.fromkeys(("erf", "erfc", "erfinv", "ndtri", "special_erfcx", "special_ndtri"), C.gelu_cycles),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinc", "angle"), C.sin_cycles),
    **dict.fromkeys(
        ("lgamma", "digamma", "polygamma", "mvlgamma", "i0", "igamma", "igammac", "zeta"), 2 * C.gelu_cycles
    ),
    **dict.fromkeys(("special_log1p", "special_expm1", "special_xlog1py", "log_sigmoid"), 2.0),
    **dict.fromkeys(("special_ndtr", "special_erf", "special_erfc", "special_erfinv", "special_zeta"), C.gelu_cycles),
    "infinitely_differentiable_gelu_backward": 2 * C.gelu_cycles,
    "_thnn_fused_lstm_cell": 5.0,
    "_thnn_fused_lstm_cell_backward_impl": 5.0,
    "_thnn_fused_gru_cell_backward": 5.0,
    "_thnn_fused_gru_cell": 3.0,
}

_RANDOM_CYCLES = 4.0  # GpSimd cycles per random element: assumption, no public figure


def _elements(key: OpKey) -> int:
    spec = largest(key.outputs or key.inputs)
    return spec.numel if spec else 0


def elementwise(key: OpKey, _base: str, m: Machine) -> Work:
    """Arithmetic, comparisons, casts, masks: one VectorE pass, nearly always limited by HBM."""
    nbytes = tensors_bytes(key)
    elements = _elements(key)
    move = m.move_ns(nbytes, C.hbm_pointwise)
    compute = elements / m.vector
    if compute > move:
        return Work("vector", compute, nbytes, elements, "vector engine", 0.5, 1.5)
    return Work("vector", move, nbytes, elements, m.bandwidth_binding)


def transcendental(key: OpKey, base: str, m: Machine) -> Work:
    """Functions of ScalarE's tables, by cycles per element."""
    nbytes = tensors_bytes(key)
    elements = _elements(key)
    cycles = SCALAR_CYCLES[base]
    dtype = key.inputs[0].dtype if key.inputs else "float32"
    compute = cycles * elements / m.scalar(dtype)
    move = m.move_ns(nbytes, C.hbm_silu)
    flops = int(cycles * elements)
    if compute > move:
        return Work("scalar", compute, nbytes, flops, "scalar engine", 0.5, 2.0)
    return Work("scalar", move, nbytes, flops, m.bandwidth_binding, 0.8, 1.5)


def fill(key: OpKey, _base: str, m: Machine) -> Work:
    """Constants: written once, nothing read."""
    nbytes = sum(spec.nbytes for spec in key.outputs)
    return Work("vector", m.move_ns(nbytes, C.hbm_pointwise), nbytes, 0, m.bandwidth_binding)


def random(key: OpKey, _base: str, m: Machine) -> Work:
    """Random fills and dropout: a counter-based generator on GpSimd."""
    nbytes = tensors_bytes(key)
    elements = _elements(key)
    compute = _RANDOM_CYCLES * elements / m.gpsimd
    move = m.move_ns(nbytes, C.hbm_pointwise)
    note = ("4 GpSimd cycles per random element assumed",)
    if compute > move:
        return Work("gpsimd", compute, nbytes, elements, "gpsimd engine", 0.3, 3.0, note)
    return Work("gpsimd", move, nbytes, elements, m.bandwidth_binding, 0.8, 2.0, note)


# Lists an in-place multi-tensor op reads, and how many of them it writes back.
_FUSED_LISTS: dict[str, tuple[int, int, float]] = {  # lists read, written, VectorE cycles per parameter
    "_fused_adamw": (4, 3, 12.0),
    "_fused_adam": (4, 3, 12.0),
    "_fused_sgd": (3, 2, 3.0),
    "_fused_adagrad": (3, 2, 6.0),
    "_foreach_addcmul": (3, 1, 2.0),
    "_foreach_addcdiv": (3, 1, 2.0),
    "_foreach_lerp": (2, 1, 2.0),
}


def multi_tensor(key: OpKey, base: str, m: Machine) -> Work:
    """`_foreach_*` and `_fused_*`: one launch over the flattened lists, limited by the sum of their bytes."""
    lists, written, cycles = _FUSED_LISTS.get(base, (2 if ".List" in key.op else 1, 1, 1.0))
    read = 0
    elements = 0
    for spec in key.inputs:
        if spec.device == "neuron":
            read += spec.nbytes
            elements += spec.numel
    inplace = not key.outputs
    nbytes = read + (read * written // lists if inplace else sum(spec.nbytes for spec in key.outputs))
    flops = int(cycles * elements / lists)
    move = m.move_ns(nbytes, C.hbm_pointwise)
    compute = flops / m.vector
    note = ("one launch for the whole list",)
    if compute > move:
        return Work("vector", compute, nbytes, flops, "vector engine", 0.7, 2.0, note)
    return Work("vector", move, nbytes, flops, m.bandwidth_binding, 0.8, 2.0, note)


def unknown(key: OpKey, base: str, m: Machine) -> Work:
    """Ops without an entry: their memory traffic, with a wide range."""
    work = elementwise(key, base, m)
    return work._replace(low=0.5, high=5.0, notes=("no entry for this op: costed by its memory traffic",))
