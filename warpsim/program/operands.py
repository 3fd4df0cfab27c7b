"""Checks an operand of an instruction against its form: vectors and labels here, addresses, single values."""

from __future__ import annotations

from warpsim.isa.matching import TypedOperand
from warpsim.program.addresses import address
from warpsim.program.names import (
    SPECIALS,
    Label,
    TargetList,
    VectorRegister,
)
from warpsim.program.problems import Mismatch, unfit
from warpsim.program.program import ADDRESS, Operand, vector
from warpsim.program.values import Values, is_special, plain
from warpsim.ptx import ast
from warpsim.records import changed
from warpsim.types import TYPES, ScalarType


def check(values: Values, typed: TypedOperand, node: ast.Operand) -> Operand:
    """Check and type an operand; raises `Mismatch` if it does not fit."""
    values.typed = typed
    s, type = typed.spec, typed.type
    if s.kind == "value" and typed.count is None and type is not None:
        return values.value(type, node)
    match s.kind:
        case "address":
            return address(values, node)
        case "target":
            return _label(values, node, Label)
        case "tlist":
            return _label(values, node, TargetList)
        case "sink":
            return _sink(values, node)
    assert type is not None, f"{values.what} has no type"
    return _vector(values, type, node)


def _sink(values: Values, node: ast.Operand) -> Operand:
    if not isinstance(node, ast.Sink):
        message = f"{values.op.text} needs a destination register here; write _ to discard the result"
        raise unfit(node.span, message, 1)
    return Operand(ADDRESS)


def _vector(values: Values, type: ScalarType, node: ast.Operand) -> Operand:
    """Check a vector in braces, or a name for one."""
    alone = isinstance(node, ast.Vector) and len(node.elements) == 1
    if values.typed.count == 1 and not values.typed.spec.enclosed:
        return values.value(type, node.elements[0] if alone else node)  # type: ignore[union-attr]
    if isinstance(node, ast.Vector):
        if alone and values.typed.count == 0 and type.kind == "b":
            return values.value(type, node.elements[0])
        if all(isinstance(e, ast.Sink) for e in node.elements):
            raise unfit(node.span, "a vector needs at least one register besides _", 2)
        return (_elements if values.typed.count else _packed)(values, type, node)
    named = _named_vector(values, type, node) if isinstance(node, ast.Name) else None
    if named is not None:
        return named
    elements = f" of {values.typed.count} elements" if values.typed.count else ""
    message = f"{values.what} must be a vector{elements} in braces"
    raise unfit(node.span, message, 3 if values.typed.count else 1)


def _elements(values: Values, type: ScalarType, node: ast.Vector) -> Operand:
    """Check the elements of a vector: as many as the form has, all of one size."""
    if len(node.elements) != values.typed.count:
        message = f"{values.what} has {values.typed.count} elements, not {len(node.elements)}"
        raise Mismatch("operand-count", node.span, message, weight=4)
    if values.typed.limits:
        whole, parts = values.typed, []
        for limit, element in zip(values.typed.limits, node.elements, strict=True):
            values.typed = changed(whole, limit=limit)
            parts.append(values.value(type, element))
        return vector(parts)
    whole, elements = values.typed, tuple(map(plain, node.elements))
    single = values.is_single()
    if single:
        whole = changed(whole, checked_as=None)
    among = values.among(elements)
    if among is None:
        if whole.spec.bits and not _alone(whole, type, elements):
            raise unfit(node.span, "a vector needs at least one register", 2)
    elif not whole.spec.braces:
        _check_numbers(values, type, elements)
    values.typed = changed(whole, among=among)
    values.missing |= _missing(whole, elements)
    if single:
        return _single(values, type, elements)
    return vector([values.value(type, e) for e in elements])


def _missing(typed: TypedOperand, elements: tuple[ast.Operand, ...]) -> frozenset[int]:
    """The elements of a source that are ``_``."""
    if typed.spec.dest or not typed.spec.sink:
        return frozenset()
    return frozenset(n for n, element in enumerate(elements) if isinstance(element, ast.Sink))


