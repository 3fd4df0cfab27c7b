"""What a caller gives a session: numbers, texts and flags, or a `DebugError` that says what came instead."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from warpsim.errors import WarpsimError, shown

_WIDEST = 1 << 64


class DebugError(WarpsimError, ValueError):
    """A session cannot answer a request, or the request makes no sense."""


def number(what: str, value: Any) -> int:
    """An integer of Python or NumPy."""
    try:
        found = operator.index(value)
    except Exception:  # whatever an object of the caller's raises
        raise DebugError(f"{what} must be an integer, not {shown(value)}") from None
    if not -_WIDEST < found < _WIDEST:
        raise DebugError(f"{what} must be an integer of 64 bits, not {shown(found)}")
    return found


def text(what: str, value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise DebugError(f"{what} must be text, not {shown(value)}")
    return value


def flag(what: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise DebugError(f"{what} must be True or False, not {shown(value)}")
    return bool(value)
