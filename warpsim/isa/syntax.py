"""Parses syntax blocks, in the manual's own notation with ``{...}`` for optional parts.

A block is a list of statements, each ended by ``;``: lines of a form (``add{.sat}.s32 d, a, b;``) and definitions of
the modifier classes that the forms name (``.type = { .u16, .u32 };``). ``//`` starts a comment. Operands are ``d`` (a
value), ``d|p`` and ``d{|p}`` (two destinations), ``{!}c`` (a predicate that may be negated), ``[a]`` and ``[a, b]``
(addresses), ``{a0, a1}`` (a vector of two), ``_`` (a sink); ``{, x}`` is optional. ``a{.asel}`` takes a selector of
bytes or halves, whose words are a class of the block. ``-a`` needs an arithmetic minus, ``{-}a`` may have one. ``%cc``
is the carry flag, which no instruction names: ``d|%cc`` writes it (``carry_out``), and as a source it is ``carry``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

import attrs

from warpsim.records import cached_property, frozen
from warpsim.types import TYPES

ROLES = frozenset(("target", "tlist", "fname", "ret_list", "param_list", "flist"))
_WORD = r"[\w$]+(?:::[\w$]+)*"
_COMMENT = re.compile(r"//[^\n]*")
_ROOT = re.compile(r"(?:^|;)\s*([A-Za-z_]\w*)")
_OPCODE = re.compile(rf"\s*([A-Za-z_]\w*)((?:\.{_WORD}|\{{\s*\.[^}}]*\}})*)(?:\s+(.*))?$", re.S)
_WORDS = re.compile(rf"\.({_WORD})")
_OPTIONAL = re.compile(r"\{\s*,")
_PIECE = re.compile(rf"\.({_WORD})|\{{\s*((?:\.{_WORD}\s*)+)\}}")


class Slot:
    """One place for a modifier: ``values`` are its words, ``name`` its attribute on ``Op``.

    ``typed``: all of them are types. ``group`` numbers slots that are present or absent together (``{.sem.scope}``); None if the slot is mandatory.
    """

    def __init__(self, name: str, values: frozenset[str], group: int | None, *, literal: bool) -> None:
        self.name, self.values, self.group, self.literal = name, values, group, literal
        self.typed, self.optional = values <= TYPES.keys(), group is not None


@frozen
class OperandPattern:
    """One operand as written in the block. ``kind`` is value, address, vector, sink, carry, or a role in control flow:
    target, tlist, fname, ret_list, param_list, flist. ``sign`` is ``-`` or ``{-}`` if a minus precedes the name."""

    name: str
    kind: str = "value"
    count: int = 0
    negatable: bool = False
    second: str = ""
    second_optional: bool = False
    extra: tuple[str, ...] = ()
    sign: str = ""
    selectors: frozenset[str] = frozenset()


class Pattern:
    """One form of a block: its opcode, modifiers and operands as written, and the modifier classes of the block. What these
    mean is read when it is first asked for: only one of many forms is that of an instruction."""

    def __init__(self, root: str, modifiers: str, written: str, classes: Mapping[str, tuple[str, ...]]) -> None:
        self.root, self.modifiers, self.written, self.classes = root, modifiers, written, classes

    @property
    def line(self) -> str:
        """The form as written."""
        return f"{self.root}{self.modifiers} {self.written}".strip()

    @cached_property
    def words(self) -> frozenset[str]:
        """All modifiers that may stand in it."""
        words = _WORDS.findall(self.modifiers)
        return frozenset([value for word in words for value in self.classes.get(word, (word,))])

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The places for modifiers."""
        return tuple(
            [
                _slot(word, self.classes.get(word), None if piece[1] else number)
                for number, piece in enumerate(_PIECE.finditer(self.modifiers))
                for word in ([piece[1]] if piece[1] else _WORDS.findall(piece[2]))
            ]
        )

    @cached_property
    def operands(self) -> tuple[OperandPattern, ...]:
        """The operands."""
        return tuple([_atom(text, self.classes) for text in _split(self.written)])


