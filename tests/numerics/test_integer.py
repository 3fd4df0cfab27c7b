"""Integer arithmetic against Python's unbounded integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from warpsim.numerics import integer

WIDTHS = [16, 32, 64]
TYPES = [f"{kind}{bits // 8}" for kind in "ui" for bits in WIDTHS]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The engine runs semantics with NumPy's floating-point warnings off."""
    with np.errstate(all="ignore"):
        yield


def _values(type: str, seed: int, n: int = 300) -> np.ndarray:
    """Random values of every magnitude, and the extremes."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(type)
    bits = 8 * dtype.itemsize
    raw = rng.integers(0, 1 << 63, n, dtype=np.uint64) * np.uint64(2) + rng.integers(0, 2, n, dtype=np.uint64)
    raw >>= rng.integers(0, bits, n).astype(np.uint64)
    special = np.array([0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1], np.uint64)
    raw[: len(special)] = special if seed % 2 else special[::-1]
    return raw.astype(f"u{dtype.itemsize}").view(dtype)


def _wrap(value: int, dtype: np.dtype[Any]) -> int:
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def _check(out: np.ndarray, expected: Callable[..., int], *operands: np.ndarray) -> None:
    rows = list(zip(*(o.tolist() for o in operands), strict=True))
    wanted = [_wrap(expected(*row), out.dtype) for row in rows]
    assert out.tolist() == wanted


def _trunc(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@pytest.mark.parametrize("type", TYPES)
def test_mul_high(type: str) -> None:
    """The upper half of the product, signed and unsigned."""
    a, b = _values(type, 1), _values(type, 2)
    _check(integer.mul_high(a, b), lambda x, y: x * y >> 8 * a.dtype.itemsize, a, b)


@pytest.mark.parametrize("type", TYPES)
def test_divide(type: str) -> None:
    """Quotients toward zero and their remainders; division by zero gives all ones in both."""
    a, b = _values(type, 3), _values(type, 4)
    _check(integer.divide(a, b), lambda x, y: _trunc(x, y) if y else -1, a, b)
    _check(integer.remainder(a, b), lambda x, y: x - _trunc(x, y) * y if y else -1, a, b)


@pytest.mark.parametrize("type", TYPES)
def test_carry(type: str) -> None:
    """Sums and differences with carry in and out make a wider number."""
    a, b = _values(type, 5), _values(type, 6)
    bits = 8 * a.dtype.itemsize
    mask = (1 << bits) - 1
    carry = np.arange(len(a)) % 2 == 1
    for function, sign in ((integer.add_carry, 1), (integer.sub_borrow, -1)):
        out, flag = function(a, b, carry if sign > 0 else ~carry)
        pairs = zip(a.tolist(), b.tolist(), carry.tolist(), strict=True)
        exact = [(x & mask) + sign * ((y & mask) + c) for x, y, c in pairs]
        assert [x & mask for x in out.tolist()] == [x & mask for x in exact]
        assert flag.tolist() == [(0 <= x <= mask) == (sign < 0) for x in exact]


@pytest.mark.parametrize("type", ["u4", "i4", "u8", "i8"])
def test_extract_field(type: str) -> None:
    """bfe takes bits above the width as zeros, or as copies of the sign."""
    a = _values(type, 7, 4000)
    n = 8 * a.dtype.itemsize
    rng = np.random.default_rng(8)
    at, size = (rng.integers(0, 80, len(a)).astype(np.uint32) for _ in range(2))

    def expected(x: int, at: int, size: int) -> int:
        at, size = min(at, n), min(size, n)
        field = x >> at & ((1 << size) - 1)
        if a.dtype.kind == "i" and size and field >> (size - 1):
            field -= 1 << size
        return field

    _check(integer.extract_field(a, at, size), expected, a, at, size)


@pytest.mark.parametrize("type", ["u4", "u8"])
def test_insert_field(type: str) -> None:
    """bfi replaces exactly the bits of the field that exist."""
    a, b = _values(type, 9, 4000), _values(type, 10, 4000)
    n = 8 * a.dtype.itemsize
    rng = np.random.default_rng(11)
    at, size = (rng.integers(0, 80, len(a)).astype(np.uint32) for _ in range(2))

    def expected(x: int, y: int, at: int, size: int) -> int:
        bits = [y >> i & 1 for i in range(n)]
        for i in range(min(size, n)):
            if at + i < n:
                bits[at + i] = x >> i & 1
        return sum(bit << i for i, bit in enumerate(bits))

    _check(integer.insert_field(a, b, at, size), expected, a, b, at, size)


@pytest.mark.parametrize("type", TYPES)
def test_shift_amounts(type: str) -> None:
    """Amounts of the width and more shift everything out, up to the greatest 32-bit amount."""
    a = _values(type, 12)
    amount = np.resize(
        np.array([0, 1, 15, 16, 31, 32, 33, 63, 64, 65536, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], np.uint32), len(a)
    )
    by = integer.shift_amount(amount, a.dtype)
    _check(a << by, lambda x, s: x << min(s, 64), a, amount)
    _check(a >> by, lambda x, s: x >> min(s, 64), a, amount)


def test_counts() -> None:
    """popc, clz, bfind and brev, bit by bit."""
    for type in ("u4", "u8"):
        a = _values(type, 13)
        n = 8 * a.dtype.itemsize
        _check(integer.population(a), lambda x: bin(x).count("1"), a)
        _check(integer.count_leading_zeros(a), lambda x, n=n: n - x.bit_length(), a)
        _check(integer.reverse_bits(a), lambda x, n=n: int(f"{x:0{n}b}"[::-1], 2), a)
        _check(integer.find_leading(a, shift_amount=False), lambda x: x.bit_length() - 1, a)
        s = a.view(f"i{n // 8}")
        _check(integer.find_leading(s, shift_amount=False), lambda x: (x if x >= 0 else ~x).bit_length() - 1, s)


def test_permute() -> None:
    """prmt picks bytes of b:a, or copies of their sign."""
    a, b, c = (_values("u4", seed) for seed in (14, 15, 16))

    def expected(x: int, y: int, selector: int) -> int:
        pool = (y << 32 | x).to_bytes(8, "little")
        out = 0
        for i in range(4):
            nibble = selector >> 4 * i & 15
            byte = pool[nibble & 7]
            out |= ((255 if byte & 128 else 0) if nibble & 8 else byte) << 8 * i
        return out

    _check(integer.permute_bytes(a, b, c, None), expected, a, b, c)


@pytest.mark.parametrize("table", [0x00, 0x1F, 0x96, 0xCA, 0xE8, 0xFF])
def test_logic3(table: int) -> None:
    """lop3 reads its truth table with a as the highest bit."""
    a, b, c = (_values("u4", seed) for seed in (17, 18, 19))
    out = np.broadcast_to(integer.logic3(a, b, c, table), a.shape)
    _check(
        out,
        lambda x, y, z: sum(
            (table >> ((x >> i & 1) << 2 | (y >> i & 1) << 1 | z >> i & 1) & 1) << i for i in range(32)
        ),
        a,
        b,
        c,
    )


def test_every_table_of_logic3() -> None:
    """Bit i of the table is the result where a, b and c are the bits of i."""
    a, b, c = (np.array([byte], np.uint32) for byte in (0xF0, 0xCC, 0xAA))

    assert [int(integer.logic3(a, b, c, table)[0]) & 0xFF for table in range(256)] == list(range(256))


MODES: dict[str, Callable[[int, int], int]] = {
    "f4e": lambda i, s: i + s,
    "b4e": lambda i, s: (s - i) % 8,
    "rc8": lambda i, s: s,
    "ecl": max,
    "ecr": min,
    "rc16": lambda i, s: 2 * (s & 1) + (i & 1),
}
"""The byte of b:a that becomes byte i of the result, by the two low bits of the selector (PTX ISA: prmt)."""


@pytest.mark.parametrize("mode", MODES)
def test_permute_by_mode(mode: str) -> None:
    """Every selector; its upper bits count for nothing."""
    a, b = np.array([0x83C2A110], np.uint32), np.array([0x97D6B554], np.uint32)
    pool = (0x97D6B55483C2A110).to_bytes(8, "little")
    for selector in (*range(4), 0xFFFFFFF0, 0x80000003):
        found = integer.permute_bytes(a, b, np.array([selector], np.uint32), mode).tolist()
        assert found == [sum(pool[MODES[mode](i, selector & 3)] << 8 * i for i in range(4))]


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_funnel(left: bool, wrap: bool) -> None:
    """shf: 32 bits of the shifted pair; amounts of 32 and more are clamped, or taken modulo 32."""
    low, high = _values("u4", 20), _values("u4", 21)
    amount = np.resize(np.array([0, 1, 5, 16, 31, 32, 33, 63, 64, 0x80000000, 0xFFFFFFFF], np.uint32), len(low))

    def expected(x: int, y: int, by: int) -> int:
        by = by % 32 if wrap else min(by, 32)
        pair = y << 32 | x
        return pair << by >> 32 if left else pair >> by

    _check(integer.funnel(low, high, amount, left=left, wrap=wrap), expected, low, high, amount)


def test_find_nth_set() -> None:
    """fns, as the loop of the PTX ISA has it: from the base up or down; all ones where there are too few."""
    mask = _values("u4", 22, 3000)
    rng = np.random.default_rng(23)
    base = rng.integers(0, 32, len(mask)).astype(np.uint32)
    offset = rng.integers(-9, 10, len(mask)).astype(np.int32)
    base[:40], offset[20:40] = rng.integers(32, 90, 40), 1
    mask[40:60], base[40:50], base[50:60] = 0xFFFFFFFF, 0, 31
    offset[40:60] = [*range(24, 34), *range(-24, -34, -1)]

    def expected(mask: int, base: int, offset: int) -> int:
        if base > 31:
            return -1
        if offset == 0:
            return base if mask >> base & 1 else -1
        step = 1 if offset > 0 else -1
        places = [k for k in range(base, 32 if step > 0 else -1, step) if mask >> k & 1]
        return places[abs(offset) - 1] if len(places) >= abs(offset) else -1

    _check(integer.find_nth_set(mask, base, offset), expected, mask, base, offset)


@pytest.mark.parametrize("a_signed", [False, True])
@pytest.mark.parametrize("b_signed", [False, True])
def test_dot_products(a_signed: bool, b_signed: bool) -> None:
    """dp4a and dp2a: products of bytes, and of halves with bytes, of each sign."""
    a, b, c = (_values("u4", seed) for seed in (24, 25, 26))

    def part(word: int, at: int, bits: int, signed: bool) -> int:
        value = word >> at & ((1 << bits) - 1)
        return value - (1 << bits) if signed and value >> (bits - 1) else value

    def bytes4(x: int, y: int, z: int) -> int:
        return z + sum(part(x, 8 * i, 8, a_signed) * part(y, 8 * i, 8, b_signed) for i in range(4))

    _check(integer.dot_bytes(a, b, c, a_signed=a_signed, b_signed=b_signed), bytes4, a, b, c)
    for high in (False, True):

        def halves(x: int, y: int, z: int, at: int = 16 * high) -> int:
            return z + sum(part(x, 16 * i, 16, a_signed) * part(y, at + 8 * i, 8, b_signed) for i in range(2))

        _check(integer.dot_halves(a, b, c, a_signed=a_signed, b_signed=b_signed, high=high), halves, a, b, c)


def test_sums_that_saturate() -> None:
    """add.sat and sub.sat clamp to s32."""
    a, b = _values("i4", 27), _values("i4", 28)

    def clamp(x: int) -> int:
        return min(max(x, -(1 << 31)), (1 << 31) - 1)

    _check(integer.add_saturating(a, b), lambda x, y: clamp(x + y), a, b)
    _check(integer.sub_saturating(a, b), lambda x, y: clamp(x - y), a, b)


@pytest.mark.parametrize("type", ["u4", "i4", "u8", "i8"])
def test_how_far_to_the_leading_bit(type: str) -> None:
    """bfind.shiftamt: the shift that brings the leading bit to the top; all ones where there is none."""
    a = _values(type, 29)
    n = 8 * a.dtype.itemsize

    def expected(x: int) -> int:
        size = x if x >= 0 else ~x
        return n - size.bit_length() if size else -1

    _check(integer.find_leading(a, shift_amount=True), expected, a)
    assert integer.find_leading(a, shift_amount=True).dtype == np.uint32


def test_carries_without_one_coming_in() -> None:
    """add.cc and sub.cc."""
    for type in ("u4", "i4", "u8", "i8"):
        a, b = _values(type, 30), _values(type, 31)
        mask = (1 << 8 * a.dtype.itemsize) - 1
        pairs = [(x & mask, y & mask) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        total, carry = integer.add_carry(a, b)
        assert [x & mask for x in total.tolist()] == [x + y & mask for x, y in pairs]
        assert carry.tolist() == [x + y > mask for x, y in pairs]
        rest, whole = integer.sub_borrow(a, b)
        assert [x & mask for x in rest.tolist()] == [x - y & mask for x, y in pairs]
        assert whole.tolist() == [x >= y for x, y in pairs]
