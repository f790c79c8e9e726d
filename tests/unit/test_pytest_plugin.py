"""The fixture and the marker that fail a test on a fallback, as a user's test suite meets them."""

from pathlib import Path

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
SUITE = """
import pytest
import torch
import trnsim

trnsim._autoload()

def test_native(assert_no_fallback):
    (torch.ones(3, device="neuron") + 1).exp()

def test_falls_back(assert_no_fallback):
    torch.ones(3, device="neuron").sort()

@pytest.mark.no_fallback
def test_marked():
    torch.ones(3, device="neuron").sort()

@pytest.mark.no_fallback(allow="aten::sort")
def test_excused():
    torch.ones(3, device="neuron").sort()

@pytest.fixture
def sorted_before():
    return torch.ones(3, device="neuron").sort().values

def test_fixtures_are_not_watched(sorted_before, assert_no_fallback):
    sorted_before + 1

def test_own_failure_comes_first(assert_no_fallback):
    torch.ones(3, device="neuron").sort()
    assert False, "the test's own"

def test_unwatched():
    torch.ones(3, device="neuron").sort()
"""


def test_suite_of_a_user(pytester):
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess("-p", "trnsim.pytest_plugin", "-v", "--strict-markers")
    result.assert_outcomes(passed=4, failed=3)
    result.stdout.fnmatch_lines_random(
        [
            "*test_native PASSED*",
            "*test_falls_back FAILED*",
            "*test_marked FAILED*",
            "*aten::sort* (missing_op) at *",
            "*AssertionError: the test's own*",
        ]
    )


def test_wrong_marker_argument_says_what_is_allowed(pytester):
    pytester.makepyfile("import pytest\n@pytest.mark.no_fallback('aten::sort')\ndef test_x(): pass\n")
    result = pytester.runpytest_subprocess("-p", "trnsim.pytest_plugin")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*takes one argument, allow=*"])


def test_it_is_an_entry_point():
    """Under its module's name, so that `-p trnsim.pytest_plugin` finds the one that is loaded already."""
    text = (ROOT / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\n"trnsim.pytest_plugin" = "trnsim.pytest_plugin"\n' in text
