"""Checks operands that are addresses: a base and an offset in brackets, with coordinates of tensors and textures."""

from __future__ import annotations

from warpsim.isa.matching import whole, wide
from warpsim.isa.spec import Op
from warpsim.program.initial_values import OPAQUE, float_bits
from warpsim.program.problems import Mismatch, unfit
from warpsim.program.program import ADDRESS, Operand, Param, Register, Variable, vector
from warpsim.program.values import Values, address_of, is_special, plain
from warpsim.ptx import ast
from warpsim.types import TYPES, ScalarType

ZERO = Operand(ADDRESS, constant=0)
"""The base of an absolute address."""


def signed(offset: int) -> int:
    """An offset in an address, which is a sum modulo 2**64, as a signed number."""
    return (offset + (1 << 63)) % (1 << 64) - (1 << 63)


def address(values: Values, node: ast.Operand) -> Operand:
    """Check an address in brackets, or what the form accepts without them."""
    if not isinstance(node, ast.Address):
        bare = _bare(values, node)
        if isinstance(bare, Operand):
            return bare
        node = bare
    if not isinstance(node, ast.Address):
        raise unfit(node.span, f"{values.op.text} needs an address in brackets here", 1)
    base, spec = _base(values, node), values.typed.spec
    named = OPAQUE.keys() & (values.typed.spaces or ())
    if named and (node.offset or base.type.bits != 64):
        message = f"{values.op.text} takes the name of an object, or a 64-bit register with its address"
        raise unfit(node.span, message, 3)
    if len(node.extra) != len(spec.coordinates):
        written = ", ".join((spec.name, *spec.coordinates))
        raise unfit(node.span, f"the address of {values.op.text} is written [{written}]", 1)
    if "coordinates" in spec.coordinates and "dim" in values.op.given:
        rows = any(word.endswith(("gather4", "scatter4")) for word in values.op.modifiers)
        _coordinates(values, node, 5 if rows else int(str(values.op.dim)[0]))
    if "coordinates" in spec.coordinates and "geom" in values.op.given:
        _texture_coordinates(values, node)
    if spec.coordinates == ("coordinates",) and "texref" in named and _independent(values):
        message = f"{values.op.text} is written [a, sampler, coordinates] where .target has texmode_independent"
        raise unfit(node.span, message, 3)
    if "sampler" in spec.coordinates and not _independent(values) and not _has_own_sampler(values):
        message = f"{values.op.text} takes a sampler where .target has texmode_independent"
        raise unfit(node.span, message, 3)
    parts = zip(spec.coordinates, node.extra, strict=True)
    extra = tuple([_sampler(values, e) if name == "sampler" else _coordinate(values, e) for name, e in parts])
    return Operand(ADDRESS, base=base, offset=signed(node.offset), coordinates=extra)


def _bare(values: Values, node: ast.Operand) -> Operand | ast.Operand:
    """Convert an operand without brackets to an address, if the form accepts it as one."""
    wanted = values.typed.bare
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
        if symbol.type.name in OPAQUE or OPAQUE.keys() & (values.typed.spaces or ()):
            return _opaque(values, symbol, node)
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
    among = values.among(tuple(map(plain, given.elements)))
    if among is not None and not _is_coordinate(among, "us"):
        raise unfit(given.span, f"coordinates are integers of 32 bits, not .{among.name}", 3)
    if among is None and any(isinstance(element, ast.Float) for element in given.elements):
        raise unfit(given.span, "coordinates are integers of 32 bits", 3)
    for element in given.elements if _moved(values) else ():
        special = isinstance(element, ast.Name) and is_special(element)
        if special or (isinstance(element, ast.Float) and element.width == 64):
            raise unfit(element.span, "coordinates are registers or numbers of 32 bits for this target", 3)


def _moved(values: Values) -> bool:
    """Whether the assembler moves the operands of a bulk copy to others first: since sm_120, of one to the cluster's shared memory."""
    copies = {"bulk", "shared::cluster", "global"} <= {*values.op.modifiers}
    return copies and values.resolver.has((120, None))


def _independent(values: Values) -> bool:
    """Whether textures have samplers of their own."""
    return "texmode_independent" in values.resolver.module.target


def _has_own_sampler(values: Values) -> bool:
    """Whether the assembler takes a sampler in unified mode, too: beside few textures."""
    op = values.op
    if op.geom == "3d":
        return "level" not in op.modifiers and not ("grad" in op.modifiers and values.resolver.has((90, None)))
    return op.geom in ("1d", "2d") or (op.geom == "cube" and "level" in op.modifiers)


def _opaque(values: Values, symbol: Variable | Param, node: ast.Address) -> Operand:
    """Check a texture, sampler or surface by name."""
    wanted, own = OPAQUE.keys() & (values.typed.spaces or ()), symbol.type.name
    if len(wanted) > 1:  # an attribute of whichever holds it
        wanted = {"samplerref" if _independent(values) else "texref"}
    if own not in wanted or symbol.array:
        names = " or ".join(f".{name}" for name in sorted(wanted)) or "variables of memory"
        raise unfit(node.span, f"{symbol.name} is a .{own}; {values.op.text} takes {names}, or a 64-bit register", 3)
    return address_of(symbol, ADDRESS, generic=True)


