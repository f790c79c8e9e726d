"""Numbers as people read them."""

from __future__ import annotations

__all__ = ["bytes_text", "count_text", "percent_text", "time_text"]


def time_text(ns: int | float) -> str:
    """Nanoseconds: `850 ns`, `12.3 µs`, `4.56 ms`, `1.23 s`, `12.3 min`."""
    for unit, size in (("min", 60e9), ("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size * (2 if unit == "min" else 1):
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


def bytes_text(count: int) -> str:
    """Bytes in binary units: `512 B`, `1.5 KiB`, `23.4 GiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def count_text(count: int) -> str:
    """A number with its thousands apart."""
    return f"{count:,}"


def percent_text(share: float) -> str:
    """A share of 0 to 1; 100 % only when nothing is missing."""
    if 0.9995 <= share < 1:
        return "99.9 %"
    return f"{100 * share:.1f} %" if share < 1 else "100 %"
