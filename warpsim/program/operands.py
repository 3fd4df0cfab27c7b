"""Holding one operand of an instruction against what its form wants there."""

from __future__ import annotations

from typing import Any, cast

import attrs

from warpsim.errors import Span
from warpsim.isa import matching
from warpsim.isa.addresses import wide
from warpsim.isa.matching import TypedOperand
from warpsim.isa.spec import Op
from warpsim.isa.traits import PLAIN, Access
from warpsim.program.fitting import fits, float_bits, limits_in_words, within
from warpsim.program.names import SPECIAL_GATES, SPECIAL_WIDTHS, SPECIALS
from warpsim.program.problems import Mismatch
from warpsim.program.program import (
    Addr,
    Discard,
    FunctionRef,
    Imm,
    LabelRef,
    Operand,
    Param,
    Reg,
    Register,
    Special,
    SymbolAddress,
    Targets,
    Variable,
    Vec,
)
from warpsim.program.resolve import FunctionBuilder, Resolver, Scope, VectorRegister, lookup, lookup_label
from warpsim.ptx import ast
from warpsim.types import TYPES, ScalarType, StateSpace


def signed(offset: int) -> int:
    """A number in an address, which is a sum modulo 2**64."""
    return (offset + (1 << 63)) % (1 << 64) - (1 << 63)


