"""Checks an operand of an instruction against its form: vectors, labels, addresses in brackets; `values` checks the others."""

from __future__ import annotations

import attrs

from warpsim.isa.addresses import whole, wide
from warpsim.isa.matching import TypedOperand
from warpsim.program.names import SPECIALS
from warpsim.program.problems import Mismatch, unfit
from warpsim.program.program import ADDRESS, Operand, Param, Register, Variable, vector
from warpsim.program.scopes import Label, TargetList, VectorRegister
from warpsim.program.values import Values, address_of, is_special
from warpsim.ptx import ast
from warpsim.types import TYPES, ScalarType

ZERO = Operand(ADDRESS, constant=0)
"""The base of an absolute address."""


def check(values: Values, typed: TypedOperand, node: ast.Operand) -> Operand:
    """Check and type an operand; raises `Mismatch` if it does not fit."""
    values.typed = typed
    s, type = typed.spec, typed.type
    if s.kind == "value" and typed.count is None and type is not None:
        return values.value(type, node)
    match s.kind:
        case "address":
            return _address(values, node)
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


# ---- vectors and labels ----------------------------------------------------------------------------


def _vector(values: Values, type: ScalarType, node: ast.Operand) -> Operand:
    """Check a vector in braces, or a name for one."""
    alone = isinstance(node, ast.Vector) and len(node.elements) == 1
    if values.typed.count == 1 and not values.typed.spec.braces:
        return values.value(type, node.elements[0] if alone else node)  # type: ignore[union-attr]
    if isinstance(node, ast.Vector):
        if alone and values.typed.count == 0 and type.kind == "b":
            return values.value(type, node.elements[0])
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
    if all(isinstance(e, ast.Sink) for e in node.elements):
        raise unfit(node.span, "a vector needs at least one register besides _", 2)
    if isinstance(values.typed.limit, list):
        whole, parts = values.typed, []
        for limit, element in zip(values.typed.limit, node.elements, strict=True):
            values.typed = attrs.evolve(whole, limit=limit)
            parts.append(values.value(type, element))
        return vector(parts)
    parts = [values.value(type, e) for e in node.elements]
    if len({part.register.type.bits for part in parts if part.register is not None}) > 1:
        raise unfit(node.span, "the registers of a vector must have the same size", 3)
    return vector(parts)


def _packed(values: Values, type: ScalarType, node: ast.Vector) -> Operand:
    """The elements that together form a wider register (mov)."""
    n = len(node.elements)
    if n not in (2, 4) or type.bits // n < 8:
        raise Mismatch("operand-count", node.span, f"{n} elements do not make a .{type.name}", weight=3)
    part = TYPES[f"b{type.bits // n}"]
    return vector([values.value(part, e) for e in node.elements])


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


# ---- addresses -------------------------------------------------------------------------------------


def signed(offset: int) -> int:
    """An offset in an address, which is a sum modulo 2**64, as a signed number."""
    return (offset + (1 << 63)) % (1 << 64) - (1 << 63)


def _address(values: Values, node: ast.Operand) -> Operand:
    """Check an address in brackets, or what the form accepts without them."""
    if not isinstance(node, ast.Address):
        bare = _bare(values, node)
        if isinstance(bare, Operand):
            return bare
        node = bare
    if not isinstance(node, ast.Address):
        raise unfit(node.span, f"{values.op.text} needs an address in brackets here", 1)
    base, spec = _base(values, node), values.typed.spec
    if bool(node.extra) != bool(spec.coordinates):
        written = ", ".join((spec.name, *spec.coordinates))
        raise unfit(node.span, f"the address of {values.op.text} is written [{written}]", 1)
    if "coordinates" in spec.coordinates and "dim" in values.op.given:
        _coordinates(values, node, int(str(values.op.dim)[0]))
    extra = tuple([_coordinate(values, e) for e in node.extra])
    return Operand(ADDRESS, base=base, offset=signed(node.offset), coordinates=extra)


