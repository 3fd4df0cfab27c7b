"""Kernels of single instructions, for tests that hold one way of running them against another.

The instructions are those that the assembler accepts in ``tests/isa/arithmetic_verdicts.txt``: each gets its registers
from memory and leaves all of them there."""

from __future__ import annotations

import re
from pathlib import Path

from ptx_text import module_head

TYPES = {
    "bb": "b8", "uh": "u16", "sh": "s16", "hf": "f16", "uq": "u64", "sq": "s64", "b": "b32", "u": "u32", "s": "s32",
    "f": "f32", "d": "f64", "h": "b16", "q": "b64", "p": "pred",
}  # fmt: skip
REGISTER = re.compile(r"\b(" + "|".join(sorted(TYPES, key=len, reverse=True)) + r")(\d)\b")
VERDICTS = Path(__file__).parents[1] / "isa" / "arithmetic_verdicts.txt"
Row = tuple[str, str, str]
"""Target, PTX version, instruction."""
ROWS: list[Row] = sorted(
    {
        (target, version, instruction)
        for target, version, verdict, instruction in (line.split("\t") for line in VERDICTS.read_text().splitlines())
        if verdict == "accepted" and "%" not in instruction and target in ("sm_90a", "sm_90", "sm_100a")
    }
)
TOGETHER = 12
"""Instructions of one kernel."""


def batches(rows: list[Row]) -> list[list[Row]]:
    """Rows that fit into one kernel."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault(row[:2], []).append(row)
    return [group[k : k + TOGETHER] for group in groups.values() for k in range(0, len(group), TOGETHER)]


def kernel(rows: list[Row], lanes: int, uniform: int | None = None) -> tuple[str, int]:
    """A kernel of instructions of one target, and how many registers it leaves behind, 64 bits for each of so many lanes.
    The register ``uniform`` of each instruction comes from one address."""
    target, version, _ = rows[0]
    lines = [module_head(target, version) + ".visible .entry k(.param .u64 a, .param .u64 o) {"]
    lines += [f".reg .{type} {name}<10>;" for name, type in TYPES.items()]
    lines += [".reg .u64 all, in, out; .reg .u32 t, w; .reg .b16 narrow; .reg .pred yes;"]
    lines += ["ld.param.u64 all, [a]; ld.param.u64 out, [o]; mov.u32 t, %tid.x;"]
    lines += ["mad.wide.u32 in, t, 8, all; mad.wide.u32 out, t, 8, out;"]
    stored = 0
    for _, _, instruction in rows:
        names = sorted(set(REGISTER.findall(instruction)))
        for name, digit in names:
            at = f"[{'all' if int(digit) == uniform else 'in'}+{int(digit) * lanes * 8}]"
            if name == "p":
                lines.append(f"ld.global.u32 w, {at}; and.b32 w, w, 1; setp.ne.u32 p{digit}, w, 0;")
            else:
                lines.append(f"ld.global.{TYPES[name]} {name}{digit}, {at};".replace("f16", "b16"))
        lines.append(instruction)
        for name, digit in names:
            at = f"[out+{stored * lanes * 8}]"
            stored += 1
            if name == "p":
                lines.append(f"selp.u32 w, 1, 0, p{digit}; st.global.u32 {at}, w;")
            else:
                lines.append(f"st.global.{TYPES[name]} {at}, {name}{digit};".replace("f16", "b16"))
    return "\n".join([*lines, "ret; }"]), stored
