"""What to do about what a check found, one sentence each.

What concerns an operator stands in the capability table (`eager/capability.toml`); here is what concerns its reason alone, and
the waits and casts.
"""

from __future__ import annotations

from collections.abc import Mapping

from trnsim import eager

__all__ = ["for_cast", "for_fallback", "for_sync"]

# For a fallback about which the table says nothing.
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


def for_fallback(op: str, reason: str) -> tuple[str, str]:
    """Why an operator ran on the CPU, and what to do about it."""
    note, remedy = eager.table().explain(op, reason)
    return note, remedy or _BY_REASON.get(reason, _BY_REASON["missing_op"])


def for_sync(kind: str) -> str:
    """What to do about a wait for the device."""
    return _BY_KIND.get(kind, "move it out of the step")


def for_cast(dtypes: str) -> str:
    """What to do about a cast of 64-bit values, such as `int64 to int32`."""
    if "int64" in dtypes and "float64" not in dtypes:
        return "make ids int32 (.to(torch.int32)) where the program allows it"
    return "use float32: the device computes float64 as float32"
