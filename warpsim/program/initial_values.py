"""Initial values of variables: their bytes, the symbol addresses in them, and the blocks of textures, samplers and surfaces."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping

import numpy as np

from warpsim.errors import Span
from warpsim.layout import textures
from warpsim.numerics.arrays import Array
from warpsim.program.problems import Problems
from warpsim.program.program import Relocation, Variable
from warpsim.ptx import ast
from warpsim.types import ScalarType, StateSpace


class InitialValues:
    """Converts initialisers; ``symbols`` are the module's symbols declared so far."""

    def __init__(self, symbols: Mapping[str, object], problems: Problems) -> None:
        self._symbols = symbols
        self._problems = problems

    def bytes_of(self, tree: ast.InitialiserTree, type: ScalarType, span: Span) -> tuple[bytes, tuple[Relocation, ...]]:
        """The bytes of an initialiser, and the symbol addresses in it."""
        data = bytearray()
        relocations: list[Relocation] = []
        for leaf in _leaves(tree):
            if isinstance(leaf, ast.Numbers):
                self._allowed(leaf.span, type, floating=leaf.width > 0)
                if type.bytes > 8:
                    data += b"".join([value.to_bytes(type.bytes, "little") for value in leaf.values])
                    continue
                values: Array = np.array(leaf.values, np.uint64)
                if leaf.width > type.bits == 32:
                    with np.errstate(all="ignore"):
                        values = values.view(np.float64).astype(np.float32).view(np.uint32)
                data += values.astype(f"<u{type.bytes}").tobytes()
            elif isinstance(leaf, ast.Addresses):
                relocations += self._addresses(leaf, type, data)
            elif leaf.symbol is not None:
                name = leaf.symbol.text
                wrong = self._wrong_address(ast.Leaf(name, leaf.offset, leaf.generic, leaf.mask), name, type)
                if wrong:
                    self._problems.add("initialiser", leaf.span, *wrong)
                place = len(data), type.bytes, name
                relocations.append(Relocation(*place, leaf.offset, leaf.generic, leaf.mask))
                data += bytes(type.bytes)
            else:
                data += self._literal(leaf, type)
        return bytes(data), tuple(relocations)

    def _addresses(self, many: ast.Addresses, type: ScalarType, data: bytearray) -> list[Relocation]:
        """Append the bytes of many leaves, zeros for addresses, and return these. The first of each kind is checked."""
        kinds: dict[tuple[str | None, bool, bool, bool], int] = {}
        for number, (symbol, offset, generic, mask) in enumerate(many.values):
            kinds.setdefault((symbol, generic, offset != 0, mask is not None), number)
        places: list[Span] = []
        for (symbol, *_), number in kinds.items():
            leaf = many.values[number]
            wrong = (
                self._wrong_number(type, floating=False) if symbol is None else self._wrong_address(leaf, symbol, type)
            )
            if wrong:
                places = places or many.places()
                self._problems.add("initialiser", places[number], *wrong)
        start, size, most = len(data), type.bytes, (1 << 8 * type.bytes) - 1
        data += b"".join(
            [(0 if leaf[0] is not None else leaf[1] & most).to_bytes(size, "little") for leaf in many.values]
        )
        return [
            Relocation(start + size * number, size, symbol, offset, generic, mask)
            for number, (symbol, offset, generic, mask) in enumerate(many.values)
            if symbol is not None
        ]

    def _wrong_address(self, leaf: ast.Leaf, name: str, type: ScalarType) -> tuple[str, ...]:
        """What is wrong with a symbol's address as an initial value, and advice; nothing if it is right."""
        symbol = self._symbols.get(name)
        if symbol is None:
            return (f"{name} is not declared before this initial value",)
        if type.name not in ("u32", "u64") and not (leaf.mask is not None and type.name == "u8"):
            return f"the address of {name} cannot initialise a .{type.name}", "use .u64, or 0xFF(name) for a .u8"
        if isinstance(symbol, ast.Function) and (leaf.generic or leaf.offset):
            return (f"{name} is a function, which has only one address",)
        if isinstance(symbol, Variable) and symbol.space not in (StateSpace.GLOBAL, StateSpace.CONST):
            return (f"{name} is in .{symbol.space.value}, so it has no fixed address",)
        return ()

    def _literal(self, leaf: ast.Initialiser, type: ScalarType) -> bytes:
        """Convert a literal to the bytes of a type, as the assembler does."""
        value = leaf.value
        self._allowed(leaf.span, type, floating=isinstance(value, ast.Float))
        if isinstance(value, ast.Float):
            bits = float_bits(value, 32) if type.bits == 32 else value.bits
        else:
            assert isinstance(value, ast.Integer)
            bits = value.value & (2**64 - 1)
        return (bits & ((1 << (8 * type.bytes)) - 1)).to_bytes(type.bytes, "little")

    def _allowed(self, span: Span, type: ScalarType, *, floating: bool) -> None:
        """Check whether a type takes literals of a kind."""
        wrong = self._wrong_number(type, floating=floating)
        if wrong:
            self._problems.add("initialiser", span, *wrong)

    @staticmethod
    def _wrong_number(type: ScalarType, *, floating: bool) -> tuple[str, ...]:
        if floating and (type.kind not in "fb" or type.name in ("f16", "f16x2")):
            return (f"a .{type.name} variable cannot have a floating-point initial value",)
        if not floating and (type.kind == "f" or type.name == "f16x2"):
            return f"an integer cannot initialise a .{type.name}", "write a decimal point, or 0f..."
        return ()


