"""The bytes of a module's sections, which are for debuggers (PTX ISA: Debugging Directives)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from warpsim.ptx import ast

WIDTHS = {".b8": 1, ".b16": 2, ".b32": 4, ".b64": 8}
_LABEL = re.compile(r"\s*([\w$%.]+)\s*:\s*")
_TERM = re.compile(r"\s*([-+]?)\s*([\w$%.]+)")


class Sections:
    """The sections of a module, as bytes. A label is its offset in its section, a section's name 0; ``symbols`` are the
    addresses of labels of code and of variables."""

    def __init__(self, sections: Iterable[ast.Section], symbols: Mapping[str, int]) -> None:
        self.labels = dict(symbols)
        data: dict[str, list[tuple[int, list[str]]]] = {}
        for section in sections:
            lines, at = data.setdefault(section.name, []), 0
            self.labels.setdefault(section.name, 0)
            for line in section.data.split("\n"):
                text = line.partition("//")[0]
                while label := _LABEL.match(text):
                    self.labels[label[1]] = at
                    text = text[label.end() :]
                word, _, rest = text.strip().partition(" ")
                if word in WIDTHS:
                    items = rest.split(",")
                    lines.append((WIDTHS[word], items))
                    at += WIDTHS[word] * len(items)
        self.data = {
            name: b"".join(_bytes(item, width, self.labels) for width, items in lines for item in items)
            for name, lines in data.items()
        }

    def text(self, label: str, offset: int = 0) -> str:
        """The text of ``.debug_str`` at a label."""
        data, start = self.data.get(".debug_str", b""), self.labels.get(label, 0) + offset
        return data[start : data.find(b"\0", start)].decode("utf-8", "replace")


def _bytes(item: str, width: int, values: Mapping[str, int]) -> bytes:
    """A number, or a sum of numbers and symbols; a symbol that stands for nothing is 0."""
    total = 0
    for sign, word in _TERM.findall(item):
        value = int(word.rstrip("U"), 0) if word[0].isdigit() else values.get(word, 0)
        total += -value if sign == "-" else value
    return (total & (1 << 8 * width) - 1).to_bytes(width, "little")
