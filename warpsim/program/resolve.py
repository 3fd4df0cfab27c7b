"""Names to things: scopes, registers, variables with their layout and initial bytes, parameters with offsets."""

from __future__ import annotations

import struct
from typing import Any

import attrs
import numpy as np

from warpsim.errors import Span
from warpsim.program.problems import Problems
from warpsim.program.program import FunctionRef, LabelRef, Param, Register, Targets, Variable
from warpsim.ptx import ast
from warpsim.types import TYPES, ScalarType, StateSpace

Symbol = Any


@attrs.define
class VectorRegister:
    """``.reg .v2 .f32 v``: its elements."""

    elements: tuple[Register, ...]


@attrs.define
class Prototype:
    """A ``.callprototype``."""

    params: tuple[Param, ...]
    returns: tuple[Param, ...]


class Ranges:
    """Registers declared as ``%r<N>``: made when first used."""

    def __init__(self) -> None:
        self.by_prefix: dict[str, tuple[int, ScalarType, int]] = {}

    def find(self, name: str) -> tuple[ScalarType, int] | None:
        """The type of ``%r17`` and its elements (1 where it is no vector), if a range covers it."""
        prefix, number = numbered(name)
        found = self.by_prefix.get(prefix)
        return found[1:] if found is not None and number is not None and number < found[0] else None


def numbered(name: str) -> tuple[str, int | None]:
    """The prefix and number of a name such as ``%r17`` that a range may cover; no number where none can."""
    prefix = name.rstrip("0123456789")
    digits = name[len(prefix) :]
    if not digits or len(digits) > 10 or (len(digits) > 1 and digits[0] == "0"):
        return prefix, None
    return prefix, int(digits)


class Scope:
    """Names of one block; looks outward."""

    def __init__(self, outer: Scope | None) -> None:
        self.outer = outer
        self.symbols: dict[str, Symbol] = {}
        self.numbers: dict[str, set[int]] = {}  # of the symbols that look like those of a range, by prefix
        self.labels: dict[str, LabelRef | Targets | Prototype] = {}
        self.ranges = Ranges()
        self.made: dict[str, Register | VectorRegister] = {}
        self.lists: dict[str, Span] = {}

    def declared_later(self, name: str, span: Span) -> bool:
        """Whether the list of targets of this name stands after a place of the text."""
        found = self.lists.get(name) or (self.outer.lists.get(name) if self.outer else None)
        return found is not None and (found.line, found.column) > (span.line, span.column)


class FunctionBuilder:
    """Collects the flattened content of a function."""

    def __init__(self, name: str, entry: bool = False) -> None:
        self.name = name
        self.entry = entry
        self.registers: list[Register] = []
        self.variables: list[Variable] = []
        self.code: list[tuple[ast.Instruction, Scope, tuple[str, int] | None]] = []
        self.labels: dict[str, int] = {}
        self.pending: list[tuple[str, ast.Directive, Scope]] = []
        self._carry: Register | None = None

    def register(self, name: str, type: ScalarType) -> Register:
        """A new register."""
        made = Register(name, len(self.registers), type)
        self.registers.append(made)
        return made

    def declared(self, name: str, type: ScalarType, elements: int) -> Register | VectorRegister:
        """A new register, or the registers of a vector: name.x, name.y ..."""
        if elements == 1:
            return self.register(name, type)
        return VectorRegister(tuple([self.register(f"{name}.{c}", type) for c in "xyzw"[:elements]]))

    def carry(self) -> Register:
        """The carry flag of extended-precision arithmetic, as a register that no name reaches."""
        if self._carry is None:
            self._carry = self.register("%cc", TYPES["pred"])
        return self._carry


