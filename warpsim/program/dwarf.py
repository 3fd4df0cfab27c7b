"""Reads debug information (DWARF 2 to 5): its entries with their attributes, lists of places, expressions of places.

Of the forms and operations, those that nvcc and LLVM write for PTX.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import attrs

from warpsim.records import define


class Tag(enum.IntEnum):
    """What an entry describes (DWARF 5, section 7.5.3)."""

    ARRAY = 0x01
    CLASS = 0x02
    ENUMERATION = 0x04
    PARAMETER = 0x05
    BLOCK = 0x0B
    MEMBER = 0x0D
    POINTER = 0x0F
    REFERENCE = 0x10
    UNIT = 0x11
    STRUCT = 0x13
    TYPEDEF = 0x16
    UNION = 0x17
    INHERITANCE = 0x1C
    INLINED = 0x1D
    SUBRANGE = 0x21
    BASE = 0x24
    CONST = 0x26
    ENUMERATOR = 0x28
    SUBPROGRAM = 0x2E
    VARIABLE = 0x34
    VOLATILE = 0x35
    RESTRICT = 0x37
    NAMESPACE = 0x39
    RVALUE_REFERENCE = 0x42


class At(enum.IntEnum):
    """The attributes of entries (DWARF 5, section 7.5.4)."""

    LOCATION = 0x02
    NAME = 0x03
    BYTE_SIZE = 0x0B
    BIT_SIZE = 0x0D
    LOW = 0x11
    HIGH = 0x12
    CONST_VALUE = 0x1C
    UPPER_BOUND = 0x2F
    ORIGIN = 0x31
    COUNT = 0x37
    MEMBER_LOCATION = 0x38
    DECLARATION = 0x3C
    ENCODING = 0x3E
    SPECIFICATION = 0x47
    TYPE = 0x49
    RANGES = 0x55
    CALL_FILE = 0x58
    CALL_LINE = 0x59


Value: TypeAlias = "int | bytes | str"


@define(eq=False)
class Entry:
    """An entry, at ``offset`` in its section."""

    offset: int
    tag: int
    attributes: dict[int, Value]
    children: list[Entry] = attrs.field(factory=list)

    def text(self, name: At) -> str:
        """An attribute that is a text; empty if it has none."""
        found = self.attributes.get(name, "")
        return found if isinstance(found, str) else ""

    def number(self, name: At, default: int = 0) -> int:
        """An attribute that is a number."""
        found = self.attributes.get(name, default)
        return found if isinstance(found, int) else default


class Reader:
    """Reads numbers from bytes."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def number(self, width: int) -> int:
        """An unsigned number of so many bytes."""
        self.at += width
        return int.from_bytes(self.data[self.at - width : self.at], "little")

    def block(self, length: int) -> bytes:
        """Bytes."""
        self.at += length
        return self.data[self.at - length : self.at]

    def uleb(self) -> int:
        """An unsigned LEB128."""
        return self._leb()[0]

    def sleb(self) -> int:
        """A signed LEB128."""
        value, bits = self._leb()
        return value - (1 << bits) if value >> (bits - 1) else value

    def _leb(self) -> tuple[int, int]:
        value = bits = 0
        while True:
            byte = self.number(1)
            value |= (byte & 127) << bits
            bits += 7
            if byte < 128 or self.at >= len(self.data):
                return value, bits

    def text(self) -> str:
        """A text that ends with a zero."""
        stop = self.data.find(b"\0", self.at)
        stop = len(self.data) if stop < 0 else stop
        found = self.data[self.at : stop].decode("utf-8", "replace")
        self.at = stop + 1
        return found


FORMS: dict[int, Callable[[Reader], Value]] = {
    0x03: lambda r: r.block(r.number(2)), 0x04: lambda r: r.block(r.number(4)), 0x05: lambda r: r.number(2),
    0x06: lambda r: r.number(4), 0x07: lambda r: r.number(8), 0x08: Reader.text, 0x09: lambda r: r.block(r.uleb()),
    0x0A: lambda r: r.block(r.number(1)), 0x0B: lambda r: r.number(1), 0x0C: lambda r: r.number(1), 0x0D: Reader.sleb,
    0x0F: Reader.uleb, 0x17: lambda r: r.number(4), 0x18: lambda r: r.block(r.uleb()), 0x19: lambda r: 1,
    0x1E: lambda r: r.block(16), 0x20: lambda r: r.number(8),
}  # fmt: skip
"""How a value of each form is read (DWARF 5, section 7.5.6), but for addresses, references and texts elsewhere."""
REFERENCES = {0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8}
"""Forms of references within a unit, and their widths."""
TEXTS = {0x0E: ".debug_str", 0x1F: ".debug_line_str"}


