"""Checks operands that are single values: registers, numbers, special registers, addresses of variables."""

from __future__ import annotations

from warpsim.errors import Span
from warpsim.isa import spec
from warpsim.isa.matching import TypedOperand
from warpsim.isa.spec import Op
from warpsim.isa.traits import PLAIN, Access, Traits
from warpsim.program.initial_values import float_bits
from warpsim.program.names import (
    SPECIAL_GATES,
    SPECIAL_WIDTHS,
    SPECIALS,
    FunctionBuilder,
    Scope,
    Symbol,
    VectorRegister,
)
from warpsim.program.problems import Mismatch, unfit
from warpsim.program.program import ADDRESS, Operand, Param, Register, Variable
from warpsim.program.resolve import Resolver
from warpsim.ptx import ast
from warpsim.ptx.expressions import AXES
from warpsim.types import TYPES, ScalarType, StateSpace


class Values:
    """Checks the values of one function's instructions. `begin` sets the instruction and `against` the form; ``typed`` is the
    operand of the form that is checked.

    ``selectors`` collects byte and half selectors (``r.b0``, ``r.h1``) by operand name, ``negative`` the names of
    negated operands, ``missing`` the elements of a source that are ``_``.
    """

    op: Op
    typed: TypedOperand

    def __init__(self, resolver: Resolver, builder: FunctionBuilder) -> None:
        self.resolver, self.builder = resolver, builder
        self.scope, self.opcode, self.traits = Scope(None), "", PLAIN
        self.selectors: dict[str, str] = {}
        self.negative: set[str] = set()
        self.missing: frozenset[int] = frozenset()

    def begin(self, scope: Scope, opcode: str) -> None:
        """Start checking an instruction with this opcode, looking names up in ``scope``."""
        self.scope, self.opcode = scope, opcode

    def against(self, op: Op, traits: Traits) -> None:
        """Check against a form, given its modifiers and traits."""
        self.op, self.traits, self.selectors, self.negative = op, traits, {}, set()
        self.missing = frozenset()

    @property
    def what(self) -> str:
        """The operand in a message."""
        return f"operand {self.typed.spec.name} of {self.op.text}"

    # ---- names -------------------------------------------------------------------------------

    def find(self, node: ast.Name) -> Symbol:
        """Look up a name; None if it is undefined."""
        return self.resolver.lookup(self.scope, node.text, self.builder)

    def need(self, node: ast.Name) -> Symbol:
        """Look up a name; raises `Mismatch` if it is undefined."""
        found = self.find(node)
        if found is None and is_special(node):
            message = f"{node.text} is a special register and cannot be part of an address"
            raise unfit(node.span, message, 9, "read it with mov into a register")
        if found is None:
            raise _undeclared(node)
        return found

    # ---- a value -----------------------------------------------------------------------------

    def value(self, type: ScalarType, node: ast.Operand) -> Operand:
        """Check one value of register size."""
        s = self.typed.spec
        if isinstance(node, ast.Name) and not s.sign:
            return self.named(type, node)
        negated = isinstance(node, ast.Negated)
        node = self._without_sign(type, node)
        match node:
            case ast.Sink():
                return self._discard(type, node)
            case ast.Integer() | ast.Float():
                return self.immediate(type, node)
            case ast.Component() if node.component in s.selectors:
                self.selectors[s.name] = node.component
                return self.named(type, node.base, negated=negated)
            case ast.Component():
                return self._component(type, node)
            case ast.SymbolOffset():
                symbol = self.need(node.symbol)
                if isinstance(symbol, ast.Function):
                    raise unfit(node.span, f"{symbol.name} is a function: nothing can be added to its address", 3)
                return self._symbol(type, symbol, node.offset, node.span)
            case ast.Name():
                return self.named(type, node, negated=negated)
        raise unfit(node.span, f"{self.what} cannot have this form", 1)

    def _without_sign(self, type: ScalarType, node: ast.Operand) -> ast.Operand:
        """The operand without its ``!`` or minus."""
        s = self.typed.spec
        if isinstance(node, ast.Negated):
            if s.dest or (not s.negatable and type.kind != "p"):
                raise unfit(node.span, f"{self.what} cannot be negated", 2)
            node = node.operand
        if isinstance(node, ast.Negative) and s.sign:
            self.negative.add(s.name)
            of = node.operand.base if isinstance(node.operand, ast.Component) else node.operand
            register = self.find(of) if isinstance(of, ast.Name) else None
            if isinstance(register, Register) and register.type.name == "f16x2":
                raise unfit(node.span, f"{register.name} is a .f16x2 register: it has no negative", 2)
            return node.operand
        if s.sign == "-":
            raise unfit(node.span, f"{self.what} needs a minus here", 2)
        return node

    def named(self, type: ScalarType, node: ast.Name, *, negated: bool = False) -> Operand:
        """Check a name: a register, a variable, a function, or a predefined name."""
        symbol = self.find(node)
        if isinstance(symbol, Register):
            return self.register(type, symbol, node.span, negated=negated)
        if symbol is not None:
            return self._symbol(type, symbol, 0, node.span)
        if is_special(node):
            return self._special(type, node)
        number = plain(node)
        if isinstance(number, ast.Integer):
            return self.immediate(type, number)
        raise _undeclared(node)

    def _component(self, type: ScalarType, node: ast.Component) -> Operand:
        """Check an element of a vector register (``%v.x``)."""
        if self.typed.spec.selectors:
            raise unfit(node.span, f".{node.component} cannot select from {self.what}", 3)
        return self.register(type, self._component_of(node), node.span)

    def _component_of(self, node: ast.Component) -> Register:
        vector = self.find(node.base)
        if not isinstance(vector, VectorRegister):
            raise unfit(node.span, f"{node.base.text} is not a vector register", 2)
        at = "xyzw".find(AXES.get(node.component, "."))  # b0 and its like select from numbers alone
        if not 0 <= at < len(vector.elements):
            raise unfit(node.span, f"{node.base.text} has no component .{node.component}", 2)
        return vector.elements[at]

    def _special(self, type: ScalarType, node: ast.Name) -> Operand:
        """Check a special register: read by mov, on targets and in widths that have it."""
        s, name = self.typed.spec, node.text[1:]
        special, root = TYPES[SPECIALS[name]], name.split(".")[0]
        if not (self.traits.special_registers or self.typed.among is not None or self.typed.spec.coordinates):
            message = f"a special register cannot be an operand of {self.opcode}"
            raise unfit(node.span, message, 3, "read it with mov")
        gate = SPECIAL_GATES.get(root)
        if gate and not self.resolver.has(gate):
            needs = f".target sm_{gate[0]} and " if gate[0] else ""
            message = f"{node.text} needs {needs}PTX .version {gate[1][0]}.{gate[1][1]}"
            raise Mismatch("target", node.span, message, weight=5)
        if s.dest:
            raise unfit(node.span, f"{node.text} cannot be written", 2)
        if self.typed.no_specials is not None and self.resolver.has((self.typed.no_specials, None)):
            raise unfit(node.span, f"{self.what} cannot hold a special register for this target", 2, "read it with mov")
        among = self.typed.among
        if not (self._takes(type, among) if among is not None else self._reads(type, special, root)):
            message = f"{node.text} is .{special.name}; {self.what} is .{type.name}"
            raise unfit(node.span, message, 2)
        return Operand(type if special.kind != "p" else special, special=name)

    def _reads(self, type: ScalarType, special: ScalarType, root: str) -> bool:
        """Whether a special register is read as this type: cvt reads the low bits."""
        if self.typed.relaxed and type.bits < special.bits:
            return type.kind != "f"
        return type.kind != "f" and type.bits in SPECIAL_WIDTHS.get(root, (special.bits,))

    # ---- registers and numbers ---------------------------------------------------------------

    def among(self, elements: tuple[ast.Operand, ...], index: int | None = None) -> ScalarType | None:
        """The type as which the assembler compares the registers of a vector: their own, or bits of its size where they, or numbers
        beside them, differ. None without registers; raises `Mismatch` for registers or numbers that cannot stand together. What
        stands at ``index`` is bits, whatever its type."""
        types: set[str] = set()
        kind = "b"
        sizes: dict[str, set[int]] = {"register": set(), "special": set(), "number": set()}
        for at, node in enumerate(elements):
            if (found := self._element(node)) is None:
                continue
            before, (what, name, kind, bits) = kind, found
            if at == index:
                name, kind = f"b{bits}", "b"
            types.add(name)
            sizes[what].add(bits)
            if "b" not in (before, kind) and before != kind:  # only neighbours are compared
                first, second = ({"u": "an integer", "f": "a float"}.get(k, f"a .{k}") for k in (before, kind))
                raise unfit(node.span, f"{second} cannot stand beside {first} in a vector", 3)
        registers = sizes["register"] | sizes["special"]
        if len(registers) > 1:
            raise unfit(elements[0].span, "the registers of a vector must have the same size", 3)
        if 32 in sizes["special"] and sizes["number"]:
            raise unfit(elements[0].span, "numbers cannot stand beside a special register of 32 bits", 2)
        if not registers:
            return None
        return TYPES[types.pop() if len(types) == 1 else f"b{registers.pop()}"]

    def _element(self, node: ast.Operand) -> tuple[str, str, str, int] | None:
        """What an element is, its type, the kind that all elements share, and its bits; a special register's are bits alone."""
        if isinstance(node, ast.Integer):
            return "number", "integer", "u", 64
        if isinstance(node, ast.Float):
            return "number", f"f{node.width}", "f", node.width
        if isinstance(node, ast.Name) and is_special(node):
            bits = TYPES[SPECIALS[node.text[1:]]].bits
            return "special", f"b{bits}", "b", bits
        component = self._component_of(node) if isinstance(node, ast.Component) else None
        found = self.find(node) if isinstance(node, ast.Name) else component
        if not isinstance(found, Register):
            return None
        type = found.type
        return "register", type.name, type.name if "x2" in type.name else type.kind.replace("s", "u"), type.bits

    def register(self, type: ScalarType, register: Register, span: Span, *, negated: bool = False) -> Operand:
        """Check a register's type."""
        s = self.typed.spec
        if s.constant:
            message = f"{self.what} must be a constant{limits_in_words(self.typed.limit)}"
            raise Mismatch("immediate-range", span, message, weight=3)
        seen = self.typed.among or register.type
        if seen.kind == "f" and type.kind == "b" and self.typed.count is None and self.is_single():
            raise unfit(span, f"{self.what} cannot be a .{seen.name} register for this target", 2, "declare it as .b32")
        if seen is not type and not self._takes(type, seen):
            kind = register.type.name
            message = f"{register.name} is a .{kind} register; {self.what} is .{type.name}"
            good = " or ".join(dict.fromkeys([f".{type.name}", f".b{type.bits}"]))
            raise unfit(span, message, 2, f"declare it as {good}" if type.bits >= 16 else "")
        return Operand(type, register, negated)

    def is_single(self) -> bool:
        """Whether the assembler makes an operand of its own of each element, for this target."""
        return self.typed.single is not None and self.resolver.has((self.typed.single, None))

    def immediate(self, type: ScalarType, node: ast.Integer | ast.Float) -> Operand:
        """Check a number against the form's limits."""
        s = self.typed.spec
        among = self.typed.among is not None or (s.braces and bool(self.typed.count))
        if self.typed.register and not among:
            raise unfit(node.span, f"{self.what} must be a register", 2)
        if self.typed.limit is not None and (isinstance(node, ast.Float) or not within(node.value, self.typed.limit)):
            message = f"{self.what} must be a constant{limits_in_words(self.typed.limit)}"
            raise Mismatch("immediate-range", node.span, message, weight=4)
        if s.dest:
            raise unfit(node.span, f"a destination of {self.op.text} must be a register", 2)
        if among and (s.bits or isinstance(node, ast.Integer) or type.name not in ("f32", "f64")):
            held = node.bits if isinstance(node, ast.Float) else node.value
            return Operand.number(type, held)
        if isinstance(node, ast.Float):
            return self._of_float(type, node)
        own = self.typed.checked_as or type
        if own.kind == "f" or "x2" in own.name:
            message = f"an integer literal cannot be {self.what} (.{type.name})"
            raise unfit(node.span, message, 2, "write 0f... or a decimal point")
        if type.kind == "p":
            seen = node.value if self.traits.wide_predicates else node.value & 0xFFFFFFFF  # as the assembler does
            return Operand(type, constant=int(bool(seen)))
        return Operand.number(type, node.value)

    # ---- addresses as numbers ----------------------------------------------------------------

    def _symbol(self, type: ScalarType, symbol: Symbol, offset: int, span: Span) -> Operand:
        """Check the address of a variable or a function."""
        s = self.typed.spec
        if self.traits.symbols is None:
            message = f"operand {s.name} of {self.opcode} must be a register"
            raise unfit(span, message, 2, "take the address with mov")
        if s.dest or type.kind in "fp" or type.bits < 32:
            raise unfit(span, f"an address cannot be operand {s.name} of type .{type.name}", 2)
        narrow = type.bits == 32 and not self.traits.symbols and not offset
        if narrow and isinstance(symbol, Variable) and symbol.space is StateSpace.GLOBAL:
            message = f"the address of {symbol.name} has 64 bits"
            raise Mismatch("operand-type", span, message, "take it as .u64", 3, late="module")
        if isinstance(symbol, ast.Function):
            if self.traits.symbols:
                raise unfit(span, f"{symbol.name} is a function: take its address with mov", 2)
            return Operand(ADDRESS, function=symbol.name)
        if not isinstance(symbol, (Variable, Param)):
            raise unfit(span, "this name is not allowed here", 2)
        if isinstance(symbol, Variable) and symbol.space is StateSpace.PARAM:
            raise unfit(span, f"{symbol.name} is an argument or result of a call, which has no address", 3)
        if s.name != "a":
            raise unfit(span, f"{self.what} must be a number", 2)
        if self.traits.symbols:
            self.lies_in(symbol, span, frozenset({self.traits.symbols}))
        return address_of(symbol, type, offset)

    def lies_in(self, symbol: Variable | Param, span: Span, spaces: frozenset[str] | None) -> None:
        """Check the state space of a variable or parameter against the ``spaces`` that the instruction accesses."""
        own = "param" if isinstance(symbol, Param) else symbol.space.value
        if isinstance(symbol, Param):
            self._parameter(symbol, span)
        if own in ("param", "const") and not spaces:
            raise unfit(span, f"{symbol.name} is in .{own}; use {self.opcode}.{own}", 3)
        if spaces and own not in spaces:
            named = " or .".join(sorted(spaces))
            raise unfit(span, f"{symbol.name} is in .{own}, but {self.op.text} accesses .{named}", 3)

    def _parameter(self, symbol: Param, span: Span) -> None:
        """Check that kernel and function parameters are only read, and results only written."""
        access = self.traits.access
        if self.builder.entry:
            if access is Access.STORE:
                raise unfit(span, f"{symbol.name} is a kernel parameter and cannot be written", 3)
        elif symbol.name in self.builder.results:
            if access is Access.LOAD:
                raise unfit(span, f"{symbol.name} is a result of the function: it cannot be read", 3)
        elif access is Access.STORE:
            raise unfit(span, f"{symbol.name} is a parameter: it cannot be written", 3)

    def _discard(self, type: ScalarType, node: ast.Sink) -> Operand:
        """Check a discarded result."""
        s = self.typed.spec
        if s.sink and self.typed.count and not s.dest:  # stores nothing there
            return Operand(type, constant=0)
        if not s.dest:
            raise unfit(node.span, "_ can only stand for a destination", 2)
        in_braces = self.typed.count is not None and (self.typed.count != 1 or s.braces)
        if self.typed.register or not (s.sink or in_braces):
            raise unfit(node.span, f"the result of {self.op.text} cannot be discarded with _", 2)
        return Operand(type)

    def _takes(self, type: ScalarType, register: ScalarType) -> bool:
        """Whether the operand accepts a register of another type."""
        s = self.typed.spec
        if self.typed.exact:
            return register.name == f"b{type.bits}"
        if self.typed.checked_as is not None:
            return fits(self.typed.checked_as, register, "b", relaxed=self.typed.relaxed)
        if (
            type.name in ("f16", "f32", "f64")
            and register.kind in "us"
            and not self.traits.opaque_fragments
            and self._is_element(type)
        ):
            return type.bits == register.bits
        packed = (
            "b" if s.rule == ".u32" else "bu" if s.braces else "bus"
        )  # counts, fragments, operands of the form's type
        return fits(type, register, packed, relaxed=self.typed.relaxed)

    def _is_element(self, type: ScalarType) -> bool:
        """Whether an operand is a vector whose elements the assembler compares by size: not the fragments of matrices,
        but those of mma in f64."""
        return bool(self.typed.count) and (type.bits == 64 if self.typed.spec.braces else self.typed.count != 1)

    def _of_float(self, type: ScalarType, node: ast.Float) -> Operand:
        seen = self.typed.checked_as or type
        if (type.kind == "f" and type.bits in (32, 64)) or (
            seen.kind == "b" and "x2" not in seen.name and type.bits == node.width
        ):
            return Operand(type, constant=float_bits(node, type.bits))
        message = f"a floating-point literal cannot be {self.what} (.{type.name})"
        raise unfit(node.span, message, 2)


