"""A fair shard of PyTorch's databases on the device: every op with some of its dtypes, in at most eight minutes.

`TRNSIM_UPSTREAM_SHARD` (default "0/3") chooses which; `python tests/upstream/run.py` runs all of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHARD = os.environ.get("TRNSIM_UPSTREAM_SHARD", "0/3")
DEVICE = os.environ.get("TRNSIM_TEST_DEVICE", "neuron")


def test_shard_equals_cpu(tmp_path):
    summary_file = tmp_path / "upstream.json"
    command = [sys.executable, str(HERE / "run.py"), "--device", DEVICE, "--shard", SHARD, "--jobs", "2"]
    command += ["--budget-seconds", "460", "--json", str(summary_file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert summary_file.exists(), done.stderr[-3000:]
    summary = json.loads(summary_file.read_text())
    print(done.stdout)
    assert summary["items_not_started"] == 0, "the shard did not fit into its time"
    passed = sum(t["passed"] for t in summary["totals"].values())
    assert passed > 1000
    assert not summary["unexpected"], done.stdout
    assert not summary["stale"], done.stdout
