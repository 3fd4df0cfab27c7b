"""Registers of every type, numbers and variables as the address of every instruction that has one, as ptxas 13.0 takes them.

``address_verdicts.txt`` holds a line for each: target, PTX version, verdict, instruction; tabs between
(``tools/recordings/addresses.py``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from instruction_heads import head

ROWS = [line.split("\t") for line in Path(__file__).with_name("address_verdicts.txt").read_text().splitlines()]
WITHOUT_A_LOOK = ("cp.async.bulk.tensor", "cp.async.bulk.prefetch.tensor", "cp.reduce.async.bulk.tensor", "fence.proxy")
"""Of the address of a tensor map the assembler takes floats, predicates and 128 bits, too."""
NOWHERE = {
    "cp.async.mbarrier.arrive.b64": ("[gmem]", "[lmem]"),
    "fence.proxy.tensormap::generic.acquire.gpu": ("[5]", "[smem]", "[lmem]"),
    "multimem.ld_reduce.relaxed.gpu.add.u32": ("[smem]", "[lmem]"),
    "multimem.red.relaxed.gpu.add.u32": ("[smem]", "[lmem]"),
    "multimem.st.relaxed.gpu.u32": ("[smem]", "[lmem]"),
    "prefetch.tensormap": ("[smem]", "[lmem]"),
}
"""Variables of a memory where the instruction can find nothing: the assembler leaves that to the GPU."""


def on_purpose(instruction: str) -> bool:
    """Whether it is refused here although the assembler takes it."""
    opcode = instruction.split(" ")[0]
    odd = any(f"[{name}5{end}" in instruction for name in ("hf", "f", "x", "d", "o", "p") for end in ",]")
    return (odd and opcode.startswith(WITHOUT_A_LOOK)) or any(a in instruction for a in NOWHERE.get(opcode, ()))


@pytest.mark.parametrize("part", [*range(12, 16), *[pytest.param(n, marks=pytest.mark.long) for n in range(12)]])
def test_addresses(part: int, refused: Callable[[str, list[str]], set[int]]) -> None:
    """The lines that are reported are those that the assembler refuses, but for what is refused on purpose."""
    rows = [row for row in ROWS if not on_purpose(row[3])][part::16]
    found = refused(head("sm_90a", "8.7"), [row[3] for row in rows])

    assert [row[2:] for n, row in enumerate(rows, 1) if (row[2] == "refused") != (n in found)] == []
