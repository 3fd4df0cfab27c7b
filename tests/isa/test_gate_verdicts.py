"""Each instruction is accepted from the target and the PTX version on that ptxas 13.0 names, and not before.

``gate_verdicts.txt`` holds a line for each: the oldest target, the oldest PTX version of that target, the instruction; tabs
between (`tools/recordings/gates.py`). What sm_50 and PTX 5.0 have is left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from gates import head
from warpsim.ptx.words import VERSIONS

PUBLISHED = [f"{version[0]}.{version[1]}" for version in sorted(VERSIONS) if version <= (9, 0)]
TARGETS = [
    "sm_50",
    "sm_52",
    "sm_53",
    "sm_60",
    "sm_61",
    "sm_70",
    "sm_72",
    "sm_75",
    "sm_80",
    "sm_86",
    "sm_89",
    "sm_90",
    "sm_90a",
]
ROWS = [line.split("\t") for line in Path(__file__).with_name("gate_verdicts.txt").read_text().splitlines()]


@pytest.mark.parametrize("target", TARGETS)
def test_gates(target: str, refused: Callable[[str, list[str]], set[int]]) -> None:
    """From its version on an instruction is taken, in that before it is not; nor is it for the target before, in any version."""
    modules: dict[tuple[str, str], list[tuple[bool, str]]] = defaultdict(list)
    versions = [version for oldest, version, _ in ROWS if oldest == target]
    before = TARGETS[max(TARGETS.index(target) - 1, 0)]
    for oldest, version, instruction in ROWS:
        if oldest == target:
            modules[target, version].append((True, instruction))
            if target == TARGETS[0] or version != min(versions, key=PUBLISHED.index):
                modules[target, PUBLISHED[PUBLISHED.index(version) - 1]].append((False, instruction))
            if before != target:
                modules[before, "9.0"].append((False, instruction))
    wrong = []
    for place, rows in modules.items():
        found = refused(head(*place), [instruction for _, instruction in rows])
        wrong += [(*place, text, taken) for number, (taken, text) in enumerate(rows, 1) if taken == (number in found)]
    assert not wrong
