"""Build the C++ core: ``csrc/*.cpp`` -> ``src/trnsim/_C.so``.

A plain script. It imports neither torch nor anything of this project, so that a call with nothing to do takes under
0.2 s; ``setup.py`` calls the same functions. The work is done by ninja from ``build/build.ninja``, which is written anew
on each call (ninja itself rebuilds what has another command line).

    python tools/build_core.py              build what changed
    python tools/build_core.py --clean      drop the objects first
    TRNSIM_SANITIZE=thread python tools/build_core.py

An instrumented build (``thread`` or ``address``) leaves ``src/trnsim/_C.so`` alone. It makes
``build/thread/site/trnsim``, the package by links with an instrumented core; put that folder on PYTHONPATH to use it.

Environment: ``CXX`` (default g++), ``MAX_JOBS`` (default 2), ``TRNSIM_SANITIZE``, ``TRNSIM_PCH=0`` (no precompiled header),
``TRNSIM_CXXFLAGS`` (appended to the compiler's flags).
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

TORCH_VERSION = "2.13.0"
TORCH_LIBRARIES = ("torch_python", "torch", "torch_cpu", "c10")
SANITIZERS = ("thread", "address")
# Compiled once, in 17 s: a file of the core then takes 2 s instead of 8 s. Wider headers make it slower: with torch/library.h
# or pybind11 in it each file instantiates their templates (6 s); torch/extension.h costs 14 s a file, even precompiled.
PRECOMPILED = "#include <ATen/ATen.h>\n"


class BuildError(Exception):
    """The build cannot start or has failed; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Torch:
    """An installed torch: its package folder and full version (``2.13.0+cpu``)."""

    root: Path
    version: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that one build depends on."""

    project: Path
    torch: Torch
    cxx: str
    sanitize: str | None
    precompiled: bool
    extra_flags: str
    output: Path
    site: Path | None  # of an instrumented build: the folder to put on PYTHONPATH

    @property
    def folder(self) -> Path:
        """Folder of objects; one per kind of build, so that switching rebuilds nothing."""
        base = self.project / "build"
        return base / self.sanitize if self.sanitize else base


def find_torch() -> Torch | None:
    """The installed torch, without importing it: on sys.path, or in the outer environment of pip's isolated build.

    pip hides the environment's packages from an isolated build, yet runs it with that environment's interpreter, so
    ``sysconfig`` still knows where they are.
    """
    places = []
    spec = PathFinder.find_spec("torch")
    if spec is not None and spec.origin is not None:
        places.append(Path(spec.origin).parent)
    places += [Path(sysconfig.get_path(kind)) / "torch" for kind in ("purelib", "platlib")]
    for root in places:
        version_file = root / "version.py"
        if (root / "lib" / "libtorch_cpu.so").exists() and version_file.exists():
            found = re.search(r"__version__ = '([^']+)'", version_file.read_text(encoding="utf-8"))
            if found:
                return Torch(root=root, version=found.group(1))
    return None


def require_torch() -> Torch:
    """The installed torch of the right version, or a BuildError that names the fix."""
    torch = find_torch()
    fix = f"install it into this environment first: {sys.executable} -m pip install torch=={TORCH_VERSION}"
    if torch is None:
        raise BuildError(f"building trnsim needs torch {TORCH_VERSION}, and this environment has none; {fix}")
    if torch.version.split("+")[0] != TORCH_VERSION:
        raise BuildError(f"building trnsim needs torch {TORCH_VERSION}, found {torch.version} in {torch.root}; {fix}")
    return torch


def find_ninja() -> str:
    """Path of ninja: beside this interpreter (PyPI's package ``ninja``), else on PATH."""
    beside = Path(sys.executable).parent / "ninja"
    found = str(beside) if beside.exists() else shutil.which("ninja")
    if found is None:
        raise BuildError(f"building trnsim needs ninja: {sys.executable} -m pip install ninja")
    return found


def plan_from_environment(project: Path, environ: Mapping[str, str], output: Path | None = None) -> Plan:
    """Read the options; each bad one raises BuildError."""
    sanitize = environ.get("TRNSIM_SANITIZE") or None
    if sanitize is not None and sanitize not in SANITIZERS:
        raise BuildError(f"TRNSIM_SANITIZE={sanitize!r}: allowed are {', '.join(SANITIZERS)} or nothing")
    cxx = environ.get("CXX") or "g++"
    if shutil.which(cxx.split()[0]) is None:
        raise BuildError(f"no C++ compiler {cxx!r}: install one (Debian and Ubuntu: apt-get install g++) or set CXX")
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        raise BuildError(
            f"no Python.h in {headers}: install Python's headers (Debian and Ubuntu: apt-get install python3-dev)"
        )
    site = None
    if output is None:
        site = project / "build" / sanitize / "site" if sanitize else None
        output = (site or project / "src") / "trnsim" / "_C.so"
    return Plan(
        project=project,
        torch=require_torch(),
        cxx=cxx,
        sanitize=sanitize,
        precompiled=environ.get("TRNSIM_PCH", "1") != "0" and "clang" not in cxx,
        extra_flags=environ.get("TRNSIM_CXXFLAGS", ""),
        output=output,
        site=site,
    )


def compile_flags(plan: Plan) -> list[str]:
    """Flags of every object. Torch's headers are system headers: no warnings from them, and no 2,000-file dependency
    lists; a change of torch changes TRNSIM_TORCH_VERSION and so rebuilds everything.
    """
    include = plan.torch.root / "include"
    flags = ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-DNDEBUG"]
    if plan.sanitize:
        flags += [f"-fsanitize={plan.sanitize}", "-fno-omit-frame-pointer", "-g1"]
    flags += ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers"]
    if plan.sanitize:
        flags.append("-Wno-maybe-uninitialized")  # false alarms in pybind11, from instrumentation
    flags += ["-DTORCH_EXTENSION_NAME=_C", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    flags += [f'-DTRNSIM_TORCH_VERSION=\\"{plan.torch.version}\\"']
    systems = (include, include / "torch" / "csrc" / "api" / "include", Path(sysconfig.get_path("include")))
    flags += [f"-isystem {folder}" for folder in systems]
    flags += [f"-I{plan.project / 'csrc'}"]
    return flags + ([plan.extra_flags] if plan.extra_flags else [])


def link_flags(plan: Plan) -> list[str]:
    """Link against torch's libraries: found beside the installed package, or where they were at build time."""
    library = plan.torch.root / "lib"
    flags = [f"-L{library}", *(f"-l{name}" for name in TORCH_LIBRARIES), "'-Wl,-rpath,$$ORIGIN/../torch/lib'"]
    # Only for the environment's own torch: pip's throw-away environment must not stay in the binary.
    if any(library.is_relative_to(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")):
        flags.append(f"-Wl,-rpath,{library}")
    return flags + ([f"-fsanitize={plan.sanitize}"] if plan.sanitize else [])


def ninja_text(plan: Plan) -> str:
    """The contents of build.ninja."""
    sources = sorted((plan.project / "csrc").glob("*.cpp"))
    if not sources:
        raise BuildError(f"no C++ files in {plan.project / 'csrc'}")
    header = plan.folder / "pch" / "core.h"
    use = f"-include {header} -Winvalid-pch" if plan.precompiled else ""
    lines = [
        "ninja_required_version = 1.8",
        f"builddir = {plan.folder}",
        f"cxx = {plan.cxx}",
        f"flags = {' '.join(compile_flags(plan))}",
        f"link = {' '.join(link_flags(plan))}",
        "rule pch",
        "  command = $cxx $flags -x c++-header -MMD -MF $out.d -c $in -o $out",
        "  depfile = $out.d",
        "  deps = gcc",
        "  description = precompile $in",
        "rule compile",
        f"  command = $cxx $flags {use} -MMD -MF $out.d -c $in -o $out",
        "  depfile = $out.d",
        "  deps = gcc",
        "  description = compile $in",
        "rule link",
        "  command = $cxx -shared $in $link -o $out.tmp && mv -f $out.tmp $out",
        "  description = link $out",
        "rule install",
        "  command = cp $in $out.tmp && mv -f $out.tmp $out",
        "  description = install $out",
    ]
    after = ""
    if plan.precompiled:
        lines.append(f"build {header}.gch: pch {header}")
        after = f" | {header}.gch"
    objects = []
    for source in sources:
        objects.append(str(plan.folder / "obj" / f"{source.stem}.o"))
        lines.append(f"build {objects[-1]}: compile {source}{after}")
    built = plan.folder / "_C.so"
    lines += [f"build {built}: link {' '.join(objects)}", f"build {plan.output}: install {built}"]
    lines.append(f"default {plan.output}")
    return "\n".join(lines) + "\n"


def write_if_changed(path: Path, text: str) -> None:
    """Write ``text`` unless the file says that already, so that its time stays."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def link_package(project: Path, site: Path) -> None:
    """Make the folder of an instrumented build: every entry of the packages by link, but for the core."""
    shutil.rmtree(site, ignore_errors=True)
    (site / "trnsim").mkdir(parents=True)
    for entry in (project / "src" / "trnsim").iterdir():
        if entry.name != "_C.so":
            (site / "trnsim" / entry.name).symlink_to(entry)
    for package in (project / "src").iterdir():
        if package.name != "trnsim" and package.suffix != ".egg-info":
            (site / package.name).symlink_to(package)


def build(plan: Plan, jobs: int) -> None:
    """Run the build; only one at a time per folder."""
    ninja = find_ninja()
    plan.folder.mkdir(parents=True, exist_ok=True)
    with (plan.folder / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if plan.site:
            link_package(plan.project, plan.site)
        plan.output.parent.mkdir(parents=True, exist_ok=True)
        if plan.precompiled:
            write_if_changed(plan.folder / "pch" / "core.h", PRECOMPILED)
        write_if_changed(plan.folder / "build.ninja", ninja_text(plan))
        command = [ninja, "-f", str(plan.folder / "build.ninja"), "-j", str(jobs)]
        status = subprocess.run(command, check=False).returncode
    if status != 0:
        raise BuildError(f"the build of the C++ core failed (ninja's exit code {status}); the errors are above")


def main(arguments: list[str] | None = None) -> int:
    """Command line; 0 when the core is up to date."""
    parser = argparse.ArgumentParser(description="Build trnsim's C++ core.")
    parser.add_argument("--project", type=Path, default=Path(__file__).resolve().parent.parent, help="folder of csrc/")
    parser.add_argument("--output", type=Path, help="where the core goes (default: src/trnsim/_C.so)")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("MAX_JOBS") or 2), help="default: MAX_JOBS or 2")
    parser.add_argument("--clean", action="store_true", help="drop the objects of this kind of build first")
    options = parser.parse_args(arguments)
    try:
        plan = plan_from_environment(options.project.resolve(), os.environ, options.output)
        if options.clean:
            shutil.rmtree(plan.folder, ignore_errors=True)
        build(plan, options.jobs)
    except BuildError as error:
        print(f"build_core: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
