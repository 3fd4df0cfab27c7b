"""Splits PTX text into tokens, which are parallel lists: one regular expression finds the pieces, and each different
piece is looked at once."""

from __future__ import annotations

import functools
import math
import re
import struct
import sys
from bisect import bisect
from itertools import accumulate, compress, repeat
from operator import add

from warpsim.errors import Span
from warpsim.ptx.ast import Leaf

MARKER = r'\#[ \t]*(?:line)?[ \t]*\d+[ \t]+"[^"\n]*"(?:[ \t]+\d+)*[ \t\r]*(?=\n|\Z)'
"""A line of a preprocessor that says where the next one was; the assembler takes no other."""
SINGLES = rf"""
    (?P<word>[a-zA-Z_$%][a-zA-Z0-9_$]*)
  | (?P<blank>[ \t\r\f\v]+)
  | (?P<newline>\n[ \t]*(?:{MARKER})?)
  | (?P<skip>//[^\n]*|/\*.*?\*/|\A{MARKER})
  | (?P<float>0[fF][0-9a-fA-F]{{8}}(?![\w])|0[dD][0-9a-fA-F]{{16}}(?![\w])|\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|(?<![\w$%\])}}])\.\d+(?:[eE][-+]?\d+)?(?![\w]))
  | (?P<integer>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
  | (?P<dotted>\.[a-zA-Z0-9_]+(?:::[a-zA-Z0-9_]+)*)
  | (?P<string>"[^"]*")
  | (?P<unended>/\*.*|"[^"]*)
  | (?P<operator>&&|\|\||<<|>>|==|!=|<=|>=|::|[-+*/%&|^~!?:,;(){{}}\[\]<>=@])
  | (?P<bad>.)
"""
FLAGS = re.VERBOSE | re.DOTALL | re.ASCII
PLAIN = re.compile(SINGLES, FLAGS)
IN_BRACES = r"(?=\s*[^\s}])[\s0-9a-fA-FxXU,.+-]{33,}(?=\})"
NAMES = r"(?:(?<==\{)|(?<==[ ]\{)|(?<==\n\{))[\s\w$%,+()-]{33,}(?=\})"
LIST = re.compile(rf"\{{(?:{IN_BRACES}|{NAMES})", FLAGS)
SYMBOL = r"(?:[a-zA-Z_$][a-zA-Z0-9_$]*|\.debug_[a-z]+)"
BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
SECTION = rf"""
    \.section[ \t]+\.debug_[a-z]+[ \t\n]*\{{(?=[ \t]*(?://[^\n]*)?\n)(?:[ \t]*(?:(?:
        \.b8[ \t]+{BYTE}(?:,{BYTE})*(?![0-9a-zA-Z])
      | \.b(?:32|64)[ \t]+(?:0|[1-9][0-9]{{0,8}}|{SYMBOL}(?:[-+](?:[0-9]+|{SYMBOL}))*)(?![0-9a-zA-Z])
      | [a-zA-Z_$][a-zA-Z0-9_$]*:
    )[ \t]*)?(?://[^\n]*)?\n)*[ \t]*\}}
"""
"""What compilers write for debuggers: a statement a line, from the second on, of numbers that fit."""


SOURCES = ".nv_intermediate_source_section"
_SOURCES = re.compile(rf"\{SOURCES}\s*\{{(?:\s*\}}|.*\.source_end\s*\}}\s*\}})", re.DOTALL)


def without_sources(text: str) -> str:
    """A text with blanks where it has sources in an intermediate language, for debuggers (PTX ISA 9.4, 11.5.6)."""
    if SOURCES not in text:
        return text
    return _SOURCES.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text, count=1)


@functools.cache
def pattern(*, sections: bool, lists: bool) -> re.Pattern[str]:
    """What finds the pieces of a text."""
    words = re.sub(r"\?P<\w+>", "?:", SINGLES)
    first = [SECTION] * sections + [rf"(?<=\{{){IN_BRACES}", NAMES] * lists
    return re.compile(" | ".join([*first, words]), FLAGS)


AFTER_WORD = re.compile(r"[\w$%\])}]", re.ASCII)
TABLE = 17
"""Values in braces that are one token; vector operands of numbers have fewer."""
_NAME, _NUMBER = r"[a-zA-Z_$%][\w$]*", r"-?(?:0|[1-9]\d{0,17})"
_LEAF = re.compile(
    rf"\s*(?:({_NUMBER})|(0xFF(?:00){{0,7}}\()?(?:({_NAME})|generic\(({_NAME})\))(?:\s*\+\s*({_NUMBER}))?(\))?)\s*",
    re.ASCII,
)


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


