"""Fork: refused after the device was used, with advice; spawn works; a fork before first use works."""

from __future__ import annotations

import os
from pathlib import Path

import torch

CHILD = """
import os, sys
{before}
pid = os.fork()
if pid == 0:
    try:
        {child}
        os._exit(0)
    except BaseException as error:
        print(type(error).__name__, error, flush=True)
        os._exit(7)
_, status = os.waitpid(pid, 0)
print("exit", os.waitstatus_to_exitcode(status))
"""


def test_refused_after_use(run_python):
    done = run_python(CHILD.format(before="torch.ones(1, device='neuron')", child="torch.ones(1, device='neuron')"))
    assert "RuntimeError" in done.stdout and "forked" in done.stdout and "spawn" in done.stdout
    assert "exit 7" in done.stdout


def test_old_tensors_are_refused_in_the_child_too(run_python):
    done = run_python(CHILD.format(before="x = torch.ones(1, device='neuron')", child="x.add(1)"))
    assert "spawn" in done.stdout and "exit 7" in done.stdout


def test_copies_and_reads_are_refused_in_the_child(run_python):
    for child in ("x.cpu()", "torch.ones(3).to('neuron')", "x.item()"):
        done = run_python(CHILD.format(before="x = torch.ones(1, device='neuron')", child=child))
        assert "spawn" in done.stdout, child


def test_parent_goes_on(run_python):
    done = run_python(
        CHILD.format(before="x = torch.ones(1, device='neuron')", child="pass") + "\nprint('sum', x.add(1).item())"
    )
    assert "exit 0" in done.stdout and "sum 2.0" in done.stdout


def test_allowed_before_use(run_python):
    done = run_python(
        CHILD.format(before="torch.neuron.device_count()", child="print(torch.ones(1, device='neuron').item())")
    )
    assert "1.0" in done.stdout and "exit 0" in done.stdout


def test_cpu_work_in_the_child_is_fine(run_python):
    done = run_python(CHILD.format(before="torch.ones(1, device='neuron')", child="print(torch.ones(2).sum().item())"))
    assert "2.0" in done.stdout and "exit 0" in done.stdout


def test_child_is_told_by_the_module(run_python):
    done = run_python(
        CHILD.format(before="torch.ones(1, device='neuron')", child="print('bad fork', torch.neuron._is_in_bad_fork())")
    )
    assert "bad fork True" in done.stdout


def test_spawn_works(run_python, tmp_path: Path):
    done = run_python(
        """
        import torch.multiprocessing as mp

        def work(index):
            print(index, torch.full((2,), float(index), device="neuron").sum().item(), flush=True)

        if __name__ == "__main__":
            torch.ones(1, device="neuron")
            mp.spawn(work, nprocs=2)
        """,
        timeout=80,
    )
    assert sorted(done.stdout.split("\n"))[1:] == ["0 0.0", "1 2.0"]


def test_fork_of_a_subprocess_is_not_a_fork_of_the_device():
    import subprocess
    import sys

    torch.ones(1, device="neuron")
    assert subprocess.run([sys.executable, "-c", "pass"], check=False, env=os.environ).returncode == 0
