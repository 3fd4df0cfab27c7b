"""Thousands of small modules are accepted and refused as ptxas 13.0 does it, at the line of its first error.

``tools/recordings/legality.py`` makes, judges and stores them. What is left of disagreement: the line of an error in front
of another, where the second makes the statement unreadable."""

from __future__ import annotations

import functools
import gzip
import json
import re
from pathlib import Path

import pytest

import warpsim

DATA = Path(__file__).parents[1] / "data" / "legality.json.gz"
FAMILIES = ["directives", "declarations", "initialisers", "calls", "prototypes", "movement", "modifiers", "leading", "labels", "barriers",
    "targets", "pragmas", "debugging", "numbers", "scopes", "kernels", "guards"]  # fmt: skip
LEFT = 0.001
"""The share that may disagree."""


def wrong(rows: list[dict[str, object]]) -> list[str]:
    """The modules on which the package disagrees; an error that the assembler gives no line for may have any."""
    found = []
    for row in rows:
        text, expected = str(row["text"]), int(str(row["line"]))
        try:
            warpsim.load(text)
            line = 0
        except warpsim.PtxError as error:
            line = error.findings[0].line
        if line != expected and not (expected < 0 < line):
            found.append(f"line {line}, and ptxas has {expected} {row['said']}:\n{text}")
    return found


@functools.cache
def recorded() -> dict[str, list[dict[str, object]]]:
    """What is recorded, by family."""
    found: dict[str, list[dict[str, object]]] = {family: [] for family in FAMILIES}
    for row in json.loads(gzip.decompress(DATA.read_bytes())):
        found[row["family"]].append(row)
    return found


def sample_of(family: str) -> list[dict[str, object]]:
    """A module for each message that the assembler has for a family, whatever names and numbers are in it; and every fiftieth."""
    given = recorded()[family]
    first: dict[str, int] = {}
    for number, row in enumerate(given):
        first.setdefault(re.sub(r"'[^']*'|\d+", "", str(row["said"])), number)
    chosen = {*range(0, len(given), 50), *first.values()}
    return [given[number] for number in sorted(chosen)]


@pytest.mark.parametrize("family", FAMILIES)
def test_sample(family: str) -> None:
    """A sample of a family: all but one agree."""
    found = wrong(sample_of(family))

    assert len(found) <= 1, "\n".join(found)


@pytest.mark.parametrize("part", [pytest.param(4, marks=pytest.mark.long), pytest.param(1, marks=pytest.mark.sweep)])
def test_all(part: int) -> None:
    """Of every fourth module, and of all, less than one in a thousand disagrees."""
    given = [row for family in FAMILIES for row in recorded()[family][::part]]
    found = wrong(given)

    assert len(found) < LEFT * len(given), "\n".join(found)
