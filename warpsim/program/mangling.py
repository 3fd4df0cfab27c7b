"""The names that C++ has for what a module declares under mangled ones (the Itanium C++ ABI)."""

from __future__ import annotations

import re

_LOCAL = re.compile(r"_ZZ.*E(\d+)(\w+)")
_NESTED = re.compile(r"_ZNK?(.*)")
_LAMBDA = re.compile(r"_Z.*Ul.*E\d*_cl\w*")
_NUMBER = re.compile(r"\d+")


def source_name(name: str) -> str:
    """A variable's name in CUDA: ``tile`` for ``_ZZ6reduceE4tile``, which is declared in a function, ``table::weights`` for
    ``_ZN5table7weightsE``."""
    match = _LOCAL.fullmatch(name)
    if match is not None and len(match[2]) >= (length := int(match[1][:4])):
        return match[2][:length]
    return qualified_name(name)


def qualified_name(name: str) -> str:
    """The name of a function or a variable without its parameters, and without template arguments; ``{lambda}``, as
    gdb has it; ``name`` itself if it is not mangled, or as operators are."""
    if not name.startswith("_Z"):
        return name
    if _LAMBDA.fullmatch(name):
        return "{lambda}"
    nested = _NESTED.fullmatch(name)
    rest, parts = (nested[1] if nested else name[2:]), list[str]()
    while match := _NUMBER.match(rest):
        length = int(match[0][:4])
        part, rest = rest[match.end() :][:length], rest[match.end() + length :]
        if len(part) < length:
            return name
        parts.append(part)
        if not nested:
            break
    found = [part for part in parts if not part.startswith(("_INTERNAL_", "_GLOBAL_"))]
    return "::".join(found) if found and (not nested or rest[:1] in ("E", "I")) else name
