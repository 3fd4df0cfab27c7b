"""Instructions drawn from every form, with modifiers and operands as they come, are judged as ptxas 13.0 does it.

``drawn_verdicts.txt.gz`` holds a line for each: target, PTX version, verdict, instruction; tabs between.
``tools/recordings/drawn.py`` draws, asks and stores them, and says what it leaves out."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from drawn import head

LEFT = 0.002
"""The share that may disagree: a function's name passes for a number there, a register of halves for a predicate."""


@pytest.mark.parametrize(
    "part", [slice(0, None, 3), pytest.param(slice(None), marks=pytest.mark.long)], ids=["some", "all"]
)
def test_verdicts(part: slice, refused: Callable[[str, list[str]], set[int]]) -> None:
    """What is accepted and refused in modules of each target and version."""
    modules: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    rows = gzip.decompress(Path(__file__).with_name("drawn_verdicts.txt.gz").read_bytes()).decode().splitlines()[part]
    for row in rows:
        target, version, verdict, instruction = row.split("\t")
        modules[target, version].append((verdict, instruction))
    wrong = []
    for place, many in modules.items():
        found = refused(head(*place), [instruction for _, instruction in many])
        wrong += [
            f"{place} {instruction} should be {verdict}"
            for number, (verdict, instruction) in enumerate(many, 1)
            if (verdict == "refused") != (number in found)
        ]

    assert len(rows) > 1000
    assert len(wrong) < LEFT * len(rows), "\n".join(wrong)
