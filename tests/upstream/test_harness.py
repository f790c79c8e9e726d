"""The comparison must see what it claims to see: wrong values, strides, dtypes, lost aliasing, stale exceptions."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from opcheck import expected
from opcheck.cases import Case
from opcheck.compare import Comparison, Mismatch, same_bits
from opcheck.engine import run_case
from opcheck.move import Mover


@pytest.mark.parametrize(
    ("actual", "wanted"),
    [
        (torch.tensor([1.0, 2.0001]), torch.tensor([1.0, 2.0])),
        (torch.tensor([1, 3]), torch.tensor([1, 2])),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64)),
        (torch.zeros(2, 3).t(), torch.zeros(3, 2)),
        (torch.tensor([math.nan]), torch.tensor([1.0])),
        (torch.tensor([math.inf]), torch.tensor([3e38])),
        ([torch.ones(1)], (torch.ones(1),)),
        (torch.ones(2, requires_grad=True), torch.ones(2)),
        (1, 2),
        (1, True),
        ("a", "b"),
    ],
)
def test_difference_is_seen(actual, wanted):
    with pytest.raises(Mismatch):
        Comparison("cpu").check(actual, wanted)


def test_wrong_device_is_seen():
    with pytest.raises(Mismatch, match="on cpu"):
        Comparison("meta").check(torch.ones(1), torch.ones(1))


def test_nan_equals_nan_and_bits_are_told_from_closeness():
    assert same_bits(torch.tensor([math.nan, 1.0]), torch.tensor([math.nan, 1.0]))
    comparison = Comparison("cpu")
    comparison.check(torch.tensor([1.0 + 1e-7]), torch.tensor([1.0]))
    assert not comparison.bit_equal


def test_move_keeps_strides_offsets_and_shared_memory():
    base = torch.arange(12.0).reshape(3, 4)
    first, second, flipped = Mover("cpu").move((base.t()[1:], base[:, 1], torch.randn(2, dtype=torch.cfloat).conj()))
    assert first.stride() == (1, 4)
    assert first.storage_offset() == 1
    assert (
        first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr() != base.untyped_storage().data_ptr()
    )
    assert flipped.is_conj()
    second[0] = 99
    assert first[0, 0] == 99
    assert base[0, 1] == 1


def test_lost_alias_fails_the_case():
    calls = []

    def view_then_copy(mover: Mover) -> object:
        moved = mover.move(torch.ones(3))
        calls.append(1)
        return moved if len(calls) == 1 else moved.clone()

    tally = run_case(Case(variant="forward", index=0, run=view_then_copy, describe=str), "cpu")
    assert tally.failed == 1
    assert "share input storages" in tally.failures[0]["message"]


def test_exceptions_are_strict(tmp_path):
    file = tmp_path / "expected.yaml"
    file.write_text("- {op: [a, b], variant: forward, dtype: float32, reason: because}\n")
    listed = expected.load(file)
    one, two = ("op", "a", "forward", "float32"), ("op", "b", "forward", "float32")
    assert listed.stale({one, two}, {one}) == [two]
    assert listed.stale({one}, {one}) == []
    file.write_text("- {op: a, variant: forward, dtype: float32}\n")
    with pytest.raises(ValueError, match="missing"):
        expected.load(file)