def align_up(value: int, alignment: int) -> int:
    """The next multiple."""
    return -(-value // alignment) * alignment


class Resolver:
    """Module-level names and the helpers that functions share."""

    def __init__(self, module: ast.Module, problems: Problems) -> None:
        self.module = module
        self.problems = problems
        self.globals: dict[str, Symbol] = {}
        self.variables: list[Variable] = []
        self.counts: dict[str, int] = {}
        self.files: dict[int, str] = {}
        self.aliases: set[str] = set()

    # ---- declarations ------------------------------------------------------------------------

    def type_of(self, name: str, span: Span) -> ScalarType:
        """A scalar type by name."""
        found = TYPES.get(name)
        if found is None:
            if name in ("texref", "samplerref", "surfref"):
                self.problems.add(
                    "unsupported", span, f".{name} variables are not supported: textures and surfaces are not simulated"
                )
            else:
                self.problems.add("syntax", span, f".{name} is no type")
            return TYPES["b32"]
        return found

    def variable(self, node: ast.Variable, owner: str, scope: Scope | None) -> list[Variable]:
        """The variables of a declaration in memory."""
        made = []
        type = self.type_of(node.type, node.span)
        if node.align is not None and (node.align < 1 or node.align & (node.align - 1)):
            self.problems.add("directive", node.span, f".align {node.align} is no power of two")
        if type.kind == "p":
            self.problems.add("directive", node.span, f"a .pred variable must be a register, not in .{node.space}")
        if scope is not None and node.linkage is not None:
            self.problems.add(
                "linkage", node.span, f".{node.linkage} belongs to variables of the module, not of a function"
            )
        for item in node.declarators:
            elements = node.vector
            if item.count is not None:
                names = [f"{item.name}{i}" for i in range(min(item.count, 1 << 16))]
            else:
                names = [item.name]
            dimensions = list(item.dimensions)
            data, relocations = b"", ()
            if item.initialiser is not None:
                if node.linkage == "extern":
                    self.problems.add("linkage", item.span, f"{item.name} is .extern, and has an initial value here")
                if node.space not in ("global", "const"):
                    self.problems.add("initialiser", item.span, f"a .{node.space} variable cannot have an initialiser")
                else:
                    data, relocations = self.initial(item.initialiser, type, item.span)
                if dimensions and dimensions[0] is None:
                    dimensions[0] = _length(item.initialiser)
            elif None in dimensions and node.linkage != "extern":
                self.problems.add(
                    "directive", item.span, f"{item.name} has no size: [] needs .extern or initial values"
                )
            size = type.bytes * elements
            for d in dimensions:
                size *= d or 0
            if len(data) > size:
                self.problems.add(
                    "initialiser", item.span, f"{len(data)} bytes of initial values for the {size} bytes of {item.name}"
                )
            align = node.align or type.bytes * elements
            for name in names:
                unique = self.unique(f"{owner}::{name}" if owner else name)
                variable = Variable(
                    name, unique, StateSpace(node.space), type, size, align, data, relocations, node.linkage, item.span
                )
                made.append(variable)
                self.declare(name, variable, item.span, scope)
        return made

    def unique(self, name: str) -> str:
        """A name that no other variable has."""
        self.counts[name] = number = self.counts.get(name, 0) + 1
        return name if number == 1 else f"{name}#{number}"

    def declare(self, name: str, symbol: Symbol, span: Span, scope: Scope | None) -> None:
        """Enter a name, once."""
        table = self.globals if scope is None else scope.symbols
        known = table.get(name)
        if known is not None:
            both = isinstance(known, Variable) and isinstance(symbol, Variable) and scope is None
            if not (
                both
                and (known.linkage in ("extern", "common", "weak") or symbol.linkage in ("extern", "common", "weak"))
            ):
                self.problems.add("redeclared", span, f"{name} is declared twice in this scope")
                return
            if symbol.linkage == "extern":
                return
        table[name] = symbol
        if scope is not None:
            prefix, number = numbered(name)
            if number is not None:
                scope.numbers.setdefault(prefix, set()).add(number)

    def params(self, nodes: tuple[ast.Variable, ...]) -> tuple[Param, ...]:
        """Parameters with their offsets in the parameter block."""
        made: list[Param] = []
        offset = 0
        for node in nodes:
            type = self.type_of(node.type, node.span)
            item = node.declarators[0]
            size = type.bytes * node.vector
            for d in item.dimensions:
                size *= d or 0
            if node.align is not None and (node.align < 1 or node.align & (node.align - 1)):
                self.problems.add("directive", node.span, f".align {node.align} is no power of two")
            if node.vector > 1 and node.space == "param":
                self.problems.add("directive", node.span, f"{item.name} cannot be a vector in .param", "use .b8 [N]")
            align = node.align or type.bytes * node.vector
            offset = align_up(offset, max(align, 1))
            made.append(Param(item.name, type, size, align, offset, bool(item.dimensions), node.pointer))
            offset += size
        return tuple(made)

    # ---- initial values ----------------------------------------------------------------------

    def initial(self, tree: ast.InitialiserTree, type: ScalarType, span: Span) -> tuple[bytes, tuple[Any, ...]]:
        """The bytes of an initialiser and the symbol addresses in it."""
        data = bytearray()
        relocations: list[Any] = []
        for leaf in _leaves(tree):
            if isinstance(leaf, ast.Numbers):
                if type.kind == "f":
                    self._no_float(leaf.span, type)
                if type.bytes > 8:
                    data += b"".join([value.to_bytes(type.bytes, "little") for value in leaf.values])
                else:
                    data += np.array(leaf.values, np.uint64).astype(f"<u{type.bytes}").tobytes()
            elif leaf.symbol is not None:
                self.symbol_value(leaf, leaf.symbol.text, type)
                relocations.append((len(data), type.bytes, leaf.symbol.text, leaf.offset, leaf.generic, leaf.mask))
                data += bytes(type.bytes)
            else:
                data += self.literal_bytes(leaf, type)
        return bytes(data), tuple(relocations)

    def symbol_value(self, leaf: ast.Initialiser, name: str, type: ScalarType) -> None:
        """Check the address of a symbol as an initial value."""
        if name not in self.globals:
            self.problems.add("initialiser", leaf.span, f"{name} is not declared before this initial value")
        elif leaf.mask is None and (type.kind not in "usb" or type.bits < 32):
            self.problems.add(
                "initialiser",
                leaf.span,
                f"the address of {name} does not fit a .{type.name}",
                "use .u64, or 0xFF(name) for a byte",
            )

    def literal_bytes(self, leaf: ast.Initialiser, type: ScalarType) -> bytes:
        """One literal as the bytes of a type."""
        value = leaf.value
        if isinstance(value, ast.Float):
            if type.kind != "f" and type.kind != "b":
                self.problems.add("initialiser", leaf.span, f"a floating-point value initialises a .{type.name}")
            if type.bits == 64:
                bits = (
                    value.bits
                    if value.width == 64
                    else int(
                        struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", value.bits))[0]))[0]
                    )
                )
                return bits.to_bytes(8, "little")
            if type.bits == 32:
                bits = (
                    value.bits
                    if value.width == 32
                    else int(
                        struct.unpack("<I", struct.pack("<f", struct.unpack("<d", struct.pack("<Q", value.bits))[0]))[0]
                    )
                )
                return bits.to_bytes(4, "little")
            self.problems.add(
                "initialiser", leaf.span, f"a .{type.name} variable cannot have a floating-point initial value"
            )
            return bytes(type.bytes)
        assert isinstance(value, ast.Integer)
        if type.kind == "f":
            self._no_float(leaf.span, type)
        return (value.value & ((1 << (8 * type.bytes)) - 1)).to_bytes(type.bytes, "little")

    def _no_float(self, span: Span, type: ScalarType) -> None:
        message = f"an integer initialises a .{type.name}"
        self.problems.add("initialiser", span, message, "write a decimal point, or 0f...")


def _length(tree: ast.InitialiserTree) -> int:
    """How many parts an initialiser has."""
    parts = tree if isinstance(tree, tuple) else (tree,)
    return sum(len(part.values) if isinstance(part, ast.Numbers) else 1 for part in parts)


def _leaves(tree: ast.InitialiserTree) -> list[ast.Initialiser | ast.Numbers]:
    if not isinstance(tree, tuple):
        return [tree]
    return [leaf for part in tree for leaf in _leaves(part)]


def lookup(scope: Scope, name: str, builder: FunctionBuilder, module: dict[str, Symbol]) -> Symbol:
    """A register, variable, parameter or function by name, from the inside outwards; None where nothing has it."""
    at: Scope | None = scope
    while at is not None:
        found = at.symbols.get(name) or at.made.get(name)
        if found is not None:
            return found
        ranged = at.ranges.find(name)
        if ranged is not None:
            at.made[name] = made = builder.declared(name, *ranged)
            return made
        at = at.outer
    return module.get(name)


def lookup_label(scope: Scope, name: str) -> LabelRef | Targets | Prototype | None:
    """A label by name, from the inside outwards."""
    at: Scope | None = scope
    while at is not None:
        if name in at.labels:
            return at.labels[name]
        at = at.outer
    return None


__all__ = ["FunctionRef", "Resolver", "Scope", "lookup", "lookup_label"]
