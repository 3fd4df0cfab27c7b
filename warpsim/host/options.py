"""Validates numbers, words, dimensions and names of rules passed by a caller; raises a `LaunchError` that names what is wrong.

Objects of the caller's may raise anything where they are asked for a number or for elements: they have none then.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Iterable, Sequence
from typing import Any

from warpsim.errors import LaunchError, shown
from warpsim.report.rules import GROUPS

Dim = int | Sequence[int]
Checks = str | Iterable[str] | None
"""What ``checks=`` takes."""


def integer(what: str, value: object, least: int = 0, most: int = 2**63 - 1) -> int:
    """An integer of Python or NumPy, from ``least`` to ``most``."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except Exception:
        raise LaunchError(f"{what} must be an integer, not {shown(value)}") from None
    if not least <= number <= most:
        raise LaunchError(f"{what} must be {least} to {most}, not {shown(number)}")
    return number


def budget(what: str, value: Any) -> float | None:
    """A nonnegative limit, of any numeric type; None for no limit."""
    if value is None:
        return None
    number: float
    try:
        number = operator.index(value)
    except Exception:
        try:
            number = (
                math.nan if getattr(value, "ndim", 0) else float(value)
            )  # older NumPy accepts a one-element array, with a warning
        except Exception:
            number = math.nan
    if isinstance(value, (str, bytes)) or not number >= 0:
        raise LaunchError(f"{what} must be a nonnegative number or None (no limit), not {shown(value)}")
    return min(number, 2**63)


def choice(what: str, value: object, words: Sequence[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in words:
        raise LaunchError(f"{what} must be {' or '.join(map(repr, words))}, not {shown(value)}")
    return value


def dims(what: str, value: Any) -> tuple[int, int, int]:
    """One to three positive integers as (x, y, z)."""
    if type(value) is tuple and 0 < len(value) <= 3:
        for n in value:
            if type(n) is not int or n <= 0:
                break
        else:
            return (*value, 1, 1)[:3]
    try:
        given = [operator.index(value)]
    except Exception:
        given = elements(value, 4)
    try:
        x, y, z = [*map(operator.index, given), 1, 1][:3]
    except Exception:  # not integers, or no elements
        x = y = z = 0
    if len(given) > 3 or min(x, y, z) < 1:
        raise LaunchError(f"{what} must be one to three positive integers, not {shown(value)}")
    return x, y, z


def elements(value: Any, most: int | None = None) -> list[Any]:
    """The first ``most`` elements of an iterable; empty for anything else."""
    try:
        return list(itertools.islice(value, most))
    except Exception:  # 0-dimensional arrays are Iterable too
        return []


EVERY = frozenset().union(*GROUPS.values())
NOTE = "note"
"""Marker in the set that "all" selects: also report findings of severity note."""
STRICT = "strict-undefined"
"""Marker: report what is undefined where a matrix product or a branch reads it, not where it can be seen."""
ACCURACY = "accuracy"
"""Marker: compute every float value in higher precision as well, and note where error is born."""
WORDS: dict[str, frozenset[str]] = {
    "default": EVERY - GROUPS["race"],
    "all": EVERY | {NOTE},
    "none": frozenset(),
    STRICT: EVERY - GROUPS["race"] | {STRICT},
    ACCURACY: EVERY - GROUPS["race"] | {ACCURACY},
    **GROUPS,
    **{rule: frozenset({rule}) for rule in EVERY},
}
_WORD = "|".join(sorted(map(re.escape, WORDS), key=len, reverse=True))
_TERM = rf"({_WORD})((?:[+-](?:{_WORD})(?=[+-]|$))*)"


def resolve_checks(checks: Checks) -> frozenset[str]:
    """Return the set of rules that a ``checks=`` value selects.

    Args:
        checks: "default", "all", "none", a rule or a group, each followed by any number of ``-NAME`` and ``+NAME``
            (``"default+race"``, ``"all-proxy-fence"``); several of them separated by commas, or a set. None means
            "default". Rules that are always on stay on.

    Raises:
        LaunchError: a name is neither a rule nor a group.
    """
    if checks is None:
        return WORDS["default"]
    if isinstance(checks, str):
        return frozenset().union(*(_term(term.strip()) for term in checks.split(",")))
    terms: list[str] | None
    try:
        terms = list(itertools.islice(checks, 1000))
    except Exception:  # whatever an object of the caller's raises
        terms = None
    if terms is not None and all(isinstance(term, str) for term in terms):
        return frozenset().union(*map(resolve_checks, terms))
    raise LaunchError(f"checks= takes {GRAMMAR}, not {shown(checks)}")


rules = resolve_checks
"""The rules that ``checks=`` selects: ``warpsim.rules("default+race")`` is a set of names."""

GRAMMAR = (
    "'default', 'all' or 'none', with -NAME and +NAME behind ('default+race'), or a set of rules and of the groups "
    + ", ".join(GROUPS)
)


def _term(term: str) -> frozenset[str]:
    """Resolve one word with its additions and removals, from left to right."""
    match = re.fullmatch(_TERM, term)
    if match is None:
        raise LaunchError(f"{term[:200]!r} is neither a rule nor a group of rules; checks= takes {GRAMMAR}")
    chosen = WORDS[match[1]]
    for sign, word in re.findall(rf"([+-])({_WORD})(?=[+-]|$)", match[2]):
        named = frozenset({word}) if word in (STRICT, ACCURACY) else WORDS[word]
        chosen = chosen | named if sign == "+" else chosen - named
    return chosen
