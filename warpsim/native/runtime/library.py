"""Library functions of regions, written in LLVM IR in ``library.ll``."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from warpsim.native.runtime.context import CONTEXT

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
