"""The text of a module as it stands in an editor, perhaps half written: what is declared where, and which CUDA line a place
belongs to. It is read by a regular expression, so that nothing in it can be wrong."""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterator

from warpsim.errors import source_lines, source_name
from warpsim.ptx.words import NEWEST
from warpsim.records import frozen

LONGEST = 2000
"""Most characters of a function's heading that are shown."""
NAME = r"[a-zA-Z_$%][\w$]*"
_DECLARED = rf"{NAME}(?:\s*<\s*\d+\s*>)?(?:\s*\[[^\]\n]*\])*"
_PIECE = re.compile(
    rf"""
    (?P<skip>//[^\n]*|/\*.*?(?:\*/|\Z)|"[^"\n]*"?|\{{[^{{}};/]*\}})
  | (?P<brace>[{{}};])
  | \.(?P<kind>entry|func)\b(?=(?:\s*\.attribute\s*\([^)]*\))?(?:\s*\([^)]*\))?\s*(?P<function>{NAME}))?
  | \.loc[ \t]+(?P<file>\d+)[ \t]+(?P<line>\d+)
  | \.file[ \t]+(?P<number>\d+)[ \t]+"(?P<path>[^"\n]*)"
  | (?<![\w.])(?P<space>\.(?:reg|param|shared|global|const|local))\b(?P<type>(?:\s+(?:\.\w+|\d+))*)\s+(?P<names>{_DECLARED}(?:\s*,\s*{_DECLARED})*)
  | (?<![\w$%.:])(?P<label>{NAME})\s*:(?!:)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ONE = re.compile(rf"({NAME})(?:\s*<\s*(\d+)\s*>)?", re.ASCII)
_COMMENT = re.compile(r"/\*.*?\*/")
_HEADING = re.compile(r"[;{]")
_STATEMENT = re.compile(
    r"(?:^|[;{}]|(?<!:):(?!:)|@!?[\w$%]+\s)\s*([a-zA-Z_]\w*(?:\.\w+(?:::\w+)*)*\.?(?:\w+:{1,2})?)", re.ASCII
)
_WORD = re.compile(r"[a-zA-Z_$%][\w$]*(?:\.[xyzw]\b)?", re.ASCII)
_TARGET = re.compile(r"^\s*\.target\s+(sm_\d+[af]?)", re.MULTILINE)
_VERSION = re.compile(r"^\s*\.version\s+(\d)\.(\d)\b", re.MULTILINE)


@frozen
class Declared:
    """A name and where it is declared: ``kind`` is label, entry, func or a state space such as ``.reg``; ``text`` is the
    declaration. ``%r<5>`` has a ``count``."""

    name: str
    kind: str
    text: str
    start: int
    count: int | None = None


class Scope:
    """A function, or braces in it, from ``start`` to ``end``; the module is the outermost."""

    def __init__(self, start: int, above: Scope | None, function: str = "") -> None:
        self.start, self.end, self.above, self.function = start, 1 << 60, above, function
        self.names: dict[str, Declared] = {}

    def find(self, name: str) -> Declared | None:
        """What a name means here."""
        found = self.names.get(name)
        if found is not None and found.count is None:
            return found
        digits = len(name) - len(name.rstrip("0123456789"))
        for length in range(1, digits + 1):
            many = self.names.get(name[:-length])
            number = name[-length:]
            if many is not None and many.count is not None and str(int(number)) == number and int(number) < many.count:
                return many
        return self.above.find(name) if self.above is not None else None


class _Reader:
    """All scopes of a text in the order of their starts, the offset, file and line of each ``.loc``, and the files."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.scopes = [Scope(0, None)]
        self.locations: list[tuple[int, str, int]] = []
        self.files: dict[str, str] = {}
        self.within, self.heading = self.scopes[0], False
        for piece in _PIECE.finditer(text):
            if piece["brace"]:
                self._brace(piece["brace"], piece.start())
            elif piece["kind"]:
                self._function(piece)
            elif piece["file"]:
                self.locations.append((piece.start(), piece["file"], int(piece["line"])))
            elif piece["number"]:
                self.files[piece["number"]] = piece["path"]
            elif piece["names"]:
                self._declaration(piece)
            elif piece["label"] and self.within.above is not None:
                label = piece["label"]
                self.within.names.setdefault(label, Declared(label, "label", f"{label}:", piece.start()))

    def _brace(self, brace: str, at: int) -> None:
        """A brace, or the semicolon that may end a heading."""
        if brace == "{" and not self.heading:
            self.within = Scope(at, self.within, self.within.function)
            self.scopes.append(self.within)
        elif (brace == "}" or (brace == ";" and self.heading)) and self.within.above is not None:
            self.within.end = at + 1
            self.within = self.within.above
        self.heading = False

    def _function(self, piece: re.Match[str]) -> None:
        name, here, module = piece["function"] or "", piece.start(), self.scopes[0]
        while self.within.above is not None:
            self.within.end, self.within = here, self.within.above
        ends = _HEADING.search(self.text, here)
        if name and (name not in module.names or (ends is not None and ends[0] == "{")):
            text = self.text[here : ends.start() if ends is not None else here + LONGEST][:LONGEST]
            declared = Declared(name, piece["kind"], " ".join(text.split()), piece.start("function"))
            module.names[name] = declared
        self.within, self.heading = Scope(here, module, name), True
        self.scopes.append(self.within)
        self.locations.append((here, "", 0))

    def _declaration(self, piece: re.Match[str]) -> None:
        names = re.sub(r"\[[^\]]*\]", lambda found: " " * len(found[0]), piece["names"])
        for one in _ONE.finditer(names):
            text = " ".join(f"{piece['space']}{piece['type']} {one[0]}".split())
            count = int(one[2]) if one[2] and len(one[2]) < 9 else None
            start = piece.start("names") + one.start()
            self.within.names.setdefault(one[1], Declared(one[1], piece["space"], text, start, count))


class Text:
    """A text, its lines, and (read when first asked for) its scopes and CUDA lines."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.lines = text.split("\n")
        target, version = _TARGET.search(text), _VERSION.search(text)
        self.target = target[1] if target else "sm_90a"
        self.version = (int(version[1]), int(version[2])) if version else NEWEST

    @functools.cached_property
    def starts(self) -> list[int]:
        """The offset of each line."""
        found = [0]
        for line in self.lines:
            found.append(found[-1] + len(line) + 1)
        return found

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, from 0."""
        line = bisect_right(self.starts, offset) - 1
        return line, offset - self.starts[line]

    # ---- what is declared --------------------------------------------------------------------

    @functools.cached_property
    def _read(self) -> _Reader:
        return _Reader(self.text)

    def scope(self, offset: int) -> Scope:
        """The innermost scope of a place."""
        scopes = self._read.scopes
        return next((s for s in reversed(scopes) if s.start <= offset < s.end), scopes[0])

    def entries(self) -> Iterator[Declared]:
        """The kernels."""
        return (found for found in self._read.scopes[0].names.values() if found.kind == "entry")

    def functions(self) -> Iterator[Scope]:
        """The functions; one that is declared before has a scope for each."""
        return (scope for scope in self._read.scopes[1:] if scope.function and scope.above is self._read.scopes[0])

    # ---- what stands at a place --------------------------------------------------------------

    def code(self, line: int) -> str:
        """A line without its comment."""
        if not 0 <= line < len(self.lines):
            return ""
        return _COMMENT.sub(lambda found: " " * len(found[0]), self.lines[line]).partition("//")[0]

    def opcode(self, line: int, column: int) -> re.Match[str] | None:
        """The opcode with its modifiers at a place, as group 1."""
        found = _STATEMENT.finditer(self.code(line))
        return next((match for match in found if match.start(1) <= column <= match.end(1)), None)

    def word(self, line: int, column: int) -> re.Match[str] | None:
        """The name at a place."""
        return next((m for m in _WORD.finditer(self.code(line)) if m.start() <= column <= m.end()), None)

    # ---- CUDA --------------------------------------------------------------------------------

    def sources(self, first: int, last: int) -> Iterator[tuple[int, tuple[str, int]]]:
        """The ``.loc`` of these lines, each with its line and the CUDA file and line."""
        for offset, file, number in self._read.locations:
            line = self.place(offset)[0]
            if first <= line <= last and number:
                yield line, (self._read.files.get(file, ""), number)

    def source(self, line: int) -> tuple[str, int] | None:
        """The CUDA file and line of a PTX line."""
        locations = self._read.locations
        at = bisect_right(locations, (self.starts[min(line + 1, len(self.lines))], "", -1)) - 1
        if at < 0 or not locations[at][2]:
            return None
        return self._read.files.get(locations[at][1], ""), locations[at][2]

    def source_text(self, source: tuple[str, int]) -> str:
        """A CUDA line: its place, and its text if the file can be read."""
        lines = _kept_lines(source[0], self.file)
        text = lines[source[1] - 1].strip() if 0 < source[1] <= len(lines) else ""
        return f"{source_name(source)}: {text}" if text else source_name(source)


@functools.lru_cache(maxsize=8)
def _kept_lines(file: str, ptx: str) -> list[str]:
    return source_lines(file, ptx)
