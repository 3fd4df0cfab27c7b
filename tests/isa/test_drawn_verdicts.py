"""Instructions drawn from every form, with modifiers and operands as they come, are judged as ptxas 13.0 does it.

``drawn_verdicts.txt.gz`` holds a line for each: target, PTX version, verdict, instruction; tabs between.
``tools/recordings/drawn.py`` draws, asks and stores them, and says what it leaves out."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

REGISTERS = {
    "bb": "b8", "uh": "u16", "sh": "s16", "hf": "f16", "uq": "u64", "sq": "s64", "b": "b32", "u": "u32", "s": "s32",
    "f": "f32", "d": "f64", "x": "f16x2", "h": "b16", "q": "b64", "p": "pred",
}  # fmt: skip
LEFT = 0.002
"""The share that may disagree: a function's name passes for a number there, a register of halves for a predicate."""


def head(target: str, version: str) -> str:
    """What stands before the instructions; ``o`` are the widest registers that the target has."""
    lines = [f".version {version}", f".target {target}", ".address_size 64"]
    lines += [f".{space} .align 128 .b8 {space[0]}mem[4096];" for space in ("shared", "global", "const")]
    lines += [".visible .entry k(.param .u64 prm) {", ".local .align 128 .b8 lmem[256];"]
    lines += [f".reg .{type} {name}<250>;" for name, type in REGISTERS.items()]
    wide = tuple(map(int, version.split("."))) >= (8, 3)
    return "\n".join([*lines, f".reg .b{128 if wide else 64} o<250>;", "e0:", "t0: .branchtargets e0;", ""])


def test_verdicts(refused: Callable[[str, list[str]], set[int]]) -> None:
    """What is accepted and refused in modules of each target and version."""
    modules: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    rows = gzip.decompress(Path(__file__).with_name("drawn_verdicts.txt.gz").read_bytes()).decode().splitlines()
    for row in rows:
        target, version, verdict, instruction = row.split("\t")
        modules[target, version].append((verdict, instruction))
    wrong = []
    for place, many in modules.items():
        found = refused(head(*place), [instruction for _, instruction in many])
        wrong += [
            f"{place} {instruction} should be {verdict}"
            for number, (verdict, instruction) in enumerate(many, 1)
            if (verdict == "refused") != (number in found)
        ]

    assert len(rows) > 3000
    assert len(wrong) < LEFT * len(rows), "\n".join(wrong)
