"""Drive worker processes: hand out items, restart a worker that died or hung, and remember which case killed it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .cases import Item
from .worker import CRUMB_BYTES

MAX_DEATHS = 6  # deaths of one item before its remaining cases are given up
READY_SECONDS = 120.0

Result = dict[str, dict[str, object]]


@dataclass
class _Worker:
    """One child process and the pipe to it."""

    device: str
    samples: int
    seconds: float
    process: subprocess.Popen[str] | None = None
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="opcheck-")))

    @property
    def crumb(self) -> Path:
        return self.folder / "crumb"

    @property
    def errors(self) -> Path:
        return self.folder / "errors"

    def start(self) -> None:
        self.crumb.write_bytes(b"\0" * CRUMB_BYTES)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRNSIM_RNG": "cpu", "PYTHONWARNINGS": "ignore"}
        environment.setdefault("TRNSIM_FALLBACK", "allow")
        root = Path(__file__).resolve().parents[1]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")]))
        command = [sys.executable, "-m", "opcheck.worker", "--device", self.device, "--breadcrumb", str(self.crumb)]
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [*command, "--samples", str(self.samples)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1, env=environment,
            )  # fmt: skip
        if self._line(READY_SECONDS) is None:
            raise RuntimeError(f"the worker did not start:\n{self.errors.read_text()[-2000:]}")

    def ask(self, item: Item, skip: list[str]) -> Result | str:
        """The item's result, or what became of the process ("died of SIGSEGV", "took more than 120 s")."""
        if self.process is None or self.process.poll() is not None:
            self.start()
        assert self.process is not None and self.process.stdin is not None
        request = {"suite": item.suite, "name": item.name, "dtype": item.dtype, "skip": skip}
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        line = self._line(self.seconds)
        if line:
            return json.loads(line)  # type: ignore[no-any-return]
        if self.process.poll() is None and line is None:
            self.stop()
            return f"took more than {self.seconds:.0f} s"
        code = self.process.wait()
        self.process = None
        return f"died of {signal.Signals(-code).name}" if code < 0 else f"left with exit code {code}"

    def where(self) -> str:
        return self.crumb.read_bytes().rstrip(b"\0").decode()

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _line(self, seconds: float) -> str | None:
        """One line, "" at the end of the stream, None when the time is over."""
        assert self.process is not None and self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            return self.process.stdout.readline() if selector.select(seconds) else None


def run(
    items: list[Item], *, device: str, jobs: int, samples: int, seconds: float, until: float | None,
    report: Callable[[Item, Result], None],
) -> list[Item]:  # fmt: skip
    """Run the items on `jobs` workers. Returns those not started before the clock time `until` (time.monotonic)."""
    waiting: queue.SimpleQueue[Item] = queue.SimpleQueue()
    for item in items:
        waiting.put(item)
    left: list[Item] = []
    broken: list[Exception] = []
    lock = threading.Lock()

    def serve() -> None:
        worker = _Worker(device=device, samples=samples, seconds=seconds)
        try:
            while not broken:
                try:
                    item = waiting.get_nowait()
                except queue.Empty:
                    return
                if until is not None and time.monotonic() > until:
                    with lock:
                        left.append(item)
                    continue
                result = _run_one(worker, item)
                with lock:
                    report(item, result)
        except Exception as error:
            broken.append(error)
        finally:
            worker.close()

    threads = [threading.Thread(target=serve) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if broken:
        raise broken[0]
    return left


def _run_one(worker: _Worker, item: Item) -> Result:
    skip: list[str] = []
    fates: list[str] = []
    for _ in range(MAX_DEATHS):
        answer = worker.ask(item, skip)
        if not isinstance(answer, str):
            for fate, key in zip(fates, skip):
                failures = answer.get(key.split("/")[0], {}).get("failures", [])
                for failure in failures if isinstance(failures, list) else []:
                    if failure["kind"] == "crash":
                        failure["message"] = f"{fate} in {key}"
            return answer
        fates.append(answer)
        skip.append(worker.where())
    failure = {"kind": "crash", "message": f"{fates[-1]} in {', '.join(skip)}; gave up", "sample": ""}
    return {
        "forward": {
            "passed": 0,
            "failed": len(skip),
            "skipped": 0,
            "bit_equal": 0,
            "accepted": 0,
            "failures": [failure],
        }
    }
