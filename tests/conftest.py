"""What all tests share: the device is registered, each test starts on device 0's default stream, subprocesses see it too."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

# Before torch: the options are read once, when the device is registered.
if "TORCH_NEURONX_NEFF_CACHE_DIR" not in os.environ:
    _cache = tempfile.mkdtemp(prefix="trnsim-neff-")
    os.environ["TORCH_NEURONX_NEFF_CACHE_DIR"] = _cache
    atexit.register(shutil.rmtree, _cache, ignore_errors=True)  # runs after the cache's own last write

import pytest
import torch
from fresh_process import FreshProcesses, child_environment

import trnsim

trnsim._autoload()

PREAMBLE = "import trnsim, torch\ntrnsim._autoload()\n"


@pytest.fixture(autouse=True)
def _clean_state() -> Iterator[None]:
    """No test may leave another current device, stream, default device or autocast state behind."""
    torch.neuron.set_device(0)
    yield
    assert torch.neuron.current_device() == 0, "the test left another device current"
    assert torch.neuron.current_stream(0).stream_id == 0, "the test left another stream current"
    assert not torch.is_autocast_enabled("neuron"), "the test left autocast on"
    assert torch.get_default_device().type == "cpu", "the test left another default device"


@pytest.fixture(scope="session")
def _fresh_processes() -> Iterator[FreshProcesses]:
    server = FreshProcesses(child_environment())
    yield server
    server.close()


@pytest.fixture
def run_python(tmp_path: Path, _fresh_processes: FreshProcesses) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`run_python(code, **environment)` runs a script in a fresh process with the device registered.

    A non-zero exit fails the test unless `check=False`. `preamble=""` leaves the registration to the code;
    `whole=True` starts an interpreter of its own, for what concerns the import of torch.
    """

    def run(
        code: str,
        *,
        check: bool = True,
        preamble: str = PREAMBLE,
        timeout: float = 90,
        whole: bool = False,
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "script.py"
        script.write_text(preamble + textwrap.dedent(code))
        if whole:
            done = subprocess.run(
                [sys.executable, str(script)],
                env={**child_environment(), **environment},
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        else:
            done = _fresh_processes.run(script, environment, timeout)
        if check:
            assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run
