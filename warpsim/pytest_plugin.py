"""pytest plugin: options, the fixtures ``warpsim_device`` and ``snapshot``, the marker ``ptx``, and recorded launches
as tests.

This file holds hooks only, because every pytest run in an environment with warpsim loads it. The work is done in
`warpsim.testing`, imported on first use.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

MARKER = "ptx(target=..., checks=..., max_seconds=..., async_effects=..., schedule=..., findings=...)"
MODES = ("eager", "at_wait", "both")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's options; each has an ini option of the same name, with ``_`` for ``-``, except
    ``--warpsim-record``: as a setting it would accept every difference."""
    group = parser.getgroup("warpsim")
    group.addoption(
        "--warpsim-cases", metavar="DIR", action="append", default=[], help="collect the recorded launches in DIR, too"
    )
    group.addoption("--warpsim-bits", action="store_true", help="compare recorded launches in every bit")
    group.addoption(
        "--warpsim-record",
        action="store_true",
        help="write what the simulator gives as the new expectation of cases and snapshots",
    )
    group.addoption("--warpsim-max-seconds", metavar="S", help="wall-clock time that a launch may take (600; inf: any)")
    group.addoption("--warpsim-checks", metavar="RULES", help="the checks of launches that name none")
    group.addoption("--warpsim-target", metavar="SM", help="the GPU of launches that name none, for example sm_90a")
    group.addoption(
        "--warpsim-async",
        choices=MODES,
        help="when asynchronous effects appear; both: run cases, and tests with warpsim_device or the marker, twice",
    )
    group.addoption("--warpsim-schedule", metavar="SEED", help="another legal order of warps and CTAs")
    group.addoption(
        "--warpsim-coverage", metavar="DIR", help="write which PTX and CUDA lines ran: lcov.info, index.html"
    )
    group.addoption("--warpsim-fidelity", action="store_true", help="say what the executed instructions' bits rest on")
    parser.addini("warpsim_cases", "folders whose recorded launches are collected, too", type="paths")
    parser.addini("warpsim_collect", "collect a case.json wherever pytest looks for tests", type="bool", default=True)
    parser.addini("warpsim_bits", "compare recorded launches in every bit", type="bool", default=False)
    parser.addini("warpsim_max_seconds", "wall-clock time that a launch may take", default="600")
    parser.addini("warpsim_checks", "the checks of launches that name none", default="")
    parser.addini("warpsim_target", "the GPU of launches that name none", default="")
    parser.addini("warpsim_async", "eager, at_wait or both", default="")
    parser.addini("warpsim_schedule", "another legal order of warps and CTAs: a seed", default="")
    parser.addini("warpsim_coverage", "folder for lcov.info and index.html", default="")
    parser.addini("warpsim_fidelity", "say what the executed instructions' bits rest on", type="bool", default=False)
    parser.addini(
        "warpsim_findings",
        "fail: a test whose launches collect a finding of severity error fails; allow: the test judges them",
        default="fail",
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, check the options, and receive exceptions before pytest's own plugins do."""
    config.addinivalue_line("markers", f"{MARKER}: the GPU, the checks and the limits of the test's launches")
    from warpsim.testing.sessions import configure

    configure(config)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a recorded launch as a file of tests."""
    if file_path.name != "case.json":
        return None
    from warpsim.testing.sessions import collect

    return collect(file_path, parent)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that launch kernels twice with ``--warpsim-async=both``."""
    from warpsim.testing.sessions import settings_of

    launches = "warpsim_device" in metafunc.fixturenames or metafunc.definition.get_closest_marker("ptx")
    if launches and settings_of(metafunc.config).both:
        metafunc.fixturenames.append("_warpsim_async")
        metafunc.parametrize("_warpsim_async", ("eager", "at_wait"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Report arguments that the marker does not take as collection errors."""
    marked = [(marker, item.nodeid) for item in items for marker in item.iter_markers("ptx")]
    if marked:
        from warpsim.testing.sessions import check

        for marker, nodeid in marked:
            check(marker, nodeid)


@pytest.hookimpl(wrapper=True, trylast=True)
def _watched(item: pytest.Item) -> Generator[None, object, object]:
    """Apply the test's defaults to its launches and those of its fixtures, and count their findings."""
    from warpsim.testing.sessions import watched

    __tracebackhide__ = True
    with watched(item):
        return (yield)


pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = _watched


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a pytest-xdist worker, pass what was observed to the controller; otherwise write it out."""
    from warpsim.testing.sessions import finish

    finish(session)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take over what a pytest-xdist worker observed."""
    from warpsim.testing.sessions import take_over

    take_over(node.config, getattr(node, "workeroutput", {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Summarise the session's launches."""
    from warpsim.testing.sessions import settings_of

    for line in settings_of(config).said:
        terminalreporter.write_line(line)


@pytest.fixture
def warpsim_device(request: pytest.FixtureRequest) -> Any:
    """A fresh GPU with the target, checks and limits of ``@pytest.mark.ptx``, or else of the options."""
    from warpsim.testing.sessions import device_of

    if hasattr(request, "param"):
        raise pytest.UsageError("warpsim_device takes no parameters: name the GPU by @pytest.mark.ptx(target=...)")
    return device_of(request.node)


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Any:
    """Recorded values: ``assert result == snapshot(name)`` compares with what ``--warpsim-record`` stored beside the
    test."""
    from warpsim.testing.snapshots import Snapshots

    return Snapshots(request.node)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain how a value differs from its snapshot."""
    if op == "==" and type(right).__module__ == "warpsim.testing.snapshots":
        return [f"differs from {right!r}", *right.problem[:1]]  # type: ignore[attr-defined]
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show in full how values differ from their snapshots."""
    report = yield
    if "snapshot" in getattr(item, "fixturenames", ()):
        from warpsim.testing.snapshots import add_sections

        add_sections(item, report)
    return report
