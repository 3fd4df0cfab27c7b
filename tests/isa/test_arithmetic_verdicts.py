"""Integer, comparison, video and conversion instructions are accepted and refused as ptxas 13.0 does it.

``arithmetic_verdicts.txt`` holds a line for each: target, PTX version, verdict, instruction; tabs between. Registers are
named by their type: b .b32, f .f32, q .b64, h .b16, p .pred and so on. All instructions of an opcode and target stand in
one module: those that are refused must be reported at their lines, the others not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from instruction_heads import head

ROWS = [line.split("\t") for line in Path(__file__).with_name("arithmetic_verdicts.txt").read_text().splitlines()]


def _root(instruction: str) -> str:
    return instruction.split()[0].split(".")[0]


@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("root", sorted({_root(row[3]) for row in ROWS}))
def test_verdicts(root: str, half: int, refused: Callable[[str, list[str]], set[int]]) -> None:
    """Every instruction of an opcode gets the assembler's verdict; by default every second."""
    wrong = []
    modules = defaultdict(list)
    for target, version, verdict, instruction in ROWS:
        if _root(instruction) == root:
            modules[target, version].append((verdict, instruction))
    for (target, version), both in modules.items():
        rows = both[half::2]
        found = refused(head(target, version), [instruction for _, instruction in rows])
        for number, (verdict, instruction) in enumerate(rows, 1):
            if (verdict == "refused") != (number in found):
                wrong.append(f"{target} {version}: {instruction} is {verdict}")
    assert not wrong
