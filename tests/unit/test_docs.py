"""The documentation holds: generated pages are current, links lead somewhere, code blocks run."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md"))
)
# The walkthrough's code runs as tests/walkthrough; README and docs share one process, a namespace for each page.
RUNNABLE = [path for path in PAGES if path.parent != DOCS / "walkthrough"]

RUNNER = """
import json, sys
for page, blocks in json.load(sys.stdin).items():
    namespace = {"__name__": "__page__"}
    for line, code in blocks:
        exec(compile("\\n" * line + code, page, "exec"), namespace)
"""


def run(*command, **options):
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=300, **options)


def blocks(path):
    """(lines before it, code) of each ```python block."""
    text = path.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start(1)), match[1])
        for match in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S)
    ]


def anchors(path):
    """The anchors of a page's headings, as the usual Markdown viewers make them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_generated_pages_are_current():
    result = run("tools/make_docs.py", "--check")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("module", "page"), [("trnsim.config", "environment.md"), ("trnsim.eager.capability", "capability.md")]
)
def test_pages_made_from_data_are_current(module, page):
    result = run("-m", module)
    assert result.returncode == 0, result.stderr
    assert result.stdout == (DOCS / page).read_text(encoding="utf-8"), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    text = re.sub(r"`[^`\n]*`", "", text)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), f"{page.name}: {target}"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path), f"{page.name}: {target}"


def test_every_page_is_in_the_index():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert [path.name for path in DOCS.glob("*.md") if path.name != "index.md" and f"({path.name})" not in index] == []


def test_code_blocks_run():
    code = {str(path.relative_to(ROOT)): blocks(path) for path in RUNNABLE}
    assert sum(map(len, code.values())) >= 10
    result = run("-W", "ignore", "-c", RUNNER, input=json.dumps(code))
    assert result.returncode == 0, result.stderr