def _leaves(tree: ast.InitialiserTree) -> list[ast.Initialiser | ast.Numbers | ast.Addresses]:
    assert not isinstance(tree, ast.Field), "only textures, samplers and surfaces have fields"
    if not isinstance(tree, tuple):
        return [tree]
    return [leaf for part in tree for leaf in _leaves(part)]


_FILTERED = "filter_mode addr_mode_0 addr_mode_1 addr_mode_2"
_SIZED = "width height depth channel_data_type channel_order array_size"
FIELDS = {
    "texref": frozenset(f"{_SIZED} {_FILTERED} normalized_coords num_mipmap_levels num_samples".split()),
    "samplerref": frozenset(f"{_FILTERED} force_unnormalized_coords".split()),
    "surfref": frozenset(f"{_SIZED} memory_layout".split()),
}
"""The opaque types, and what an initial value may name."""
OPAQUE = {name: ScalarType(name, "o", 8 * textures.BLOCK.itemsize, np.dtype(np.uint8)) for name in FIELDS}
"""The opaque types as types of variables, which hold a block."""
HANDLES = {name: ScalarType(name, "b", 64, np.dtype(np.uint64)) for name in FIELDS}
"""The same as types of a kernel's parameters, which hold the address of one."""
VALUES = frozenset({"nearest", "linear", "wrap", "mirror", "clamp_ogl", "clamp_to_edge", "clamp_to_border"})
Wrong = tuple[str, str]
"""A rule, and what breaks it."""


def fault_of(node: ast.Variable, place: str, target: tuple[str, ...]) -> Wrong | None:
    """What is wrong with variables or a parameter of an opaque type in a ``place`` ("module", "function", "entry", "func")."""
    item = node.declarators[0]
    if node.vector > 1:
        return "directive", f"a vector cannot have elements of .{node.type}"
    if place not in ("module", "entry") or (place == "module" and node.space != "global"):
        return (
            "directive",
            f".{node.type} {item.name} is neither a .global variable of the module nor a parameter of an .entry",
        )
    if node.linkage == "common":
        return "linkage", f".{node.type} {item.name} cannot be .common"
    if node.type == "samplerref" and "texmode_independent" not in target:
        return "directive", ".samplerref needs the option texmode_independent of .target"
    for one in node.declarators:
        if one.initialiser is None:
            if None in one.dimensions and node.linkage != "extern":
                return "directive", f"{one.name} has no size; [] needs .extern or initial values"
        elif node.linkage == "extern":
            return "linkage", f"{one.name} is .extern, but has an initial value here"
        elif wrong := wrong_value(one.initialiser, len(one.dimensions), node.type):
            return "initialiser", wrong
    return None


def opaque_bytes(node: ast.Variable, item: ast.Declarator) -> bytes:
    """The blocks of a variable of an opaque type: its own, or those of an array's elements."""
    tree: ast.InitialiserTree = () if item.initialiser is None else item.initialiser
    blocks = [textures.variable(node.type, given).encode() for given in _given(tree, len(item.dimensions))]
    count = math.prod(d or 1 for d in item.dimensions)
    return b"".join(blocks + [textures.variable(node.type, {}).encode()] * (count - len(blocks)))


def _given(tree: ast.InitialiserTree, depth: int) -> list[dict[str, int | str]]:
    """The fields that each element's initial value names."""
    assert isinstance(tree, tuple)
    if depth:
        return [given for part in tree for given in _given(part, depth - 1)]
    fields = [part for part in tree if isinstance(part, ast.Field)]
    return [{f.name: f.value.text if isinstance(f.value, ast.Name) else _whole(f.value) for f in fields}]


def _whole(value: ast.Operand) -> int:
    return value.value & 0xFFFFFFFF if isinstance(value, ast.Integer) else 0


def wrong_value(tree: ast.InitialiserTree | None, depth: int, type: str) -> str:
    """What is wrong with an initial value of an array of so many dimensions; empty if nothing is."""
    if tree is None:
        return ""
    if not isinstance(tree, tuple):
        return f"an initial value of .{type} is a list of fields in braces"
    if depth:
        return next((wrong for part in tree if (wrong := wrong_value(part, depth - 1, type))), "")
    return next(_wrong_fields(tree, type), "")


def _wrong_fields(parts: tuple[ast.InitialiserTree, ...], type: str) -> Iterator[str]:
    for part in parts:
        if not isinstance(part, ast.Field):
            yield f"an initial value of .{type} names its fields"
        elif part.name not in FIELDS[type]:
            yield f".{type} has no field {part.name}"
        elif isinstance(part.value, ast.Name) and part.value.text not in VALUES:
            yield f"{part.value.text} is not a value of a field"


def float_bits(node: ast.Float, bits: int) -> int:
    """The bits of a floating-point literal in a format of 32 or 64 bits."""
    if node.width == bits:
        return node.bits
    if bits == 32:
        value = struct.unpack("<d", struct.pack("<Q", node.bits))[0]
        try:
            return int(struct.unpack("<I", struct.pack("<f", value))[0])
        except OverflowError:
            return 0x7F800000 if value > 0 else 0xFF800000
    return node.bits  # 0f... as an f64 gives these bits, not this value
