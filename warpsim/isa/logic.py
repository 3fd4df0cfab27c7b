"""Logic and shift (PTX ISA: Logic and Shift Instructions), and prmt."""

from __future__ import annotations

import functools

from warpsim.isa.ports import Lanes, constant_of
from warpsim.isa.spec import Op, instruction
from warpsim.numerics import integer

_logic = functools.partial(instruction, chapter="logic-and-shift-instructions")


@_logic("and.type d, a, b; .type = { .pred, .b16, .b32, .b64 };")
def and_(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Bitwise and."""
    return a & b


@_logic("or.type d, a, b; .type = { .pred, .b16, .b32, .b64 };")
def or_(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Bitwise or."""
    return a | b


@_logic("xor.type d, a, b; .type = { .pred, .b16, .b32, .b64 };")
def xor(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Bitwise exclusive or."""
    return a ^ b


@_logic("not.type d, a; .type = { .pred, .b16, .b32, .b64 };")
def not_(op: Op, a: Lanes) -> Lanes:
    """Bitwise negation."""
    return ~a


@_logic("cnot.type d, a; .type = { .b16, .b32, .b64 };")
def cnot(op: Op, a: Lanes) -> Lanes:
    """1 where a is 0, else 0."""
    return (a == 0).astype(a.dtype)


@_logic(
    "lop3.b32 d, a, b, c, immLut;",
    types={"immLut": ".u32"},
    constants={"immLut": None},
    needs=(50, (4, 3)),
    sinks=("d",),
)
def lop3(op: Op, a: Lanes, b: Lanes, c: Lanes, immLut: Lanes) -> Lanes:
    """Any Boolean function of three bits."""
    return integer.logic3(a, b, c, constant_of(immLut) & 0xFF)


@_logic(
    "lop3.bool.b32 d|p, a, b, c, immLut, q; .bool = { .or, .and };",
    types={"p": ".pred", "immLut": ".u32", "q": ".pred"},
    constants={"immLut": None},
    needs=(70, (8, 2)),
    registers=("p",),
    sinks=("d",),
)
def lop3_bool(op: Op, a: Lanes, b: Lanes, c: Lanes, immLut: Lanes, q: Lanes) -> tuple[Lanes, Lanes]:
    """lop3, and whether its result is nonzero, combined with q."""
    d = integer.logic3(a, b, c, constant_of(immLut) & 0xFF)
    return d, ((d != 0) | q if op.bool == "or" else (d != 0) & q)


@_logic("shl.type d, a, b; .type = { .b16, .b32, .b64 };", types={"b": ".u32"})
def shl(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Shift left; shifts by N or more give 0."""
    return a << (b.astype(a.dtype) if a.dtype.itemsize > 2 else integer.shift_amount(b, a.dtype))


@_logic("shr.type d, a, b; .type = { .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64 };", types={"b": ".u32"})
def shr(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Shift right, arithmetic if signed; shift counts clamp to N."""
    return a >> integer.shift_amount(b, a.dtype)


@_logic(
    "shf.dir.mode.b32 d, a, b, c; .dir = { .l, .r }; .mode = { .clamp, .wrap };",
    types={"c": ".u32"},
    needs=(32, (3, 1)),
)
def shf(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Funnel shift of b:a."""
    return integer.funnel(a, b, c, left=op.dir == "l", wrap=op.mode == "wrap")


@instruction(
    "prmt.b32{.mode} d, a, b, c; .mode = { .f4e, .b4e, .rc8, .ecl, .ecr, .rc16 };",
    anchor="data-movement-and-conversion-instructions-prmt",
    needs=(20, (2, 0)),
)
def prmt(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Select four bytes from two registers."""
    return integer.permute_bytes(a, b, c, op.mode)
