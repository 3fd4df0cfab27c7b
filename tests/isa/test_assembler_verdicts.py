"""Instructions that move data and synchronise are accepted and refused as ptxas 13.0 does it for PTX 9.0.

``assembler_verdicts.txt`` holds a line for each: target, verdict, instruction; tabs between. Registers are named by
their type: b .b32, u .u32, f .f32, q .b64, h .b16, o .b128, p .pred and so on. All instructions of an opcode and target
stand in one module: those that are refused must be reported at their lines, the others not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

REGISTERS = {
    "bb": "b8", "uh": "u16", "sh": "s16", "hf": "f16", "uq": "u64", "sq": "s64", "b": "b32", "u": "u32", "s": "s32",
    "f": "f32", "d": "f64", "x": "f16x2", "h": "b16", "q": "b64", "o": "b128", "p": "pred",
}  # fmt: skip
ROWS = [line.split("\t") for line in Path(__file__).with_name("assembler_verdicts.txt").read_text().splitlines()]


def head(target: str) -> str:
    """What stands before the instructions."""
    lines = [".version 9.0", f".target {target}", ".address_size 64"]
    lines += [
        ".shared .align 128 .b8 smem[4096];",
        ".global .align 128 .b8 gmem[4096];",
        ".const .align 128 .b8 cmem[256];",
    ]
    lines += [".visible .entry k(.param .u64 prm) {", ".local .align 128 .b8 lmem[256];"]
    lines += [f".reg .{type} {name}<40>;" for name, type in REGISTERS.items()]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("root", sorted({row[2].split()[0].split(".")[0].rstrip(";") for row in ROWS}))
def test_verdicts(root: str, refused: Callable[[str, list[str]], set[int]]) -> None:
    """Every instruction of an opcode gets the assembler's verdict."""
    wrong = []
    modules = defaultdict(list)
    for target, verdict, instruction in ROWS:
        if instruction.split()[0].split(".")[0].rstrip(";") == root:
            modules[target].append((verdict, instruction))
    for target, rows in modules.items():
        found = refused(head(target), [instruction for _, instruction in rows])
        for number, (verdict, instruction) in enumerate(rows, 1):
            if (verdict == "refused") != (number in found):
                wrong.append(f"{target}: {instruction} should be {verdict}")

    assert not wrong, "\n".join(wrong)
