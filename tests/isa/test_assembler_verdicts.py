"""Instructions that move data and synchronise are accepted and refused as ptxas 13.0 does it for PTX 9.0.

``assembler_verdicts.txt`` holds a line for each: target, verdict, instruction; tabs between. Registers are named by
their type: b .b32, u .u32, f .f32, q .b64, h .b16, o .b128, p .pred and so on. All instructions of an opcode and target
stand in one module: those that are refused must be reported at their lines, the others not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from instruction_heads import head

ROWS = [line.split("\t") for line in Path(__file__).with_name("assembler_verdicts.txt").read_text().splitlines()]


@pytest.mark.parametrize("root", sorted({row[2].split()[0].split(".")[0].rstrip(";") for row in ROWS}))
def test_verdicts(root: str, refused: Callable[[str, list[str]], set[int]]) -> None:
    """Every instruction of an opcode gets the assembler's verdict."""
    wrong = []
    modules = defaultdict(list)
    for target, verdict, instruction in ROWS:
        if instruction.split()[0].split(".")[0].rstrip(";") == root:
            modules[target].append((verdict, instruction))
    for target, rows in modules.items():
        found = refused(head(target, "9.0", 40), [instruction for _, instruction in rows])
        for number, (verdict, instruction) in enumerate(rows, 1):
            if (verdict == "refused") != (number in found):
                wrong.append(f"{target}: {instruction} should be {verdict}")

    assert not wrong, "\n".join(wrong)
