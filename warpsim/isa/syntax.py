"""The notation of the manual's syntax blocks.

``add{.sat}.type  d, a, b;`` is a form: a root, modifier slots and operands. ``.type = { .u32, .s32 };`` defines a
class; a dotted word without a definition is a literal modifier. Braces make a slot or an operand optional.
"""

from __future__ import annotations

import re

import attrs


@attrs.frozen
class Slot:
    """A place for one modifier: the allowed texts, without dots."""

    name: str
    values: frozenset[str]
    optional: bool
    literal: bool


@attrs.frozen
class OperandPattern:
    """An operand as the block writes it."""

    name: str
    kind: str
    optional: bool
    negatable: bool


@attrs.frozen
class Pattern:
    """One form line."""

    root: str
    slots: tuple[Slot, ...]
    operands: tuple[OperandPattern, ...]
    line: str


_PIECE = re.compile(r"\{(\.[\w:]+)\}|(\.[\w:]+)")
_OPERAND = re.compile(r"\{,\s*([^{}]+)\}|([^,{}]+(?:\{!\}[^,{}]+)?|\{!\}[^,{}]+)")


def parse_block(block: str) -> list[Pattern]:
    """The forms of a syntax block."""
    text = "\n".join(line.split("//")[0] for line in block.split("\n"))
    classes: dict[str, frozenset[str]] = {}
    lines: list[str] = []
    for statement in text.split(";"):
        statement = " ".join(statement.split())
        if not statement:
            continue
        definition = re.fullmatch(r"\.([\w:]+(?:\s*,\s*\.[\w:]+)*) = \{(.*)\}", statement)
        if definition:
            values = frozenset(v.strip().lstrip(".") for v in definition.group(2).split(",") if v.strip())
            for name in definition.group(1).split(","):
                classes[name.strip().lstrip(".")] = values
        else:
            lines.append(statement)
    return [_form(line, classes) for line in lines]


def _form(line: str, classes: dict[str, frozenset[str]]) -> Pattern:
    mnemonic, _, rest = line.partition(" ")
    root = re.split(r"[.{]", mnemonic)[0]
    slots = []
    for optional, required in _PIECE.findall(mnemonic[len(root) :]):
        name = (optional or required)[1:]
        literal = name not in classes
        slots.append(Slot(name.replace("::", "_"), classes.get(name, frozenset({name})), bool(optional), literal))
    return Pattern(root, tuple(slots), tuple(_operands(rest)), line)


def _operands(text: str) -> list[OperandPattern]:
    found: list[OperandPattern] = []
    for optional, plain in _OPERAND.findall(text):
        body = (optional or plain).strip()
        for part in body.split("|") if "|" in body else [body]:
            name = part.strip()
            negatable = name.startswith("{!}")
            name = name.removeprefix("{!}")
            kind = "value"
            if name.startswith("["):
                name, kind = name.strip("[]"), "address"
            elif name in ("target", "tlist", "fname", "ret_list", "param_list", "flist"):
                kind = name
            if name:
                found.append(OperandPattern(name, kind, bool(optional), negatable))
    return found
