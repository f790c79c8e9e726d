"""Run a user's script, unmodified, in this process, under the ledger.

The script gets what `python SCRIPT` would give it: `sys.argv`, its folder first on `sys.path`, the name `__main__`. It may
end as it likes: by returning, `sys.exit`, an exception or ctrl-C; the report is made all the same.
"""

from __future__ import annotations

import contextlib
import os
import platform
import runpy
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import torch

import trnsim
from trnsim import _C, eager, ledger
from trnsim._clock import settled_ns
from trnsim.check import collect
from trnsim.check.from_cuda import from_cuda as translated_cuda
from trnsim.check.modules import track_modules
from trnsim.check.progress import show_progress
from trnsim.check.report import Failure, Host, Report, Script, Status
from trnsim.check.steps import watch_steps
from trnsim.errors import DeviceError

__all__ = ["Target", "check"]


_NOT_THE_USERS = tuple(str(Path(package.__path__[0])) + os.sep for package in (torch, trnsim))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What to run: a file, or with `module` a module's name, and its arguments."""

    name: str
    arguments: tuple[str, ...] = ()
    module: bool = False
    from_cuda: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    status: Status
    exit_code: int
    failure: Failure | None = None


@contextlib.contextmanager
def _as_main(target: Target) -> Iterator[None]:
    """`sys.argv` and `sys.path` as the script expects them."""
    argv, path = sys.argv, sys.path[:]
    first = str(Path.cwd()) if target.module else str(Path(target.name).resolve().parent)
    sys.argv = [target.name, *target.arguments]
    sys.path.insert(0, first)
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path


def _user_frames(start: TracebackType | None) -> TracebackType | None:
    """The traceback without our own frames and runpy's, which come first."""
    tb = start
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        if file != __file__ and "runpy" not in file:
            return tb
        tb = tb.tb_next
    return None


def _failed(error: BaseException) -> _Outcome:
    """Print the script's traceback, as Python would, and keep its innermost line outside PyTorch and us."""
    tb = _user_frames(error.__traceback__)
    traceback.print_exception(type(error), error, tb)
    frames = traceback.extract_tb(tb)
    own = [frame for frame in frames if not frame.filename.startswith(_NOT_THE_USERS)] or frames
    file, line = (own[-1].filename, own[-1].lineno or 0) if own else ("", 0)
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno or 0
    failure = Failure(type=type(error).__name__, message=str(error), file=file, line=line)
    if isinstance(error, KeyboardInterrupt):
        return _Outcome(status="interrupted", exit_code=130, failure=failure)
    return _Outcome(status="error", exit_code=1, failure=failure)


def _exited(error: SystemExit) -> _Outcome:
    """`sys.exit(x)`: nothing or 0 is success, a number is the code, anything else is printed and means 1."""
    if error.code is None or error.code == 0:
        return _Outcome(status="ok", exit_code=0)
    code = error.code if isinstance(error.code, int) else 1
    if not isinstance(error.code, int):
        print(error.code, file=sys.stderr)
    return _Outcome(status="error", exit_code=code)


def _join_threads() -> None:
    """Python waits for a script's threads before it ends; so does the report."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _execute(target: Target) -> _Outcome:
    with _as_main(target):
        try:
            if target.module:
                runpy.run_module(target.name, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(target.name, run_name="__main__")
            _join_threads()
        except SystemExit as error:
            return _exited(error)
        except BaseException as error:  # KeyboardInterrupt included: the report is still wanted
            return _failed(error)
        finally:
            sys.stdout.flush()
    return _Outcome(status="ok", exit_code=0)


def _host() -> Host:
    return Host(
        trnsim=trnsim.__version__,
        torch=torch.__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        cpu_count=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
    )


def check(target: Target, *, progress_s: float) -> Report:
    """Run the script and report. `progress_s` is the time between lines of progress on stderr, in seconds; 0 for none."""
    trnsim._autoload()  # `import torch` did so, unless the autoload of backends is off
    if not _C.device_count():
        raise DeviceError("trnsim check needs trnsim's device, and it stepped aside: torch-neuronx is installed here")
    started = time.perf_counter()
    compiled_before = len(eager.compile_records())
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(ledger.record())
        stack.enter_context(track_modules())
        marks = stack.enter_context(watch_steps(settled_ns))
        if target.from_cuda:
            stack.enter_context(translated_cuda())
        with show_progress(session, marks, every_s=progress_s):
            outcome = _execute(target)
    script = Script(
        path=target.name,
        arguments=target.arguments,
        from_cuda=target.from_cuda,
        status=outcome.status,
        exit_code=outcome.exit_code,
        failure=outcome.failure,
        wall_s=round(time.perf_counter() - started, 3),
    )
    return collect.report(
        session, marks.times(), eager.compile_records()[compiled_before:], script=script, host=_host()
    )
