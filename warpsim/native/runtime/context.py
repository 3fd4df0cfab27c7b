"""The calling convention of regions and library functions: one array of 64-bit words, `CONTEXT`, and a status.

A region is a transaction: a status other than 0 ends it, and it is rolled back. Library functions are written in LLVM IR, in
``library.ll``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple


class CallWords(NamedTuple):
    """The words that every call passes, and reads back."""

    lives: int
    outs: int
    counts: int
    back_edges: int
    limit: int
    log_used: int
    longest: int
    per_group: int
    passed: int
    suspect: int
    changed: int
    parted: int
    common_exit: int
    tables: int
    batch_columns: int
    frame_bytes: int
    lane: int


_WORDS = f"""
    n_groups rows ctas masks t1 t0 flat columns c1 c0 threads n_allocations allocations
    shared_words shared_size shared_columns shared_written local_words local_size local_columns local_written
    {" ".join(CallWords._fields)}
    exits exit_lanes pending log log_size memo ranges states frames
    private private_bytes private_stride private_tracked cleans counters wholes stamps trail trail_ends
"""
CONTEXT = {name: place for place, name in enumerate(_WORDS.split())}
"""The words of the context: all 64 bits wide."""
CALL_AT = CONTEXT[CallWords._fields[0]]
"""Where `CallWords` begin."""
BAD_ACCESS, LOG_FULL, DIVERGED, WRAPPED, INTERFERED, UNREACHABLE, STOPPED, MET = 1, 2, 3, 4, 5, 6, 7, 8
"""Why a region is rolled back."""
SEEN, OWN = 1, 2
"""In ``changed``: memory that others see, or a thread's own."""
NOWHERE, MIXED = -2, -1
"""In place of the common exit: no warp has exited yet; warps took several exits."""


def word(name: str, type: str = "i64") -> str:
    """The text that loads a word as ``%name``, with its place in ``%p.name``."""
    return f"""  %p.{name} = getelementptr i64, ptr %ctx, i64 {CONTEXT[name]}
  %{name} = load {type}, ptr %p.{name}
"""


_DEFINITION = re.compile(r"^define internal (\w+) @([\w.]+)\((.*?)\).*?^}\n", re.M | re.S)
_NAME = re.compile(r"@([\w.]+)\(")
WORDS = {
    "at": "define internal ptr @at.{}(ptr %ctx) alwaysinline {{\n  %p = getelementptr i64, ptr %ctx, i64 {}\n  ret ptr %p\n}}\n",
    "ctx": "define internal ptr @ctx.{}(ptr %ctx) alwaysinline {{\n  %p = getelementptr i64, ptr %ctx, i64 {}\n"
    "  %v = load ptr, ptr %p\n  ret ptr %v\n}}\n",
}
"""Where a word of the context is, and the pointer that it holds."""


@lru_cache(maxsize=1)
def _parts() -> dict[str, str]:
    """Definitions and declarations by the names of their functions."""
    text = Path(__file__).with_name("library.ll").read_text()
    found = {match[2]: match[0] for match in _DEFINITION.finditer(text)}
    found |= {_NAME.findall(line)[0]: line + "\n" for line in text.splitlines() if line.startswith("declare ")}
    found |= {_of_double(name): _of_double(part) for name, part in found.items() if "float" in part}
    return found | {f"{k}.{word}": t.format(word, at) for k, t in WORDS.items() for word, at in CONTEXT.items()}


def _of_double(text: str) -> str:
    return text.replace("float", "double").replace("v32f32", "v32f64")


def module_of(name: str) -> str:
    """The module that holds a function: as it is, or ``ws_NAME_8_2`` as NAME with the constants 8 and 2 for its last parameters."""
    parts = _parts()
    root = parts[name].replace("define internal", "define", 1) if name in parts else _specialised(name)
    text, work = {name: root}, _NAME.findall(root)
    while work:
        other = work.pop()
        if other not in text:
            text[other] = parts[other]
            work += _NAME.findall(parts[other])
    return "".join(text.values())


def _specialised(name: str) -> str:
    kind, numbers = re.fullmatch(r"ws_(.*?)((?:_\d+)*)", name).groups()  # type: ignore[union-attr]
    result, _, parameters = _DEFINITION.match(_parts()[kind]).groups()  # type: ignore[union-attr]
    constants = [f"i64 {number}" for number in numbers.split("_")[1:]]
    given = parameters.split(", ")[: parameters.count(",") + 1 - len(constants)]
    call = f"call {result} @{kind}({', '.join([*given, *constants])})"
    body = f"  {call}\n  ret void" if result == "void" else f"  %status = {call}\n  ret {result} %status"
    return f"define {result} @{name}({', '.join(given)}) {{\n{body}\n}}\n"
