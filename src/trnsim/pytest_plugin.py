"""pytest: fail a test when an op of it fell back to the CPU.

    def test_forward(assert_no_fallback): ...                # the whole test

    @pytest.mark.no_fallback(allow=("aten::sort",))          # the same, with exceptions
    def test_ranking(): ...

For a part of a test use the context manager `trnsim.ledger.assert_no_fallback`. Fixtures of the test are not watched,
only its body. Nothing here imports torch before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

__all__ = ["assert_no_fallback"]

_MARKER = "no_fallback"
_FIXTURE = "assert_no_fallback"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, also under --strict-markers."""
    config.addinivalue_line(
        "markers", f"{_MARKER}(allow=()): fail the test if an op ran on the CPU; allow names ops that may"
    )


@pytest.fixture
def assert_no_fallback() -> None:
    """Fails the test if an op fell back to the CPU in its body."""


def _allowed(marker: pytest.Mark) -> tuple[str, ...]:
    """Read the marker's one argument, `allow`."""
    if marker.args or marker.kwargs.keys() - {"allow"}:
        raise pytest.UsageError(f"@pytest.mark.{_MARKER} takes one argument, allow=('aten::sort', ...)")
    allow = marker.kwargs.get("allow", ())
    return (allow,) if isinstance(allow, str) else tuple(allow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run the test's body under the ledger's assertion if it asked for that."""
    marker = item.get_closest_marker(_MARKER)
    if marker is None and _FIXTURE not in getattr(item, "fixturenames", ()):
        return (yield)
    import torch  # noqa: F401

    import trnsim

    trnsim._autoload()  # `import torch` did so, unless the autoload of backends is off
    from trnsim import ledger

    with ledger.assert_no_fallback(allow=_allowed(marker) if marker else ()):
        return (yield)
