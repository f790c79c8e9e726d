"""`trnsim check` as a user runs it: a command, a script, a summary and a JSON file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import trnsim

SOURCE = Path(trnsim.__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}

TRAIN = """
    import sys
    import torch

    assert __name__ == "__main__"
    device = sys.argv[1]
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(4):
        x = torch.randn(32, 64).to(device)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.linalg.eigvalsh(torch.eye(4, device=device))  # falls back
        print("loss", loss.item())  # waits
"""

CUDA = """
    import torch
    import torch.utils.checkpoint

    assert torch.cuda.is_available() and torch.cuda.device_count() > 0
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    assert device.type == "cuda"
    torch.cuda.set_device(device)
    torch.cuda.manual_seed_all(1)
    generator = torch.Generator(device="cuda").manual_seed(3)
    assert isinstance(generator, torch.Generator) and isinstance(torch.default_generator, torch.Generator)
    model = torch.nn.Linear(16, 4).cuda()
    scaler = torch.amp.GradScaler("cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(0)).cuda(non_blocking=True)
    assert x.is_cuda and x.device.type == "neuron"
    with torch.autocast("cuda", dtype=torch.bfloat16):
        y = model(x)
    assert y.dtype is torch.bfloat16
    with torch.cuda.amp.autocast():
        assert model(x).dtype is torch.float16
    scaler.scale(y.float().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
    with torch.device("cuda"):
        assert torch.zeros(2).is_cuda
    torch.set_default_device("cuda")
    assert torch.zeros(2).is_cuda
    torch.set_default_device("cpu")
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.ones(2, device="cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    data = torch.utils.data.TensorDataset(torch.randn(8, 16))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True):
        torch.utils.checkpoint.checkpoint(model, batch.to(device), use_reentrant=False).sum().backward()
    end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) > 0
    with torch.cuda.device("cuda:1"):
        assert torch.cuda.current_device() == 1
    assert isinstance(torch.cuda.current_stream(), torch.cuda.Stream)
    torch.cuda.set_rng_state(torch.cuda.get_rng_state("cuda:0"), "cuda")
    with torch.random.fork_rng(devices=[0], device_type="cuda"):
        assert torch.rand(2, generator=torch.Generator("cuda:1"), device="cuda:1").device.index == 1
    torch.save(model.state_dict(), "model.pt")
    model.load_state_dict(torch.load("model.pt", map_location="cuda"))
    assert torch.cuda.memory_allocated() > 0 and torch.cuda.max_memory_allocated("cuda:0") > 0
    assert torch.cuda.get_device_capability() >= (8, 0)
    print("all", "cuda" in str(device))
"""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What the command left."""

    code: int
    out: str
    err: str
    report: dict[str, Any]


def write(folder: Path, source: str, name: str = "script.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "trnsim.cli.main", "check", *arguments]


def check(folder: Path, *arguments: str, **environment: str) -> Checked:
    done = subprocess.run(
        command("--json", "report.json", *arguments),
        cwd=folder,
        env={**ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    path = folder / "report.json"
    report = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return Checked(code=done.returncode, out=done.stdout, err=done.stderr, report=report)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    folder = tmp_path_factory.mktemp("trained")
    write(folder, TRAIN)
    return check(folder, "--progress", "0", "script.py", "neuron")


class TestPlainScript:
    def test_runs_and_leaves_the_scripts_output_alone(self, trained: Checked) -> None:
        assert trained.code == 0, trained.err
        assert [line.split()[0] for line in trained.out.splitlines()] == ["loss"] * 4

    def test_summary_names_the_findings(self, trained: Checked) -> None:
        for text in ("on the device", "predicted", "memory", "eager compiles", "Fallbacks to the CPU", "script.py:16"):
            assert text in trained.err

    def test_json_has_the_promised_keys(self, trained: Checked) -> None:
        promised = "schema_version chip instance lnc script ops fallbacks syncs casts compiles memory predicted host"
        assert set(promised.split()) <= set(trained.report)
        assert trained.report["schema_version"] == 1
        assert (trained.report["instance"], trained.report["lnc"]) == ("trn2.3xlarge", 2)
        assert trained.report["script"]["arguments"] == ["neuron"]
        assert set(trained.report["host"]) == {"trnsim", "torch", "python", "platform", "cpu_count", "threads"}

    def test_shares_add_up(self, trained: Checked) -> None:
        ops = trained.report["ops"]
        assert ops["count"] == ops["native"] + ops["fallback"] == sum(op["count"] for op in ops["by_op"])
        assert 0 < ops["native_share"] < 1
        assert 0 < ops["native_time_share"] < 1

    def test_fallbacks_by_line_with_a_remedy(self, trained: Checked) -> None:
        entry = next(e for e in trained.report["fallbacks"] if "eig" in e["op"])
        assert Path(entry["site"]["file"]).name == "script.py"
        assert entry["site"]["line"] == 16
        assert entry["count"] == 4
        assert entry["cost_ns"] > 0
        assert entry["remedy"]

    def test_hidden_waits_by_line(self, trained: Checked) -> None:
        lines = {entry["site"]["line"] for entry in trained.report["syncs"]}
        assert 17 in lines

    def test_steps_end_at_the_optimizer(self, trained: Checked) -> None:
        predicted = trained.report["predicted"]
        assert (predicted["steps"], predicted["step_source"]) == (4, "optimizer.step")
        assert 0 < predicted["step_ns"] <= predicted["total_ns"]
        assert 0 < predicted["device_busy_ns"] <= predicted["total_ns"]

    def test_memory_against_capacity(self, trained: Checked) -> None:
        memory = trained.report["memory"]
        assert 0 < memory["peak_allocated_bytes"] <= memory["peak_reserved_bytes"] < memory["capacity_bytes"]
        assert memory["capacity_bytes"] == 24 * 2**30

    def test_prediction_is_the_same_again(self, trained: Checked, tmp_path: Path) -> None:
        write(tmp_path, TRAIN)
        again = check(tmp_path, "script.py", "neuron")
        first, second = dict(trained.report["predicted"]), dict(again.report["predicted"])
        assert first["step_ns"] == second["step_ns"]


class TestCompiles:
    def test_second_process_finds_the_executables(self, tmp_path: Path) -> None:
        write(tmp_path, "import torch; torch.ones(7, device='neuron').add(1).mul(2)")
        cache = {"TORCH_NEURONX_NEFF_CACHE_DIR": str(tmp_path / "neff")}
        first = check(tmp_path, "script.py", **cache).report["compiles"]
        second = check(tmp_path, "script.py", **cache).report["compiles"]
        assert first["compiled"] > 0
        assert first["hits"] == 0
        assert second == {"compiled": 0, "hits": first["compiled"], "compile_ns": 0}


class TestModules:
    def test_module_path_of_a_fallback(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            """
            import torch

            class Block(torch.nn.Module):
                def forward(self, x):
                    return torch.linalg.eigvalsh(x)

            class Net(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.blocks = torch.nn.ModuleList([Block(), Block()])

                def forward(self, x):
                    for block in self.blocks:
                        block(x)

            Net()(torch.eye(3, device="neuron"))
            """,
        )
        done = check(tmp_path, "script.py")
        assert done.code == 0, done.err
        modules = {entry["site"]["module"] for entry in done.report["fallbacks"]}
        assert modules == {"blocks.0", "blocks.1"}

    def test_run_of_a_module_by_name(self, tmp_path: Path) -> None:
        (tmp_path / "pkg").mkdir()
        write(tmp_path / "pkg", "", "__init__.py")
        write(tmp_path / "pkg", "import sys, torch; torch.ones(2, device='neuron'); print(sys.argv[1:])", "go.py")
        done = check(tmp_path, "-m", "pkg.go", "--flag", "--json", "x")
        assert done.code == 0, done.err
        assert done.out == "['--flag', '--json', 'x']\n"


class TestMachine:
    def test_options_choose_it(self, tmp_path: Path) -> None:
        write(tmp_path, "import torch; print(torch.neuron.device_count())")
        done = check(tmp_path, "--instance", "trn2.48xlarge", "script.py")
        assert (done.code, done.out) == (0, "64\n"), done.err
        assert (done.report["chip"], done.report["instance"], done.report["lnc"]) == ("trn2", "trn2.48xlarge", 2)

    def test_one_physical_core_a_device(self, tmp_path: Path) -> None:
        write(tmp_path, "import torch; print(torch.neuron.device_count())")
        done = check(tmp_path, "--chip", "trn2", "--lnc", "1", "script.py")
        assert (done.code, done.out) == (0, "8\n"), done.err
        assert (done.report["instance"], done.report["memory"]["capacity_bytes"]) == ("trn2.3xlarge", 12 * 2**30)

    def test_unknown_instance_is_wrong_use(self, tmp_path: Path) -> None:
        write(tmp_path, "print('never')")
        done = check(tmp_path, "--instance", "p5.48xlarge", "script.py")
        assert done.code == 2
        assert "p5.48xlarge" in done.err
        assert "trn2.48xlarge" in done.err
        assert "Traceback" not in done.err
        assert "never" not in done.out

    def test_missing_script_is_wrong_use(self, tmp_path: Path) -> None:
        done = check(tmp_path, "nothing.py")
        assert done.code == 2
        assert "no file 'nothing.py'" in done.err


class TestFromCuda:
    def test_cuda_script_runs_on_neuron(self, tmp_path: Path) -> None:
        write(tmp_path, CUDA)
        done = check(tmp_path, "--from-cuda", "script.py")
        assert done.code == 0, done.err
        assert done.out == "all True\n"
        assert done.report["script"]["from_cuda"] is True
        assert done.report["ops"]["count"] > 0

    def test_threads_are_translated_too(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            """
            import threading, torch
            seen = []
            thread = threading.Thread(target=lambda: seen.append(torch.ones(2, device="cuda").device.type))
            thread.start(); thread.join()
            print(seen)
            """,
        )
        done = check(tmp_path, "--from-cuda", "script.py")
        assert done.out == "['neuron']\n", done.err

    def test_without_the_option_it_fails_as_on_a_cpu_machine(self, tmp_path: Path) -> None:
        write(tmp_path, 'import torch\ntorch.ones(2, device="cuda")\n')
        done = check(tmp_path, "script.py")
        assert done.code == 1
        assert done.report["script"]["failure"]["line"] == 2
        assert "check it with --from-cuda" in done.err

    def test_everything_is_put_back(self) -> None:
        import torch

        from trnsim.check.from_cuda import from_cuda

        names = ("is_available", "Stream", "synchronize", "manual_seed_all", "get_device_capability")
        before = [getattr(torch.cuda, name) for name in names], torch.Generator, torch.load, torch.autocast.__init__
        with from_cuda():
            assert torch.cuda.is_available()
        after = [getattr(torch.cuda, name) for name in names], torch.Generator, torch.load, torch.autocast.__init__
        assert before == after
        assert not torch.cuda.is_available()


class TestEndings:
    def test_crash_still_reports(self, tmp_path: Path) -> None:
        write(tmp_path, 'import torch\nx = torch.ones(4, device="neuron") + 1\nraise ValueError("broken")\n')
        done = check(tmp_path, "script.py")
        assert done.code == 1
        script = done.report["script"]
        assert (script["status"], script["exit_code"]) == ("error", 1)
        assert script["failure"]["type"] == "ValueError"
        assert script["failure"]["message"] == "broken"
        assert script["failure"]["line"] == 3
        assert done.report["ops"]["count"] > 0
        assert "ValueError: broken" in done.err
        assert "runpy" not in done.err  # the traceback begins in the script

    @pytest.mark.parametrize(("value", "code", "status"), [("0", 0, "ok"), ("3", 3, "error"), ("'bye'", 1, "error")])
    def test_sys_exit(self, tmp_path: Path, value: str, code: int, status: str) -> None:
        write(tmp_path, f"import sys, torch; torch.ones(2, device='neuron'); sys.exit({value})")
        done = check(tmp_path, "script.py")
        assert done.code == (0 if code == 0 else 1)
        assert (done.report["script"]["exit_code"], done.report["script"]["status"]) == (code, status)

    def test_ctrl_c_still_reports(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            """
            import time, torch
            x = torch.ones(4, device="neuron")
            print("ready", flush=True)
            for _ in range(6000):
                x = x + 1
                time.sleep(0.01)
            """,
        )
        process = subprocess.Popen(
            command("--json", "report.json", "--progress", "0.2", "script.py"),
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A job in the background of a script inherits an ignored SIGINT; a user's terminal does not ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.7)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
        assert report["script"]["status"] == "interrupted"
        assert report["ops"]["count"] > 1
        assert "interrupted after" in err
        assert "trnsim check: 0 s" in err  # progress while it ran


class TestWhatANewcomerMeets:
    def test_a_script_that_never_reaches_the_device_is_told_so(self, tmp_path: Path) -> None:
        write(tmp_path, "import torch; print(torch.ones(2).sum())")
        checked = check(tmp_path, "script.py")
        assert checked.code == 0 and "no op ran on neuron" in checked.err and "--from-cuda" in checked.err

    def test_threads_of_the_script_are_waited_for(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            """
            import threading, time, torch

            def late():
                time.sleep(0.3)
                torch.sort(torch.ones(3, device="neuron"))

            threading.Thread(target=late).start()
            """,
        )
        checked = check(tmp_path, "script.py")
        assert [entry["op"] for entry in checked.report["fallbacks"]] == ["aten::sort.stable"]

    def test_a_syntax_error_is_placed_in_the_script(self, tmp_path: Path) -> None:
        write(tmp_path, "x = 1\ny = (")
        checked = check(tmp_path, "script.py")
        assert checked.code == 1 and "script.py:2" in checked.err and "runpy" not in checked.err

    def test_a_missing_module_is_wrong_use(self, tmp_path: Path) -> None:
        for name in ("nopkg", "nopkg.inner"):
            checked = check(tmp_path, "-m", name)
            assert checked.code == 2 and f"no module named '{name}'" in checked.err and "Traceback" not in checked.err

    def test_a_script_that_compiles_runs_as_without_check(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            """
            import torch

            model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).to("neuron")
            step = torch.compile(model)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(2):
                optimizer.zero_grad()
                step(torch.ones(2, 3, device="neuron")).sum().backward()
                optimizer.step()
            """,
        )
        checked = check(tmp_path, "script.py")
        assert checked.code == 0, checked.err
        assert checked.report["ops"]["count"] > 10 and checked.report["predicted"]["steps"] == 2
