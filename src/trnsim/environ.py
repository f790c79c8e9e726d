"""How the text of an environment variable becomes a value, and what a bad one says. The variables are in `config`."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from trnsim.errors import ConfigError, describe

__all__ = ["Kind", "Variable", "bad_value", "parse", "parse_choice"]

Kind = Literal["bool", "choice", "text", "path", "ops", "count", "cores"]

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


class Variable(NamedTuple):
    """One environment variable and the Options field it sets."""

    name: str
    field: str
    kind: Kind
    default: str
    meaning: str
    source: str
    choices: tuple[str, ...] = ()


def bad_value(name: str, seen: str, allowed: str, fix: str) -> ConfigError:
    """Return the error for a variable whose value is refused."""
    return ConfigError(describe(f"{name} has a value that is not allowed", seen=repr(seen), allowed=allowed, fix=fix))


def _bool(variable: Variable, text: str) -> bool:
    word = text.lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise bad_value(
        variable.name, text, "1, true, yes, on, 0, false, no, off", f"set {variable.name}=1 or 0, or unset it"
    )


def parse_choice(variable: Variable, text: str) -> str:
    """Return `text` if it is one of the variable's choices."""
    if text in variable.choices:
        return text
    allowed = ", ".join(variable.choices)
    default = f" (default {variable.default})" if variable.default else ""
    raise bad_value(
        variable.name, text, allowed + default, f"set {variable.name}={variable.choices[0]}, say, or unset it"
    )


def _count(variable: Variable, text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise bad_value(
        variable.name, text, "a whole number of at least 1", f"set {variable.name}=1, or unset it to see all cores"
    )


def _cores(variable: Variable, text: str) -> tuple[int, ...]:
    """Read `0`, `0-3`, `0,2` and mixtures; ranges include both ends."""
    fix = f"set {variable.name}=0-3, say, or unset it to see all cores"
    allowed = "core numbers and ascending ranges, each core once: 0 or 0-3 or 0,2"
    cores: list[int] = []
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        ends = (first, last) if dash else (first, first)
        if not all(end.isascii() and end.isdigit() and len(end) < 5 for end in ends) or int(ends[0]) > int(ends[1]):
            raise bad_value(variable.name, text, allowed, fix)
        cores.extend(range(int(ends[0]), int(ends[1]) + 1))
    if len(set(cores)) != len(cores):
        raise bad_value(variable.name, text, allowed, fix)
    return tuple(cores)


def _ops(variable: Variable, text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in names:
        if "::" not in name or " " in name:
            raise bad_value(
                variable.name, name, "operator names with namespace, separated by commas", "write aten::sort for sort"
            )
    return names


def _path(variable: Variable, text: str) -> str:
    from pathlib import Path

    path = Path(text).expanduser()
    try:
        usable = path.is_dir() or not path.exists()
    except OSError:  # the name is too long
        usable = False
    if not usable:
        raise bad_value(variable.name, text, "a directory, existing or to be made", "name a directory, or unset it")
    return str(path)


def parse(variable: Variable, text: str) -> Any:
    """Return the value of a variable that is set; raise ConfigError for one that is not allowed."""
    if variable.kind == "bool":
        return _bool(variable, text)
    if variable.kind == "choice":
        return parse_choice(variable, text)
    if variable.kind == "count":
        return _count(variable, text)
    if variable.kind == "cores":
        return _cores(variable, text)
    if variable.kind == "ops":
        return _ops(variable, text)
    return _path(variable, text) if variable.kind == "path" else text
