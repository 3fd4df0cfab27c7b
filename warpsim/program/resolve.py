"""Resolves names: scopes, registers, variables with layout and initial bytes, parameters with offsets."""

from __future__ import annotations

import math

import attrs

from warpsim.errors import Span
from warpsim.isa.matching import satisfies
from warpsim.isa.spec import Gate
from warpsim.program import initial_values
from warpsim.program.initial_values import InitialValues
from warpsim.program.names import SPECIALS, FunctionBuilder, Scope, Symbol, numbered
from warpsim.program.problems import Problems
from warpsim.program.program import Param, Relocation, Variable
from warpsim.ptx import ast
from warpsim.types import TYPES, ScalarType, StateSpace

RESERVED_NAMES = frozenset(name.split(".")[0] for name in SPECIALS)
OF_INSTRUCTIONS = frozenset(["bf16", "bf16x2", "tf32", "e4m3", "e5m2", "e4m3x2", "e5m2x2", "u16x2", "s16x2"])
"""Types that cannot be declared."""
WIDE = (70, (8, 3))
"""The target and PTX version that introduced .b128."""
MAX_PARAM_ALIGN = 128
"""Largest alignment of a function's parameter."""
MOST_VARIABLES = 1 << 20
"""Most variables that ``x<N>`` may declare."""


