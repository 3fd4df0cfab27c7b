"""Checks the arguments of ``@pytest.mark.ptx`` before any test runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from warpsim.errors import LaunchError, shown
from warpsim.host.checks import resolve_checks
from warpsim.host.device import Device
from warpsim.host.options import budget, integer


def _one_of(*choices: str) -> Callable[[str, Any], object]:
    def check(what: str, value: Any) -> None:
        if not (isinstance(value, str) and value in choices):
            raise LaunchError(f"{what} must be {' or '.join(map(repr, choices))}, not {shown(value)}")

    return check


_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "target": lambda what, value: Device(value),
    "checks": lambda what, value: resolve_checks(value),
    "max_seconds": budget,
    "async_effects": _one_of("eager", "at_wait"),
    "schedule": integer,
    "findings": _one_of("fail", "allow"),
}
_MEANINGFUL = frozenset({"findings"})
"""Arguments for which None does not stand for the usual value."""


def check(marker: pytest.Mark, nodeid: str) -> None:
    """Check the arguments of a marker.

    Raises:
        pytest.UsageError: an argument is unknown, or its value is none that it takes.
    """
    unknown = [repr(a) for a in marker.args] + sorted(set(marker.kwargs) - set(_CHECKS))
    if unknown:
        raise pytest.UsageError(f"{nodeid}: pytest.mark.ptx takes {', '.join(_CHECKS)}, not {', '.join(unknown)}")
    for name, value in marker.kwargs.items():
        if value is None and name not in _MEANINGFUL:
            continue
        try:
            _CHECKS[name](name, value)
        except LaunchError as problem:
            raise pytest.UsageError(f"{nodeid}: pytest.mark.ptx({name}={shown(value)}): {problem}") from None
