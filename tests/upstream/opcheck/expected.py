"""The strict list of exceptions (expected.yaml): each entry must still fail, or the run fails."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

Triple = tuple[str, str, str, str]  # suite, op, variant, dtype


@dataclass(frozen=True, kw_only=True)
class Expected:
    """(suite, op, variant, dtype) -> reason."""

    reasons: dict[Triple, str]

    def stale(self, ran: set[Triple], failed: set[Triple]) -> list[Triple]:
        """Entries whose samples all ran and passed."""
        return sorted(t for t in self.reasons if t in ran and t not in failed)


def load(path: Path) -> Expected:
    """Read the list. An entry names `op`, `variant`, `dtype` (each one or a list), a `reason`, and a `suite` (default "op")."""
    entries: list[dict[str, Any]] = yaml.safe_load(path.read_text()) or []
    reasons: dict[Triple, str] = {}
    for entry in entries:
        unknown = set(entry) - {"suite", "op", "variant", "dtype", "reason"}
        missing = {"op", "variant", "dtype", "reason"} - set(entry)
        if unknown or missing or not str(entry["reason"]).strip():
            raise ValueError(f"{path.name}: entry {entry}: unknown keys {sorted(unknown)}, missing {sorted(missing)}")
        suites = _many(entry.get("suite", "op"))
        for triple in itertools.product(suites, _many(entry["op"]), _many(entry["variant"]), _many(entry["dtype"])):
            if triple in reasons:
                raise ValueError(f"{path.name}: {triple} stands twice")
            reasons[triple] = entry["reason"]
    return Expected(reasons=reasons)


def _many(value: object) -> list[str]:
    return [str(v) for v in value] if isinstance(value, list) else [str(value)]
