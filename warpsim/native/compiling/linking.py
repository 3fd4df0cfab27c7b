"""Link relocatable ELF objects into one piece of code that runs wherever it lies.

LLVM writes ELF for every system, with relative relocations alone (``reloc=pic``). Between the objects and with their constants
these are resolved here. What is called outside (``memcpy`` and the like) goes through a jump by an address behind the code, which
is filled in where the code is mapped.

Sources: System V ABI (ELF-64), AMD64 psABI 4.4.1, ELF for the Arm 64-bit Architecture 5.7.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

_SECTION, _SYMBOL, _RELOCATION = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
PROGBITS, SYMTAB, RELA = 1, 2, 4
WRITE, ALLOC = 1, 2
X86_64, AARCH64 = 62, 183
JUMPS = {
    X86_64: bytes.fromhex("ff2502000000 0f0b"),  # jmp [rip + 2]; ud2
    AARCH64: bytes.fromhex("50000058 00021fd6"),  # ldr x16, . + 8; br x16
}
"""A jump to the address that stands 8 bytes behind where it begins."""


class Unlinkable(Exception):
    """An object has what is not resolved here."""


class Linked(NamedTuple):
    """Code, where its functions begin, and where the addresses of functions outside go, by their names."""

    code: bytes
    functions: dict[str, int]
    outside: list[tuple[str, int]]


class _Section(NamedTuple):
    name: str
    type: int
    flags: int
    at: int
    size: int
    link: int
    info: int
    align: int


class _Object:
    """What counts of an object."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise Unlinkable("no ELF object of 64 bits, little-endian")
        self.data = data
        self.machine: int = struct.unpack_from("<H", data, 18)[0]
        if self.machine not in JUMPS:
            raise Unlinkable(f"machine {self.machine}")
        table: int = struct.unpack_from("<Q", data, 40)[0]
        count, names = struct.unpack_from("<HH", data, 60)
        raw = [_SECTION.unpack_from(data, table + k * _SECTION.size) for k in range(count)]
        self.sections = [
            _Section(self._text(raw[names][4] + name), type, flags, at, size, link, info, align)
            for name, type, flags, _, at, size, link, info, align, _ in raw
        ]
        self.symbols = list[tuple[str, int, int]]()
        """The name (empty where no other object sees it), the section (0: another object has it), and the place in there."""
        for section in self.sections:
            if section.type == SYMTAB:
                strings = self.sections[section.link].at
                for at in range(section.at, section.at + section.size, _SYMBOL.size):
                    name, info, _, where, value, _ = _SYMBOL.unpack_from(data, at)
                    self.symbols.append((self._text(strings + name) if info >> 4 else "", where, value))

    def _text(self, at: int) -> str:
        return self.data[at : self.data.index(b"\0", at)].decode()

    def kept(self) -> list[int]:
        """The sections that code needs when it runs, by their numbers."""
        found = []
        for number, section in enumerate(self.sections):
            if section.flags & ALLOC and section.size and section.name != ".eh_frame":
                if section.type != PROGBITS or section.flags & WRITE:
                    raise Unlinkable(f"section {section.name}")
                found.append(number)
        return found


def link(objects: Iterable[bytes]) -> Linked:
    """Link objects; the code begins at a multiple of 4,096.

    Raises:
        Unlinkable: there is a relocation or a section that is not known here.
    """
    linker = _Linker()
    for data in objects:
        linker.lay(_Object(data))
    for placed in linker.placed:
        linker.resolve(*placed)
    return Linked(bytes(linker.code), linker.functions, linker.outside)


class _Linker:
    """Code that grows."""

    def __init__(self) -> None:
        self.code = bytearray()
        self.functions: dict[str, int] = {}
        self.placed: list[tuple[_Object, dict[int, int]]] = []
        """Objects, and where their sections lie."""
        self.outside: list[tuple[str, int]] = []
        self._jumps: dict[str, int] = {}

    def lay(self, given: _Object) -> None:
        """Append an object's sections."""
        place = dict[int, int]()
        for number in given.kept():
            section = given.sections[number]
            self.code += bytes(-len(self.code) % max(section.align, 1))
            place[number] = len(self.code)
            self.code += given.data[section.at : section.at + section.size]
        self.functions |= {
            name: place[where] + value for name, where, value in given.symbols if name and where in place
        }
        self.placed.append((given, place))

    def resolve(self, given: _Object, place: dict[int, int]) -> None:
        """Resolve an object's references."""
        resolve = _x86_64 if given.machine == X86_64 else _aarch64
        for section in given.sections:
            if section.type != RELA or section.info not in place:
                continue
            for at in range(section.at, section.at + section.size, _RELOCATION.size):
                offset, info, addend = _RELOCATION.unpack_from(given.data, at)
                name, where, value = given.symbols[info >> 32]
                if where and where not in place:
                    raise Unlinkable(f"a reference to {name or given.sections[where].name}")
                target = place[where] + value if where else self._function(name, given.machine)
                resolve(self.code, info & 0xFFFFFFFF, place[section.info] + offset, target + addend)

    def _function(self, name: str, machine: int) -> int:
        """Where a function of another object begins, or a jump to one that lies outside."""
        if name in self.functions:
            return self.functions[name]
        if name not in self._jumps:
            self.code += bytes(-len(self.code) % 8)
            self._jumps[name] = len(self.code)
            self.outside.append((name, len(self.code) + 8))
            self.code += JUMPS[machine] + bytes(8)
        return self._jumps[name]


def _x86_64(code: bytearray, kind: int, at: int, target: int) -> None:
    """R_X86_64_PC32, R_X86_64_PLT32, R_X86_64_PC64."""
    if kind in (2, 4):
        struct.pack_into("<i", code, at, target - at)
    elif kind == 24:
        struct.pack_into("<q", code, at, target - at)
    else:
        raise Unlinkable(f"relocation {kind}")


_LOW_BITS = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
"""R_AARCH64_ADD_ABS_LO12_NC and R_AARCH64_LDST…_ABS_LO12_NC: the size of what is loaded, as a power of two."""


def _aarch64(code: bytearray, kind: int, at: int, target: int) -> None:
    """R_AARCH64_PREL64 and PREL32, ADR_PREL_PG_HI21, the low 12 bits, JUMP26 and CALL26."""
    word: int = struct.unpack_from("<I", code, at)[0]
    if kind in (260, 261):
        struct.pack_into("<q" if kind == 260 else "<i", code, at, target - at)
    elif kind == 275:
        pages = (target >> 12) - (at >> 12)
        struct.pack_into("<I", code, at, word | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5)
    elif kind in _LOW_BITS:
        struct.pack_into("<I", code, at, word | (target & 0xFFF) >> _LOW_BITS[kind] << 10)
    elif kind in (282, 283):
        struct.pack_into("<I", code, at, word | target - at >> 2 & 0x3FFFFFF)
    else:
        raise Unlinkable(f"relocation {kind}")
