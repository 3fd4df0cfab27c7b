"""Splits PTX text into tokens: parallel lists, made in one pass by one regular expression."""

from __future__ import annotations

import re

MASTER = re.compile(
    r"""
    (?P<numbers>(?<=\{)(?:0|[1-9]\d{0,18})(?:,\s*(?:0|[1-9]\d{0,18})){63,}(?=\s*\}))
  | (?P<skip>[ \t\r\f\v]+|//[^\n]*|/\*.*?\*/|\A\#[^\n]*)
  | (?P<newline>\n[ \t]*(?:\#[^\n]*)?)
  | (?P<float>0[fF][0-9a-fA-F]{8}(?![\w])|0[dD][0-9a-fA-F]{16}(?![\w])|\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|(?<![\w$%\])}])\.\d+(?:[eE][-+]?\d+)?(?![\w]))
  | (?P<integer>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
  | (?P<word>(?:[a-zA-Z]|[_$%][a-zA-Z0-9_$]?)[a-zA-Z0-9_$]*|[_%$])
  | (?P<dotted>\.[a-zA-Z0-9_]+(?:::[a-zA-Z0-9_]+)*)
  | (?P<string>"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*")
  | (?P<unended>/\*.*|"[^\n]*)
  | (?P<operator>&&|\|\||<<|>>|==|!=|<=|>=|::|[-+*/%&|^~!?:,;(){}\[\]<>=@])
  | (?P<bad>.)
""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class Tokens:
    """Kinds, texts and character offsets, ending with a token of kind ``end``.

    A long list of plain numbers in braces (the initial values of a table) is a single token of kind ``numbers``.
    """

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.starts: list[int] = []
        kinds, texts, starts = self.kinds, self.texts, self.starts
        newlines = [0]
        for match in MASTER.finditer(text):
            kind = match.lastgroup
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
        kinds.append("end")
        texts.append("")
        starts.append(len(text))
        self.newlines = newlines
