"""Run an example on the CPU and on the device, and compare what it returns."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DEVICE = os.environ.get("TRNSIM_TEST_DEVICE", "neuron")
Result = dict[str, torch.Tensor | float]


def load(name: str) -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def compare() -> Callable[..., Result]:
    """`compare("resnet", losses=(rtol, atol), tokens=None)`: None asks for equality. Returns the device's result."""

    def run(name: str, **tolerances: tuple[float, float] | None) -> Result:
        module = load(name)
        expected: Result = module.run("cpu")
        actual: Result = module.run(DEVICE)
        assert actual.keys() == expected.keys() == tolerances.keys(), (sorted(expected), sorted(tolerances))
        for key, tolerance in tolerances.items():
            rtol, atol = tolerance or (0.0, 0.0)
            torch.testing.assert_close(
                actual[key],
                expected[key],
                rtol=rtol,
                atol=atol,
                equal_nan=False,
                msg=lambda text, key=key: f"{name}.{key}: {text}",
            )
        return actual

    return run
