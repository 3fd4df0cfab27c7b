"""Every instruction of the base language, its modifiers and operands, is accepted and refused as ptxas 13.0 does it.

``form_verdicts.txt`` holds a line for each: target, PTX version, verdict, instruction; tabs between. All instructions of
a target stand in one module: those that are refused must be reported at their lines, the others not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

REGISTERS = {
    "bb": "b8", "uh": "u16", "sh": "s16", "hf": "f16", "uq": "u64", "sq": "s64", "b": "b32", "u": "u32", "s": "s32",
    "f": "f32", "d": "f64", "x": "f16x2", "h": "b16", "q": "b64", "p": "pred",
}  # fmt: skip
ROWS: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
for _line in Path(__file__).with_name("form_verdicts.txt").read_text().splitlines():
    _target, _version, _verdict, _instruction = _line.split("\t")
    ROWS[_target, _version].append((_verdict, _instruction))


def head(target: str, version: str) -> list[str]:
    """What stands before the instructions."""
    lines = [f".version {version}", f".target {target}", ".address_size 64"]
    lines += [f".{space} .align 128 .b8 {space[0]}mem[4096];" for space in ("shared", "global", "const")]
    lines += [".visible .entry k(.param .u64 prm) {", ".local .align 128 .b8 lmem[256];"]
    lines += [f".reg .{type} {name}<10>;" for name, type in REGISTERS.items()]
    return lines if float(version) < 8.3 else [*lines, ".reg .b128 o<10>;"]


@pytest.mark.parametrize("target", ROWS, ids="-".join)
def test_verdicts(target: tuple[str, str], refused: Callable[[str, list[str]], set[int]]) -> None:
    """The lines that are reported are those that the assembler refuses."""
    found = refused("\n".join(head(*target)) + "\n", [instruction for _, instruction in ROWS[target]])
    wrong = [
        f"{instruction} should be {verdict}"
        for number, (verdict, instruction) in enumerate(ROWS[target], 1)
        if (verdict == "refused") != (number in found)
    ]

    assert not wrong, "\n".join(wrong)
