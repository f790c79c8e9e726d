"""Run the stress program against a core built with ThreadSanitizer or AddressSanitizer.

    python tools/sanitize.py thread [--rounds 3] [--threads 8]
    python tools/sanitize.py address

Builds the instrumented core beside the plain one (``build/thread/site``), preloads the sanitizer's runtime into Python and
counts the reports that have a frame in our code. Python, torch and libgomp are not instrumented, so reports from within
them are noise (``tests/sanitizers/suppressions.*.txt``). Exit code 0: no finding and no wrong result.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "sanitizers"
RUNTIME: dict[str, str] = {"thread": "libtsan.so", "address": "libasan.so"}
Kind = Literal["thread", "address"]


def runtime_library(name: str) -> str:
    """Path of a runtime library of the compiler."""
    compiler = os.environ.get("CXX") or "g++"
    shown = subprocess.run([*compiler.split(), f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    path = Path(shown.stdout.strip())
    if not path.is_absolute():
        sys.exit(f"sanitize: {compiler} has no {name}; install the sanitizers of your compiler (gcc: libtsan, libasan)")
    return str(path.resolve())


def environment(kind: Kind, log: Path) -> dict[str, str]:
    """Variables for the instrumented run. Reports go to files ``log.<pid>``."""
    site = ROOT / "build" / kind / "site"
    preload = [runtime_library(RUNTIME[kind])]
    if kind == "address":
        preload.append(runtime_library("libstdc++.so"))  # else __cxa_throw is not intercepted before the first throw
    # History: the race detector keeps this many past accesses per thread, so that both stacks are shown.
    thread = f"suppressions={FOLDER}/suppressions.thread.txt:history_size=4:second_deadlock_stack=1"
    address = (
        "detect_leaks=0:detect_odr_violation=0:strict_init_order=0:alloc_dealloc_mismatch=0:allocator_may_return_null=1"
    )
    return os.environ | {
        "LD_PRELOAD": ":".join(preload),
        "PYTHONPATH": str(site),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",  # the installed package would load the plain core
        "PYTHONMALLOC": "malloc",
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
        "TSAN_OPTIONS": f"{thread}:exitcode=0:halt_on_error=0:log_path={log}",
        "ASAN_OPTIONS": f"{address}:exitcode=99:halt_on_error=1:log_path={log}",
    }


def reports(log: Path) -> list[str]:
    """The sanitizer's reports, one text each."""
    found: list[str] = []
    for path in sorted(log.parent.glob(f"{log.name}.*")):
        text = path.read_text(encoding="utf-8", errors="replace")
        parts = re.split(r"(?m)^(?==+\d*=*\s*(?:ERROR|WARNING)|WARNING: ThreadSanitizer)", text)
        found += [part for part in parts if "Sanitizer" in part]
    return found


def ours(report: str) -> str | None:
    """The first frames in our code, or None when there is none: then it is noise."""
    frames = re.findall(r"#\d+ (trnsim::[^\n]*?|[^\n]*csrc/[^\n]*)\n", report)
    return frames[0].strip() if frames else None


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("thread", "address"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--show", type=int, default=5, help="reports printed in full")
    options = parser.parse_args()
    builder = [sys.executable, str(ROOT / "tools" / "build_core.py")]
    subprocess.run(builder, env=os.environ | {"TRNSIM_SANITIZE": options.kind}, check=True)
    with tempfile.TemporaryDirectory(prefix="trnsim-sanitize-") as scratch:
        log = Path(scratch) / "log"
        program = [sys.executable, str(FOLDER / "stress.py"), str(options.rounds), str(options.threads)]
        # Position-independent mappings of newer kernels collide with the shadow memory: switch randomisation off.
        if options.kind == "thread":
            program = ["setarch", "-R", *program]
        status = subprocess.run(program, env=environment(options.kind, log), check=False).returncode
        all_reports = reports(log)
    findings = [(where, report) for report in all_reports if (where := ours(report)) is not None]
    for _, report in findings[: options.show]:
        print(report)
    for where, count in Counter(where for where, _ in findings).most_common():
        print(f"{count:5d} x {where}")
    print(
        f"{options.kind} sanitizer: {len(findings)} finding(s) in our code, {len(all_reports) - len(findings)} report(s) "
        f"elsewhere, exit code {status} of the stress program"
    )
    return 1 if findings or status != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
