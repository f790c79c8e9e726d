"""The build backend: setuptools, and torch only where it is missing.

The core is compiled against torch's headers. If ``torch`` stood in ``[build-system] requires``, pip would fetch a second
one for its isolated build, often another build of several GB. So it is asked for only where the environment that pip
installs into has none.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

import build_core

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = dict[str, str | list[str] | None] | None


def _torch() -> list[str]:
    """What to fetch beside setuptools: nothing when the environment has torch, of whatever version; a wrong one is
    refused by build_core with the fix, since a second torch would compile a core that the first cannot load.
    """
    return [] if build_core.find_torch() else [f"torch=={build_core.TORCH_VERSION}"]


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Requirements of a wheel's build."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_torch()]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """Requirements of an editable install."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *_torch()]
