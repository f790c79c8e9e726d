"""Makes the pages of docs/ that follow from code: docs/walkthrough/ and the list of names in docs/device.md.

python tools/make_docs.py            # write
python tools/make_docs.py --check    # exit 1 and name the pages that are not current
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
BEGIN, END = "<!-- begin: made by tools/make_docs.py -->", "<!-- end -->"


def _first_sentence(value: object) -> str:
    """Return the first paragraph's first line of a docstring, in Markdown."""
    text = inspect.getdoc(value) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence = paragraph.split(". ")[0].rstrip(".")
    return sentence.replace("``", "`").replace("|", "\\|")


def _signature(name: str, value: object) -> str:
    """Return `name(parameters)` without annotations; the name alone for what is no function."""
    if not inspect.isfunction(value):
        return name
    parts = []
    for parameter in inspect.signature(value).parameters.values():
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        parts.append(f"{str(parameter).partition(parameter.name)[0]}{parameter.name}{default}")
    return f"{name}({', '.join(parts)})"


def api_table() -> str:
    """The names of torch.neuron, each with the first sentence of its docstring."""
    from trnsim import device

    rows = ["| name | what it does |", "|---|---|"]
    for name in sorted(device.__all__, key=str.lower):
        value = getattr(device, name)
        described = value if callable(value) or inspect.ismodule(value) else type(value)
        rows.append(f"| `{_signature(name, value)}` | {_first_sentence(described)} |")
    return "\n".join(rows)


def device_page() -> str:
    """docs/device.md with its table made anew; the prose around it is written by hand."""
    text = (DOCS / "device.md").read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{api_table()}\n{END}{after}"


def _title(test: Path) -> tuple[str, str, str]:
    """Split a walkthrough test into (title, rest of its docstring, code)."""
    source = test.read_text(encoding="utf-8")
    module = ast.parse(source)
    title, _, rest = (ast.get_docstring(module) or test.stem).partition("\n")
    end = module.body[0].end_lineno or 1
    return title.strip(), rest.strip(), "\n".join(source.splitlines()[end:]).strip()


def walkthrough_pages() -> dict[Path, str]:
    """One page for each walkthrough test, and the list of them."""
    pages: dict[Path, str] = {}
    entries = []
    for test in sorted((ROOT / "tests" / "walkthrough").glob("test_*.py")):
        title, rest, code = _title(test)
        name = f"{test.stem.removeprefix('test_')}.md"
        entries.append(f"- [{title}]({name})")
        note = f"<!-- Made by tools/make_docs.py from tests/walkthrough/{test.name}. Do not edit. -->"
        run = f"Run it: `python -m pytest tests/walkthrough/{test.name}`"
        parts = [note, f"# {title}", *([rest] if rest else []), f"```python\n{code}\n```", run]
        pages[DOCS / "walkthrough" / name] = "\n\n".join(parts) + "\n"
    note = "<!-- Made by tools/make_docs.py. Do not edit. -->"
    intro = "Tests that read as a tutorial, in order. What they assert holds, since they run in CI."
    pages[DOCS / "walkthrough" / "index.md"] = "\n\n".join([note, "# Walkthrough", intro, "\n".join(entries)]) + "\n"
    return pages


def pages() -> dict[Path, str]:
    """Every page this tool makes, with its text."""
    return {**walkthrough_pages(), DOCS / "device.md": device_page()}


def stale(made: dict[Path, str]) -> list[Path]:
    """Pages that differ from what the code says, or that no test stands behind any more."""
    differ = [path for path, text in made.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    return differ + [path for path in (DOCS / "walkthrough").glob("*.md") if path not in made]


def main() -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is not current")
    check = parser.parse_args().check
    made = pages()
    for path in stale(made):
        if check:
            print(f"{path.relative_to(ROOT)} is not current: run `make docs`", file=sys.stderr)
        elif path in made:
            path.parent.mkdir(exist_ok=True)
            path.write_text(made[path], encoding="utf-8")
        else:
            path.unlink()
    return 1 if check and stale(made) else 0


if __name__ == "__main__":
    sys.exit(main())