class Operands:
    """Checks the operands of one function's instructions; `begin` sets the instruction that is being checked,
    ``traits`` what is known of the form that it is held against.

    ``selectors`` collects the byte and half selectors (``r.b0``, ``r.h1``) met on the way, by operand name, and
    ``negative`` the names of operands behind a minus."""

    def __init__(self, resolver: Resolver, builder: FunctionBuilder) -> None:
        self.resolver, self.builder = resolver, builder
        self.scope, self.opcode, self.traits = Scope(None), "", PLAIN
        self.selectors: dict[str, str] = {}
        self.negative: set[str] = set()

    def begin(self, scope: Scope, opcode: str) -> None:
        """Look names up in ``scope`` from now on, for an instruction of this opcode."""
        self.scope, self.opcode = scope, opcode

    def check(self, op: Op, typed: TypedOperand, node: ast.Operand) -> Operand:
        """The operand, typed; `Mismatch` where it does not fit."""
        s, type, count = typed.spec, typed.type, typed.count
        if s.kind == "value" and count is None and type is not None:
            return self._value(op, typed, type, node)
        if s.kind == "address":
            return self._address(node, op, typed)
        if s.kind == "target":
            return cast(LabelRef, self._label(node, LabelRef))
        if s.kind == "tlist":
            return cast(Targets, self._label(node, Targets))
        if s.kind == "sink":
            if not isinstance(node, ast.Sink):
                raise Mismatch(
                    "operand-type", node.span, f"{op.text} has no destination register here: write _", weight=1
                )
            return Discard()
        assert type is not None, f"{op.text}: operand {s.name} has no type"
        if count == 1 and not s.braces:
            if isinstance(node, ast.Vector) and len(node.elements) == 1:
                node = node.elements[0]
            return self._value(op, typed, type, node)
        if isinstance(node, ast.Vector) and count == 0 and len(node.elements) == 1 and type.kind == "b":
            return self._value(op, typed, type, node.elements[0])
        if isinstance(node, ast.Vector):
            if count == 0:
                return self._packed(op, typed, type, node)
            if len(node.elements) != count:
                raise Mismatch(
                    "operand-count",
                    node.span,
                    f"operand {s.name} of {op.text} has {count} elements, not {len(node.elements)}",
                    weight=4,
                )
            if all(isinstance(e, ast.Sink) for e in node.elements):
                raise Mismatch("operand-type", node.span, "a vector needs at least one register beside _", weight=2)
            if isinstance(typed.limit, list):
                each = [attrs.evolve(typed, limit=limit) for limit in typed.limit]
                return Vec(tuple([self._value(op, t, type, e) for t, e in zip(each, node.elements, strict=True)]))
            parts = tuple([self._value(op, typed, type, e) for e in node.elements])
            if len({part.register.type.bits for part in parts if isinstance(part, Reg)}) > 1:
                raise Mismatch("operand-type", node.span, "the registers of a vector are of one size", weight=3)
            return Vec(parts)
        if isinstance(node, ast.Name) and count == 4 and f"{node.text[1:]}.w" in SPECIALS:  # mov.v4.u32 {...}, %tid
            names = [ast.Name(f"{node.text}.{component}", node.span) for component in "xyzw"]
            return Vec(tuple([self._value(op, typed, type, name) for name in names]))
        symbol = self.find(node) if isinstance(node, ast.Name) else None
        if isinstance(symbol, VectorRegister) and len(symbol.elements) == count:
            return Vec(tuple([self._register(op, typed, type, r, node.span) for r in symbol.elements]))
        if (
            isinstance(symbol, VectorRegister)
            and count == 0
            and type.bits == len(symbol.elements) * symbol.elements[0].type.bits
        ):
            return Vec(tuple([Reg(r, TYPES[f"b{r.type.bits}"]) for r in symbol.elements]))
        if isinstance(node, ast.Name) and count == 4 and f"{node.text[1:]}.x" in SPECIALS:  # mov.v4.u32 d, %tid
            name = node.text[1:]
            return Vec((*[Special(f"{name}.{c}", type) for c in "xyz"], Imm(0, type)))
        elements = f" of {count} elements" if count else ""
        raise Mismatch(
            "operand-type",
            node.span,
            f"operand {s.name} of {op.text} must be a vector{elements} in braces",
            weight=3 if count else 1,
        )

    def _packed(self, op: Op, typed: TypedOperand, type: ScalarType, node: ast.Vector) -> Vec:
        """The elements that together make a wider register (mov)."""
        n = len(node.elements)
        if n not in (2, 4, 8) or type.bits // n < 8:
            raise Mismatch("operand-count", node.span, f"{n} elements do not make a .{type.name}", weight=3)
        part = TYPES[f"b{type.bits // n}"]
        return Vec(tuple([self._value(op, typed, part, e) for e in node.elements]))

    def _value(self, op: Op, typed: TypedOperand, type: ScalarType, node: ast.Operand) -> Operand:
        s, negated = typed.spec, False
        if isinstance(node, ast.Negated):
            if s.dest or (not s.negatable and type.kind != "p"):
                raise Mismatch("operand-type", node.span, f"operand {s.name} of {op.text} cannot be negated", weight=2)
            negated, node = True, node.operand
        if isinstance(node, ast.Negative) and s.sign:
            self.negative.add(s.name)
            node = node.operand
        elif s.sign == "-":
            raise Mismatch("operand-type", node.span, f"operand {s.name} of {op.text} needs a minus here", weight=2)
        if isinstance(node, ast.Sink):
            if not s.dest:
                raise Mismatch("operand-type", node.span, "_ can only stand for a destination", weight=2)
            if s.register or not (s.sink or (typed.count is not None and (typed.count != 1 or s.braces))):
                raise Mismatch(
                    "operand-type", node.span, f"the result of {op.text} cannot be discarded with _", weight=2
                )
            return Discard(type)
        if isinstance(node, (ast.Integer, ast.Float)):
            return self._immediate(op, typed, type, node)
        if isinstance(node, ast.Component) and node.component in s.selectors:
            self.selectors[s.name] = node.component
            node = node.base
        elif isinstance(node, ast.Component) and s.selectors:
            raise Mismatch(
                "operand-type",
                node.span,
                f".{node.component} does not select of operand {s.name} of {op.text}",
                weight=3,
            )
        if isinstance(node, ast.Component):
            vector = self.find(node.base)
            if not isinstance(vector, VectorRegister):
                raise Mismatch("operand-type", node.span, f"{node.base.text} is not a vector register", weight=2)
            at = "xyzw".find(node.component) if node.component in "xyzw" else "rgba".find(node.component)
            if at >= len(vector.elements):
                raise Mismatch(
                    "operand-type", node.span, f"{node.base.text} has no component .{node.component}", weight=2
                )
            return self._register(op, typed, type, vector.elements[at], node.span)
        if isinstance(node, ast.SymbolOffset):
            return self._symbol(op, typed, type, self.need(node.symbol), node.offset, node.span)
        if not isinstance(node, ast.Name):
            raise Mismatch("operand-type", node.span, f"operand {s.name} of {op.text} cannot have this form", weight=1)
        symbol = self.find(node)
        if isinstance(symbol, Register):
            return self._register(op, typed, type, symbol, node.span, negated=negated)
        if symbol is None and node.text.startswith("%") and node.text[1:] in SPECIALS:
            special = TYPES[SPECIALS[node.text[1:]]]
            if not self.traits.special_registers:
                raise Mismatch(
                    "operand-type",
                    node.span,
                    f"a special register cannot be an operand of {self.opcode}",
                    "read it with mov",
                    3,
                )
            root = node.text[1:].split(".")[0]
            gate = SPECIAL_GATES.get(root)
            module = self.resolver.module
            if gate and not matching.satisfies(gate, module.target[0] if module.target else "sm_90", module.version):
                needs = f".target sm_{gate[0]} and " if gate[0] else ""
                raise Mismatch(
                    "target", node.span, f"{node.text} needs {needs}PTX .version {gate[1][0]}.{gate[1][1]}", weight=5
                )
            if type.bits not in SPECIAL_WIDTHS.get(root, (special.bits,)) or type.kind == "f":
                raise Mismatch(
                    "operand-type",
                    node.span,
                    f"{node.text} is .{special.name}; operand {s.name} of {op.text} is .{type.name}",
                    weight=2,
                )
            if s.dest:
                raise Mismatch("operand-type", node.span, f"{node.text} cannot be written", weight=2)
            return Special(node.text[1:], type if special.kind != "p" else special)
        if symbol is None and node.text == "WARP_SZ":
            return self._immediate(op, typed, type, ast.Integer(32, unsigned=False, span=node.span))
        if symbol is None:
            raise Mismatch("undeclared", node.span, f"{node.text} is not declared", weight=9)
        return self._symbol(op, typed, type, symbol, 0, node.span)

    def find(self, node: ast.Name) -> Any:
        """What a name means here, or None."""
        return lookup(self.scope, node.text, self.builder, self.resolver)

    def need(self, node: ast.Name) -> Any:
        """What a name means here; `Mismatch` where it means nothing."""
        found = self.find(node)
        if found is None and node.text.startswith("%") and node.text[1:] in SPECIALS:
            message = f"{node.text} is a special register: no address can be made of it"
            raise Mismatch("operand-type", node.span, message, "read it with mov into a register", 9)
        if found is None:
            raise Mismatch("undeclared", node.span, f"{node.text} is not declared", weight=9)
        return found

    def _symbol(self, op: Op, typed: TypedOperand, type: ScalarType, symbol: Any, offset: int, span: Span) -> Operand:
        s = typed.spec
        if self.traits.symbols is None:
            raise Mismatch(
                "operand-type",
                span,
                f"operand {s.name} of {self.opcode} must be a register",
                "take the address with mov",
                2,
            )
        if s.dest or type.kind in "fp" or type.bits < 32:
            raise Mismatch(
                "operand-type", span, f"an address cannot stand as operand {s.name} of type .{type.name}", weight=2
            )
        if (
            isinstance(symbol, Variable)
            and symbol.space is StateSpace.GLOBAL
            and type.bits == 32
            and not self.traits.symbols
            and not offset
        ):
            raise Mismatch("operand-type", span, f"the address of {symbol.name} has 64 bits", "take it as .u64", 3)
        if isinstance(symbol, ast.Function):
            if self.traits.symbols:
                raise Mismatch(
                    "operand-type", span, f"{symbol.name} is a function: take its address with mov", weight=2
                )
            return FunctionRef(symbol.name) if not offset else SymbolAddress(symbol.name, offset, type)
        if isinstance(symbol, (Variable, Param)):
            if s.name != "a":
                raise Mismatch("operand-type", span, f"operand {s.name} of {op.text} is a number", weight=2)
            if self.traits.symbols:
                self._space(symbol, span, op, attrs.evolve(typed, spaces=frozenset({self.traits.symbols})))
            return SymbolAddress(symbol, offset, type)  # type: ignore[arg-type]
        raise Mismatch("operand-type", span, "this name cannot stand here", weight=2)

    def _register(
        self, op: Op, typed: TypedOperand, type: ScalarType, register: Register, span: Span, *, negated: bool = False
    ) -> Reg:
        s = typed.spec
        if s.constant:
            raise Mismatch(
                "immediate-range",
                span,
                f"operand {s.name} of {op.text} must be a constant{limits_in_words(typed.limit)}",
                weight=3,
            )
        exact = s.exact(op) if callable(s.exact) else s.exact
        packed = (
            "b" if s.rule == ".u32" else "bu" if s.braces else "bus"
        )  # counts, fragments, operands of the form's type
        if register.type is not type and not (
            register.type.name == f"b{type.bits}" if exact else fits(type, register.type, packed, relaxed=s.relaxed)
        ):
            raise Mismatch(
                "operand-type",
                span,
                f"{register.name} is a .{register.type.name} register; operand {s.name} of {op.text} is .{type.name}",
                f"declare it as .{type.name} or .b{type.bits}" if type.bits >= 16 else "",
                2,
            )
        return Reg(register, type, negated)

    def _immediate(self, op: Op, typed: TypedOperand, type: ScalarType, node: ast.Integer | ast.Float) -> Imm:
        s = typed.spec
        if s.register:
            raise Mismatch("operand-type", node.span, f"operand {s.name} of {op.text} must be a register", weight=2)
        if typed.limit is not None and (isinstance(node, ast.Float) or not within(node.value, typed.limit)):
            raise Mismatch(
                "immediate-range",
                node.span,
                f"operand {s.name} of {op.text} must be a constant{limits_in_words(typed.limit)}",
                weight=4,
            )
        if s.dest:
            raise Mismatch("operand-type", node.span, f"a destination of {op.text} must be a register", weight=2)
        if isinstance(node, ast.Float):
            if type.kind == "f" and type.bits in (32, 64):
                return Imm(float_bits(node, type.bits), type)
            if type.name in ("b32", "b64") and type.bits == node.width:
                return Imm(float_bits(node, type.bits), type)
            raise Mismatch(
                "operand-type",
                node.span,
                f"a floating-point literal cannot be operand {s.name} of {op.text} (.{type.name})",
                weight=2,
            )
        if type.kind == "f" or "x2" in type.name:
            raise Mismatch(
                "operand-type",
                node.span,
                f"an integer literal cannot be operand {s.name} of {op.text} (.{type.name})",
                "write 0f... or a decimal point",
                2,
            )
        if type.kind == "p":
            seen = node.value if self.traits.wide_predicates else node.value & 0xFFFFFFFF  # as the assembler has it
            return Imm(int(bool(seen)), type)
        return Imm(node.value & ((1 << type.bits) - 1), type)

    def _bare(self, node: ast.Operand, op: Op, typed: TypedOperand) -> Addr | ast.Operand:
        """What stands without the brackets of an address, as an address where the form takes it so."""
        wanted = typed.spec.bare(op) if callable(typed.spec.bare) else typed.spec.bare
        if wanted == "value" and isinstance(node, ast.Integer):
            return Addr(None, signed(node.value))
        if wanted == "value" and isinstance(node, ast.Name) and node.text == "WARP_SZ":
            return Addr(None, 32)
        if wanted == "address" and isinstance(node, ast.SymbolOffset):
            return ast.Address(node.symbol, node.offset, node.span)
        if wanted and isinstance(node, ast.Name):
            symbol = self.need(node)
            if wanted == "address" or (isinstance(symbol, Register) and symbol.type.bits == 64):
                return ast.Address(node, 0, node.span)
        return node

    def _address(self, node: ast.Operand, op: Op, typed: TypedOperand) -> Addr:
        if not isinstance(node, ast.Address):
            bare = self._bare(node, op, typed)
            if isinstance(bare, Addr):
                return bare
            node = bare
        if not isinstance(node, ast.Address):
            raise Mismatch("operand-type", node.span, f"{op.text} needs an address in brackets here", weight=1)
        base: Any = None
        if node.base is None and "local" not in (typed.spaces or ()):
            raise Mismatch(
                "operand-type",
                node.span,
                "an address that is a number exists in .local alone",
                "put it into a register",
                2,
            )
        if node.base is not None:
            symbol = self.need(node.base)
            if isinstance(symbol, Register):
                if symbol.type.kind not in "usb" or symbol.type.bits > 64 or "x2" in symbol.type.name:
                    raise Mismatch(
                        "operand-type",
                        node.base.span,
                        f"{symbol.name} is a .{symbol.type.name} register: an address is an integer of at most 64 bits",
                        weight=2,
                    )
                if symbol.type.bits == 32 and wide(op.text.split(".")[0], op, typed.spaces):
                    raise Mismatch(
                        "operand-type",
                        node.base.span,
                        f"{symbol.name} has 32 bits: a generic address and one of global memory have 64",
                        "widen it with cvt.u64.u32, or name the state space",
                        3,
                    )
                base = Reg(symbol, symbol.type)
            elif isinstance(symbol, (Variable, Param)):
                self._space(symbol, node.base.span, op, typed)
                base = symbol
            else:
                raise Mismatch("operand-type", node.base.span, f"{node.base.text} is not an address", weight=2)
        if bool(node.extra) != bool(typed.spec.coordinates):
            raise Mismatch(
                "operand-type",
                node.span,
                f"the address of {op.text} is written [{', '.join((typed.spec.name, *typed.spec.coordinates))}]",
                weight=1,
            )
        if "coordinates" in typed.spec.coordinates and "dim" in op.given:
            self._coordinates(node, int(str(op.dim)[0]), op)
        extra = tuple([self._coordinate(e) for e in node.extra])
        offset = signed(node.offset)
        generic = not op.given["space"] if "space" in op.given else not typed.spaces
        return Addr(base, offset, extra, generic and isinstance(base, Variable))

    def _space(self, symbol: Variable | Param, span: Span, op: Op, typed: TypedOperand) -> None:
        own = "param" if isinstance(symbol, Param) else symbol.space.value
        if isinstance(symbol, Param) and not self.builder.entry:
            result = symbol.name in self.builder.results
            if self.traits.access is (Access.LOAD if result else Access.STORE):
                verb = "a result of the function: it cannot be read" if result else "a parameter: it cannot be written"
                raise Mismatch("operand-type", span, f"{symbol.name} is {verb}", weight=3)
        if isinstance(symbol, Param) and self.builder.entry and self.traits.access is Access.STORE:
            raise Mismatch(
                "operand-type", span, f"{symbol.name} is a parameter of the kernel: it cannot be written", weight=3
            )
        if own in ("param", "const") and not typed.spaces:
            raise Mismatch("operand-type", span, f"{symbol.name} lies in .{own}; write {self.opcode}.{own}", weight=3)
        if typed.spaces and own not in typed.spaces:
            raise Mismatch(
                "operand-type",
                span,
                f"{symbol.name} lies in .{own}; {op.text} accesses .{' or .'.join(sorted(typed.spaces))}",
                weight=3,
            )

    def _coordinates(self, node: ast.Address, count: int, op: Op) -> None:
        """The coordinates of a tensor: as many as it has dimensions, numbers of 32 bits."""
        given = node.extra[0]
        if not isinstance(given, ast.Vector) or len(given.elements) != count or len(node.extra) != 1:
            raise Mismatch("operand-count", given.span, f"{op.text} takes {count} coordinates in braces", weight=4)
        for element in given.elements:
            symbol = self.find(element) if isinstance(element, ast.Name) else None
            if isinstance(symbol, Register) and (symbol.type.bits != 32 or symbol.type.kind not in "usb"):
                message = f"{symbol.name} is a .{symbol.type.name} register; a coordinate has 32 bits"
                raise Mismatch("operand-type", element.span, message, weight=3)

    def _coordinate(self, node: ast.Operand) -> Operand:
        if isinstance(node, ast.Vector):
            return Vec(tuple([self._coordinate(e) for e in node.elements]))
        if isinstance(node, ast.Integer):
            return Imm(node.value & 0xFFFFFFFF, TYPES["b32"])
        if isinstance(node, ast.Name):
            symbol = self.need(node)
            if isinstance(symbol, Register):
                return Reg(symbol, symbol.type)
        raise Mismatch("operand-type", node.span, "a coordinate is a register or a number", weight=2)

    def _label(self, node: ast.Operand, kind: type) -> Any:
        if not isinstance(node, ast.Name):
            raise Mismatch("operand-type", node.span, "a label was expected", weight=1)
        found = lookup_label(self.scope, node.text)
        if found is None:
            raise Mismatch("undeclared", node.span, f"label {node.text} is not defined in this function", weight=9)
        if kind is Targets and self.scope.declared_later(node.text, node.span):
            raise Mismatch("operand-type", node.span, f"the list {node.text} must be declared before its use", weight=9)
        if not isinstance(found, kind):
            raise Mismatch(
                "operand-type",
                node.span,
                f"{node.text} is not a {'label' if kind is LabelRef else 'list of targets'}",
                weight=2,
            )
        return found
