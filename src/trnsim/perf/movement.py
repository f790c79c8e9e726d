"""DMA: copies, concatenation, and indexing by rows or by elements.

A DMA descriptor moves one contiguous run and takes constant time below 2 KiB, so short runs, not bytes, cost time.
"""

from __future__ import annotations

import math

from trnsim.perf.calibration import COEFFICIENTS as C
from trnsim.perf.machine import DESCRIPTOR_BYTES, Machine, Work, tensors_bytes
from trnsim.perf.opkey import DTYPE_BYTES, OpKey, TensorSpec

__all__ = ["accumulate", "concatenate", "copy", "element_gather", "row_gather", "row_scatter", "scatter"]

# Measured element costs over the descriptor time of the device they were measured on (trn2, LNC2).
_TRN2_DESCRIPTOR = DESCRIPTOR_BYTES / (2 * 368.0)
_GATHER = C.gather_ns / _TRN2_DESCRIPTOR
_SCATTER = C.scatter_ns / _TRN2_DESCRIPTOR


def _runs(m: Machine, spec: TensorSpec, run_elements: int) -> float:
    """Return ns to move a tensor in contiguous runs: descriptors, or bytes read and written."""
    if not spec.numel:
        return 0.0
    descriptors = spec.numel / max(1, run_elements)
    return max(descriptors * m.descriptor_ns, m.move_ns(2 * spec.nbytes, C.hbm_pointwise))


def copy(key: OpKey, base: str, m: Machine) -> Work:
    """clone, copy_, casts, pads, rolls, repeats: bytes in and out at DMA bandwidth."""
    out = key.outputs[0] if key.outputs else None
    nbytes = tensors_bytes(key)
    if base == "copy" and out is not None and len(key.inputs) > 1:
        nbytes = out.nbytes + key.inputs[-1].nbytes
    return Work("dma", m.move_ns(nbytes, C.hbm_pointwise), nbytes, 0, m.bandwidth_binding)


def concatenate(key: OpKey, base: str, m: Machine) -> Work:
    """Concatenation and stacking: every part is written in runs that end at the joined dimension."""
    nbytes = tensors_bytes(key)
    dim = key.arg("dim", 0)
    at = dim if isinstance(dim, int) else 0
    ns = 0.0
    for spec in key.inputs:
        rank = len(spec.shape)
        first = at + rank + (base == "stack") if at < 0 else at
        run = math.prod(spec.shape[first:]) if rank else 1
        ns += _runs(m, spec, run)
    bytes_bound = m.move_ns(nbytes, C.hbm_pointwise)
    binding = "dma descriptors" if ns > 1.01 * bytes_bound else m.bandwidth_binding
    return Work("dma", ns, nbytes, 0, binding, 0.5, 2.0)


def _indices(key: OpKey) -> int:
    """Elements of the index tensors, which follow the data."""
    return max((s.numel for s in key.inputs[1:] if s.dtype in {"int64", "int32"}), default=1)


def row_gather(key: OpKey, base: str, m: Machine) -> Work:
    """index_select, embedding, index.Tensor: one descriptor per selected row."""
    if not key.outputs or not key.inputs:
        return copy(key, base, m)
    out = key.outputs[0]
    itemsize = DTYPE_BYTES.get(out.dtype, 4)
    dim = key.arg("dim", 0)
    if base == "index_select" and isinstance(dim, int) and out.shape:
        run = math.prod(out.shape[dim % len(out.shape) + 1 :])
    else:
        run = max(1, out.numel // max(1, _indices(key)))
    index_bytes = sum(s.nbytes for s in key.inputs[1:] if s.dtype in {"int64", "int32"})
    nbytes = 2 * out.nbytes + index_bytes
    descriptors = out.numel / max(1, run) * m.descriptor_ns
    move = m.move_ns(nbytes, C.hbm_rows)
    wide = any(s.dtype == "int64" for s in key.inputs[1:])
    # With int64 indices one report has 1.4 GB/s: if that was a row gather too, the time is per element.
    worst = out.numel * _GATHER * m.descriptor_ns
    ns = max(descriptors, move)
    high = max(2.0, worst / ns) if wide and ns else 2.0
    note = ("int64 indices may gather element by element (1.4 GB/s): use int32",) if wide else ()
    binding = "dma descriptors" if descriptors > move else m.bandwidth_binding
    return Work("dma", ns, nbytes, 0, binding if run * itemsize else "none", 0.7, high, note)


def element_gather(key: OpKey, base: str, m: Machine) -> Work:
    """gather, take, take_along_dim: one descriptor per element."""
    out = key.outputs[0] if key.outputs else None
    if out is None:
        return copy(key, base, m)
    nbytes = 2 * out.nbytes + sum(s.nbytes for s in key.inputs[1:])
    ns = out.numel * _GATHER * m.descriptor_ns
    return Work("dma", ns, nbytes, 0, "dma descriptors", 0.5, 2.0, ("measured with int64 indices",))


def _self_copy(key: OpKey, m: Machine) -> float:
    """The functional form copies `self` first; the in-place form does not."""
    if key.op.partition(".")[0].endswith("_") or not key.inputs:
        return 0.0
    return m.move_ns(2 * key.inputs[0].nbytes, C.hbm_pointwise)


def _payload(key: OpKey) -> TensorSpec | None:
    """The values being written: the last floating input, or the largest index."""
    rest = key.inputs[1:]
    values = [s for s in rest if s.dtype not in {"int64", "int32", "bool"}]
    if values:
        return values[-1]
    return max(rest, key=lambda s: s.numel, default=None)


def scatter(key: OpKey, _base: str, m: Machine) -> Work:
    """Element scatter and its reductions: a read-modify-write descriptor per element."""
    index = _indices(key)
    payload = _payload(key)
    nbytes = 2 * (payload.nbytes if payload else 0) + 8 * index
    ns = index * _SCATTER * m.descriptor_ns + _self_copy(key, m)
    return Work("dma", ns, nbytes, 0, "dma descriptors", 0.5, 2.0)


def row_scatter(key: OpKey, base: str, m: Machine) -> Work:
    """index_copy, index_put, index_fill without accumulation: one descriptor per row."""
    if key.arg("accumulate", False):
        return accumulate(key, base, m)
    payload = _payload(key)
    if payload is None:
        return copy(key, base, m)
    run = max(1, payload.numel // max(1, _indices(key)))
    ns = _runs(m, payload, run) + _self_copy(key, m)
    nbytes = 2 * payload.nbytes
    note = ("boolean or data-dependent indices are not lowered natively",) if base == "index_put" else ()
    return Work("dma", ns, nbytes, 0, "dma descriptors", 0.5, 4.0, note)


def accumulate(key: OpKey, base: str, m: Machine) -> Work:
    """index_add, index_put(accumulate), embedding_dense_backward: VectorE adds, serialised by index."""
    payload = key.inputs[0] if base == "embedding_dense_backward" and key.inputs else _payload(key)
    elements = payload.numel if payload else 0
    nbytes = 3 * (payload.nbytes if payload else 0)
    compute = C.index_add_cycles * elements / m.vector + _self_copy(key, m)
    if base == "embedding_dense_backward" and key.outputs:
        nbytes += key.outputs[0].nbytes
        compute += m.move_ns(key.outputs[0].nbytes, C.hbm_pointwise)
    return Work("vector", compute, nbytes, elements, "vector engine", 0.5, 3.0)
