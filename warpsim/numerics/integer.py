"""Integer arithmetic on arrays beyond NumPy's operators, with that of the video instructions."""

from __future__ import annotations

import numpy as np

from warpsim.numerics.arrays import Array, DType


def bits(dtype: DType) -> int:
    """Width of an integer type."""
    return dtype.itemsize * 8


def unsigned(dtype: DType) -> DType:
    """The unsigned type of this width."""
    return np.dtype(f"u{dtype.itemsize}")


def limits(dtype: DType) -> tuple[int, int]:
    """Smallest and largest value."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def add_saturating(a: Array, b: Array) -> Array:
    """a + b clamped to s32."""
    return np.clip(a.astype(np.int64) + b, -(2**31), 2**31 - 1).astype(np.int32)


def sub_saturating(a: Array, b: Array) -> Array:
    """a - b clamped to s32."""
    return np.clip(a.astype(np.int64) - b, -(2**31), 2**31 - 1).astype(np.int32)


def mul_high(a: Array, b: Array) -> Array:
    """The upper half of the full product."""
    dtype = a.dtype
    n = bits(dtype)
    if n < 64:
        wide = np.dtype(f"{dtype.kind}{dtype.itemsize * 2}")
        return ((a.astype(wide) * b.astype(wide)) >> wide.type(n)).astype(dtype)
    ua, ub = a.view(np.uint64), b.view(np.uint64)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    al, ah, bl, bh = ua & mask, ua >> half, ub & mask, ub >> half
    middle = ah * bl + ((al * bl) >> half)
    high = ah * bh + (middle >> half) + ((al * bh + (middle & mask)) >> half)
    if dtype.kind == "i":
        high = high - np.where(a < 0, ub, np.uint64(0)) - np.where(b < 0, ua, np.uint64(0))
    return high.view(dtype)


def divide(a: Array, b: Array) -> Array:
    """Divide toward zero; division by zero gives all ones, as in the hardware's routines."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    q = a // safe if a.dtype.kind == "u" else _truncate(a, safe)
    if not zero.any():
        return q
    return np.where(zero, _all_ones(a.dtype), q)


def _truncate(a: Array, b: Array) -> Array:
    q = a // b
    return q + ((q * b != a) & ((a < 0) != (b < 0))).astype(a.dtype)


def _all_ones(dtype: DType) -> np.generic:
    return dtype.type(-1) if dtype.kind == "i" else dtype.type(limits(dtype)[1])


def remainder(a: Array, b: Array) -> Array:
    """a - (a / b) * b; all ones for division by zero."""
    zero = b == 0
    if not zero.any():
        return np.fmod(a, b)
    return np.where(zero, _all_ones(a.dtype), np.fmod(a, np.where(zero, b.dtype.type(1), b)))


def shift_amount(amount: Array, dtype: DType) -> Array:
    """A u32 shift amount in the type of the shifted value; NumPy's shifts clamp as the hardware does."""
    if dtype.itemsize == 2:
        amount = np.minimum(amount, np.uint32(16))
    return amount.view(dtype) if dtype.itemsize == 4 else amount.astype(dtype)


