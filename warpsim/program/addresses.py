"""Checks the address of an instruction that accesses memory against its form."""

from __future__ import annotations

from warpsim.isa.addresses import whole, wide
from warpsim.isa.matching import TypedOperand
from warpsim.isa.spec import Op
from warpsim.program.problems import Mismatch, unfit
from warpsim.program.program import ADDRESS, Operand, Param, Register, Variable, vector
from warpsim.program.values import Values, address_of
from warpsim.ptx import ast
from warpsim.types import TYPES

ZERO = Operand(ADDRESS, constant=0)
"""The base of an absolute address."""


def signed(offset: int) -> int:
    """An offset in an address, which is a sum modulo 2**64, as a signed number."""
    return (offset + (1 << 63)) % (1 << 64) - (1 << 63)


class Addresses(Values):
    """Checks the addresses of one function's instructions."""

    def address(self, node: ast.Operand, op: Op, typed: TypedOperand) -> Operand:
        """Check an address in brackets, or what the form accepts without them."""
        if not isinstance(node, ast.Address):
            bare = self._bare(node, op, typed)
            if isinstance(bare, Operand):
                return bare
            node = bare
        if not isinstance(node, ast.Address):
            raise unfit(node.span, f"{op.text} needs an address in brackets here", 1)
        base = self._base(node, op, typed)
        if bool(node.extra) != bool(typed.spec.coordinates):
            written = ", ".join((typed.spec.name, *typed.spec.coordinates))
            raise unfit(node.span, f"the address of {op.text} is written [{written}]", 1)
        if "coordinates" in typed.spec.coordinates and "dim" in op.given:
            self._coordinates(node, int(str(op.dim)[0]), op)
        extra = tuple([self._coordinate(e) for e in node.extra])
        return Operand(ADDRESS, base=base, offset=signed(node.offset), coordinates=extra)

    def _bare(self, node: ast.Operand, op: Op, typed: TypedOperand) -> Operand | ast.Operand:
        """Convert an operand without brackets to an address, if the form accepts it as one."""
        wanted = typed.spec.bare(op) if callable(typed.spec.bare) else typed.spec.bare
        if wanted == "value" and isinstance(node, ast.Integer):
            return Operand(ADDRESS, base=ZERO, offset=signed(node.value))
        if wanted == "value" and isinstance(node, ast.Name) and node.text == "WARP_SZ":
            return Operand(ADDRESS, base=ZERO, offset=32)
        if wanted == "address" and isinstance(node, ast.SymbolOffset):
            return ast.Address(node.symbol, node.offset, node.span)
        if wanted and isinstance(node, ast.Name):
            symbol = self.need(node)
            if wanted == "address" or (isinstance(symbol, Register) and symbol.type.bits == 64):
                return ast.Address(node, 0, node.span)
        return node

    def _base(self, node: ast.Address, op: Op, typed: TypedOperand) -> Operand:
        """Check an address's base: a register, a variable, or none."""
        if node.base is None:
            if "local" not in (typed.spaces or ()):
                message = "only .local has addresses that are numbers"
                raise unfit(node.span, message, 2, "move it to a register")
            return ZERO
        symbol = self.need(node.base)
        if isinstance(symbol, Register):
            return _in_register(symbol, node.base, op, typed)
        if isinstance(symbol, (Variable, Param)):
            self.lies_in(symbol, node.base.span, op, typed)
            generic = not op.given["space"] if "space" in op.given else not typed.spaces
            return address_of(symbol, ADDRESS, generic=generic)
        raise unfit(node.base.span, f"{node.base.text} is not an address", 2)

    def _coordinates(self, node: ast.Address, count: int, op: Op) -> None:
        """Check the coordinates of a tensor: one 32-bit number per dimension."""
        given = node.extra[0]
        if not isinstance(given, ast.Vector) or len(given.elements) != count or len(node.extra) != 1:
            raise Mismatch("operand-count", given.span, f"{op.text} takes {count} coordinates in braces", weight=4)
        for element in given.elements:
            symbol = self.find(element) if isinstance(element, ast.Name) else None
            if isinstance(symbol, Register) and (symbol.type.bits != 32 or symbol.type.kind not in "usb"):
                message = f"{symbol.name} is a .{symbol.type.name} register; a coordinate must have 32 bits"
                raise unfit(element.span, message, 3)

    def _coordinate(self, node: ast.Operand) -> Operand:
        if isinstance(node, ast.Vector):
            return vector([self._coordinate(e) for e in node.elements])
        if isinstance(node, ast.Integer):
            return Operand(TYPES["b32"], constant=node.value & 0xFFFFFFFF)
        if isinstance(node, ast.Name):
            symbol = self.need(node)
            if isinstance(symbol, Register):
                return Operand(symbol.type, symbol)
        raise unfit(node.span, "a coordinate must be a register or a number", 2)


def _in_register(register: Register, node: ast.Name, op: Op, typed: TypedOperand) -> Operand:
    """Check that a register is wide enough for an address in its state space."""
    type = register.type
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
