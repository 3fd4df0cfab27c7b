"""The outline of a module: its text without the bodies of its functions, which are read when they are wanted.

This is for texts as compilers write them: the braces of a body stand alone at the beginning of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from warpsim.errors import PtxError
from warpsim.ptx import ast
from warpsim.ptx.parser import IsName, Parser
from warpsim.ptx.tokens import SOURCES

HOLE = "\x01"
"""A character that no such text has."""
_COMMENT = re.compile(r"//[^\n]*")
_STRING = re.compile(r'"[^"]*"?')
_CUT = re.compile(r'"[^"\n]*//')
_MARKER = re.compile(r"\n[ \t]*#")


class Body:
    """What stands between a function's braces, without comments, and the line of the first of them."""

    def __init__(self, text: str, line: int) -> None:
        self.text, self.line = text, line


class Outline:
    """The syntax tree of a module whose functions have no statements, and their ``bodies`` by name; ``parser`` reads on in these."""

    def __init__(self, module: ast.Module, bodies: dict[str, Body], parser: Parser) -> None:
        self.module, self.bodies, self.parser = module, bodies, parser

    def end(self) -> None:
        """Check what all bodies together must fulfil.

        Raises:
            PtxError: something is wrong in them.
        """
        self.parser.directives.check_names()
        if self.parser.expressions.findings:
            raise PtxError(findings=tuple(self.parser.expressions.findings))


def outline_of(text: str, file: str, is_name: IsName) -> Outline | None:
    """The outline of a text; None where there is none, or anything is wrong with it."""
    if (
        HOLE in text
        or SOURCES in text
        or "/*" in text
        or "\n{\n" not in text
        or ("#" in text and _MARKER.search("\n" + text))
    ):
        return None
    if any("\n" in string for string in _STRING.findall(text)):
        return None
    bodies = list(_bodies(text))
    short, at = [], 0
    for begin, end, _ in bodies:
        blank = "\n" * (text.count("\n", begin, end) - 1)
        short += [text[at:begin], f"/*{blank}*/\n"]  # one piece for the tokeniser
        at = end
    parser = Parser("".join([*short, text[at:]]), file, is_name)
    module = parser.module()
    if module is None or parser.expressions.findings:
        return None
    functions = [item for item in module.items if isinstance(item, ast.Function) and item.body is not None]
    lines = [item.body.span.line for item in functions if item.body is not None]
    if lines != [body.line for _, _, body in bodies] or len({item.name for item in functions}) < len(functions):
        return None
    found = {item.name: body for item, (_, _, body) in zip(functions, bodies, strict=True)}
    return Outline(attrs.evolve(module, source=text), found, parser)


def _bodies(text: str) -> Iterator[tuple[int, int, Body]]:
    """Where the bodies of a text begin and end, behind one brace and at the other."""
    at, counted, line = 0, 0, 1
    while (begin := text.find("\n{\n", at) + 2) > 1:
        if text.startswith(".section", text.rfind("\n", 0, begin - 2) + 1):  # debug information
            at = begin
            continue
        pieces, depth, end = [""], 1, begin
        while depth and (close := text.find("\n}", end - 1) + 1):
            piece = _COMMENT.sub("", text[end : close + 1])
            depth += piece.count("{") - piece.count("}")
            pieces.append(piece)
            end = close + 1
        if depth:
            return
        body = "".join(pieces)[:-1]
        if '"' in body and _CUT.search(text, begin, end):
            return
        line, counted = line + text.count("\n", counted, begin), begin
        yield begin, end - 1, Body(body, line)
        at = end
