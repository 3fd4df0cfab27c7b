"""The head of a module in which the assembler judges instructions one by one: a variable of each space, registers of each type."""

from __future__ import annotations

import re
from collections.abc import Mapping

REGISTERS = {
    "bb": "b8", "uh": "u16", "sh": "s16", "hf": "f16", "uq": "u64", "sq": "s64", "b": "b32", "u": "u32", "s": "s32",
    "f": "f32", "d": "f64", "x": "f16x2", "h": "b16", "q": "b64", "p": "pred",
}  # fmt: skip
"""What the registers of a type are called; ``o`` are the widest that target and version have."""


def head(target: str, version: str, count: int = 10, registers: Mapping[str, str] = REGISTERS) -> str:
    """What stands before the instructions, with so many registers of each type."""
    wide = tuple(map(int, version.split("."))) >= (8, 3) and int(re.sub(r"\D", "", target)) >= 70
    lines = [f".version {version}", f".target {target}", ".address_size 64"]
    lines += [f".{space} .align 128 .b8 {space[0]}mem[4096];" for space in ("shared", "global", "const")]
    lines += [".visible .entry k(.param .u64 prm) {", ".local .align 128 .b8 lmem[256];"]
    lines += [f".reg .{type} {name}<{count}>;" for name, type in registers.items()]
    return "\n".join([*lines, f".reg .b{128 if wide else 64} o<{count}>;", ""])
