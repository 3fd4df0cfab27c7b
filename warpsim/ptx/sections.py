"""The bytes of a module's sections, which are for debuggers (PTX ISA: Debugging Directives)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from warpsim.ptx import ast

WIDTHS = {".b8": 1, ".b16": 2, ".b32": 4, ".b64": 8}
_LABEL = re.compile(r"\s*([\w$%.]+)\s*:\s*")
_TERM = re.compile(r"\s*([-+]?)\s*([\w$%.]+)")


def assembled(sections: Iterable[ast.Section], symbols: Mapping[str, int]) -> dict[str, bytes]:
    """The bytes of each section by its name. A label is its offset in its section, a section's name 0; ``symbols`` are the
    addresses of labels of code and of variables.
    """
    values, data = dict(symbols), dict[str, list[tuple[int, list[str]]]]()
    for section in sections:
        lines, at = data.setdefault(section.name, []), 0
        values.setdefault(section.name, 0)
        for line in section.data.split("\n"):
            text = line.partition("//")[0]
            while label := _LABEL.match(text):
                values[label[1]] = at
                text = text[label.end() :]
            word, _, rest = text.strip().partition(" ")
            if word in WIDTHS:
                items = rest.split(",")
                lines.append((WIDTHS[word], items))
                at += WIDTHS[word] * len(items)
    return {
        name: b"".join(_bytes(item, width, values) for width, items in lines for item in items)
        for name, lines in data.items()
    }


def _bytes(item: str, width: int, values: Mapping[str, int]) -> bytes:
    """A number, or a sum of numbers and symbols; a symbol that stands for nothing is 0."""
    total = 0
    for sign, word in _TERM.findall(item):
        value = int(word.rstrip("U"), 0) if word[0].isdigit() else values.get(word, 0)
        total += -value if sign == "-" else value
    return (total & (1 << 8 * width) - 1).to_bytes(width, "little")