def funnel(low: Array, high: Array, amount: Array, *, left: bool, wrap: bool) -> Array:
    """shf: a 32-bit window of the pair high:low."""
    c = (amount & np.uint32(31) if wrap else np.minimum(amount, np.uint32(32))).astype(np.uint64)
    pair = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    if left:
        wide = np.where(c == 32, low.astype(np.uint64), ((pair << c) >> np.uint64(32)) & np.uint64(0xFFFFFFFF))
        return wide.astype(np.uint32)
    return ((pair >> c) & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def count_leading_zeros(a: Array) -> Array:
    """clz of u32 or u64."""
    n = bits(a.dtype)
    x = a.copy()
    count = np.zeros(a.shape, np.uint32)
    step = n // 2
    while step:
        small = x < a.dtype.type(1 << (n - step))
        count += np.where(small, np.uint32(step), np.uint32(0))
        x = np.where(small, x << a.dtype.type(step), x)
        step //= 2
    return np.where(a == 0, np.uint32(n), count).astype(np.uint32)


def population(a: Array) -> Array:
    """popc as u32."""
    return np.bitwise_count(a).astype(np.uint32)


def reverse_bits(a: Array) -> Array:
    """brev."""
    swapped = a.byteswap()
    for shift, mask in ((4, 0x0F), (2, 0x33), (1, 0x55)):
        wide = a.dtype.type(int.from_bytes(bytes([mask]) * a.dtype.itemsize, "little"))
        by = a.dtype.type(shift)
        swapped = ((swapped & wide) << by) | ((swapped >> by) & wide)
    return swapped


def find_nth_set(mask: Array, base: Array, offset: Array) -> Array:
    """fns: the position of the n-th set bit, from ``base`` up (``offset`` > 0) or down; all ones if there are fewer.

    Cases that the manual leaves undefined follow the assembler's expansion: nothing is found from a base beyond the
    word, and the least offset gives 0.
    """
    mask, base, offset = np.broadcast_arrays(mask, base, offset)
    down, exact = offset < 0, offset == 0
    word = np.where(down, reverse_bits(mask), mask)
    start = np.where(down, np.uint32(31) - base, base)
    word = word >> start << start
    word = np.where(exact, word & (np.uint32(1) << start), word)
    wanted = np.where(exact, np.int64(1), np.abs(offset.astype(np.int64)))
    seen = np.zeros(word.shape, np.int64)
    place = np.full(word.shape, 31, np.uint32)
    for k in range(32):
        here = (word >> np.uint32(k)) & np.uint32(1) != 0
        seen = seen + here
        place = np.where(here & (seen == wanted), np.uint32(k), place)
    missing = (seen < wanted) & (offset != np.int32(-(1 << 31)))
    return np.where(missing, np.uint32(0xFFFFFFFF), np.where(down, np.uint32(31) - place, place))


def find_leading(a: Array, *, shift_amount: bool) -> Array:
    """bfind: position of the most significant non-sign bit, or 0xFFFFFFFF."""
    n = bits(a.dtype)
    unsigned = a.view(np.dtype(f"u{a.dtype.itemsize}"))
    if a.dtype.kind == "i":
        unsigned = np.where(a < 0, ~unsigned, unsigned)
    lead = count_leading_zeros(unsigned)
    found = lead if shift_amount else np.uint32(n - 1) - lead
    return np.where(unsigned == 0, np.uint32(0xFFFFFFFF), found).astype(np.uint32)


def _field(position: Array, length: Array, dtype: DType) -> tuple[Array, Array]:
    """Position and length of a bit field, clamped to the width; 32-bit instructions use 8 bits of each."""
    n = np.uint32(bits(dtype))
    if n == 32:
        position, length = position & np.uint32(0xFF), length & np.uint32(0xFF)
    u = unsigned(dtype)
    return np.minimum(position, n).astype(u), np.minimum(length, n).astype(u)


def extract_field(a: Array, position: Array, length: Array) -> Array:
    """bfe: a signed field is extended with its top bit, or with the sign if it reaches beyond the word."""
    at, size = _field(position, length, a.dtype)
    if a.dtype.kind == "i":
        spare = (at.dtype.type(bits(a.dtype)) - size).view(a.dtype)
        return ((a >> at.view(a.dtype)) << spare) >> spare
    one = a.dtype.type(1)
    return (a >> at) & ((one << size) - one)


def insert_field(a: Array, b: Array, position: Array, length: Array) -> Array:
    """bfi: insert the low bits of a into b."""
    at, size = _field(position, length, a.dtype)
    one = a.dtype.type(1)
    mask = ((one << size) - one) << at
    return (b & ~mask) | ((a << at) & mask)


_PRMT_MODES = {
    "f4e": np.uint64(0x6543_5432_4321_3210),
    "b4e": np.uint64(0x0123_7012_6701_5670),
    "rc8": np.uint64(0x3333_2222_1111_0000),
    "ecl": np.uint64(0x3333_3222_3211_3210),
    "ecr": np.uint64(0x3210_2210_1110_0000),
    "rc16": np.uint64(0x3232_1010_3232_1010),
}
"""Four selectors, one for each value of the third operand's low bits, the lowest first."""


def permute_bytes(a: Array, b: Array, selector: Array, mode: str | None) -> Array:
    """prmt: select four of the eight bytes of b:a."""
    if mode is not None:
        place = (selector & np.uint32(3)).astype(np.uint64) << np.uint64(4)
        selector = (_PRMT_MODES[mode] >> place).astype(np.uint32)
    pair = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
    out: Array = np.zeros((), np.uint32)
    for i in range(4):
        nibble = (selector >> np.uint32(4 * i)) & np.uint32(15)
        byte = (pair >> ((nibble & np.uint32(7)) * np.uint32(8)).astype(np.uint64)).astype(np.uint32) & np.uint32(0xFF)
        byte = np.where(nibble & np.uint32(8), np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0)), byte)
        out = out | (byte << np.uint32(8 * i))
    return out


def logic3(a: Array, b: Array, c: Array, table: int) -> Array:
    """lop3: the Boolean function with a given truth table, as f0(b, c) ^ a & g(b, c) or something shorter."""
    if table & 1:
        return ~logic3(a, b, c, ~table & 0xFF)
    without, given = table & 15, table >> 4
    changed = without ^ given
    if changed == 0:
        return _logic2(b, c, without)
    if changed == 15:
        return a ^ _logic2(b, c, without)
    if given == 15:
        return a | _logic2(b, c, without)
    if given == 0:
        return ~a & _logic2(b, c, without)
    return _logic2(b, c, without) ^ a & _logic2(b, c, changed) if without else a & _logic2(b, c, given)


