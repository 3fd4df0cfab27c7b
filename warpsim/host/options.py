"""What a caller may pass as a number, a word or dimensions; anything else is a `LaunchError` that names it."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

from warpsim.errors import LaunchError, shown

Dim = int | Sequence[int]


def integer(what: str, value: Any, least: int = 0, most: int = 2**63 - 1) -> int:
    """An integer of ``least`` to ``most``, of Python or NumPy."""
    try:
        number = operator.index(value)
    except TypeError:
        raise LaunchError(f"{what} is an integer, not {shown(value)}") from None
    if not least <= number <= most:
        raise LaunchError(f"{what} is {least} to {most}, not {shown(number)}")
    return number


def budget(what: str, value: Any) -> float | None:
    """A limit that is not negative, of any kind of number; None for no limit."""
    if value is None:
        return None
    number: float
    try:
        number = operator.index(value)
    except TypeError:
        try:
            number = (
                math.nan if getattr(value, "ndim", 0) else float(value)
            )  # older NumPy takes an array of one, and warns
        except (TypeError, ValueError, OverflowError):
            number = math.nan
    if isinstance(value, (str, bytes)) or not number >= 0:
        raise LaunchError(f"{what} is a number from 0, or None for no limit, not {shown(value)}")
    return min(number, 2**63)


def choice(what: str, value: Any, words: Sequence[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in words:
        raise LaunchError(f"{what} is {' or '.join(map(repr, words))}, not {shown(value)}")
    return value


def dims(what: str, value: Any) -> tuple[int, int, int]:
    """One to three positive integers as (x, y, z)."""
    try:
        given = [operator.index(value)]
    except TypeError:
        given = elements(value, 4)
    try:
        x, y, z = [*map(operator.index, given), 1, 1][:3]
    except (TypeError, ValueError):  # no integers, or none at all
        x = y = z = 0
    if len(given) > 3 or min(x, y, z) < 1:
        raise LaunchError(f"{what} must be one to three positive integers, not {shown(value)}")
    return x, y, z


def elements(value: Any, most: int | None = None) -> list[Any]:
    """The elements (the first ``most``) of anything that has some; none of what has none."""
    try:
        return list(itertools.islice(value, most))
    except TypeError:  # 0-dimensional arrays are Iterable too
        return []
