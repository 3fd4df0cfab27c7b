"""Every instruction gives the same bits compiled as interpreted, on operands that hurt.

The instructions are those that the assembler accepts in ``tests/isa/arithmetic_verdicts.txt``: each gets its registers
from memory and leaves all of them there. A sample of them runs by default, all in the long run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsim
from warpsim.native.compiler import available

pytestmark = pytest.mark.skipif(not available(), reason="the extra jit is not installed")
TYPES = {
    "bb": "b8", "uh": "u16", "sh": "s16", "hf": "f16", "uq": "u64", "sq": "s64", "b": "b32", "u": "u32", "s": "s32",
    "f": "f32", "d": "f64", "h": "b16", "q": "b64", "p": "pred",
}  # fmt: skip
REGISTER = re.compile(r"\b(" + "|".join(sorted(TYPES, key=len, reverse=True)) + r")(\d)\b")
VERDICTS = Path(__file__).parent.parent / "isa" / "arithmetic_verdicts.txt"
ROWS = sorted(
    {
        (target, version, instruction)
        for target, version, verdict, instruction in (line.split("\t") for line in VERDICTS.read_text().splitlines())
        if verdict == "accepted" and "%" not in instruction and target in ("sm_90a", "sm_90", "sm_100a")
    }
)
LANES, TOGETHER = 128, 12
HARD = {
    16: [0, 1, 0x8000, 0x7FFF, 0xFFFF, 0x7C00, 0xFC00, 0x7C01, 0x03FF, 0x0400, 0x3C00, 0x7F80, 0x7F81, 0xFF80, 0x3F80],
    32: [0, 1, 0x80000000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800000, 0xFF800000, 0x7F800001, 0x7FC00000, 0x007FFFFF, 0x00800000,
         0x80800000, 0x3F800000, 0xBF800000, 0x3F000000, 0x4B000000, 0x4F000000, 0x5F000000, 0x7F7FFFFF, 31, 32, 33],
    64: [0, 1, 1 << 63, (1 << 63) - 1, (1 << 64) - 1, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF0000000000001,
         0x7FF8000000000000, 0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x3FF0000000000000, 0xBFF0000000000000,
         0x43E0000000000000, 0x47EFFFFFFFFFFFFF, 0x380FFFFFFFFFFFFF, 63, 64],
}  # fmt: skip


def operands(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """``[10, lanes]`` of 64 bits: special values of every width in the low and the high half, and random bits."""
    out = rng.integers(0, 1 << 64, (10, LANES), dtype=np.uint64)
    for row in out:
        for lane in range(0, LANES, 2):
            width = int(rng.choice([16, 32, 64]))
            value = 0
            for place in range(0, 64, width):
                value |= int(rng.choice(np.array(HARD[width], np.uint64))) << place
            row[lane] = value
    return out


def program(target: str, version: str, instructions: list[str]) -> tuple[str, int]:
    """A kernel that runs instructions one after the other, and how many registers it leaves behind."""
    lines = [
        f".version {version}\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 o) {{"
    ]
    lines += [f".reg .{type} {name}<10>;" for name, type in TYPES.items()]
    lines += [".reg .u64 in, out; .reg .u32 t, w; .reg .b16 narrow; .reg .pred yes;"]
    lines += ["ld.param.u64 in, [a]; ld.param.u64 out, [o]; mov.u32 t, %tid.x;"]
    lines += ["mad.wide.u32 in, t, 8, in; mad.wide.u32 out, t, 8, out;"]
    stored = 0
    for instruction in instructions:
        names = sorted(set(REGISTER.findall(instruction)))
        for name, digit in names:
            at = f"[in+{int(digit) * LANES * 8}]"
            if name == "p":
                lines.append(f"ld.global.u32 w, {at}; and.b32 w, w, 1; setp.ne.u32 p{digit}, w, 0;")
            else:
                lines.append(f"ld.global.{TYPES[name]} {name}{digit}, {at};".replace("f16", "b16"))
        lines.append(instruction)
        for name, digit in names:
            at = f"[out+{stored * LANES * 8}]"
            stored += 1
            if name == "p":
                lines.append(f"selp.u32 w, 1, 0, p{digit}; st.global.u32 {at}, w;")
            else:
                lines.append(f"st.global.{TYPES[name]} {at}, {name}{digit};".replace("f16", "b16"))
    return "\n".join([*lines, "ret; }"]), stored


def wrong(rows: list[tuple[str, str, str]], threads: int) -> list[str]:
    """The instructions whose registers differ between the engines."""
    instructions = [instruction for _, _, instruction in rows]
    text, stored = program(rows[0][0], rows[0][1], instructions)
    given = operands(np.random.default_rng(len(text)))
    kernel = warpsim.load(text)["k"]
    device = warpsim.Device("sm_100a" if "100" in rows[0][0] else "sm_90a")
    out = {}
    for engine in ("interpreter", "compiled"):
        out[engine] = np.zeros((stored, LANES), np.uint64)
        kernel((1,), (threads,), (given, out[engine]), engine=engine, checks="none", device=device)
    if np.array_equal(out["interpreter"], out["compiled"]):
        return []
    if len(rows) > 1:
        return [line for row in rows for line in wrong([row], threads)]
    differs = np.argwhere(out["interpreter"] != out["compiled"])[0]
    values = [hex(int(out[e][tuple(differs)])) for e in ("interpreter", "compiled")]
    return [f"{instructions[0]} lane {differs[1]}: {values[1]} compiled, {values[0]} interpreted"]


def batches(rows: list[tuple[str, str, str]]) -> list[list[tuple[str, str, str]]]:
    """Rows that fit into one program."""
    groups: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for row in rows:
        groups.setdefault(row[:2], []).append(row)
    return [group[k : k + TOGETHER] for group in groups.values() for k in range(0, len(group), TOGETHER)]


def test_a_sample_of_instructions() -> None:
    """One in four hundred of all."""
    assert [line for rows in batches(ROWS[7::401]) for line in wrong(rows, LANES)] == []


@pytest.mark.long
@pytest.mark.parametrize("part", range(16))
def test_every_instruction(part: int) -> None:
    """All, on several warps and on one that is not whole."""
    found = []
    for rows in batches(ROWS[part::16]):
        found += wrong(rows, LANES) + wrong(rows, 21)
    assert found == []
