"""pytest plugin: the fixture ``warpsim_device`` and recorded launches as tests."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the plugin."""
    group = parser.getgroup("warpsim")
    group.addoption("--warpsim-cases", metavar="DIR", help="collect the recorded launches in DIR as tests")
    group.addoption("--warpsim-bits", action="store_true", help="compare these launches in every bit")
    group.addoption(
        "--warpsim-record", action="store_true", help="write what the simulator gives as the cases' new expectations"
    )
    group.addoption(
        "--warpsim-max-seconds",
        metavar="S",
        type=float,
        default=600.0,
        help="wall-clock time that a launch of a case or on warpsim_device may take (600; inf for no limit)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "ptx(target=..., checks=..., max_seconds=...): the GPU, the checks and the limit of the test's launches",
    )


@pytest.fixture
def warpsim_device(request: pytest.FixtureRequest) -> Any:
    """A fresh GPU, of the target that ``@pytest.mark.ptx`` names."""
    from warpsim.host.device import Device

    marker = request.node.get_closest_marker("ptx")
    given = marker.kwargs if marker else {}
    device = Device(given.get("target", "sm_90a"))
    device.checks = given.get("checks")
    device.max_seconds = given.get("max_seconds", request.config.getoption("--warpsim-max-seconds"))
    return device


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Add the recorded launches to what pytest collects."""
    result = yield
    folder = session.config.getoption("--warpsim-cases")
    if folder:
        paths = sorted(p.parent for p in Path(folder).glob("**/case.json"))
        if not paths:
            raise pytest.UsageError(f"--warpsim-cases: no case.json below {folder}")
        session.items += [CaseItem.from_parent(session, name=f"warpsim::{p.name}", case=p) for p in paths]
        session.testscollected = len(session.items)
    return result


class CaseItem(pytest.Item):
    """One recorded launch."""

    def __init__(self, *, case: Path, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.case = case

    def runtest(self) -> None:
        """Run it and compare, or record it."""
        seconds = self.config.getoption("--warpsim-max-seconds")
        if self.config.getoption("--warpsim-record"):
            from warpsim.host.recording import record

            record(self.case, max_seconds=seconds)
        else:
            from warpsim.testing import assert_matches

            assert_matches(self.case, bits=self.config.getoption("--warpsim-bits"), max_seconds=seconds)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The message alone: it says what differs."""
        from warpsim.errors import WarpsimError

        if not isinstance(excinfo.value, AssertionError | WarpsimError):
            return super().repr_failure(excinfo, style)
        return f"{self.case}: {excinfo.value}"

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where the case lies."""
        return self.case, None, self.name