def _sampler(values: Values, node: ast.Operand) -> Operand:
    """Check the sampler of a texture instruction: a variable, or a register with its address."""
    symbol = values.need(node) if isinstance(node, ast.Name) else None
    if isinstance(symbol, Register) and symbol.type.bits == 64 and symbol.type.kind in "usb":
        return Operand(symbol.type, symbol)
    if isinstance(symbol, (Variable, Param)) and symbol.type.name == "samplerref" and not symbol.array:
        return address_of(symbol, ADDRESS, generic=True)
    raise unfit(node.span, "a sampler is a .samplerref variable, or a 64-bit register with the address of one", 2)


_INDEX = {"a1d": 0, "a2d": 0, "acube": 0, "a2dms": 1}
"""Where a texture's index stands among its coordinates. A surface's is one of them, and so is the number of a sample."""
_AXES = {"1d": 1, "2d": 2, "3d": 3, "a1d": 2, "a2d": 3, "cube": 3, "acube": 4, "2dms": 3, "a2dms": 4}


def _texture_coordinates(values: Values, node: ast.Address) -> None:
    """Check the coordinates of a texture or surface: 32 bits each, one, two or four of them."""
    given, op = node.extra[-1], values.op
    elements = tuple(map(plain, given.elements if isinstance(given, ast.Vector) else [given]))
    if len(elements) not in (1, 2, 4) or len(elements) < _AXES[op.geom]:
        message = f"{op.text} takes {max(_AXES[op.geom], 1)} coordinates, in 1, 2 or 4 elements"
        raise Mismatch("operand-count", given.span, message, weight=4)
    floating = _floating(op)
    at = _INDEX.get(op.geom) if op.text.startswith("t") else None
    if at is not None:
        among = values.among(elements[at : at + 1])
        if isinstance(elements[at], ast.Float) or (among is not None and not _is_coordinate(among, "us")):
            raise unfit(elements[at].span, "an index is of .u32", 3)
    wanted = f"a coordinate here is of .{'f32' if floating else 's32'}"
    among = values.among(elements, at)
    kinds = ("usf" if isinstance(given, ast.Vector) else "f") if floating else "us"
    if among is not None and not _is_coordinate(among, kinds):
        raise unfit(given.span, f"{wanted}, not .{among.name}", 3)
    unfitting = ast.Integer if floating else ast.Float
    if not floating and (among is not None or at is not None):
        return
    for n, element in enumerate(elements):
        if n != at and isinstance(element, unfitting):
            raise unfit(element.span, wanted, 2)


def _floating(op: Op) -> bool:
    """Whether coordinates are floats: the last type of a texture instruction is theirs, surfaces have only that of what they hold."""
    return op.text.startswith("t") and [word for word in op.modifiers if word in TYPES][-1:] == ["f32"]


def _is_coordinate(type: ScalarType, kinds: str) -> bool:
    """Whether registers of a type may be coordinates: of 32 bits, untyped or of these kinds."""
    return type.bits == 32 and type.kind in kinds + "b" and "x2" not in type.name


def _coordinate(values: Values, node: ast.Operand) -> Operand:
    if isinstance(node, ast.Vector):
        return vector([_coordinate(values, e) for e in node.elements])
    if isinstance(node, ast.Integer):
        return Operand(TYPES["b32"], constant=node.value & 0xFFFFFFFF)
    if isinstance(node, ast.Float):
        return Operand(TYPES["b32"], constant=float_bits(node, 32) if _floating(values.op) else node.bits & 0xFFFFFFFF)
    if isinstance(node, ast.Name):
        symbol = values.find(node)
        return Operand(symbol.type, symbol) if isinstance(symbol, Register) else values.named(TYPES["b32"], node)
    raise unfit(node.span, "a coordinate must be a register or a number", 2)


def _in_register(values: Values, register: Register, node: ast.Name) -> Operand:
    """Check that a register is wide enough for an address in its state space."""
    type, op, typed = register.type, values.op, values.typed
    if typed.exact and type.name != "b32":
        message = f"{register.name} is a .{type.name} register: an address in tensor memory is a .b32 register"
        raise unfit(node.span, message, 3)
    tensor = "tensor" in (typed.spaces or ())
    if type.kind not in "usb" or type.bits > 64 or ("x2" in type.name and not tensor):
        message = f"{register.name} is a .{type.name} register: an address is an integer of at most 64 bits"
        raise unfit(node.span, message, 2)
    if tensor and type.bits != 32:
        raise unfit(node.span, f"{register.name} has {type.bits} bits: an address in tensor memory has 32", 3)
    if type.bits == 32 and wide(op.text.split(".")[0], op, typed.spaces):
        message = f"{register.name} has 32 bits: a generic address and one of global memory have 64"
        raise unfit(node.span, message, 3, "widen it with cvt.u64.u32, or name the state space")
    least = 32 if typed.spec.name in ("dst", "bar") else 64
    if type.bits < least and _moved(values):
        message = f"{register.name} has {type.bits} bits: {op.text} takes an address of {least} for this target"
        raise unfit(node.span, message, 3, "widen it with cvt")
    if type.bits < 32 and whole(op.text.split(".")[0], op, typed.spec.name, type.bits):
        message = f"{register.name} has {type.bits} bits: {op.text} takes an address of 32 or 64"
        raise unfit(node.span, message, 3, "widen it with cvt.u64.u16")
    return Operand(type, register)
