"""Assertions for tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from trnsim.ledger.session import Session, record


@contextlib.contextmanager
def assert_no_fallback(*, allow: tuple[str, ...] = ()) -> Iterator[Session]:
    """Fails with AssertionError if an operator fell back to the CPU in the block.

    ``allow`` names operators that may: ``"aten::sort"`` covers its overloads too.
    """
    with record() as session:
        yield session
    left = [
        stat
        for stat in session.fallbacks()
        if not any(stat.op == name or stat.op.startswith(name + ".") for name in allow)
    ]
    if left:
        lines = "\n".join(
            f"  {stat.op} x{stat.count} ({stat.reason}) at {stat.site or 'unknown line'}" for stat in left
        )
        raise AssertionError(
            f"{len(left)} operator(s) fell back to the CPU:\n{lines}\nAllow one with allow=('{left[0].op}',)."
        )
