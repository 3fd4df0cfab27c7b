"""Every instruction of the base language, its modifiers and operands, is accepted and refused as ptxas 13.0 does it.

``form_verdicts.txt`` holds a line for each: target, PTX version, verdict, instruction; tabs between. All instructions of
a target stand in one module: those that are refused must be reported at their lines, the others not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from instruction_heads import head

ROWS: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
for _line in Path(__file__).with_name("form_verdicts.txt").read_text().splitlines():
    _target, _version, _verdict, _instruction = _line.split("\t")
    ROWS[_target, _version].append((_verdict, _instruction))


@pytest.mark.parametrize("target", ROWS, ids="-".join)
def test_verdicts(target: tuple[str, str], refused: Callable[[str, list[str]], set[int]]) -> None:
    """The lines that are reported are those that the assembler refuses."""
    found = refused(head(*target), [instruction for _, instruction in ROWS[target]])
    wrong = [
        f"{instruction} should be {verdict}"
        for number, (verdict, instruction) in enumerate(ROWS[target], 1)
        if (verdict == "refused") != (number in found)
    ]

    assert not wrong, "\n".join(wrong)
