"""Each example runs as a script, chooses the device itself, and prints its result line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(p.stem for p in (ROOT / "examples").glob("*.py"))
DEVICE = os.environ.get("TRNSIM_TEST_DEVICE", "neuron")


@pytest.mark.parametrize("name", SCRIPTS)
def test_example_runs_as_a_script(name):
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    if DEVICE == "cpu":
        command += ["--device", "cpu"]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().splitlines()[-1].startswith(f"{name} on {DEVICE}")
