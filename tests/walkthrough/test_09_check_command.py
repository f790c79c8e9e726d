"""9. `trnsim check script.py`: run a program unmodified, read what would happen on the device."""

import json

import pytest

SCRIPT = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(8, 16).to("cuda")
for step in range(3):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
model(x).sort()
"""


@pytest.fixture
def report(tmp_path, run_python):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    arguments = ["trnsim", "check", "--from-cuda", "--json", str(tmp_path / "report.json"), str(script)]
    done = run_python(f"import sys; sys.argv = {arguments}\nfrom trnsim.cli.main import main\nmain()", preamble="")
    assert "aten::sort" in done.stderr  # the summary for people; the script's own output is on stdout
    assert done.stdout.startswith("0 ")
    return json.loads((tmp_path / "report.json").read_text())


def test_the_report_tells_the_story(report):
    assert report["script"]["status"] == "ok"
    assert 0.9 < report["ops"]["native_share"] < 1
    (fallback,) = [entry for entry in report["fallbacks"] if "sort" in entry["op"]]
    assert fallback["site"]["file"].endswith("train.py") and fallback["site"]["line"] == 14 and fallback["remedy"]
    waits = [entry for entry in report["syncs"] if entry["kind"] == "item"]
    assert waits[0]["site"]["line"] == 13 and waits[0]["count"] == 3
    assert report["schema_version"] == 1