class UnknownForm(ValueError):
    """Debug information in a form that is not read here."""


def entries(sections: Mapping[str, bytes]) -> list[Entry]:
    """The entries of compilation units.

    Raises:
        UnknownForm: one has an attribute in a form that nvcc does not write.
    """
    reader, found = Reader(sections.get(".debug_info", b"")), list[Entry]()
    while reader.at + 11 <= len(reader.data):
        start = reader.at
        stop = start + 4 + reader.number(4)
        version = reader.number(2)
        if version >= 5:
            kind, size, table = reader.number(1), reader.number(1), reader.number(4)
            reader.at += {0x04: 8, 0x05: 8, 0x02: 12, 0x06: 12}.get(kind, 0)
        else:
            table, size = reader.number(4), reader.number(1)
        found += _Unit(sections, start, size, table).entries(reader, min(stop, len(reader.data)))
        reader.at = stop
    return found


class _Unit:
    def __init__(self, sections: Mapping[str, bytes], start: int, address_size: int, table: int) -> None:
        self.sections, self.start, self.address_size = sections, start, address_size
        self.kinds: dict[int, tuple[int, bool, list[tuple[int, int, int]]]] = {}
        reader = Reader(sections.get(".debug_abbrev", b""), table)
        while reader.at < len(reader.data) and (code := reader.uleb()):
            tag, children, attributes = reader.uleb(), bool(reader.number(1)), list[tuple[int, int, int]]()
            while True:
                name, form = reader.uleb(), reader.uleb()
                if not (name or form):
                    break
                attributes.append((name, form, reader.sleb() if form == 0x21 else 0))
            self.kinds[code] = tag, children, attributes

    def entries(self, reader: Reader, stop: int) -> list[Entry]:
        """The entries up to an offset."""
        top: list[Entry] = []
        lists = [top]
        while reader.at < stop and lists:
            offset, code = reader.at, reader.uleb()
            if not code:
                lists.pop()
                continue
            if code not in self.kinds:
                raise UnknownForm(f"no abbreviation {code}")
            tag, children, attributes = self.kinds[code]
            values = {name: self._value(reader, form, constant) for name, form, constant in attributes}
            made = Entry(offset, tag, values)
            lists[-1].append(made)
            if children:
                lists.append(made.children)
        return top

    def _value(self, reader: Reader, form: int, constant: int) -> Value:
        if form in FORMS:
            return FORMS[form](reader)
        if form == 0x01:
            return reader.number(self.address_size)
        if form in REFERENCES:
            return self.start + reader.number(REFERENCES[form])
        if form in (0x10, 0x15):
            return reader.number(4) if form == 0x10 else self.start + reader.uleb()
        if form in TEXTS:
            return Reader(self.sections.get(TEXTS[form], b""), reader.number(4)).text()
        if form == 0x21:
            return constant
        raise UnknownForm(f"no form {form:#x}")


def pairs(section: bytes, offset: int, base: int, *, places: bool) -> Iterator[tuple[int, int, bytes]]:
    """The ranges of a list of them, or of one of ``places`` with their expressions (DWARF 4, sections 2.17.3, 2.6.2)."""
    reader = Reader(section, offset)
    while reader.at + 16 <= len(section):
        low, high = reader.number(8), reader.number(8)
        if low == high == 0:
            return
        if low == (1 << 64) - 1:
            base = high
            continue
        expression = reader.block(reader.number(2)) if places else b""
        yield (low, high, expression) if low >> 40 else (low + base, high + base, expression)


def place(expression: bytes) -> tuple[str | int, int] | None:
    """What an expression of a place says: the name of a register, or an address, and an offset; None for other expressions.

    nvcc numbers a register by the characters of its name.
    """
    reader, offset = Reader(expression), 0
    base: str | int | None = None
    while reader.at < len(expression):
        operation = reader.number(1)
        if operation == 0x03 and base is None:
            base = reader.number(8)
        elif operation == 0x90 and base is None:
            number = reader.uleb()
            base = number.to_bytes((number.bit_length() + 7) // 8, "big").decode("latin-1")
        elif operation == 0x23:
            offset += reader.uleb()
        else:
            return None
    return None if base is None else (base, offset)
