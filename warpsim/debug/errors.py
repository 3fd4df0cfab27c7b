"""`DebugError`, and checks of a caller's arguments."""

from __future__ import annotations

import numpy as np

from warpsim.errors import LaunchError, WarpsimError, shown
from warpsim.host.options import integer


class DebugError(WarpsimError, ValueError):
    """A session cannot answer a request, or the request makes no sense."""


def number(what: str, value: object) -> int:
    """An integer of Python or NumPy."""
    try:
        return integer(what, value, -(1 << 64), 1 << 64)
    except LaunchError as problem:
        raise DebugError(str(problem)) from None


def text(what: str, value: object) -> str:
    """A text."""
    if not isinstance(value, str):
        raise DebugError(f"{what} must be text, not {shown(value)}")
    return value


def flag(what: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise DebugError(f"{what} must be True or False, not {shown(value)}")
    return bool(value)