def align_up(value: int, alignment: int) -> int:
    """Round up to a multiple."""
    return -(-value // alignment) * alignment


class Resolver:
    """Module-level names, and helpers that functions share."""

    def __init__(self, module: ast.Module, problems: Problems) -> None:
        self.module = module
        self.target = module.target[0] if module.target else "sm_90"
        self.problems = problems
        self.globals: dict[str, Symbol] = {}
        self.variables: list[Variable] = []
        self.counts: dict[str, int] = {}
        self.files: dict[int, str] = {}
        self.aliases: dict[str, str] = {}
        self.order: dict[str, int] = {}  # the module-level item that first declares a name
        self.item = 0  # the current item

    # ---- declarations ------------------------------------------------------------------------

    def lookup(self, scope: Scope, name: str, builder: FunctionBuilder) -> Symbol:
        """Look up a register, variable, parameter or function, innermost scope first. None if nothing with this name is
        declared before its use."""
        at: Scope | None = scope
        while at is not None:
            found = at.symbols.get(name) or at.made.get(name)
            if found is not None:
                if at.since.get(name, 0) <= builder.at:
                    return found
            elif (ranged := at.ranges.find(name)) is not None and at.since.get(
                numbered(name)[0] + "<", 0
            ) <= builder.at:
                return at.of_range(name, builder, *ranged)
            at = at.outer
        return self.globals.get(name) if self.order.get(name, 0) <= self.item else None

    def type_of(self, name: str, span: Span) -> ScalarType:
        """Look up a scalar type."""
        found = TYPES.get(name) or initial_values.OPAQUE.get(name)
        if found is None:
            self.problems.add("syntax", span, f".{name} is not a type")
            return TYPES["b32"]
        return found

    def check_opaque(self, node: ast.Variable, place: str) -> None:
        """Say what is wrong with variables or a parameter of an opaque type."""
        if wrong := initial_values.fault_of(node, place, self.module.target):
            self.problems.add(wrong[0], node.span, wrong[1])

    def check_wide(self, type: ScalarType, span: Span) -> None:
        """Check whether the module may declare a .b128."""
        if type.name == "b128" and not self.has(WIDE):
            self.problems.add("target", span, ".b128 needs .target sm_70 or higher and PTX .version 8.3")

    def has(self, gate: Gate) -> bool:
        """Whether the module's target and version pass a gate."""
        return satisfies(gate, self.target, self.module.version)

    def variable(self, node: ast.Variable, owner: str, scope: Scope | None, at: int = 0) -> list[Variable]:
        """Make the variables of a declaration in memory."""
        made: list[Variable] = []
        opaque = node.type in initial_values.OPAQUE
        if opaque:
            self.check_opaque(node, "module" if scope is None else "function")
        type = self.type_of(node.type, node.span)
        self._declarable(node, type, scope)
        for item in node.declarators:
            names = [item.name] if item.count is None else self._numbered(item, item.count)
            dimensions, data, relocations = self._opaque(node, item) if opaque else self._initialised(node, item, type)
            size = math.prod((type.bytes * node.vector, *(d or 0 for d in dimensions)))
            for name in names:
                variable = Variable(
                    name,
                    self.unique(f"{owner}::{name}" if owner else name),
                    StateSpace(node.space),
                    type,
                    size,
                    node.align or (16 if opaque else type.bytes * node.vector),
                    data,
                    relocations,
                    node.linkage,
                    item.span,
                    bool(item.dimensions),
                    ".managed" in node.attributes,
                )
                made.append(variable)
                self.declare(name, variable, item.span, scope, at)
        return made

    @staticmethod
    def _opaque(node: ast.Variable, item: ast.Declarator) -> tuple[list[int | None], bytes, tuple[Relocation, ...]]:
        """The dimensions of textures, samplers or surfaces, and their blocks."""
        dimensions = list(item.dimensions)
        if item.initialiser is not None and dimensions and not dimensions[0]:
            dimensions[0] = _length(item.initialiser)
        whole = attrs.evolve(item, dimensions=tuple(dimensions))
        sound = initial_values.wrong_value(item.initialiser, len(dimensions), node.type) == ""
        return dimensions, initial_values.opaque_bytes(node, whole) if sound else b"", ()

    def _numbered(self, item: ast.Declarator, count: int) -> list[str]:
        """The names of ``name<count>``."""
        if count > MOST_VARIABLES:
            message = f"{item.name}<{count}> declares more than {MOST_VARIABLES:,} variables"
            self.problems.add("unsupported", item.span, message, "declare one array, or several ranges")
            count = 1
        return [f"{item.name}{i}" for i in range(count)]

    def _initialised(
        self, node: ast.Variable, item: ast.Declarator, type: ScalarType
    ) -> tuple[list[int | None], bytes, tuple[Relocation, ...]]:
        """The dimensions of a variable, with that which its initial values give, and these values."""
        dimensions = list(item.dimensions)
        if item.initialiser is None:
            if not all(dimensions) and node.linkage != "extern":
                message = f"{item.name} has no size; [] needs .extern or initial values"
                self.problems.add("directive", item.span, message)
            return dimensions, b"", ()
        if node.linkage == "extern":
            self.problems.add("linkage", item.span, f"{item.name} is .extern, but has an initial value here")
        values: tuple[bytes, tuple[Relocation, ...]] = b"", ()
        if node.space in ("global", "const"):
            shape = (*dimensions, node.vector) if node.vector > 1 else tuple(dimensions)
            self._shaped(item.initialiser, shape, item, vector=node.vector > 1)
            values = InitialValues(self.globals, self.problems).bytes_of(item.initialiser, type, item.span)
        else:
            self.problems.add("initialiser", item.span, f"a .{node.space} variable cannot have an initialiser")
        if dimensions and not dimensions[0]:
            dimensions[0] = _length(item.initialiser)
        return dimensions, *values

    def _declarable(self, node: ast.Variable, type: ScalarType, scope: Scope | None) -> None:
        """Check what no declaration may be, whatever it declares."""
        self.check_wide(type, node.span)
        if type.kind == "p":
            self.problems.add("directive", node.span, f"a .pred variable must be a register, not in .{node.space}")
        if type.name in OF_INSTRUCTIONS:
            message = f".{type.name} is a type for instructions only"
            self.problems.add("directive", node.span, message, f"use .b{type.bits}")
        if node.vector * type.bits > 128 and node.vector > 1:
            message = f"a vector of {node.vector} .{type.name} exceeds 128 bits"
            self.problems.add("directive", node.span, message)
        if scope is None and node.space in ("local", "param", "reg"):
            self.problems.add("directive", node.span, f"a module-level variable cannot be in .{node.space}")
        if node.linkage == "common" and node.space != "global":
            self.problems.add("linkage", node.span, "a .common variable must be in .global")
        if scope is not None and node.space == "param" and node.align is not None and node.align > MAX_PARAM_ALIGN:
            message = f".align {node.align} of a parameter exceeds the limit {MAX_PARAM_ALIGN}"
            self.problems.add("directive", node.span, message)
        if node.space == "param" and type.name == "f16x2" and not all(item.dimensions for item in node.declarators):
            self.problems.add("directive", node.span, "a parameter cannot be .f16x2", "use .b32")
        if node.space == "param" and node.vector > 1 and not all(item.dimensions for item in node.declarators):
            self.problems.add("directive", node.span, "a vector cannot be in .param", "use .b8 [N]")
        if scope is not None and node.linkage is not None:
            self.problems.add(
                "linkage", node.span, f".{node.linkage} is for module-level variables, not for those of a function"
            )

    def _shaped(
        self, tree: ast.InitialiserTree, shape: tuple[int | None, ...], item: ast.Declarator, *, vector: bool
    ) -> None:
        """Check an initialiser against its variable's shape. Lists may be short, except those of a vector."""
        if not shape:
            if isinstance(tree, tuple):
                self.problems.add("initialiser", item.span, f"{item.name} takes one value, not a list")
            return
        if not isinstance(tree, tuple):
            self.problems.add("initialiser", item.span, f"{item.name} takes a list in braces, not a single value")
            return
        first, *rest = shape
        found = _length(tree)
        open_ = not first and len(shape) == len(item.dimensions) + vector
        if (first and found > first) or (open_ and not found) or (vector and not rest and found != first):
            size = first or "some"
            self.problems.add("initialiser", item.span, f"{item.name} has {size} elements, not {found}")
            return
        for part in tree:
            if not isinstance(part, (ast.Numbers, ast.Addresses)):
                self._shaped(part, tuple(rest), item, vector=vector)
            elif rest:
                self._shaped(_first(part), tuple(rest), item, vector=vector)

    def unique(self, name: str) -> str:
        """A name that no other variable has."""
        self.counts[name] = number = self.counts.get(name, 0) + 1
        return name if number == 1 else f"{name}#{number}"

    def declare(self, name: str, symbol: Symbol, span: Span, scope: Scope | None, at: int = 0) -> None:
        """Declare a name, once; ``at`` counts the instructions before it."""
        if scope is None and name.startswith("%") and name[1:] in RESERVED_NAMES:
            self.problems.add("redeclared", span, f"{name} is a special register")
        table = self.globals if scope is None else scope.symbols
        if scope is not None and name in scope.labels:
            self.problems.add("redeclared", span, f"{name} is a label in this scope")
        known = table.get(name)
        ranged = scope is not None and scope.ranges.find(name) is not None
        if known is not None or ranged:
            wrong = self._again(known, symbol) if scope is None else "is declared twice in this scope"
            if wrong:
                self.problems.add("redeclared", span, f"{name} {wrong}")
                return
            if isinstance(symbol, Variable) and symbol.linkage == "extern" and not _is_open(known):
                return
        table[name] = symbol
        if scope is None:
            self.order.setdefault(name, self.item)
        else:
            scope.since[name] = at
            prefix, number = numbered(name)
            if number is not None:
                scope.numbers.setdefault(prefix, set()).add(number)

    def _again(self, known: Symbol, symbol: Symbol) -> str:
        """What is wrong with a second module-level declaration: all but one must be .extern, and all must agree."""
        if not (isinstance(known, Variable) and isinstance(symbol, Variable)):
            return "is declared twice, as different things"
        sizes = {v.size for v in (known, symbol) if v.size}
        if known.type is not symbol.type or known.array != symbol.array or len(sizes) > 1:
            return "is declared twice, with different types"
        if "extern" not in (known.linkage, symbol.linkage):
            return "is declared twice in this scope"
        return (
            "was declared .extern before, but has no linkage here" if symbol.linkage is None and known.linkage else ""
        )

    def params(self, nodes: tuple[ast.Variable, ...], of: str = "func", *, here: bool = True) -> tuple[Param, ...]:
        """Make parameters with their offsets in the parameter block; those of .extern functions, which are not
        ``here``, are hardly looked at, as by ptxas."""
        made: list[Param] = []
        offset = 0
        for node in nodes:
            type = self.type_of(node.type, node.span)
            item = node.declarators[0]
            if node.type in initial_values.OPAQUE:
                self.check_opaque(node, of if here else "entry")
                type = initial_values.HANDLES[node.type]
            size = type.bytes * node.vector
            for d in item.dimensions:
                size *= d or 0
            if node.pointer is not None and of not in ("entry", "prototype"):
                message = f".ptr of {item.name} is for parameters of an .entry only"
                self.problems.add("directive", node.span, message)
            if here and of != "prototype":
                self._parameter(node, item, type, of)
            if of == "result" and node.space == "param" and not all(item.dimensions):
                self.problems.add("directive", node.span, f"result {item.name} has no size")
            if of != "entry" and None in item.dimensions and node is not nodes[-1]:
                self.problems.add("directive", node.span, f"{item.name} has no size, but is not the last parameter")
            align = node.align or type.bytes * node.vector
            offset = align_up(offset, max(align, 1))
            made.append(Param(item.name, type, size, align, offset, bool(item.dimensions), node.pointer))
            offset += size
        return tuple(made)

    def _parameter(self, node: ast.Variable, item: ast.Declarator, type: ScalarType, of: str) -> None:
        """Check what no parameter may be."""
        self.check_wide(type, node.span)
        if type.name in OF_INSTRUCTIONS and (node.vector > 1 or not item.dimensions):
            message = f".{type.name} is a type for instructions only"
            self.problems.add("directive", node.span, message, f"use .b{type.bits}")
        if type.name == "f16x2" and node.space == "param" and not item.dimensions:
            self.problems.add("directive", node.span, f"{item.name}: a parameter cannot be .f16x2", "use .b32")
        if type.kind == "p" and (node.space == "param" or item.dimensions):
            self.problems.add("directive", node.span, f"{item.name} is a .pred, which must be a register")
        if node.attributes:
            message = f"{node.attributes[0]} of {item.name} is for .global variables only"
            self.problems.add("directive", node.span, message)
        if node.vector > 1 and node.space == "param" and not item.dimensions:
            self.problems.add("directive", node.span, f"{item.name} cannot be a vector in .param", "use .b8 [N]")
        if node.space == "reg" and item.dimensions:
            self.problems.add("directive", node.span, f"{item.name} is an array, which cannot be in registers")
        if of != "entry" and node.align is not None and node.align > MAX_PARAM_ALIGN:
            message = f".align {node.align} of a parameter exceeds the limit {MAX_PARAM_ALIGN}"
            self.problems.add("directive", node.span, message)


def _length(tree: ast.InitialiserTree) -> int:
    """Number of parts of an initialiser."""
    parts = tree if isinstance(tree, tuple) else (tree,)
    return sum(len(part.values) if isinstance(part, (ast.Numbers, ast.Addresses)) else 1 for part in parts)


def _first(numbers: ast.Numbers | ast.Addresses) -> ast.Initialiser:
    """The first of many leaves."""
    if isinstance(numbers, ast.Addresses):
        return numbers.first()
    value, span = numbers.values[0], numbers.span
    literal = ast.Float(value, numbers.width, span) if numbers.width else ast.Integer(value, unsigned=False, span=span)
    return ast.Initialiser(literal, None, 0, generic=False, mask=None, span=span)


def _is_open(symbol: Symbol) -> bool:
    """Whether another declaration may say the size of an array."""
    return isinstance(symbol, Variable) and symbol.linkage == "extern" and symbol.size == 0


__all__ = ["Resolver", "Scope"]
