"""Thousands of small modules are accepted and refused as ptxas 13.0 does it, at the line of its first error.

``tools/recordings/legality.py`` makes, judges and stores them. What is left of disagreement: the line of an error in front
of another, where the second makes the statement unreadable."""

from __future__ import annotations

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


def rows_of(family: str) -> list[dict[str, object]]:
    """What is recorded of a family."""
    return [row for row in json.loads(gzip.decompress(DATA.read_bytes())) if row["family"] == family]


def sample_of(family: str) -> list[dict[str, object]]:
    """A module for each message that the assembler has for a family, whatever names and numbers are in it; and every fiftieth."""
    rows = rows_of(family)
    first: dict[str, int] = {}
    for number, row in enumerate(rows):
        first.setdefault(re.sub(r"'[^']*'|\d+", "", str(row["said"])), number)
    chosen = {*range(0, len(rows), 50), *first.values()}
    return [rows[number] for number in sorted(chosen)]


@pytest.mark.parametrize("family", FAMILIES)
def test_sample(family: str) -> None:
    """A sample of a family: all but one agree."""
    found = wrong(sample_of(family))

    assert len(found) <= 1, "\n".join(found)


@pytest.mark.long
def test_all() -> None:
    """Of all modules, less than one in a thousand disagrees."""
    rows = [row for family in FAMILIES for row in rows_of(family)]
    found = wrong(rows)

    assert len(found) < LEFT * len(rows), "\n".join(found)