def _bare(values: Values, node: ast.Operand) -> Operand | ast.Operand:
    """Convert an operand without brackets to an address, if the form accepts it as one."""
    bare = values.typed.spec.bare
    wanted = bare(values.op) if callable(bare) else bare
    if wanted == "value" and isinstance(node, ast.Integer):
        return Operand(ADDRESS, base=ZERO, offset=signed(node.value))
    if wanted == "value" and isinstance(node, ast.Name) and node.text == "WARP_SZ":
        return Operand(ADDRESS, base=ZERO, offset=32)
    if wanted == "address" and isinstance(node, ast.SymbolOffset):
        return ast.Address(node.symbol, node.offset, node.span)
    if wanted and isinstance(node, ast.Name):
        symbol = values.need(node)
        if wanted == "address" or (isinstance(symbol, Register) and symbol.type.bits == 64):
            return ast.Address(node, 0, node.span)
    return node


def _base(values: Values, node: ast.Address) -> Operand:
    """Check an address's base: a register, a variable, or none."""
    if node.base is None:
        if "local" not in (values.typed.spaces or ()):
            message = "only .local has addresses that are numbers"
            raise unfit(node.span, message, 2, "move it to a register")
        return ZERO
    symbol = values.need(node.base)
    if isinstance(symbol, Register):
        return _in_register(values, symbol, node.base)
    if isinstance(symbol, (Variable, Param)):
        values.lies_in(symbol, node.base.span, values.typed.spaces)
        given = values.op.given
        generic = not given["space"] if "space" in given else not values.typed.spaces
        return address_of(symbol, ADDRESS, generic=generic)
    raise unfit(node.base.span, f"{node.base.text} is not an address", 2)


def _coordinates(values: Values, node: ast.Address, count: int) -> None:
    """Check the coordinates of a tensor: one 32-bit number per dimension."""
    given = node.extra[0]
    if not isinstance(given, ast.Vector) or len(given.elements) != count or len(node.extra) != 1:
        raise Mismatch("operand-count", given.span, f"{values.op.text} takes {count} coordinates in braces", weight=4)
    for element in given.elements:
        symbol = values.find(element) if isinstance(element, ast.Name) else None
        if isinstance(symbol, Register) and (symbol.type.bits != 32 or symbol.type.kind not in "usb"):
            message = f"{symbol.name} is a .{symbol.type.name} register; a coordinate must have 32 bits"
            raise unfit(element.span, message, 3)


def _coordinate(values: Values, node: ast.Operand) -> Operand:
    if isinstance(node, ast.Vector):
        return vector([_coordinate(values, e) for e in node.elements])
    if isinstance(node, ast.Integer):
        return Operand(TYPES["b32"], constant=node.value & 0xFFFFFFFF)
    if isinstance(node, ast.Name):
        symbol = values.need(node)
        if isinstance(symbol, Register):
            return Operand(symbol.type, symbol)
    raise unfit(node.span, "a coordinate must be a register or a number", 2)


def _in_register(values: Values, register: Register, node: ast.Name) -> Operand:
    """Check that a register is wide enough for an address in its state space."""
    type, op, typed = register.type, values.op, values.typed
    if type.kind not in "usb" or type.bits > 64 or "x2" in type.name:
        message = f"{register.name} is a .{type.name} register: an address is an integer of at most 64 bits"
        raise unfit(node.span, message, 2)
    if type.bits == 32 and wide(op.text.split(".")[0], op, typed.spaces):
        message = f"{register.name} has 32 bits: a generic address and one of global memory have 64"
        raise unfit(node.span, message, 3, "widen it with cvt.u64.u32, or name the state space")
    if type.bits < 32 and whole(op.text.split(".")[0], op, typed.spec.name, type.bits):
        message = f"{register.name} has {type.bits} bits: {op.text} takes an address of 32 or 64"
        raise unfit(node.span, message, 3, "widen it with cvt.u64.u16")
    return Operand(type, register)
