"""Splits PTX text into tokens: parallel lists, made in one pass by one regular expression."""

from __future__ import annotations

import math
import re
import struct
import sys
from collections.abc import Iterator

SINGLES = r"""
    (?P<skip>[ \t\r\f\v]+|//[^\n]*|/\*.*?\*/|\A\#[^\n]*)
  | (?P<newline>\n[ \t]*(?:\#[^\n]*)?)
  | (?P<float>0[fF][0-9a-fA-F]{8}(?![\w])|0[dD][0-9a-fA-F]{16}(?![\w])|\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|(?<![\w$%\])}])\.\d+(?:[eE][-+]?\d+)?(?![\w]))
  | (?P<integer>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
  | (?P<word>(?:[a-zA-Z]|[_$%][a-zA-Z0-9_$]?)[a-zA-Z0-9_$]*|[_%$])
  | (?P<dotted>\.[a-zA-Z0-9_]+(?:::[a-zA-Z0-9_]+)*)
  | (?P<string>"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*")
  | (?P<unended>/\*.*|"[^\n]*)
  | (?P<operator>&&|\|\||<<|>>|==|!=|<=|>=|::|[-+*/%&|^~!?:,;(){}\[\]<>=@])
  | (?P<bad>.)
"""
FLAGS = re.VERBOSE | re.DOTALL | re.ASCII
PLAIN = re.compile(SINGLES, FLAGS)
MASTER = re.compile(rf"(?P<numbers>(?<=\{{)[\s0-9a-fA-FxXU,.+-]{{33,}}(?=\}})) | {SINGLES}", FLAGS)
TABLE = 17
"""Numbers in braces that are one token; vector operands have fewer."""


def is_normal(value: float, text: str) -> bool:
    """Whether a decimal is zero or a normal number of 64 bits: the assembler takes no other."""
    if value == 0:
        return not text.lower().partition("e")[0].strip("-+0. \t\r\n\f\v")
    return sys.float_info.min <= abs(value) < math.inf


def numbers(text: str) -> tuple[int, tuple[int, ...]] | None:
    """The values of ``1, -2, 0x3``, or the bits of ``0f3F800000, 0f40000000``, of as many digits of ``0d``, and of ``0.5, -1.0e3``,
    and the width of these, 0 for integers; None for anything else."""
    if text.count(",") < TABLE - 1:
        return None
    head = text.lstrip()[:2].lower()
    if head in ("0f", "0d"):
        size, letter = (4, "I") if head == "0f" else (8, "Q")
        parts = [part.strip() for part in text.split(",")]
        if not all(len(part) == 2 + 2 * size and part[:2].lower() == head for part in parts):
            return None
        try:
            data = bytes.fromhex("".join([part[2:] for part in parts]))
        except ValueError:
            return None
        if len(data) != size * len(parts):
            return None
        return 8 * size, struct.unpack(f">{len(parts)}{letter}", data)
    if "." in text:
        return decimals(text.split(","))
    try:
        values = tuple([int(part, 0) for part in re.sub(r"(?<=[0-9a-fA-F])U(?=\s*(?:,|\Z))", "", text).split(",")])
    except ValueError:
        return None
    least, most = min(values), max(values)
    if least <= -(1 << 63) or most >> 64:
        return None
    return 0, tuple([value & (1 << 64) - 1 for value in values]) if least < 0 else values


def decimals(parts: list[str]) -> tuple[int, tuple[int, ...]] | None:
    """The bits of numbers that have a decimal point each; None for anything else."""
    try:
        values = [float(part) for part in parts]
    except ValueError:
        return None
    if not all("." in part and is_normal(value, part) for value, part in zip(values, parts, strict=True)):
        return None
    return 64, struct.unpack(f"<{len(values)}Q", struct.pack(f"<{len(values)}d", *values))


class Tokens:
    """Kinds, texts and character offsets, ending with a token of kind ``end``.

    A long list of numbers in braces (the initial values of a table) is a single token of kind ``numbers``; ``tables`` has its
    values, by its place among the tokens.
    """

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.starts: list[int] = []
        self.newlines = [0]
        self.tables: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._scan(MASTER.finditer(text))
        self.kinds.append("end")
        self.texts.append("")
        self.starts.append(len(text))

    def _scan(self, matches: Iterator[re.Match[str]]) -> None:
        kinds, texts, starts, newlines = self.kinds, self.texts, self.starts, self.newlines
        for match in matches:
            kind = match.lastgroup
            if kind == "numbers":
                found = numbers(match.group())
                if found is None:
                    self._scan(PLAIN.finditer(self.text, *match.span()))
                    continue
                self.tables[len(kinds)] = found
            if kind == "skip" or kind == "numbers":
                value = match.group()
                at = value.find("\n")
                if at >= 0:
                    base = match.start() + 1
                    while at >= 0:
                        newlines.append(base + at)
                        at = value.find("\n", at + 1)
                if kind == "skip":
                    continue
            if kind == "newline":
                newlines.append(match.start() + 1)
                continue
            kinds.append(kind)  # type: ignore[arg-type]
            texts.append(match.group())
            starts.append(match.start())
            if kind == "numbers":
                texts[-1] = value.lstrip()
                starts[-1] += len(value) - len(texts[-1])