def addresses(text: str) -> tuple[Leaf, ...] | None:
    """The values of ``a, b+8, generic(c), 0xFF(d), 5``; None for anything else."""
    parts = text.split(",")
    if len(parts) < TABLE:
        return None
    leaves: dict[str, Leaf] = {}
    for part in dict.fromkeys(parts):
        found = _LEAF.fullmatch(part)
        if found is None:
            return None
        number, mask, plain, generic, offset, closed = found.groups()
        if (mask is None) != (closed is None) or plain in ("generic", "WARP_SZ"):
            return None
        chosen = int(mask[:-1], 16) if mask else None
        leaves[part] = Leaf(plain or generic, int(number or offset or 0), generic is not None, chosen)
    return tuple([leaves[part] for part in parts])


def kind_of(piece: str) -> str:
    """The kind of a piece by itself, empty for what is no token; ``fraction`` for ``.5``, which may be a modifier."""
    match = PLAIN.match(piece)
    assert match is not None
    kind = str(match.lastgroup)
    if match.end() < len(piece):
        return "section" if piece.startswith(".section") else "numbers"
    if kind in ("blank", "newline", "skip"):
        return ""
    return "fraction" if kind == "float" and piece[0] == "." else kind


WORD, WORDS = 40, 1 << 14
"""Length up to which, and number of pieces of which, kinds are kept."""
CONTEXT = frozenset({"section", "numbers", "fraction", "unended"})
"""Kinds of pieces that do not tell everything by themselves."""


class Kinds(dict[str, str]):
    """The kind of each different piece."""

    def __missing__(self, piece: str) -> str:
        kind = kind_of(piece)
        if len(piece) < WORD:
            if len(self) >= WORDS:
                self.clear()
            self[piece] = kind
        return kind


@functools.lru_cache(maxsize=1)
def kinds_known() -> Kinds:
    """Those of all texts."""
    return Kinds()


class Tokens:
    """Kinds, texts and character offsets, ending with a token of kind ``end``.

    A long list of numbers in braces (the initial values of a table) is a single token of kind ``numbers``, and one of addresses
    of kind ``addresses``; ``tables`` and ``addresses`` have their values, by the place among the tokens. With ``whole``, a section for debuggers after another item of the module is one of
    kind ``section``: its text is its first word, and ``sections`` has all of it.
    """

    def __init__(self, text: str, file: str, *, whole: bool = False) -> None:
        self.text = text
        self.file = file
        self.tables: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.addresses: dict[int, tuple[Leaf, ...]] = {}
        self.sections: dict[int, str] = {}
        pieces = pattern(sections=whole and ".section" in text, lists=LIST.search(text) is not None).findall(text)
        kind = kinds_known().__getitem__
        kinds = list(map(kind, pieces))
        plain = CONTEXT.isdisjoint(kinds)
        if not plain and (apart := _apart(pieces, kinds)):
            pieces = _divided(pieces, apart)
            kinds = list(map(kind, pieces))
        self.texts = list(compress(pieces, kinds))
        self.starts = list(compress(accumulate(map(len, pieces), initial=0), kinds))
        self.kinds = list(filter(None, kinds))
        self.newlines = list(accumulate(map(add, map(len, text.split("\n")[:-1]), repeat(1)), initial=0))
        if not plain:
            self._look_again()
        self.kinds.append("end")
        self.texts.append("")
        self.starts.append(len(text))

    def _look_again(self) -> None:
        """Complete the tokens of which a piece does not tell everything."""
        kinds, texts, starts = self.kinds, self.texts, self.starts
        for i in [i for i, kind in enumerate(kinds) if kind in CONTEXT]:
            kind = kinds[i]
            if kind == "numbers":
                found = numbers(texts[i])
                if found is not None:
                    self.tables[i] = found
                else:
                    leaves = addresses(texts[i])
                    assert leaves is not None
                    self.addresses[i], kinds[i] = leaves, "addresses"
                starts[i] += len(texts[i]) - len(texts[i].lstrip())
                texts[i] = texts[i].lstrip()
            elif kind == "section":
                self.sections[i] = texts[i]
                texts[i] = ".section"
            elif kind == "fraction":
                kinds[i] = "dotted" if AFTER_WORD.match(self.text[starts[i] - 1 : starts[i]]) else "float"
        if texts and texts[-1].startswith("/*"):  # a comment without an end: its lines do not count
            del self.newlines[bisect(self.newlines, starts[-1]) :]


