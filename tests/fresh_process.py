"""Fresh processes without the seconds of `import torch`: a server imports torch alone and forks for each script.

The device is not registered in the server (TORCH_DEVICE_BACKEND_AUTOLOAD=0), so a script registers it under its own
environment variables, just as after an import of its own.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import subprocess
import sys
import time
import traceback
from pathlib import Path


def child_environment() -> dict[str, str]:
    """The environment of a child process that imports the package under test, with one thread."""
    import trnsim

    source = Path(trnsim.__file__).resolve().parents[1]
    path = os.pathsep.join(part for part in (str(source), os.environ.get("PYTHONPATH", "")) if part)
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


class FreshProcesses:
    """Client of the server; one script at a time."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            env={**environment, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, script: Path, environment: dict[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
        """Runs the script; raises TimeoutExpired after `timeout` seconds."""
        assert self._server.stdin is not None and self._server.stdout is not None
        out, err = script.with_suffix(".out"), script.with_suffix(".err")
        job = {"script": str(script), "environment": environment, "out": str(out), "err": str(err), "timeout": timeout}
        self._server.stdin.write(json.dumps(job) + "\n")
        self._server.stdin.flush()
        code = json.loads(self._server.stdout.readline())
        if code is None:
            raise subprocess.TimeoutExpired(str(script), timeout, out.read_text(), err.read_text())
        return subprocess.CompletedProcess([str(script)], code, out.read_text(), err.read_text())

    def close(self) -> None:
        """Ends the server."""
        self._server.communicate()


def _child(job: dict[str, str]) -> None:
    for name, number in (("out", 1), ("err", 2)):
        os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.environ.update(job["environment"])
    del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
    code: object = 0
    try:
        runpy.run_path(job["script"], run_name="__main__")
    except SystemExit as leaving:
        code = leaving.code
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()  # os._exit does not; sys.exit would unwind into the server's loop
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _wait(pid: int, timeout: float) -> int | None:
    end = time.monotonic() + timeout
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            return None
        time.sleep(0.005)


def _serve() -> None:
    import torch  # noqa: F401  this is the point

    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _child(job)
        print(json.dumps(_wait(pid, job["timeout"])), flush=True)


if __name__ == "__main__":
    _serve()
