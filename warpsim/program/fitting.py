"""Whether values and registers fit a form's operands."""

from __future__ import annotations

import struct

from warpsim.isa import spec
from warpsim.ptx import ast
from warpsim.types import ScalarType


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
    registers.
    """
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