@functools.cache
def _slot(word: str, values: tuple[str, ...] | None, group: int | None) -> Slot:
    return Slot(attribute(word), frozenset(values or (word,)), group, literal=values is None)


def attribute(word: str) -> str:
    """The attribute on ``Op`` of a modifier word: ``level::cache_hint`` is ``level_cache_hint``."""
    return word.replace("::", "_")


def roots(block: str) -> list[str]:
    """The opcodes whose forms a block declares, without parsing it."""
    return list(dict.fromkeys(_ROOT.findall(_COMMENT.sub("", block))))


def parse_block(block: str, classes: Mapping[str, Sequence[str]] | None = None) -> list[Pattern]:
    """Every form of a block, one per choice of optional operands."""
    defined: dict[str, tuple[str, ...]] = {name: tuple(values) for name, values in (classes or {}).items()}
    forms: list[str] = []
    for statement in _COMMENT.sub("", block).split(";"):
        text = " ".join(statement.split())
        if text.startswith("."):
            *names, values = text.split("=")
            words = tuple(_WORDS.findall(values))
            if not names or not words:
                raise ValueError(f"a class without values: {text!r}")
            for name in ",".join(names).split(","):
                defined[name.strip()[1:]] = words
        elif text:
            forms.append(text)
    return [line for form in forms for line in _lines(form, defined)]


def _lines(form: str, classes: Mapping[str, tuple[str, ...]]) -> list[Pattern]:
    match = _OPCODE.match(form)
    if match is None:
        raise ValueError(f"not a form: {form!r}")
    root, modifiers, operands = match.groups()
    return [Pattern(root, modifiers, variant, classes) for variant in _variants(operands or "")]


def _variants(operands: str) -> list[str]:
    """The operand texts with every ``{, x}`` omitted or kept, the shorter first."""
    start = _OPTIONAL.search(operands)
    if start is None:
        return [operands]
    depth, end = 0, start.start()
    for end in range(start.start(), len(operands)):
        depth += {"{": 1, "}": -1}.get(operands[end], 0)
        if depth == 0:
            break
    before, inside, after = operands[: start.start()], operands[start.start() + 1 : end], operands[end + 1 :]
    return _variants(before + after) + _variants(before + inside + after)


def _split(operands: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for character in operands.replace("|%cc", ", %cc_out"):
        depth += {"{": 1, "[": 1, "(": 1, "}": -1, "]": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [*parts, current.strip()] if operands.strip() else []


def _atom(text: str, classes: Mapping[str, tuple[str, ...]]) -> OperandPattern:
    if text == "_":
        return OperandPattern("_", "sink")
    if text.startswith("%cc"):
        return OperandPattern(text.replace("%cc", "carry"), "carry")
    sign = next((sign for sign in ("{-}", "-") if text.startswith(sign)), "")
    if sign:
        return attrs.evolve(_atom(text.removeprefix(sign).strip(), classes), sign=sign)
    if text in ROLES:
        return OperandPattern(text, text)
    if text.startswith("{!}"):
        return OperandPattern(text[3:].strip(), negatable=True)
    if text.startswith("["):
        first, *extra = (part.strip() for part in text.strip("[] ").split(","))
        return OperandPattern(first, "address", extra=tuple(extra))
    if text.startswith("{"):
        elements = text.strip("{} ").split(",")
        return OperandPattern(elements[0].strip().rstrip("0123456789"), "vector", count=len(elements))
    return _word(text, classes)


def _word(text: str, classes: Mapping[str, tuple[str, ...]]) -> OperandPattern:
    """A name, alone, with another (``d|p``) or with selectors (``a{.asel}``)."""
    if text.replace("-", "_").isidentifier():
        return OperandPattern(text)
    pair = re.fullmatch(r"([\w-]+)\s*([\[{]?)\s*\|\s*([\w-]+)\s*[\]}]?", text)
    if pair:
        return OperandPattern(pair[1], second=pair[3], second_optional=bool(pair[2]))
    selected = re.fullmatch(r"([\w-]+)\{\.(\w+)\}", text)
    if selected:
        return OperandPattern(selected[1], selectors=frozenset(classes[selected[2]]))
    raise ValueError(f"not an operand: {text!r}")