def address_of(symbol: Variable | Param, type: ScalarType, offset: int = 0, *, generic: bool = False) -> Operand:
    """The address of a variable or parameter."""
    if isinstance(symbol, Param):
        return Operand(type, parameter=symbol, offset=offset, generic=generic)
    return Operand(type, variable=symbol, offset=offset, generic=generic)


def plain(node: ast.Operand) -> ast.Operand:
    """An operand, with WARP_SZ as the number that it is."""
    named = isinstance(node, ast.Name) and node.text == "WARP_SZ"
    return ast.Integer(32, unsigned=False, span=node.span) if named else node


def is_special(node: ast.Name) -> bool:
    """Whether a name is that of a special register."""
    return node.text.startswith("%") and node.text[1:] in SPECIALS


def _undeclared(node: ast.Name) -> Mismatch:
    return Mismatch("undeclared", node.span, f"{node.text} is not declared", weight=9)


def within(value: int, limit: spec.Limit) -> bool:
    """Whether a limit allows an immediate."""
    if isinstance(limit, tuple) and len(limit) == 2:
        return bool(limit[0] <= value <= limit[1])
    return value in limit


def limits_in_words(limit: spec.Limit | None) -> str:
    """Phrase which immediates a limit allows, as the end of a sentence."""
    if limit is None:
        return ""
    if isinstance(limit, tuple) and len(limit) == 2:
        return f" from {limit[0]} to {limit[1]}"
    if isinstance(limit, spec.LowBits):
        limit = limit.allowed
    if isinstance(limit, range) and limit.step != 1 and len(limit) > 100:
        return f": a multiple of {limit.step}, from {limit.start} to {limit[-1]}"
    values = sorted(limit)
    return (
        f" from {values[0]} to {values[-1]}"
        if isinstance(limit, range) and limit.step == 1
        else f" of {', '.join(map(str, values))}"
    )


def fits(type: ScalarType, register: ScalarType, packed: str = "bu", *, relaxed: bool) -> bool:
    """Whether a register of one type may be an operand of another. ``packed``: kinds of types that accept .f16x2
    registers."""
    if type.kind == "p" or register.kind == "p":
        return type.kind == register.kind
    if relaxed and type.name == "f16x2":
        return register.name == "f16x2" or (register.kind == "b" and register.bits >= 32 and "x2" not in register.name)
    if relaxed:
        if register.kind == "f":
            return register.bits >= type.bits if type.kind == "b" else type.name == register.name
        if type.kind == "f":
            return register.bits >= type.bits and register.kind == "b" and "x2" not in register.name
        return register.bits >= type.bits
    if type.bits != register.bits:
        return False
    if "x2" in type.name or type.name in (
        "bf16",
        "f16",
    ):  # packed and half types need registers of their own type, or .b
        return register.name in (f"b{type.bits}", "f16x2" if type.bits == 32 and type.name[0] in "us" else type.name)
    if register.name in ("f16x2", "bf16x2"):
        return type.kind in packed
    if type.kind == "b" or register.kind == "b":
        return True
    return (type.kind == "f") == (register.kind == "f")
