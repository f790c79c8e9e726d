"""What to do about what a check found: one sentence each, by operator first, then by reason or kind."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["for_cast", "for_fallback", "for_sync"]

_BY_OP: Mapping[str, str] = {
    "aten::sort": "sort on the CPU once, outside the step, or use a comparison against the k-th value",
    "aten::topk": "keep top-k out of the step, or sample on the CPU from a small logits tensor",
    "aten::unique": "precompute it on the CPU: its output size depends on data, which no compiled executable has",
    "aten::nonzero": "use a mask with torch.where: the size of nonzero's result depends on data",
    "aten::masked_select": "use torch.where with a mask: the size of the result depends on data",
    "aten::multinomial": "sample with an exponential race: argmax(probs / exponential noise)",
    "aten::normal_": "draw the noise on the CPU before the loop, or once on the device and reuse it",
    "aten::uniform_": "draw the noise on the CPU before the loop, or once on the device and reuse it",
    "aten::isin": "compare by broadcasting: (x[..., None] == values).any(-1)",
    "aten::group_norm": "write it as reshape, mean and var over the group, which all lower",
    "aten::native_group_norm": "write it as reshape, mean and var over the group, which all lower",
    "aten::upsample_nearest2d": "use repeat_interleave or reshape and expand, which lower",
}

_BY_REASON: Mapping[str, str] = {
    "missing_op": "replace the operator by ones that lower, or move it out of the step",
    "dtype": "cast the inputs to float32, bfloat16 or int32 first",
    "layout": "call .contiguous() first and drop channels_last",
    "view": "make the tensor contiguous before the write, or write to a slice of whole rows",
    "complex": "keep real and imaginary parts as two real tensors (torch.view_as_real)",
    "custom_op": "register a kernel for the neuron device, or an NKI kernel (torch_neuronx.nki_op)",
    "debug_repr": "nothing: printing a tensor is not part of the program's work",
    "limits": "bring the sizes within the limit that the message names",
}

_BY_KIND: Mapping[str, str] = {
    "item": "keep the value on the device; read it (.item(), float(), bool()) every N steps only",
    "copy to host": "copy less often, or with non_blocking=True into pinned memory and wait for an event later",
    "synchronize": "drop explicit synchronisation from the step",
    "stream.synchronize": "let the other stream wait (wait_stream) instead of the host",
    "event.synchronize": "wait for the event later, when its result is needed",
}


def _base(op: str) -> str:
    """`aten::sort.values_stable` → `aten::sort`."""
    return op.split(".", 1)[0]


def for_fallback(op: str, reason: str) -> str:
    """What to do about an operator that ran on the CPU."""
    if reason == "missing_op" and _base(op) in _BY_OP:
        return _BY_OP[_base(op)]
    return _BY_REASON.get(reason, _BY_REASON["missing_op"])


def for_sync(kind: str) -> str:
    """What to do about a wait for the device."""
    return _BY_KIND.get(kind, "move it out of the step")


def for_cast(dtypes: str) -> str:
    """What to do about a cast of 64-bit values, such as `int64 to int32`."""
    if "int64" in dtypes and "float64" not in dtypes:
        return "make ids int32 (.to(torch.int32)) where the program allows it"
    return "use float32: the device computes float64 as float32"
