"""Small modules are accepted and refused as ptxas 13.0 does it, at the line of its first error.

``module_verdicts.txt`` holds one a line: the line of the error (0: accepted, -1: an error without a line), a tab, the module
without its head, ``\\n`` for the end of a line. ``tools/recordings/modules.py`` asked."""

from __future__ import annotations

from pathlib import Path

import pytest

import warpsim
from ptx_text import module_head

HEAD = module_head("sm_90a", "9.0")
ROWS = [line.split("\t") for line in Path(__file__).with_name("module_verdicts.txt").read_text().splitlines()]
PARTS = 12


@pytest.mark.parametrize("part", range(PARTS))
def test_verdicts(part: int) -> None:
    """Each module gets the assembler's verdict."""
    wrong = []
    for line, text in ROWS[part::PARTS]:
        try:
            warpsim.load(HEAD + text.replace("\\n", "\n") + "\n")
            found = 0
        except warpsim.PtxError as error:
            found = error.findings[0].line
        if found != int(line) and not (int(line) < 0 < found):
            wrong.append(f"line {found}, and ptxas has {line}: {text}")

    assert wrong == []
