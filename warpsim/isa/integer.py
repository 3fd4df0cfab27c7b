"""Integer arithmetic (PTX ISA: Integer Arithmetic Instructions), at last on integers side by side (PTX 9.2 and 9.3)."""

from __future__ import annotations

import functools

import numpy as np

from warpsim.isa.ports import Lanes
from warpsim.isa.spec import Op, instruction
from warpsim.numerics import integer
from warpsim.numerics.arrays import halves, join
from warpsim.types import TYPES, ScalarType

_integer = functools.partial(instruction, chapter="integer-arithmetic-instructions")


def _wide(op: Op) -> ScalarType:
    return TYPES[f"{op.type.kind}{op.type.bits * 2}"]


@_integer(
    """
    add.type       d, a, b;
    add{.sat}.s32  d, a, b;
    add.type2      d, a, b;
    .type = { .u16, .u32, .u64, .s16, .s32, .s64 };
    .type2 = { .u16x2, .s16x2 };
    """,
    gates={"u16x2": (90, (8, 0)), "s16x2": (90, (8, 0))},
)
def add(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """d = a + b, modulo 2**N; with .sat, clamped to the s32 range."""
    if op.sat:
        return integer.add_saturating(a, b)
    if op.type2:
        (al, ah), (bl, bh) = halves(a, "u2"), halves(b, "u2")
        return join(al + bl, ah + bh)
    return a + b


@_integer(
    """
    sub.type       d, a, b;
    sub{.sat}.s32  d, a, b;
    .type = { .u16, .u32, .u64, .s16, .s32, .s64 };
    """
)
def sub(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """d = a - b, modulo 2**N; with .sat, clamped to the s32 range."""
    return integer.sub_saturating(a, b) if op.sat else a - b


@_integer("mul.lo.type d, a, b; .type = { .u16, .u32, .u64, .s16, .s32, .s64 };")
def mul_lo(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """The lower half of the product."""
    return a * b


@_integer("mul.hi.type d, a, b; .type = { .u16, .u32, .u64, .s16, .s32, .s64 };")
def mul_hi(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """The upper half of the product."""
    return integer.mul_high(a, b)


@_integer("mul.wide.type d, a, b; .type = { .u16, .u32, .s16, .s32 };", types={"d": _wide})
def mul_wide(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """The full product, twice as wide."""
    wide = _wide(op).dtype
    return a.astype(wide) * b.astype(wide)


@_integer("mad.lo.type d, a, b, c; .type = { .u16, .u32, .u64, .s16, .s32, .s64 };")
def mad_lo(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """The lower half of a * b + c."""
    return a * b + c


@_integer("mad.hi.type d, a, b, c; mad.hi{.sat}.s32 d, a, b, c; .type = { .u16, .u32, .u64, .s16, .s32, .s64 };")
def mad_hi(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """The upper half of a * b, plus c."""
    high = integer.mul_high(a, b)
    return integer.add_saturating(high, c) if op.sat else high + c


@_integer("mad.wide.type d, a, b, c; .type = { .u16, .u32, .s16, .s32 };", types={"d": _wide, "c": _wide})
def mad_wide(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """The full product plus c."""
    wide = _wide(op).dtype
    return a.astype(wide) * b.astype(wide) + c


@_integer("mul24.mode.type d, a, b; .mode = { .hi, .lo }; .type = { .u32, .s32 };")
def mul24(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """The 48-bit product of 24-bit values: its low 32 bits, or bits 47 to 16."""
    return _product24(op, a, b).astype(a.dtype)


def _product24(op: Op, a: Lanes, b: Lanes) -> Lanes:
    signed, shift = a.dtype.kind == "i", np.int64(40)
    wide = [x.astype(np.int64) << shift >> shift if signed else x.astype(np.int64) & 0xFFFFFF for x in (a, b)]
    product = wide[0] * wide[1]
    return product if op.mode == "lo" else product >> np.int64(16)


@_integer("mad24.mode.type d, a, b, c; mad24.hi.sat.s32 d, a, b, c; .mode = { .hi, .lo }; .type = { .u32, .s32 };")
def mad24(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """mul24, plus c."""
    product = _product24(op, a, b)
    return integer.add_saturating(product.astype(np.int32), c) if op.sat else (product + c).astype(c.dtype)


@_integer("sad.type d, a, b, c; .type = { .u16, .u32, .u64, .s16, .s32, .s64 };")
def sad(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """c + |a - b|."""
    return c + np.where(a < b, b - a, a - b)


@_integer("div.type d, a, b; .type = { .u16, .u32, .u64, .s16, .s32, .s64 };")
def div(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Quotient toward zero."""
    return integer.divide(a, b)


@_integer("rem.type d, a, b; .type = { .u16, .u32, .u64, .s16, .s32, .s64 };")
def rem(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Remainder with the sign of the dividend."""
    return integer.remainder(a, b)


@_integer("abs.type d, a; .type = { .s16, .s32, .s64 };")
def abs_(op: Op, a: Lanes) -> Lanes:
    """Absolute value, modulo 2**N."""
    return np.where(a < 0, -a, a)


@_integer("neg.type d, a; .type = { .s16, .s32, .s64 };")
def neg(op: Op, a: Lanes) -> Lanes:
    """Arithmetic negation."""
    return -a


@_integer(
    """
    min.type d, a, b;  max.type d, a, b;
    min{.relu}.s32 d, a, b;  max{.relu}.s32 d, a, b;
    .type = { .u16, .u32, .u64, .s16, .s64 };
    """,
    gates={"relu": (90, (8, 0))},
)
def min_max(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Minimum or maximum; .relu clamps negative results to 0."""
    out = np.minimum(a, b) if op.text.startswith("min") else np.maximum(a, b)
    return np.maximum(out, a.dtype.type(0)) if op.relu else out


@_integer(
    "min.type d, a, b; max.type d, a, b; min{.relu}.s16x2 d, a, b; max{.relu}.s16x2 d, a, b; .type = { .u16x2 };",
    types=dict.fromkeys("dab", ".u16x2"),
    needs=(90, (8, 0)),
)
def min_max_x2(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """The same for both halves separately."""
    kind = "u2" if "u16x2" in op.text else "i2"
    choose = np.minimum if op.text.startswith("min") else np.maximum
    parts = [choose(x, y) for x, y in zip(halves(a, kind), halves(b, kind), strict=True)]
    if op.relu:
        parts = [np.maximum(p, np.int16(0)) for p in parts]
    return join(*parts)


@_integer("popc.type d, a; .type = { .b32, .b64 };", types={"d": ".u32"})
def popc(op: Op, a: Lanes) -> Lanes:
    """Number of set bits."""
    return integer.population(a)


@_integer("clz.type d, a; .type = { .b32, .b64 };", types={"d": ".u32"})
def clz(op: Op, a: Lanes) -> Lanes:
    """Number of leading zeros."""
    return integer.count_leading_zeros(a)


@_integer("bfind{.shiftamt}.type d, a; .type = { .u32, .u64, .s32, .s64 };", types={"d": ".u32"})
def bfind(op: Op, a: Lanes) -> Lanes:
    """Position of the most significant non-sign bit."""
    return integer.find_leading(a, shift_amount=op.shiftamt)


@_integer("brev.type d, a; .type = { .b32, .b64 };")
def brev(op: Op, a: Lanes) -> Lanes:
    """Reverse the bits."""
    return integer.reverse_bits(a)


@_integer(
    "bfe.type d, a, b, c; .type = { .u32, .u64, .s32, .s64 };",
    types={"b": ".u32", "c": ".u32"},
    limits={"b": (0, 255), "c": (0, 255)},
)
def bfe(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Extract and extend a bit field."""
    return integer.extract_field(a, b, c)


@_integer(
    "bfi.type f, a, b, c, d; .type = { .b32, .b64 };",
    types={"c": ".u32", "d": ".u32"},
    limits={"c": (0, 255), "d": (0, 255)},
)
def bfi(op: Op, a: Lanes, b: Lanes, c: Lanes, d: Lanes) -> Lanes:
    """Insert a bit field into b."""
    return integer.insert_field(a, b, c, d)


@_integer("fns.b32 d, mask, base, offset;", types={"offset": ".s32"}, checked_as={"offset": ".b32"}, needs=(30, (6, 0)))
def fns(op: Op, mask: Lanes, base: Lanes, offset: Lanes) -> Lanes:
    """Position of the n-th set bit from a base, upward or downward."""
    return integer.find_nth_set(mask, base, offset)


@_integer("bmsk.mode.b32 d, a, b; .mode = { .clamp, .wrap };", types=dict.fromkeys("dab", ".u32"), needs=(70, (7, 6)))
def bmsk(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """A mask of b bits starting at bit a."""
    if op.mode == "wrap":
        start, width = (a & np.uint32(31)).astype(np.int64), (b & np.uint32(31)).astype(np.int64)
    else:
        start, width = np.minimum(a, 32).astype(np.int64), np.minimum(b, 32).astype(np.int64)
    return ((((np.int64(1) << width) - 1) << start) & 0xFFFFFFFF).astype(np.uint32)


@_integer(
    "szext.mode.type d, a, b; .mode = { .clamp, .wrap }; .type = { .u32, .s32 };",
    types={"b": ".u32"},
    needs=(70, (7, 6)),
)
def szext(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """The low b bits, extended."""
    n = (b & np.uint32(31)) if op.mode == "wrap" else np.minimum(b, np.uint32(32))
    shift = (np.uint32(32) - n).astype(np.int64)
    raised = (a.astype(np.int64) << shift) & 0xFFFFFFFF
    wide = raised.astype(np.uint32).view(a.dtype).astype(np.int64)
    out = (wide >> shift).astype(a.dtype)
    return np.where(n == 0, a.dtype.type(0), out)


@_integer(
    "dp4a.atype.btype d, a, b, c; .atype = { .u32, .s32 }; .btype = { .u32, .s32 };",
    types={**dict.fromkeys("dc", ".u32"), **dict.fromkeys("ab", TYPES["u32"])},
    needs=(61, (5, 0)),
)
def dp4a(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Add four byte products to c."""
    return integer.dot_bytes(a, b, c, a_signed=op.atype.signed, b_signed=op.btype.signed)


@_integer(
    "dp2a.mode.atype.btype d, a, b, c; .mode = { .lo, .hi }; .atype = { .u32, .s32 }; .btype = { .u32, .s32 };",
    types={**dict.fromkeys("dc", ".u32"), **dict.fromkeys("ab", TYPES["u32"])},
    needs=(61, (5, 0)),
)
def dp2a(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Add two products of halves and bytes to c."""
    return integer.dot_halves(a, b, c, a_signed=op.atype.signed, b_signed=op.btype.signed, high=op.mode == "hi")


_packed = functools.partial(
    instruction,
    chapter="integer-arithmetic-instructions",
    types=dict.fromkeys("dab", ".b32"),
    needs=(("107f", "120f"), (9, 2)),
)


def _parts(word: Lanes, kind: str) -> list[Lanes]:
    """The numbers in a register, as s64."""
    return integer.lanes(word, word, _width(kind), None, 0, signed=kind[0] == "s")


def _width(kind: str) -> int:
    """Bits of a number: 8 in ``s8x4``."""
    return int(kind[1:].partition("x")[0])


def _joined(parts: list[Lanes], kind: str) -> Lanes:
    """A register of numbers, of which the low bits count."""
    return integer.pack(parts, np.zeros(1, np.uint32), _width(kind), None)


@_packed("add{.sat}.kind d, a, b; sub{.sat}.kind d, a, b; .kind = { .u8x4, .s8x4 };")
@_packed("add.sat.kind d, a, b; .kind = { .u16x2, .s16x2 };")
def add_packed(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Sums or differences; with .sat, clamped to the range of their type."""
    pairs = zip(_parts(a, op.kind), _parts(b, op.kind), strict=True)
    parts = [x + y if op.text.startswith("add") else x - y for x, y in pairs]
    if op.sat:
        parts = [integer.clamp(part, _width(op.kind), signed=op.kind[0] == "s") for part in parts]
    return _joined(parts, op.kind)


@_packed("add.sat.u32 d, a, b;", types=dict.fromkeys("dab", ".u32"))
def add_saturating(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """The sum, at most the greatest number."""
    total = a + b
    return np.where(total < a, np.uint32(0xFFFFFFFF), total)


@_packed("min.u8x4 d, a, b; max.u8x4 d, a, b; min{.relu}.s8x4 d, a, b; max{.relu}.s8x4 d, a, b;")
def min_max_packed(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Minimum or maximum; .relu clamps negative results to 0."""
    kind = op.modifiers[-1]
    choose = np.minimum if op.text.startswith("min") else np.maximum
    parts = [choose(x, y) for x, y in zip(_parts(a, kind), _parts(b, kind), strict=True)]
    return _joined([np.maximum(p, np.int64(0)) for p in parts] if op.relu else parts, kind)


@_packed("neg.s8x4 d, a;")
def neg_packed(op: Op, a: Lanes) -> Lanes:
    """Arithmetic negation."""
    return _joined([-part for part in _parts(a, "s8x4")], "s8x4")


@instruction(
    "clmad.mode.u64 d, a, b, c; .mode = { .hi, .lo };",
    anchor="integer-arithmetic-instructions-clmad",
    types=dict.fromkeys("dabc", ".u64"),
    needs=(80, (9, 3)),
)
def clmad(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Half of the product of two polynomials over two elements, plus c."""
    one, total = np.uint64(1), c
    for bit in range(0 if op.mode == "lo" else 1, 64):
        chosen = np.uint64(0) - (a >> np.uint64(bit) & one)
        total = total ^ (chosen & (b << np.uint64(bit) if op.mode == "lo" else b >> np.uint64(64 - bit)))
    return total
