"""Vectors of registers and numbers are taken as ptxas 13.0 takes them, and numbers are the bits that it stores.

``vector_verdicts.txt`` holds a line for each target, vector and first element: the second elements that are accepted
(``tools/recordings/vectors.py``)."""

from pathlib import Path

import numpy as np
import pytest

import vectors
import warpsim
from instruction_heads import head

ROWS = [line.split("\t") for line in Path(__file__).with_name("vector_verdicts.txt").read_text().splitlines()]
SINGLE, DOUBLE = "0f3f800000", "1.5"


def left_out(text: str, first: str, second: str) -> bool:
    """Whether it is taken here and refused by the assembler or the other way round: literals of both sizes without a register,
    a number behind a first literal of 32 bits, packed halves as integer coordinates of tex alone."""
    if text.startswith("st.v4"):
        return first == SINGLE and second in ("WARP_SZ", "0", "-1", DOUBLE)
    return {first, second} == {SINGLE, DOUBLE} or (text.startswith("tex.2d.v4.f32.s32") and first == second == "x1")


@pytest.mark.parametrize("part", [0, *[pytest.param(n, marks=pytest.mark.long) for n in range(1, 4)]])
def test_what_the_assembler_takes(part, rules):
    """The pairs that are refused are those that the assembler refuses."""
    for target, asked in vectors.ASKED.items():
        given = [
            (text.replace("@", first).replace("&", second), second in good.split(" "))
            for of, text, first, good in ROWS[part::4]
            if of == target
            for second in asked[text]
            if not left_out(text, first, second)
        ]
        found = set(rules(head(target, vectors.VERSION), [text for text, _ in given]))

        assert [(text, good) for n, (text, good) in enumerate(given, 1) if good == (n in found)] == []


STORED = """
mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {f2,f3,f4,f5}, {b2,b3}, {b4}, {f1,1.1,0f3fc00000,f1};
st.v4.f32 [q1], {f2,f3,f4,f5};
st.v2.b32 [q1+16], {b2,1.1};
st.v2.f32 [q1+24], {f1,1.1};
multimem.st.v2.f32 [q1+32], {f1,1.1};
multimem.st.bf16x2 [q1+40], -1;
st.v2.b32 [q1+48], {b2,%ntid.x};
"""
EXPECTED = "3f800000 9999999a 3fc00000 3f800000 0 9999999a 3f800000 3f8ccccd 3f800000 9999999a ffffffff 0 0 20"


def test_numbers_are_bits():
    """Beside registers a number is its low bits, where no float is stored: of 1.1 those of a double, as in ptxas' constants."""
    before = head("sm_90a", vectors.VERSION) + "ld.param.u64 q1, [prm]; mov.f32 f1, 0f3f800000;"
    zeros = "".join(f"mov.b32 b{n}, 0;" for n in range(1, 5))
    out = np.zeros(14, np.uint32)
    stored = STORED.replace("st.v4", "mov.u32 u1, %tid.x; setp.ne.u32 p1, u1, 0; @p1 ret; st.v4")
    warpsim.load(f"{before}{zeros}{stored}ret;\n}}\n")["k"]((1,), (32,), (out,))

    assert " ".join(f"{word:x}" for word in out) == EXPECTED