def _apart(pieces: list[str], kinds: list[str]) -> list[int]:
    """Lists of numbers that are none, and sections that do not follow an item of the module: several tokens each."""
    found: list[int] = []
    first, depth, before = 0, 0, ""
    for i in [i for i, kind in enumerate(kinds) if kind in ("numbers", "section")]:
        passed = pieces[first:i]
        depth += passed.count("{") - passed.count("}")
        before = next(compress(reversed(passed), reversed(kinds[first:i])), before)
        if kinds[i] == "numbers":
            whole = numbers(pieces[i]) is not None or (_initial(passed) and addresses(pieces[i]) is not None)
        else:
            whole = depth == 0 and (before == "}" or before.startswith('"'))
            before = "}"
        if not whole:
            found.append(i)
        first = i + 1
    return found


def _divided(pieces: list[str], apart: list[int]) -> list[str]:
    """Divide some of the pieces into their tokens."""
    found: list[str] = []
    first = 0
    for i in apart:
        found += pieces[first:i]
        found += pattern(sections=False, lists=False).findall(pieces[i])
        first = i + 1
    return found + pieces[first:]


def _initial(passed: list[str]) -> bool:
    """Whether a list behind these pieces is an initial value, and no vector."""
    return "".join(passed[-3:]).replace(" ", "").replace("\n", "").endswith("={")


class SyntaxProblem(Exception):
    """A problem in the text; the parser records it and continues."""

    def __init__(self, message: str, span: Span, advice: str = "", rule: str = "syntax") -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.span = span
        self.advice = advice


class Stream:
    """The tokens of a text, and the parser's position."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.open(text)

    def open(self, text: str, line: int = 1) -> None:
        """Go to the beginning of a text, whose first line is a ``line`` of the file."""
        tokens = Tokens(text, self.file, whole=True)
        self.kinds, self.texts, self.starts = tokens.kinds, tokens.texts, tokens.starts
        self.newlines, self.tables, self.sections = tokens.newlines, tokens.tables, tokens.sections
        self.addresses = tokens.addresses
        self.source = text
        self.above = line - 1
        self.i = 0

    @property
    def kind(self) -> str:
        """Kind of the current token."""
        return self.kinds[self.i]

    @property
    def text(self) -> str:
        """Text of the current token."""
        return self.texts[self.i]

    def peek(self, ahead: int) -> str:
        """Text of the token ``ahead`` positions further on."""
        at = self.i + ahead
        return self.texts[at] if at < len(self.texts) else ""

    def skip(self) -> None:
        """Advance by one token, but not past the end."""
        if self.kinds[self.i] != "end":
            self.i += 1

    def take(self) -> str:
        """Return the current text and advance."""
        text = self.texts[self.i]
        self.skip()
        return text

    def accept(self, text: str) -> bool:
        """Advance if the current token is ``text``; returns whether it was."""
        if self.texts[self.i] == text and self.kinds[self.i] != "end":
            self.i += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Advance past ``text``, or raise."""
        if not self.accept(text):
            raise self.problem(f"found {self.shown()} where {text!r} was expected")

    def word(self, what: str) -> str:
        """Take an identifier."""
        if self.kinds[self.i] != "word":
            raise self.problem(f"found {self.shown()} where {what} was expected")
        return self.take()

    def shown(self) -> str:
        """Format the current token for a message."""
        return "the end of the text" if self.kind == "end" else repr(self.text[:40])

    def line_of(self, token: int) -> int:
        """The line of a token."""
        return bisect(self.newlines, self.starts[min(token, len(self.starts) - 1)])

    def span(self) -> Span:
        """The span of the current token."""
        start = self.starts[self.i]
        line = bisect(self.newlines, start)
        column = start - self.newlines[line - 1] + 1
        return tuple.__new__(Span, (self.file, self.above + line, column, len(self.texts[self.i]) or 1))

    def problem(self, message: str, advice: str = "", rule: str = "syntax") -> SyntaxProblem:
        """Make a problem at the current token."""
        return SyntaxProblem(message, self.span(), advice, rule)

    def line_text(self, line: int) -> str:
        """A line of the source."""
        start = self.newlines[line - 1] if line - 1 < len(self.newlines) else len(self.source)
        end = self.source.find("\n", start)
        return self.source[start : end if end >= 0 else len(self.source)].rstrip("\r")
