"""The build of the core and the build backend: what they find, what they refuse, what they ask pip for."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "tools"))

import build_core


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "One.cpp").write_text("// nothing\n", encoding="utf-8")
    return tmp_path


def fake_torch(folder: Path, version: str) -> None:
    (folder / "torch" / "lib").mkdir(parents=True)
    (folder / "torch" / "lib" / "libtorch_cpu.so").touch()
    (folder / "torch" / "version.py").write_text(f"__version__ = '{version}'\n", encoding="utf-8")


def only_in(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """torch can only be found in `folder`, as purelib: what an isolated build sees."""
    monkeypatch.setattr(build_core.PathFinder, "find_spec", lambda name: None)
    monkeypatch.setattr(sysconfig, "get_path", lambda kind: str(folder))


def test_finds_the_torch_of_this_environment() -> None:
    torch = build_core.require_torch()
    assert torch.version.startswith(build_core.TORCH_VERSION)
    assert (torch.root / "include" / "ATen" / "ATen.h").exists()


def test_finds_torch_outside_of_an_isolated_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_torch(tmp_path, "2.13.0+cpu")
    only_in(monkeypatch, tmp_path)
    assert build_core.require_torch().root == tmp_path / "torch"


@pytest.mark.parametrize(("version", "said"), [("2.12.1", "found 2.12.1"), (None, "this environment has none")])
def test_wrong_or_no_torch_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str | None, said: str
) -> None:
    if version:
        fake_torch(tmp_path, version)
    only_in(monkeypatch, tmp_path)
    with pytest.raises(build_core.BuildError, match=said) as error:
        build_core.require_torch()
    assert f"-m pip install torch=={build_core.TORCH_VERSION}" in str(error.value)


def test_backend_asks_for_torch_only_where_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    backend = pytest.importorskip("backend")
    assert not [name for name in backend.get_requires_for_build_editable() if name.startswith("torch")]
    only_in(monkeypatch, tmp_path)
    assert f"torch=={build_core.TORCH_VERSION}" in backend.get_requires_for_build_wheel()


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"TRNSIM_SANITIZE": "memory"}, "TRNSIM_SANITIZE='memory': allowed are thread, address"),
        ({"CXX": "no-such-compiler"}, "no C++ compiler 'no-such-compiler'"),
    ],
)
def test_bad_option_names_the_fix(project: Path, environment: dict[str, str], said: str) -> None:
    with pytest.raises(build_core.BuildError) as error:
        build_core.plan_from_environment(project, environment)
    assert said in str(error.value)


def test_instrumented_build_leaves_the_normal_core_alone(project: Path) -> None:
    normal = build_core.plan_from_environment(project, {})
    thread = build_core.plan_from_environment(project, {"TRNSIM_SANITIZE": "thread"})
    assert normal.output == project / "src" / "trnsim" / "_C.so"
    assert thread.output == project / "build" / "thread" / "site" / "trnsim" / "_C.so"
    assert thread.folder != normal.folder
    assert "-fsanitize=thread" in build_core.ninja_text(thread)


def test_libraries_are_found_beside_the_package_and_where_it_was_built(project: Path) -> None:
    text = build_core.ninja_text(build_core.plan_from_environment(project, {}))
    assert "'-Wl,-rpath,$$ORIGIN/../torch/lib'" in text  # quoted: the shell must not see a variable
    assert f"-Wl,-rpath,{build_core.require_torch().root / 'lib'}" in text


def test_script_without_torch_is_quick() -> None:
    started = time.perf_counter()
    subprocess.run([sys.executable, PROJECT / "tools" / "build_core.py", "--help"], check=True, capture_output=True)
    assert time.perf_counter() - started < 2  # 0.05 s; torch alone would be 1 s and more on a busy machine
