"""Checks an operand of an instruction against its form."""

from __future__ import annotations

import attrs

from warpsim.isa.matching import TypedOperand
from warpsim.isa.spec import Op
from warpsim.program.addresses import Addresses, signed
from warpsim.program.names import SPECIALS
from warpsim.program.problems import Mismatch, unfit
from warpsim.program.program import ADDRESS, Operand, vector
from warpsim.program.scopes import Label, TargetList, VectorRegister
from warpsim.program.values import is_special
from warpsim.ptx import ast
from warpsim.types import TYPES, ScalarType


class Operands(Addresses):
    """Checks the operands of one function's instructions."""

    def check(self, op: Op, typed: TypedOperand, node: ast.Operand) -> Operand:
        """Check and type an operand; raises `Mismatch` if it does not fit."""
        s, type, count = typed.spec, typed.type, typed.count
        if s.kind == "value" and count is None and type is not None:
            return self.value(op, typed, type, node)
        match s.kind:
            case "address":
                return self.address(node, op, typed)
            case "target":
                return self._label(node, Label)
            case "tlist":
                return self._label(node, TargetList)
            case "sink":
                return _sink(op, node)
        assert type is not None, f"{op.text}: operand {s.name} has no type"
        return self._vector(op, typed, type, node)

    # ---- vectors -----------------------------------------------------------------------------

    def _vector(self, op: Op, typed: TypedOperand, type: ScalarType, node: ast.Operand) -> Operand:
        """Check a vector in braces, or a name for one."""
        alone = isinstance(node, ast.Vector) and len(node.elements) == 1
        if typed.count == 1 and not typed.spec.braces:
            return self.value(op, typed, type, node.elements[0] if alone else node)  # type: ignore[union-attr]
        if isinstance(node, ast.Vector):
            if alone and typed.count == 0 and type.kind == "b":
                return self.value(op, typed, type, node.elements[0])
            return (self._elements if typed.count else self._packed)(op, typed, type, node)
        named = self._named_vector(op, typed, type, node) if isinstance(node, ast.Name) else None
        if named is not None:
            return named
        elements = f" of {typed.count} elements" if typed.count else ""
        message = f"operand {typed.spec.name} of {op.text} must be a vector{elements} in braces"
        raise unfit(node.span, message, 3 if typed.count else 1)

    def _elements(self, op: Op, typed: TypedOperand, type: ScalarType, node: ast.Vector) -> Operand:
        """Check the elements of a vector: as many as the form has, all of one size."""
        s = typed.spec
        if len(node.elements) != typed.count:
            message = f"operand {s.name} of {op.text} has {typed.count} elements, not {len(node.elements)}"
            raise Mismatch("operand-count", node.span, message, weight=4)
        if all(isinstance(e, ast.Sink) for e in node.elements):
            raise unfit(node.span, "a vector needs at least one register besides _", 2)
        if isinstance(typed.limit, list):
            each = [attrs.evolve(typed, limit=limit) for limit in typed.limit]
            return vector([self.value(op, t, type, e) for t, e in zip(each, node.elements, strict=True)])
        parts = [self.value(op, typed, type, e) for e in node.elements]
        if len({part.register.type.bits for part in parts if part.register is not None}) > 1:
            raise unfit(node.span, "the registers of a vector must have the same size", 3)
        return vector(parts)

    def _packed(self, op: Op, typed: TypedOperand, type: ScalarType, node: ast.Vector) -> Operand:
        """The elements that together form a wider register (mov)."""
        n = len(node.elements)
        if n not in (2, 4) or type.bits // n < 8:
            raise Mismatch("operand-count", node.span, f"{n} elements do not make a .{type.name}", weight=3)
        part = TYPES[f"b{type.bits // n}"]
        return vector([self.value(op, typed, part, e) for e in node.elements])

    def _named_vector(self, op: Op, typed: TypedOperand, type: ScalarType, node: ast.Name) -> Operand | None:
        """The elements of a vector register, or of a special register with several components; None for any other name."""
        name, count = node.text[1:], typed.count
        if count == 4 and f"{name}.w" in SPECIALS:  # mov.v4.u32 {...}, %tid
            names = [ast.Name(f"{node.text}.{component}", node.span) for component in "xyzw"]
            return vector([self.value(op, typed, type, each) for each in names])
        symbol = self.find(node)
        if isinstance(symbol, VectorRegister):
            elements = symbol.elements
            if len(elements) == count:
                return vector([self.register(op, typed, type, r, node.span) for r in elements])
            if count == 0 and type.bits == len(elements) * elements[0].type.bits:
                return vector([Operand(TYPES[f"b{r.type.bits}"], r) for r in elements])
        if count == 4 and f"{name}.x" in SPECIALS:  # mov.v4.u32 d, %ctaid
            return vector([*[Operand(type, special=f"{name}.{c}") for c in "xyz"], Operand(type, constant=0)])
        return None

    # ---- labels ------------------------------------------------------------------------------

    def _label(self, node: ast.Operand, kind: type[Label | TargetList]) -> Operand:
        if not isinstance(node, ast.Name):
            raise unfit(node.span, "expected a label", 1)
        found = self.scope.label(node.text)
        if found is None:
            if self.find(node) is not None or is_special(node) or f"{node.text[1:]}.x" in SPECIALS:
                raise unfit(node.span, f"{node.text} is not a label", 9)
            message = f"label {node.text} is not defined in this function"
            raise Mismatch("undeclared", node.span, message, weight=9, late="function")
        if kind is TargetList and self.scope.declared_later(node.text, node.span):
            raise unfit(node.span, f"the list {node.text} must be declared before its use", 9)
        if not isinstance(found, kind):
            raise unfit(node.span, f"{node.text} is not a {'label' if kind is Label else 'list of targets'}", 2)
        return Operand(ADDRESS, targets=(found.target,) if isinstance(found, Label) else found.labels)


def _sink(op: Op, node: ast.Operand) -> Operand:
    if not isinstance(node, ast.Sink):
        raise unfit(node.span, f"{op.text} needs a destination register here; write _ to discard the result", 1)
    return Operand(ADDRESS)


__all__ = ["Operands", "signed"]