def _single(values: Values, type: ScalarType, elements: tuple[ast.Operand, ...]) -> Operand:
    """Check elements of which each becomes an operand of its own: of mov in A and B, of add in C and D."""
    summed = type.kind == "f" or type.name == "f16x2"
    if summed:
        values.typed = changed(values.typed, among=None, count=None)
    for element in elements:
        if isinstance(element, ast.Sink):
            raise unfit(element.span, f"the result of {values.op.text} cannot be discarded with _ here", 2)
        if not summed and isinstance(element, ast.Float) and element.width > type.bits:
            raise unfit(element.span, f"{values.what} has elements of {type.bits} bits", 2, "write 0f...")
    return vector([values.value(type, e) for e in elements])


def _check_numbers(values: Values, type: ScalarType, elements: tuple[ast.Operand, ...]) -> None:
    """Check the numbers beside registers where they stand: the assembler refuses some as the first element, and ends itself over
    integers among floats behind it."""
    numbers = (ast.Integer, ast.Float) if type.name == "f16x2" else ast.Float if type.name == "f16" else ()
    if isinstance(elements[0], numbers):
        raise unfit(elements[0].span, f"the first element of {values.what} must be a register", 2)
    if values.typed.spec.bits or not (type.kind == "f" or type.name.endswith("f16x2")):
        return
    for element in elements[1:]:
        if isinstance(element, ast.Integer):
            message = f"an integer literal cannot be {values.what} (.{type.name})"
            raise unfit(element.span, message, 2, "write 0f... or a decimal point")


def _alone(typed: TypedOperand, type: ScalarType, elements: tuple[ast.Operand, ...]) -> bool:
    """Whether the assembler takes a vector of numbers without registers whose bits count: numbers of the type's kind and size."""
    own = typed.checked_as or type
    integers = own.kind in "us"
    if own.name == "f16x2" or type.bits == 16 or typed.exact or (integers and typed.register):
        return False
    either = type.kind == "f" and typed.single is not None
    return type.bits == 64 or all(
        isinstance(e, ast.Integer) if integers else isinstance(e, ast.Float) and (either or e.width == 32)
        for e in elements
    )


def _packed(values: Values, type: ScalarType, node: ast.Vector) -> Operand:
    """The elements that together form a wider register (mov)."""
    n = len(node.elements)
    if n not in (2, 4) or type.bits // n < 8:
        raise Mismatch("operand-count", node.span, f"{n} elements do not make a .{type.name}", weight=3)
    part = TYPES[f"b{type.bits // n}"]
    elements = tuple(map(plain, node.elements))
    values.typed = changed(values.typed, among=values.among(elements))
    return vector([values.value(part, e) for e in elements])


def _named_vector(values: Values, type: ScalarType, node: ast.Name) -> Operand | None:
    """The elements of a vector register, or of a special register with several components; None for any other name."""
    name, count = node.text[1:], values.typed.count
    if count == 4 and f"{name}.w" in SPECIALS:  # mov.v4.u32 {...}, %tid
        names = [ast.Name(f"{node.text}.{component}", node.span) for component in "xyzw"]
        return vector([values.value(type, each) for each in names])
    symbol = values.find(node)
    if isinstance(symbol, VectorRegister):
        elements = symbol.elements
        if len(elements) == count:
            return vector([values.register(type, r, node.span) for r in elements])
        if count == 0 and type.bits == len(elements) * elements[0].type.bits:
            return vector([Operand(TYPES[f"b{r.type.bits}"], r) for r in elements])
    if count == 4 and f"{name}.x" in SPECIALS:  # mov.v4.u32 d, %ctaid
        return vector([*[Operand(type, special=f"{name}.{c}") for c in "xyz"], Operand(type, constant=0)])
    return None


def _label(values: Values, node: ast.Operand, kind: type[Label | TargetList]) -> Operand:
    if not isinstance(node, ast.Name):
        raise unfit(node.span, "expected a label", 1)
    found = values.scope.label(node.text)
    if found is None:
        if values.find(node) is not None or is_special(node) or f"{node.text[1:]}.x" in SPECIALS:
            raise unfit(node.span, f"{node.text} is not a label", 9)
        message = f"label {node.text} is not defined in this function"
        raise Mismatch("undeclared", node.span, message, weight=9, late="function")
    if kind is TargetList and values.scope.declared_later(node.text, node.span):
        raise unfit(node.span, f"the list {node.text} must be declared before its use", 9)
    if not isinstance(found, kind):
        raise unfit(node.span, f"{node.text} is not a {'label' if kind is Label else 'list of targets'}", 2)
    return Operand(ADDRESS, targets=(found.target,) if isinstance(found, Label) else found.labels)
