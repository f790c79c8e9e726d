"""Run one item's cases on the CPU and on the device, and tally them."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

import torch

from . import cases_module, cases_op, cases_optim
from .cases import Case, Item
from .compare import Comparison, Mismatch, aliases
from .move import Mover

SEED = 20261201
MAX_FAILURES_KEPT = 3
CPU_REPEATS = 6  # runs of the CPU after a mismatch, to see whether it is sure of its own answer


@dataclass
class Tally:
    """Samples of one variant of one item. `skipped` are those without a reference: the CPU raises, dies or is unsure."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    bit_equal: int = 0
    accepted: int = 0  # of the skipped ones: the device did not raise
    failures: list[dict[str, str]] = field(default_factory=list)

    def fail(self, kind: str, message: str, sample: str) -> None:
        """Count one failed sample and keep the first few messages."""
        self.failed += 1
        if len(self.failures) < MAX_FAILURES_KEPT:
            self.failures.append({"kind": kind, "message": message[:600], "sample": sample[:400]})


def cases_of(item: Item, limit: int | None) -> Iterator[Case]:
    """The cases of an item of any suite."""
    if item.suite == "module":
        return cases_module.cases(item, limit)
    if item.suite == "optim":
        return cases_optim.cases(item, limit)
    return cases_op.cases(item, limit)


def items_of(suite: str) -> list[Item]:
    """Every item of a suite: "op", "foreach", "module", "optim"."""
    if suite == "module":
        return cases_module.items()
    return cases_optim.items() if suite == "optim" else cases_op.items(suite)


def run_item(
    item: Item, device: str, limit: int | None, skip: frozenset[str], breadcrumb: Callable[[str], object]
) -> dict[str, dict[str, object]]:
    """Variant -> tally. `skip` names cases that killed an earlier process: "variant/index" counts as
    failed, "variant/index@cpu" (the reference itself died) as skipped."""
    tallies: dict[str, Tally] = {}
    warnings.simplefilter("ignore")
    for case in cases_of(item, limit):
        key = f"{case.variant}/{case.index}"
        tally = tallies.setdefault(case.variant, Tally())
        if f"{key}@cpu" in skip:
            tally.skipped += 1
            continue
        if key in skip:
            tally.fail("crash", "the process died or hung in this sample", case.describe())
            continue
        run_case(case, device, tally, breadcrumb)
    return {variant: asdict(tally) for variant, tally in tallies.items()}


def run_case(case: Case, device: str, tally: Tally | None = None, breadcrumb: Callable[[str], object] = len) -> Tally:
    """Run one case on both devices and count it in the tally. The breadcrumb tells where a death happened."""
    tally = Tally() if tally is None else tally
    breadcrumb(f"{case.variant}/{case.index}@cpu")
    on_cpu = Mover("cpu", keep_on_cpu=case.keep_on_cpu)
    on_device = Mover(device, keep_on_cpu=case.keep_on_cpu)
    torch.manual_seed(SEED)
    try:
        expected = case.run(on_cpu)
    except Exception:  # the CPU is the reference: whatever it refuses is no sample
        tally.skipped += 1
        breadcrumb(f"{case.variant}/{case.index}")
        tally.accepted += _accepts(case, on_device)
        return tally
    breadcrumb(f"{case.variant}/{case.index}")
    torch.manual_seed(SEED)
    try:
        actual = case.run(on_device)
        comparison = Comparison(device, values=case.values, any_device=case.any_device)
        comparison.check(actual, expected)
        seen, wanted = aliases(actual, on_device.storage_ids()), aliases(expected, on_cpu.storage_ids())
        if seen != wanted:
            raise Mismatch(f"outputs share input storages {seen} instead of {wanted}")
    except Mismatch as error:
        if _cpu_disagrees_with_itself(case, expected):
            tally.skipped += 1
        else:
            tally.fail("mismatch", str(error), case.describe())
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        tally.fail(
            type(error).__name__, f"{str(error).splitlines()[0] if str(error) else ''} [{where.name}]", case.describe()
        )
    else:
        tally.passed += 1
        tally.bit_equal += comparison.bit_equal
    return tally


def _accepts(case: Case, mover: Mover) -> bool:
    """True if the device runs what the CPU refuses (told in the report, not a failure)."""
    try:
        case.run(mover)
    except Exception:
        return False
    return True


def _cpu_disagrees_with_itself(case: Case, expected: object) -> bool:
    """True if the CPU's own answer depends on where its memory lies: such a sample has no reference."""
    for _ in range(CPU_REPEATS):
        torch.manual_seed(SEED)
        try:
            again = case.run(Mover("cpu", keep_on_cpu=case.keep_on_cpu))
            Comparison("cpu", values=case.values, any_device=True).check(again, expected)
        except Exception:
            return True
    return False
