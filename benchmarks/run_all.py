"""All figures, one after the other: python benchmarks/run_all.py [ops copy start ledger models]

Each prints its table and leaves JSON in build/benchmarks/. The exit code is the number of figures that miss their bar.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NAMES = ("start", "ops", "ledger", "copy", "models")


def main(names: list[str]) -> int:
    unknown = set(names) - set(NAMES)
    if unknown:
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    failed = {}
    for name in names or NAMES:  # a process each: no figure inherits another's memory or threads
        failed[name] = subprocess.run([sys.executable, str(FOLDER / f"bench_{name}.py")], check=False).returncode
    print("\nfigures that miss their bar: " + ", ".join(f"{name} {count}" for name, count in failed.items()))
    return sum(failed.values())


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 100))