def _logic2(b: Array, c: Array, table: int) -> Array:
    """The Boolean function of two with a given truth table."""
    if table & 1:
        return ~_logic2(b, c, ~table & 15)
    match table:
        case 0:
            return b ^ b
        case 2:
            return ~b & c
        case 4:
            return b & ~c
        case 6:
            return b ^ c
        case 8:
            return b & c
        case 10:
            return c
        case 12:
            return b
    return b | c


def dot_bytes(a: Array, b: Array, c: Array, *, a_signed: bool, b_signed: bool) -> Array:
    """dp4a: the sum of four byte products and c."""
    total = c.astype(np.int64)
    for i in range(4):
        x = (a >> np.uint32(8 * i)).astype(np.uint8)
        y = (b >> np.uint32(8 * i)).astype(np.uint8)
        total = total + (x.view(np.int8) if a_signed else x).astype(np.int64) * (
            y.view(np.int8) if b_signed else y
        ).astype(np.int64)
    return total.astype(np.uint32)


def dot_halves(a: Array, b: Array, c: Array, *, a_signed: bool, b_signed: bool, high: bool) -> Array:
    """dp2a: two products of halves of a with the low or high byte pair of b, plus c."""
    total = c.astype(np.int64)
    for i in range(2):
        x = (a >> np.uint32(16 * i)).astype(np.uint16)
        y = (b >> np.uint32(8 * i + (16 if high else 0))).astype(np.uint8)
        total = total + (x.view(np.int16) if a_signed else x).astype(np.int64) * (
            y.view(np.int8) if b_signed else y
        ).astype(np.int64)
    return total.astype(np.uint32)


def add_carry(a: Array, b: Array, carry: Array | None = None) -> tuple[Array, Array]:
    """a + b (+ carry), and the carry out."""
    u = unsigned(a.dtype)
    s = a + b
    out = s.view(u) < a.view(u)
    if carry is not None:
        s = s + carry.astype(s.dtype)
        out = out | ((s == 0) & carry)
    return s, out


def sub_borrow(a: Array, b: Array, carry: Array | None = None) -> tuple[Array, Array]:
    """a - b (- 1 unless carry), and the carry out: false if the unsigned difference is negative."""
    u = unsigned(a.dtype)
    out = a.view(u) >= b.view(u)
    d = a - b
    if carry is not None:
        out = out & ((d != 0) | carry)
        d = d - (~carry).astype(d.dtype)
    return d, out


def select(word: Array, selector: str | None, *, signed: bool) -> Array:
    """Extend a byte (``b2``), a half (``h0``) or all of 32-bit registers to int64."""
    bits, at = (32, 0) if selector is None else ((8, 8) if selector[0] == "b" else (16, 16))
    if selector is not None:
        at *= int(selector[1:])
    return extend(word.view(np.uint32) >> np.uint32(at), bits, signed=signed)


def extend(value: Array, bits: int, *, signed: bool) -> Array:
    """The low bits as int64."""
    kind = "i" if signed else "u"
    return value.astype(f"u{bits // 8}").view(f"{kind}{bits // 8}").astype(np.int64)


def lanes(a: Array, b: Array, width: int, selector: str | None, first: int, *, signed: bool) -> list[Array]:
    """The elements that a selector of ``vadd2`` or ``vadd4`` picks from b:a, lowest first, as int64.

    Digits name elements, the highest result first; without a selector, an operand supplies its own elements.
    """
    count = 32 // width
    order = [first + i for i in range(count)] if selector is None else [int(c) for c in reversed(selector[1:])]
    out = []
    for index in order:
        source, place = (a, index) if index < count else (b, index - count)
        out.append(extend(source.view(np.uint32) >> np.uint32(width * place), width, signed=signed))
    return out


def clamp(value: Array, bits: int, *, signed: bool) -> Array:
    """Clamp to a range."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return np.clip(value, low, high)


def clamp_part(value: Array, bits: int, *, signed: bool) -> Array:
    """Clamp to a byte or half that is merged: as on an H100, every negative value becomes the largest one."""
    high = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
    return np.where((value < 0) | (value > high), high, value)


def merge(c: Array, value: Array, selector: str) -> Array:
    """c with a byte or half replaced by the low bits of a value; ``h1`` takes the value's own upper half, as an H100
    does."""
    if selector == "h1":
        return (c.view(np.uint32) & np.uint32(0xFFFF)) | (value.astype(np.uint32) & np.uint32(0xFFFF0000))
    bits = 8 if selector[0] == "b" else 16
    at = bits * int(selector[1:])
    mask = np.uint32(((1 << bits) - 1) << at)
    return (c.view(np.uint32) & ~mask) | (value.astype(np.uint32) << np.uint32(at) & mask)


def pack(parts: list[Array], c: Array, width: int, mask: set[int] | None) -> Array:
    """Join elements; those that the mask leaves out come from c."""
    out: Array = np.zeros((), np.uint32)
    for i, part in enumerate(parts):
        field = np.uint32(((1 << width) - 1) << (width * i))
        chosen = mask is None or i in mask
        out = out | ((part.astype(np.uint32) << np.uint32(width * i)) & field if chosen else c.view(np.uint32) & field)
    return out
