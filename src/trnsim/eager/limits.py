"""The predicates that `capability.toml` names in its `[[limit]]` entries.

Each takes the op key and the entry's `value` and tells whether the limit applies (True: the op is over the limit).
A predicate reads shapes, dtypes and static arguments only, never data, because it runs before the op.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from trnsim.eager.keys import KeyLike, static_arg

__all__ = ["CHECKS", "Check"]

Check = Callable[[KeyLike, object], bool]

_MASK_DTYPES = ("bool", "uint8")
_FLASH_BLOCK = 512  # L and S must be multiples of this for the flash kernel (torch-neuronx documentation)
_FLASH_HEAD_DIM = 128


def argument_true(key: KeyLike, value: object) -> bool:
    """The boolean argument named by `value` is set."""
    return bool(static_arg(key, str(value)))


def rank_above(key: KeyLike, value: object) -> bool:
    """Any tensor has more dimensions than `value`."""
    limit = int(str(value))
    return any(len(tensor.shape) > limit for tensor in key.inputs)


def mask_index(key: KeyLike, value: object) -> bool:
    """One of the index tensors of index / index_put is a mask.

    The first input is indexed into. The last one is no index when the op has `values` (index_put) or `out`.
    """
    del value
    end = len(key.inputs) - ("index_put" in key.op) - key.op.endswith("out")
    return any(tensor.dtype in _MASK_DTYPES for tensor in key.inputs[1:end])


def many_test_elements(key: KeyLike, value: object) -> bool:
    """Above this count PyTorch's own isin sorts instead of comparing: 10 * numel(elements) ** 0.145."""
    del value
    if len(key.inputs) < 2:
        return False
    elements, tests = prod(key.inputs[0].shape), prod(key.inputs[1].shape)
    return bool(tests >= 10.0 * float(max(elements, 1)) ** 0.145)


def slow_attention(key: KeyLike, value: object) -> bool:
    """The call misses a condition of the flash kernel, so attention takes the math path."""
    del value
    if len(key.inputs) < 3:
        return False
    query, keys = key.inputs[0].shape, key.inputs[1].shape
    if len(query) < 2 or len(keys) < 2:
        return False
    masked = len(key.inputs) > 3 or bool(static_arg(key, "dropout_p"))
    return bool(query[-2] % _FLASH_BLOCK or keys[-2] % _FLASH_BLOCK or query[-1] > _FLASH_HEAD_DIM or masked)


def int64_index(key: KeyLike, value: object) -> bool:
    """The index tensor, which is the second tensor of every op this is used for, is int64."""
    del value
    return len(key.inputs) > 1 and key.inputs[1].dtype == "int64"


def strided_target(key: KeyLike, value: object) -> bool:
    """The destination of a copy within the device is not contiguous."""
    del value
    return len(key.inputs) > 1 and not key.inputs[0].contiguous and key.inputs[0].device == key.inputs[1].device


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        argument_true,
        int64_index,
        many_test_elements,
        mask_index,
        rank_above,
        slow_attention,
        strided_target,
    )
}
