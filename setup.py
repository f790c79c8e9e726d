"""Compile the C++ core as part of a setuptools build; everything else is in pyproject.toml."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

PROJECT = Path(__file__).resolve().parent
sys.path.insert(0, str(PROJECT / "tools"))

import build_core


class NinjaBuild(build_ext):
    """Hands the one extension to tools/build_core.py."""

    def get_ext_filename(self, fullname: str) -> str:
        """The core is always called ``_C.so``: it is bound to one torch and so to one Python anyway."""
        return str(Path(*fullname.split(".")).with_suffix(".so"))

    def build_extension(self, ext: Extension) -> None:
        """Compile and put the core where setuptools wants it."""
        plan = build_core.plan_from_environment(PROJECT, os.environ, Path(self.get_ext_fullpath(ext.name)).resolve())
        build_core.build(plan, jobs=int(os.environ.get("MAX_JOBS") or 2))


setup(
    ext_modules=[
        Extension("trnsim._C", sources=sorted(f"csrc/{path.name}" for path in (PROJECT / "csrc").glob("*.cpp")))
    ],
    cmdclass={"build_ext": NinjaBuild},
)
