"""Instructions of one architecture or family, and of sm_100, are taken on the targets on which ptxas 13.0 takes them.

``family_verdicts.txt`` holds a line for each: the targets, a tab, the instruction (`tools/recordings/families.py`, which also
says which of them are not run)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from families import NOT_RUN, TARGETS, VERSION
from instruction_heads import head

ROWS = [line.split("\t") for line in Path(__file__).with_name("family_verdicts.txt").read_text().splitlines()]


@pytest.mark.parametrize("target", TARGETS)
def test_families(target: str, rules: Callable[[str, list[str]], dict[int, str]]) -> None:
    """What a target has is taken, or said not to be run; the rest is not on this target."""
    version = VERSION.get(int(re.sub(r"\D", "", target)), "9.0")
    found = rules(head(target, version, 250), [instruction for _, instruction in ROWS])
    wrong = []
    for number, (targets, instruction) in enumerate(ROWS, 1):
        expected = "unsupported" if instruction in NOT_RUN else None
        if target not in targets.split():
            expected = "target"
        if found.get(number) != expected:
            wrong.append((instruction, found.get(number), expected))

    assert not wrong
