"""Run PyTorch's operator, module and optimizer databases on a device against the CPU.

python tests/upstream/run.py --device neuron --jobs 2                       # everything, a summary in upstream.json
python tests/upstream/run.py --shard 0/8 --dtypes float32,int64             # a fair eighth: each op with some of its dtypes
python tests/upstream/run.py --suites op --ops nn.functional.conv2d --samples 4 --verbose
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from opcheck import expected as expected_list
from opcheck import pool
from opcheck.cases import Item
from opcheck.engine import items_of

HERE = Path(__file__).resolve().parent
SUITES = ("op", "foreach", "module", "optim")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="neuron")
    parser.add_argument("--suites", default=",".join(SUITES), help="of op, foreach, module, optim")
    parser.add_argument("--shard", default="0/1", metavar="I/N", help="the I-th of N parts, counted from 0")
    parser.add_argument("--dtypes", default="", help="only these, comma separated (float32,int64)")
    parser.add_argument("--ops", default="", help="only these names, comma separated, with wildcards")
    parser.add_argument(
        "--samples", type=int, default=0, help="at most this many samples of each op, dtype and variant (0: all)"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--item-seconds", type=float, default=240.0, help="an op and dtype that takes longer has failed"
    )
    parser.add_argument(
        "--budget-seconds", type=float, default=0.0, help="start nothing new after this long (0: no limit)"
    )
    parser.add_argument("--expected", type=Path, default=HERE / "expected.yaml")
    parser.add_argument("--json", type=Path, default=Path("upstream.json"))
    parser.add_argument("--verbose", action="store_true", help="print each failure as it comes")
    return parser.parse_args(arguments)


def select(options: argparse.Namespace) -> list[Item]:
    """The items of this shard, every op spread over all shards by its dtypes."""
    part, parts = (int(x) for x in options.shard.split("/"))
    if not 0 <= part < parts:
        raise SystemExit(f"--shard {options.shard}: I must be from 0 to N-1")
    dtypes = set(filter(None, options.dtypes.split(",")))
    patterns = list(filter(None, options.ops.split(",")))
    chosen = []
    for suite in options.suites.split(","):
        names: dict[str, list[Item]] = defaultdict(list)
        for item in items_of(suite):
            names[item.name].append(item)
        for position, (name, entries) in enumerate(names.items()):
            for offset, item in enumerate(entries):
                if (position + offset) % parts != part or (dtypes and item.dtype not in dtypes):
                    continue
                if not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
                    chosen.append(item)
    return chosen


def main() -> int:
    """Run, write the summary, print it; 1 when a sample failed unexpectedly or an exception of the list passed."""
    options = parse()
    exceptions = expected_list.load(options.expected)
    items = select(options)
    started = time.monotonic()
    results: dict[Item, pool.Result] = {}
    seconds: dict[Item, float] = {}

    def report(item: Item, result: pool.Result) -> None:
        results[item] = result
        seconds[item] = time.monotonic() - started
        if options.verbose:
            for variant, tally in result.items():
                for failure in tally["failures"] if isinstance(tally["failures"], list) else []:
                    print(f"{item.name} {item.dtype} {variant}: {failure['kind']}: {failure['message']}", flush=True)
        if len(results) % 200 == 0:
            print(f"{len(results)} of {len(items)} items, {seconds[item]:.0f} s", file=sys.stderr, flush=True)

    left = pool.run(
        items, device=options.device, jobs=options.jobs, samples=options.samples, seconds=options.item_seconds,
        until=started + options.budget_seconds if options.budget_seconds else None, report=report,
    )  # fmt: skip
    summary = summarise(results, exceptions, complete=options.samples == 0)
    summary |= {"device": options.device, "shard": options.shard, "seconds": round(time.monotonic() - started, 1)}
    summary |= {"items": len(results), "items_not_started": len(left)}
    options.json.write_text(json.dumps(summary, indent=1))
    print_summary(summary)
    return 1 if summary["unexpected"] or summary["stale"] else 0


def summarise(
    results: dict[Item, pool.Result], exceptions: expected_list.Expected, *, complete: bool
) -> dict[str, object]:
    """Totals by suite and variant, unexpected failures, and entries of the list that passed."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    ran: set[expected_list.Triple] = set()
    failed: set[expected_list.Triple] = set()
    unexpected: list[dict[str, object]] = []
    for item, result in sorted(results.items()):
        for variant, tally in result.items():
            triple = (item.suite, item.name, variant, item.dtype)
            counts = {k: v for k, v in tally.items() if isinstance(v, int)}
            ran.add(triple)
            if counts["failed"]:
                failed.add(triple)
                if triple in exceptions.reasons:
                    counts["expected"] = counts["failed"]
                else:
                    unexpected.append({"item": triple, **tally})
            totals[f"{item.suite} {variant}"].update(counts)
    return {
        "totals": {k: dict(v) for k, v in sorted(totals.items())},
        "sum": dict(sum(totals.values(), Counter())),
        "unexpected": unexpected,
        "stale": exceptions.stale(ran, failed) if complete else [],
    }


def print_summary(summary: dict[str, object]) -> None:
    """The table a person reads."""
    print(f"{'suite variant':24}{'passed':>9}{'of':>9}{'%':>9}{'bit-equal':>11}{'expected':>10}{'no reference':>14}")
    totals, everything = summary["totals"], summary["sum"]
    assert isinstance(totals, dict)
    for name, counts in [*totals.items(), ("all", everything)]:
        total = counts.get("passed", 0) + counts.get("failed", 0)
        share = 100 * counts.get("passed", 0) / total if total else 100.0
        print(
            f"{name:24}{counts.get('passed', 0):9}{total:9}{share:9.3f}{counts.get('bit_equal', 0):11}"
            f"{counts.get('expected', 0):10}{counts.get('skipped', 0):14}"
        )
    print(f"{summary['items']} items in {summary['seconds']} s, {summary['items_not_started']} not started")
    for title in ("unexpected", "stale"):
        entries = summary[title]
        assert isinstance(entries, list)
        print(f"{title}: {len(entries)}")
        for entry in entries[:40]:
            print("  ", entry if title == "stale" else _line(entry))


def _line(entry: dict[str, object]) -> str:
    failures = entry["failures"]
    first = failures[0] if isinstance(failures, list) and failures else {}
    return f"{entry['item']}: {entry['failed']} failed: {first.get('kind')}: {first.get('message')}"


if __name__ == "__main__":
    sys.exit(main())
