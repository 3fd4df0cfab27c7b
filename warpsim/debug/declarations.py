"""The parameters of a kernel as its CUDA file declares them: their names, and types where those are C's own.

Line information tells where a kernel begins; what the compiler makes of the parameters has no names.
"""

from __future__ import annotations

import re

from warpsim.errors import source_lines
from warpsim.program.c_types import SCALARS, VOID, CType, Pointer, Scalar
from warpsim.program.mangling import qualified_name
from warpsim.program.program import Function

MOST = 64
"""Lines that a declaration may have."""
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DROPPED = re.compile(r"\b(?:const|volatile|struct|class|register|__restrict__|__restrict|__grid_constant__)\b")
_SPELLINGS = {
    "unsigned": "unsigned int", "half": "__half", "nv_bfloat16": "__nv_bfloat16", "size_t": "unsigned long",
    **{f"{u}int{bits}_t": name for u, sign in (("", "{}"), ("u", "unsigned {}"))
       for bits, name in ((16, sign.format("short")), (32, sign.format("int")), (64, sign.format("long")))},
    "int8_t": "signed char", "uint8_t": "unsigned char",
}  # fmt: skip


def declared_parameters(function: Function, ptx: str) -> list[tuple[str, CType | None]]:
    """The name and type of each parameter of a kernel; a type that is not C's own is None. Empty if the declaration cannot be
    read, or does not have as many parameters."""
    place = function.code[0].source if function.entry and function.code else None
    if place is None:
        return []
    lines = source_lines(place[0], ptx)[place[1] - 1 : place[1] - 1 + MOST]
    text = _COMMENT.sub(" ", "\n".join(lines))
    name = re.escape(qualified_name(function.name).rpartition("::")[2])
    begin = re.search(rf"\b{name}\s*\(", text)
    parts = _parameters(text[begin.end() :]) if begin is not None else []
    return [_declared(part) for part in parts] if len(parts) == len(function.params) else []


def _parameters(text: str) -> list[str]:
    """The texts between commas, up to the closing parenthesis."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{<") - (letter in ")]}>")
        if depth < 0:
            return parts if parts[-1].strip() else []
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return []


def _declared(text: str) -> tuple[str, CType | None]:
    """The name and type of one parameter."""
    words = _DROPPED.sub(" ", text.partition("=")[0])
    found = re.fullmatch(r"\s*([\w\s:<>,]*?)\s*([*&\s]*)\b(\w+)\s*(\[[^\]]*\])?\s*", words)
    if found is None or not found[1].strip():
        return "", None
    spelled = " ".join(found[1].split())
    base: CType | None = SCALARS.get(_SPELLINGS.get(spelled, spelled), VOID if spelled == "void" else None)
    constant = "const" in text.partition("*")[0].split()
    if base is not None and isinstance(base, Scalar) and constant:
        base = Scalar(f"const {base.name}", base.type, base.words, base.character)
    for sign in found[2].replace(" ", "") + "*" * (found[4] is not None):
        inner = base
        base = None if inner is None else Pointer(lambda inner=inner: inner, sign)  # type: ignore[misc]
    return found[3], base
