"""Makes docs/images/check.svg: the report of `trnsim check` on an example, as the terminal shows it.

    python tools/make_screenshot.py [examples/resnet.py]

The example really runs, with an empty executable cache; nothing is edited afterwards.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "images" / "check.svg"


def main(script: str) -> None:
    """Run the script under the check and write the picture of its report."""
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCH_NEURONX_NEFF_CACHE_DIR"] = cache
        from rich._export_format import CONSOLE_SVG_FORMAT
        from rich.console import Console

        from trnsim import eager
        from trnsim.check.render import render
        from trnsim.check.run import Target, check

        report = check(Target(name=script, arguments=(), module=False, from_cuda=False), progress_s=0)
        eager.cache().flush()
    console = Console(record=True, width=150, file=io.StringIO(), force_terminal=True, highlight=False)
    render(report, console)
    # No fonts from other hosts: the reader's monospace serves.
    local = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    TARGET.parent.mkdir(exist_ok=True)
    svg = console.export_svg(title=f"trnsim check {script}", code_format=local, unique_id="check")
    TARGET.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "examples/resnet.py")
