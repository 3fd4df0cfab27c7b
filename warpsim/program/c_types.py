"""The types of C++ that variables of kernels have, their layout in memory, and how C writes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

import attrs
import numpy as np

from warpsim.numerics.arrays import DType
from warpsim.records import frozen
from warpsim.types import ELEMENTS, TYPES, ScalarType


@frozen(eq=False)
class Scalar:
    """A number, which may be a ``character``, too, or an enumeration: then ``words`` are the names of its values."""

    name: str
    type: ScalarType
    words: dict[int, str] = attrs.field(factory=dict)
    character: bool = False

    @property
    def dtype(self) -> DType:
        """The type in memory."""
        return ELEMENTS.get(self.type.name, self.type.dtype)


@frozen(eq=False, slots=False)
class Pointer:
    """A pointer, or a reference if ``sign`` is ``&``. ``target`` gives the type that it points to, which may hold this one.
    A pointer that is not ``scaled`` is an integer in sums: nothing but accesses say what it points to."""

    target: Callable[[], CType]
    sign: str = "*"
    space: str = "generic"
    scaled: bool = True

    @cached_property
    def to(self) -> CType:
        """The type that it points to."""
        return self.target()

    @property
    def dtype(self) -> DType:
        """The type in memory: an address."""
        return np.dtype(np.uint64)


@frozen(eq=False, slots=False)
class Array:
    """An array, whose elements may be arrays."""

    of: CType
    count: int

    @cached_property
    def dtype(self) -> DType:
        """The type in memory."""
        return np.dtype((self.of.dtype, self.count))


@frozen(eq=False)
class Member:
    """A member of a struct or a union; a base class is one without a name."""

    name: str
    type: CType
    offset: int


@frozen(eq=False, slots=False)
class Struct:
    """A struct, a class or a union (``word``) of ``size`` bytes."""

    name: str
    size: int
    members: tuple[Member, ...]
    word: str = "struct"

    @cached_property
    def dtype(self) -> DType:
        """The type in memory. A base class is a field ``<name>``, another part without a name ``<N>``."""
        names = [m.name or f"<{getattr(m.type, 'name', '') or n}>" for n, m in enumerate(self.members)]
        formats, offsets = [m.type.dtype for m in self.members], [m.offset for m in self.members]
        return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": self.size})

    def find(self, name: str) -> tuple[CType, int] | None:
        """Type and offset of a member, which may be one of a base class or of a nameless part."""
        for member in self.members:
            if member.name == name:
                return member.type, member.offset
            if not member.name and isinstance(member.type, Struct):
                inner = member.type.find(name)
                if inner is not None:
                    return inner[0], inner[1] + member.offset
        return None


CType: TypeAlias = "Scalar | Pointer | Array | Struct"

VOID = Struct("void", 0, ())
"""What a ``void*`` points to."""
NAMED = {
    "float": "f32", "double": "f64", "int": "s32", "unsigned int": "u32", "short": "s16", "unsigned short": "u16",
    "char": "s8", "signed char": "s8", "unsigned char": "u8", "long": "s64", "unsigned long": "u64",
    "long long": "s64", "unsigned long long": "u64", "bool": "u8", "__half": "f16", "__nv_bfloat16": "bf16",
    "__nv_fp8_e4m3": "e4m3", "__nv_fp8_e5m2": "e5m2",
}  # fmt: skip
"""The PTX types of C's."""
TRUTH = {0: "false", 1: "true"}
SCALARS = {
    name: Scalar(name, TYPES[type], TRUTH if name == "bool" else {}, "char" in name) for name, type in NAMED.items()
}
"""C's types of numbers by name."""
_OF_PTX = {
    "f32": "float", "f64": "double", "f16": "__half", "bf16": "__nv_bfloat16", "s32": "int", "s16": "short", "s8": "signed char",
    "u32": "unsigned int", "u16": "unsigned short", "u8": "unsigned char", "s64": "long long", "u64": "unsigned long long",
}  # fmt: skip


def scalar_of(type: ScalarType) -> Scalar:
    """The number that a PTX type is in C; untyped bits and packed types keep PTX's name."""
    name = _OF_PTX.get(type.name)
    return SCALARS[name] if name is not None else Scalar(f".{type.name}", type)


def size(type: CType) -> int:
    """Size in bytes."""
    return type.dtype.itemsize


def elements(type: CType) -> CType:
    """The type of the elements of an array of any dimensions; of any other type, itself."""
    while isinstance(type, Array):
        type = type.of
    return type


def text(type: CType, name: str = "") -> str:
    """Write the declaration of a name, ``float (*name)[3]``; without a name, the type."""
    base, declarator = _declarator(type, name)
    return f"{base.name} {declarator}".rstrip()


def definition(type: CType) -> str:
    """A type with the members of its struct, as ``ptype`` prints it."""
    base, declarator = _declarator(type, "")
    if isinstance(base, Scalar) or not base.members:
        return text(type)
    members = [f"    {text(member.type, member.name)};" for member in base.members]
    return "\n".join([f"{base.word} {base.name}".rstrip() + " {", *members, f"}} {declarator}".rstrip()])


def _declarator(type: CType, inner: str) -> tuple[Scalar | Struct, str]:
    """The type that a declaration begins with, and what follows it: in C, a declaration looks like the use of the name."""
    match type:
        case Array(of, count):
            return _declarator(of, f"({inner})[{count}]" if inner[:1] in ("*", "&") else f"{inner}[{count}]")
        case Pointer():
            return _declarator(type.to, f"{type.sign}{inner}")
    return type, inner
