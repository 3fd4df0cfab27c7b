"""Names of rules and groups of rules, and parsing of ``checks=``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from warpsim.errors import LaunchError, shown
from warpsim.report.rules import GROUPS

EVERY = frozenset().union(*GROUPS.values())
NOTE = "note"
"""Marker in the set that "all" selects: also report findings of severity note."""
WORDS: dict[str, frozenset[str]] = {
    "default": EVERY - GROUPS["race"],
    "all": EVERY | {NOTE},
    "none": frozenset(),
    **GROUPS,
    **{rule: frozenset({rule}) for rule in EVERY},
}
_WORD = "|".join(sorted(map(re.escape, WORDS), key=len, reverse=True))
_TERM = re.compile(rf"({_WORD})((?:[+-](?:{_WORD})(?=[+-]|$))*)")


def resolve_checks(checks: str | Iterable[str] | None) -> frozenset[str]:
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
"""The public name: ``warpsim.rules("default+race")``."""

GRAMMAR = (
    "'default', 'all' or 'none', with -NAME and +NAME behind ('default+race'), or a set of rules and of the groups "
    + ", ".join(GROUPS)
)


def _term(term: str) -> frozenset[str]:
    """Resolve one word with its additions and removals, from left to right."""
    match = _TERM.fullmatch(term)
    if match is None:
        raise LaunchError(f"{term[:200]!r} is neither a rule nor a group of rules; checks= takes {GRAMMAR}")
    chosen = WORDS[match[1]]
    for sign, word in re.findall(rf"([+-])({_WORD})(?=[+-]|$)", match[2]):
        chosen = chosen | WORDS[word] if sign == "+" else chosen - WORDS[word]
    return chosen
