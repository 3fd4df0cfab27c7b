"""A uniform operand beside varying ones gives the bits of the same value in every lane: the two take different ways."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsim

TYPES = {
    "bb": "b8", "uh": "u16", "sh": "s16", "hf": "f16", "uq": "u64", "sq": "s64", "b": "b32", "u": "u32", "s": "s32",
    "f": "f32", "d": "f64", "h": "b16", "q": "b64", "p": "pred",
}  # fmt: skip
REGISTER = re.compile(r"\b(" + "|".join(sorted(TYPES, key=len, reverse=True)) + r")(\d)\b")
VERDICTS = Path(__file__).parent / "arithmetic_verdicts.txt"
ROWS = sorted(
    {
        (target, version, instruction)
        for target, version, verdict, instruction in (line.split("\t") for line in VERDICTS.read_text().splitlines())
        if verdict == "accepted" and "%" not in instruction and target in ("sm_90a", "sm_90", "sm_100a")
    }
)
LANES, TOGETHER = 64, 12
VALUES = [
    0, 1, 31, 32, 33, 63, 64, 0x80000000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800000, 0xFF800001, 0x7FC00000, 0x00800000, 0x3F800000,
    0x3C003C00, 0x7E017C00, 1 << 63, (1 << 64) - 1, 0x7FF0000000000000, 0x7FF8000000000001, 0x3FF0000000000000,
]  # fmt: skip


def program(target: str, version: str, instructions: list[str], uniform: int | None) -> tuple[str, int]:
    """A kernel of instructions, each on registers from memory; the register ``uniform`` of each comes from one address."""
    lines = [
        f".version {version}\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 o) {{"
    ]
    lines += [f".reg .{type} {name}<10>;" for name, type in TYPES.items()]
    lines += [".reg .u64 all, in, out; .reg .u32 t, w; .reg .pred yes;"]
    lines += ["ld.param.u64 all, [a]; ld.param.u64 out, [o]; mov.u32 t, %tid.x;"]
    lines += ["mad.wide.u32 in, t, 8, all; mad.wide.u32 out, t, 8, out;"]
    stored = 0
    for instruction in instructions:
        names = sorted(set(REGISTER.findall(instruction)))
        for name, digit in names:
            at = f"[{'all' if int(digit) == uniform else 'in'}+{int(digit) * LANES * 8}]"
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


def differing(rows: list[tuple[str, str, str]], uniform: int, rng: np.random.Generator) -> list[str]:
    """The instructions whose registers differ."""
    target, version, instructions = rows[0][0], rows[0][1], [instruction for _, _, instruction in rows]
    given: np.ndarray[Any, Any] = rng.integers(0, 1 << 64, (10, LANES), dtype=np.uint64)
    given[:, ::2] = rng.choice(np.array(VALUES, np.uint64), given[:, ::2].shape)
    given[uniform] = rng.choice(np.array(VALUES, np.uint64))
    out = []
    for which in (uniform, None):
        text, stored = program(target, version, instructions, which)
        out.append(np.zeros((stored, LANES), np.uint64))
        device = warpsim.Device("sm_100a" if "100" in target else "sm_90a")
        warpsim.load(text)["k"]((1,), (LANES,), (given, out[-1]), engine="interpreter", checks="none", device=device)
    if np.array_equal(*out):
        return []
    if len(rows) == 1:
        return [f"{instructions[0]} with register {uniform} = 0x{int(given[uniform, 0]):x}"]
    return [line for row in rows for line in differing([row], uniform, rng)]


def found(rows: list[tuple[str, str, str]]) -> list[str]:
    """What differs of these, each register uniform in turn."""
    rng, groups = np.random.default_rng(1), dict[tuple[str, str], list[tuple[str, str, str]]]()
    for row in rows:
        groups.setdefault(row[:2], []).append(row)
    parts = [group[k : k + TOGETHER] for group in groups.values() for k in range(0, len(group), TOGETHER)]
    return [line for part in parts for uniform in (1, 2, 3) for line in differing(part, uniform, rng)]


def test_a_sample_of_instructions() -> None:
    """One in two hundred of all."""
    assert found(ROWS[::199]) == []


@pytest.mark.long
@pytest.mark.parametrize("part", range(16))
def test_every_instruction(part: int) -> None:
    """All of them."""
    assert found(ROWS[part::16]) == []
