"""Constant expressions have the values that ptxas 13.0 gives them.

``constant_values.txt`` holds a line for each: the type of the variable, the 64 bits of the value in hexadecimal or "refused",
the expression; tabs between. ``tools/recordings/constants.py`` drew and asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpsim
from ptx_text import module_head

HEAD = module_head("sm_90a", "9.0")
ROWS = [line.split("\t") for line in Path(__file__).with_name("constant_values.txt").read_text().splitlines()]
TAKEN = [row for row in ROWS if row[1] != "refused"]
PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_values(part: int) -> None:
    """Integers by their signedness, floats of 64 bits."""
    rows = TAKEN[part::PARTS]
    lines = [f".global .{kind} a{n} = {text};\n" for n, (kind, _, text) in enumerate(rows)]
    module = warpsim.load(f"{HEAD}{''.join(lines)}.entry k() {{ ret; }}\n")
    found = [np.asarray(module.get_global(f"a{n}")).view(np.uint64).item() for n in range(len(rows))]

    assert [f"{value:x}\t{text}" for value, (_, _, text) in zip(found, rows, strict=True)] == [f"{v}\t{t}" for _, v, t in rows]  # fmt: skip


def test_refused() -> None:
    """Division by zero, and operators that have no meaning for floats or for a float and an integer."""
    for kind, said, text in ROWS:
        if said == "refused":
            with pytest.raises(warpsim.PtxError) as caught:
                warpsim.load(f"{HEAD}.global .{kind} a = {text};\n.entry k() {{ ret; }}\n")
            assert caught.value.findings[0].line == 4


def test_signs_of_floats() -> None:
    """A plus leaves them as they are, a minus does not."""
    given = {"+1.5": 1.5, "+ +1.5": 1.5, "+(-1.5)": -1.5, "-(+1.5)": -1.5, "3.0 - +0.5": 2.5}
    lines = [f".global .f64 a{n} = {text};\n" for n, text in enumerate(given)]
    module = warpsim.load(f"{HEAD}{''.join(lines)}.entry k() {{ ret; }}\n")

    assert [np.asarray(module.get_global(f"a{n}")).item() for n in range(len(given))] == list(given.values())


def test_the_least_number_divided() -> None:
    """Its quotient by -1 does not fit; ptxas ends with SIGFPE."""
    with pytest.raises(warpsim.PtxError, match="the quotient does not fit 64 bits"):
        warpsim.load(f"{HEAD}.global .u64 a = (.s64)0x8000000000000000 / -1;\n.entry k() {{ ret; }}\n")
