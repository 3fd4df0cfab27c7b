"""Instructions against scalar arithmetic in Python's integers and fractions, written from the manual's text."""

import functools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

import warpsim

WARPS = 4
LANES = 32 * WARPS
SPECIAL = {16: (0, 1, 0x7FFF, 0x8000, 0xFFFF), 32: (0, 1, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF),
           64: (0, 1, 63, 64, 2**63 - 1, 2**63, 2**64 - 1)}  # fmt: skip


def words(bits, seed, below=None):
    """Integers of every size with the extremes among them, as bits."""
    rng = random.Random(seed)
    values = [rng.getrandbits(bits) >> rng.randrange(bits) for _ in range(LANES)]
    for k in range(0, LANES, 3):
        values[k] = rng.choice(SPECIAL[bits])
    return [v % below if below else v for v in values]


def signed(x, bits=32):
    """The low bits of a number as a signed one."""
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def unsigned(x, bits=32):
    """The low bits of a number."""
    return x & ((1 << bits) - 1)


def lanes(code, types, seed=0, **given):
    """An instruction on all lanes: rows of the sources named a, b, c, e with these types, and the bits of d."""
    columns = []
    registers = {}
    for number, (name, bits) in enumerate(zip("abce", types, strict=False)):
        column = given.get(name) or words(bits, seed + number)
        columns.append(column)
        registers[name] = np.array(column, f"u{bits // 8}")
    declared = "".join(f".reg .b{bits} {name}; " for name, bits in zip("abce", types, strict=False))
    out = warpsim.run(declared + code, registers=registers, warps=WARPS, target="sm_90a", checks="none").registers["d"]
    out = out.reshape(-1)
    return list(zip(*columns, strict=True)), [int(v) for v in out.view(f"u{out.dtype.itemsize}")]


def holds(code, types, expected, bits=32, **given):
    """The instruction gives what a function of Python's integers gives, in every lane."""
    rows, found = lanes(f".reg .b{bits} d; {code}", types, **given)
    wrong = [
        (row, hex(got), hex(unsigned(want, bits)))
        for row, got in zip(rows, found, strict=True)
        if got != unsigned(want := expected(*row), bits)
    ]

    assert wrong == []


def of_type(type):
    """Width, and what reads bits as a number of the type."""
    bits = int(type[1:])
    return bits, (lambda x: signed(x, bits)) if type[0] == "s" else lambda x: unsigned(x, bits)


def cut(a, b):
    """A quotient toward zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def clamp(x, low, high):
    """x between two numbers."""
    return min(max(x, low), high)


# ---- integers ------------------------------------------------------------------------------------

TWO = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "min": min,
    "max": max,
    "div": lambda a, b: cut(a, b) if b else -1,  # by zero: all ones, as an H100 has it; the manual leaves it open
    "rem": lambda a, b: a - b * cut(a, b) if b else -1,
}


@pytest.mark.parametrize("type", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_two_integers(type):
    """Sums, products, quotients, the lesser and the greater."""
    bits, read = of_type(type)
    for op, function in TWO.items():
        holds(f"{op}.{type} d, a, b;", [bits, bits], lambda a, b, f=function: f(read(a), read(b)), bits)
    holds(f"mul.hi.{type} d, a, b;", [bits, bits], lambda a, b: read(a) * read(b) >> bits, bits)
    holds(f"mad.lo.{type} d, a, b, c;", [bits] * 3, lambda a, b, c: a * b + c, bits)
    holds(f"mad.hi.{type} d, a, b, c;", [bits] * 3, lambda a, b, c: (read(a) * read(b) >> bits) + c, bits)
    holds(f"sad.{type} d, a, b, c;", [bits] * 3, lambda a, b, c: abs(read(a) - read(b)) + c, bits)
    if bits < 64:
        holds(f"mul.wide.{type} d, a, b;", [bits, bits], lambda a, b: read(a) * read(b), 2 * bits)
        holds(f"mad.wide.{type} d, a, b, c;", [bits, bits, 2 * bits], lambda a, b, c: read(a) * read(b) + c, 2 * bits)
    if type[0] == "s":
        holds(f"abs.{type} d, a;", [bits], lambda a: abs(read(a)), bits)
        holds(f"neg.{type} d, a;", [bits], lambda a: -a, bits)


def test_saturating_sums():
    """add.sat and sub.sat clamp to s32, as mad.hi.sat and addc.sat do."""
    low, high = -(2**31), 2**31 - 1
    holds("add.sat.s32 d, a, b;", [32, 32], lambda a, b: clamp(signed(a) + signed(b), low, high))
    holds("sub.sat.s32 d, a, b;", [32, 32], lambda a, b: clamp(signed(a) - signed(b), low, high))
    holds(
        "mad.hi.sat.s32 d, a, b, c;",
        [32] * 3,
        lambda a, b, c: clamp((signed(a) * signed(b) >> 32) + signed(c), low, high),
    )


@pytest.mark.parametrize("type", ["u32", "s32"])
def test_24_bits(type):
    """mul24 and mad24 take the low 24 bits: .lo the low 32 bits of 48, .hi the high ones."""
    read = (lambda x: signed(x, 24)) if type == "s32" else lambda x: unsigned(x, 24)
    holds(f"mul24.lo.{type} d, a, b;", [32, 32], lambda a, b: read(a) * read(b))
    holds(f"mul24.hi.{type} d, a, b;", [32, 32], lambda a, b: read(a) * read(b) >> 16)
    holds(f"mad24.lo.{type} d, a, b, c;", [32] * 3, lambda a, b, c: read(a) * read(b) + c)
    holds(f"mad24.hi.{type} d, a, b, c;", [32] * 3, lambda a, b, c: (read(a) * read(b) >> 16) + c)


@pytest.mark.parametrize("bits", [32, 64])
def test_carries(bits):
    """Sums, differences and products of two words through the carry flag."""
    whole = f"{{ .reg .b{bits} t; FIRST SECOND }}"
    pairs = [bits] * 4
    for first, second, sign in (("add.cc", "addc", 1), ("sub.cc", "subc", -1)):
        code = whole.replace("FIRST", f"{first}.u{bits} t, a, c;").replace("SECOND", f"{second}.u{bits} d, b, e;")
        holds(code, pairs, lambda a, b, c, e, s=sign: ((b << bits | a) + s * (e << bits | c)) >> bits, bits)
        last = f"{second}.u{bits} d, 0, 0;"  # what is left is the carry, or minus the borrow
        code = whole.replace("FIRST", f"{first}.u{bits} t, a, c; {second}.cc.u{bits} t, b, e;").replace("SECOND", last)
        holds(code, pairs, lambda a, b, c, e, s=sign: ((b << bits | a) + s * (e << bits | c)) >> 2 * bits, bits)
    code = whole.replace("FIRST", f"mad.lo.cc.u{bits} t, a, b, c;").replace("SECOND", f"madc.hi.u{bits} d, a, b, e;")
    holds(code, pairs, lambda a, b, c, e: (a * b + (e << bits | c)) >> bits, bits)
    code = whole.replace("FIRST", f"mad.lo.cc.u{bits} t, a, b, c; madc.hi.cc.u{bits} t, a, b, e;").replace(
        "SECOND", f"addc.u{bits} d, 0, 0;"
    )
    holds(code, pairs, lambda a, b, c, e: (a * b + (e << bits | c)) >> 2 * bits, bits)


@pytest.mark.parametrize("bits", [32, 64])
def test_bits(bits):
    """Counts, the highest bit that tells, reversal, fields.

    Position and length of a field are 8 bits by the manual; the shifts that 64 bits are assembled to read all of them, and
    an H100 gives that (data/integer_recordings.npz)."""
    narrow = (lambda n: n & 255) if bits == 32 else lambda n: min(n, 255)
    holds(f"popc.b{bits} d, a;", [bits], lambda a: a.bit_count())
    holds(f"clz.b{bits} d, a;", [bits], lambda a: bits - a.bit_length())
    holds(f"brev.b{bits} d, a;", [bits], lambda a: int(f"{a:0{bits}b}"[::-1], 2), bits)
    for type in (f"u{bits}", f"s{bits}"):
        _, read = of_type(type)
        highest = lambda a, r=read: (r(a) if r(a) >= 0 else ~r(a)).bit_length() - 1  # noqa: E731
        holds(f"bfind.{type} d, a;", [bits], highest)
        holds(f"bfind.shiftamt.{type} d, a;", [bits], lambda a, h=highest: bits - 1 - h(a) if h(a) >= 0 else -1)
        holds(
            f"bfe.{type} d, a, b, c;",
            [bits, 32, 32],
            lambda a, b, c, t=type: field(a, narrow(b), narrow(c), bits, t[0] == "s"),
            bits,
        )
    holds(
        f"bfi.b{bits} d, a, b, c, e;",
        [bits, bits, 32, 32],
        lambda a, b, c, e: put(a, b, narrow(c), narrow(e), bits),
        bits,
    )


def field(a, position, length, bits, extend):
    """bfe: bits beyond the word are those of its sign."""
    top = bits - 1
    sign = a >> min(position + length - 1, top) & 1 if extend and length else 0
    return sum((a >> (position + k) & 1 if k < length and position + k <= top else sign) << k for k in range(bits))


def put(a, b, position, length, bits):
    """bfi: a's low bits over b's from a position on."""
    for k in range(length):
        if position + k < bits:
            b = b & ~(1 << (position + k)) | (a >> k & 1) << (position + k)
    return b


def nth_set(mask, base, offset):
    """fns, as the manual's text runs; it leaves open what a base beyond the word gives."""
    if offset == 0:
        return base if mask >> base & 1 else -1
    position, count = base, abs(offset) - 1
    while 0 <= position < 32:
        if mask >> position & 1:
            if count == 0:
                return position
            count -= 1
        position += 1 if offset > 0 else -1
    return -1


def test_find_nth_set():
    """fns, from every base in both directions."""
    offsets = [unsigned(o - 16) for o in words(32, 9, 33)]
    holds("fns.b32 d, a, b, c;", [32] * 3, lambda a, b, c: nth_set(a, b, signed(c)), b=words(32, 8, 32), c=offsets)
    dense = [(1 << 32) - 1 - w for w in words(32, 3)]
    holds(
        "fns.b32 d, a, b, c;",
        [32] * 3,
        lambda a, b, c: nth_set(a, b, signed(c)),
        a=dense,
        b=words(32, 8, 32),
        c=offsets,
    )


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_windows_and_masks(mode):
    """shf takes 32 of 64 bits; bmsk and szext make masks and extend: amounts clamp at 32, or count modulo 32."""
    amount = (lambda n: min(n, 32)) if mode == "clamp" else lambda n: n % 32
    holds(f"shf.l.{mode}.b32 d, a, b, c;", [32] * 3, lambda a, b, c: ((b << 32 | a) << amount(c)) >> 32)
    holds(f"shf.r.{mode}.b32 d, a, b, c;", [32] * 3, lambda a, b, c: (b << 32 | a) >> amount(c))
    holds(f"bmsk.{mode}.b32 d, a, b;", [32, 32], lambda a, b: ((1 << amount(b)) - 1) << amount(a))
    holds(f"szext.{mode}.u32 d, a, b;", [32, 32], lambda a, b: unsigned(a, amount(b)))
    holds(f"szext.{mode}.s32 d, a, b;", [32, 32], lambda a, b: signed(a, amount(b)) if amount(b) else 0)


@pytest.mark.parametrize("atype", ["u32", "s32"])
@pytest.mark.parametrize("btype", ["u32", "s32"])
def test_dot_products(atype, btype):
    """dp4a: four products of bytes; dp2a: two of a's halves and b's low or high bytes."""
    part = lambda x, k, bits, type: (signed if type == "s32" else unsigned)(x >> bits * k, bits)  # noqa: E731
    total = lambda c: signed(c) if "s32" in (atype, btype) else c  # noqa: E731
    holds(
        f"dp4a.{atype}.{btype} d, a, b, c;",
        [32] * 3,
        lambda a, b, c: total(c) + sum(part(a, k, 8, atype) * part(b, k, 8, btype) for k in range(4)),
    )
    for mode, first in (("lo", 0), ("hi", 2)):
        holds(
            f"dp2a.{mode}.{atype}.{btype} d, a, b, c;",
            [32] * 3,
            lambda a, b, c, f=first: total(c) + sum(part(a, k, 16, atype) * part(b, k + f, 8, btype) for k in range(2)),
        )


def test_logic():
    """Bit by bit; shifts by more than the width; lop3 by its table; prmt by its selector."""
    for bits in (16, 32, 64):
        holds(f"and.b{bits} d, a, b;", [bits] * 2, lambda a, b: a & b, bits)
        holds(f"or.b{bits} d, a, b;", [bits] * 2, lambda a, b: a | b, bits)
        holds(f"xor.b{bits} d, a, b;", [bits] * 2, lambda a, b: a ^ b, bits)
        holds(f"not.b{bits} d, a;", [bits], lambda a: ~a, bits)
        holds(f"cnot.b{bits} d, a;", [bits], lambda a: int(a == 0), bits)
        holds(f"shl.b{bits} d, a, b;", [bits, 32], lambda a, b, n=bits: a << min(b, n), bits)
        holds(f"shr.u{bits} d, a, b;", [bits, 32], lambda a, b, n=bits: a >> min(b, n), bits)
        holds(f"shr.s{bits} d, a, b;", [bits, 32], lambda a, b, n=bits: signed(a, n) >> min(b, n), bits)
    for table in (0x96, 0xE8, 0xCA, 0x01):
        holds(
            f"lop3.b32 d, a, b, c, {table};",
            [32] * 3,
            lambda a, b, c, t=table: sum(
                (t >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | c >> k & 1) & 1) << k for k in range(32)
            ),
        )
    holds("prmt.b32 d, a, b, c;", [32] * 3, permuted)


def permuted(a, b, selector):
    """prmt: byte k of b:a for each nibble, or its sign eight times."""
    out = 0
    for k in range(4):
        nibble = selector >> 4 * k & 15
        byte = (b << 32 | a) >> 8 * (nibble & 7) & 255
        out |= (255 * (byte >> 7) if nibble & 8 else byte) << 8 * k
    return out


# ---- video and packed integers -------------------------------------------------------------------


@pytest.mark.parametrize("signs", ["u32.u32.u32", "s32.s32.s32", "s32.u32.s32"])
def test_video(signs):
    """Scalar video instructions, whole words and parts: the exact result, clamped where the text says so."""
    dtype, atype, btype = signs.split(".")
    as_a, as_b = (signed if t == "s32" else unsigned for t in (atype, btype))
    results = {
        "vadd": lambda a, b: a + b,
        "vsub": lambda a, b: a - b,
        "vabsdiff": lambda a, b: abs(a - b),
        "vmin": min,
        "vmax": max,
    }
    for op, function in results.items():
        if op == "vabsdiff" and dtype == "u32":
            continue
        holds(f"{op}.{signs} d, a.b1, b.h1;", [32, 32], lambda a, b, f=function: f(as_a(a >> 8, 8), as_b(b >> 16, 16)))
        holds(
            f"{op}.{signs}.add d, a.h0, b.b3, c;",
            [32] * 3,
            lambda a, b, c, f=function: f(as_a(a, 16), as_b(b >> 24, 8)) + c,
        )


@pytest.mark.parametrize(
    ("op", "parts"), [(op, n) for op in ("vadd", "vsub", "vmin", "vmax", "vabsdiff", "vavrg") for n in (2, 4)]
)
def test_video_of_parts(op, parts):
    """SIMD video instructions on all halves or bytes."""
    bits = 32 // parts

    def element(a, b):
        if op == "vavrg":
            total = a + b
            return (total + (total >= 0)) >> 1
        return {"vadd": a + b, "vsub": a - b, "vmin": min(a, b), "vmax": max(a, b), "vabsdiff": abs(a - b)}[op]

    def expected(a, b, c):
        return sum(
            unsigned(element(signed(a >> bits * k, bits), signed(b >> bits * k, bits)), bits) << bits * k
            for k in range(parts)
        )

    holds(f"{op}{parts}.s32.s32.s32 d, a, b, c;", [32] * 3, expected)


@pytest.mark.parametrize("type", ["u16x2", "s16x2"])
def test_packed_integers(type):
    """add, min and max of two halves."""
    read = (lambda x: signed(x, 16)) if type[0] == "s" else lambda x: unsigned(x, 16)
    for op, function in (("add", lambda a, b: a + b), ("min", min), ("max", max)):
        holds(
            f"{op}.{type} d, a, b;",
            [32, 32],
            lambda a, b, f=function: sum(
                unsigned(f(read(a >> 16 * k), read(b >> 16 * k)), 16) << 16 * k for k in (0, 1)
            ),
        )
    if type == "s16x2":
        holds(
            "max.relu.s16x2 d, a, b;",
            [32, 32],
            lambda a, b: sum(max(signed(a >> 16 * k, 16), signed(b >> 16 * k, 16), 0) << 16 * k for k in (0, 1)),
        )


# ---- comparison, selection, conversion of integers -----------------------------------------------

COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("type", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_comparisons(type):
    """setp and set, alone and joined with a predicate; selp and slct."""
    bits, read = of_type(type)
    for name, function in COMPARE.items():
        holds(
            f"{{ .reg .pred p; setp.{name}.{type} p, a, b; selp.u32 d, 1, 0, p; }}",
            [bits, bits],
            lambda a, b, f=function: int(f(read(a), read(b))),
        )
        holds(f"set.{name}.u32.{type} d, a, b;", [bits, bits], lambda a, b, f=function: -int(f(read(a), read(b))))
    joined = f"{{ .reg .pred p, q, r; setp.ne.u32 q, c, 0; setp.lt.xor.{type} p|r, a, b, q; selp.u32 d, 1, 0, p; @r add.u32 d, d, 2; }}"
    holds(
        joined,
        [bits, bits, 32],
        lambda a, b, c: int((read(a) < read(b)) != (c != 0)) + 2 * int((read(a) >= read(b)) != (c != 0)),
    )
    holds(f"slct.{type}.s32 d, a, b, c;", [bits, bits, 32], lambda a, b, c: a if signed(c) >= 0 else b, bits)


@pytest.mark.parametrize("to", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
def test_integer_conversions(to):
    """cvt between integers cuts and extends; with .sat it clamps to the type."""
    bits, write = of_type(to)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
    width = max(bits, 16)
    for source in ("u16", "s16", "u32", "s32", "u64", "s64"):
        from_, read = of_type(source)
        holds(f"cvt.{to}.{source} d, a;", [from_], lambda a, r=read: write(r(a)), width)
        inside = low <= (-(1 << from_ - 1) if source[0] == "s" else 0) and high >= (1 << from_ - (source[0] == "s")) - 1
        if not inside:
            holds(f"cvt.sat.{to}.{source} d, a;", [from_], lambda a, r=read: clamp(r(a), low, high), width)


# ---- floating point: every rounding by fractions -------------------------------------------------

FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}


@functools.cache
def value(bits, format):
    """The number that bits of a finite float stand for."""
    exponent, fraction = FORMATS[format]
    bias, field, rest = (1 << exponent - 1) - 1, bits >> fraction & (1 << exponent) - 1, bits & (1 << fraction) - 1
    number, unit = rest + ((field > 0) << fraction), max(field, 1) - bias - fraction
    size = Fraction(number << unit) if unit > 0 else Fraction(number, 1 << -unit)
    return -size if bits >> (exponent + fraction) else size


def rounded(exact, format, mode, zero=0):
    """A fraction as bits of a float, overflow as the mode has it; ``zero`` is the sign of an exact zero."""
    exponent, fraction = FORMATS[format]
    top, bias = exponent + fraction, (1 << exponent - 1) - 1
    if exact == 0:
        return zero << top
    sign, n, d = exact < 0, abs(exact.numerator), exact.denominator
    place = n.bit_length() - d.bit_length()
    place -= n << max(-place, 0) < d << max(place, 0)  # 2**place <= n / d < 2**(place + 1)
    unit = max(place, 1 - bias) - fraction
    d <<= max(unit, 0)
    down, rest = divmod(n << max(-unit, 0), d)
    away = {"rn": 2 * rest > d or (2 * rest == d and down & 1), "rz": False, "rm": sign, "rp": not sign}[mode]
    down += bool(away and rest)
    bits = down + ((unit + bias + fraction - 1) << fraction)
    infinite = ((1 << exponent) - 1) << fraction
    if bits >= infinite:
        bits = infinite if mode == "rn" or mode == ("rm" if sign else "rp") else infinite - 1
    return int(sign) << top | bits


def floats(format, seed, near=None):
    """Finite floats of all sizes, or of exponents ``near`` that of one; a few of each are neighbours of powers of two."""
    exponent, fraction = FORMATS[format]
    rng, bias = random.Random(seed), (1 << exponent - 1) - 1
    out = []
    for _ in range(LANES):
        field = rng.randrange((1 << exponent) - 1) if near is None else rng.randrange(bias - near, bias + near)
        rest = rng.choice(
            [
                rng.getrandbits(fraction),
                rng.getrandbits(fraction) >> fraction // 2 << fraction // 2,
                0,
                (1 << fraction) - 1,
            ]
        )
        out.append((rng.getrandbits(1) << exponent | field) << fraction | rest)
    return out


def arithmetic(code, count, format, mode, function, positive=False, divides=False):
    """An instruction rounds the exact result once, for numbers near 1 and for those of all sizes."""
    exponent, fraction = FORMATS[format]
    bits = 1 + exponent + fraction
    for near in (12 if format != "f16" else 4, None):
        columns = {name: floats(format, k, near) for k, name in enumerate("abc"[:count])}
        if positive:
            columns = {name: [x & ~(1 << bits - 1) for x in column] for name, column in columns.items()}
        if divides:
            last = "ab"[count - 1]
            columns[last] = [x if x << 1 & (1 << bits) - 1 else 1 for x in columns[last]]

        def expected(*given):
            exact = function(*(value(g, format) for g in given))
            signs = [g >> (bits - 1) for g in given]
            return rounded(exact, format, mode, zero_sign(code, signs, [value(g, format) for g in given], mode))

        holds(code, [bits] * count, expected, bits, **columns)


def zero_sign(code, signs, numbers, mode):
    """The sign of an exact zero: of a product or quotient that of its factors; of a sum that of both, else of the mode."""
    op = code.split(".")[0]
    if op in ("mul", "div", "rcp", "sqrt"):
        return signs[0] ^ (signs[1] if len(signs) > 1 else 0) if op != "sqrt" else signs[0]
    first, second = (signs[0] ^ signs[1], signs[2]) if op == "fma" else (signs[0], signs[1] ^ (op == "sub"))
    product = numbers[0] * numbers[1] if op == "fma" else numbers[0]
    return first if first == second and product == 0 else int(mode == "rm")


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("format", ["f32", "f64"])
def test_arithmetic(format, mode):
    """add, sub, mul, fma and div in every rounding, subnormal results and overflow included."""
    arithmetic(f"add.{mode}.{format} d, a, b;", 2, format, mode, lambda a, b: a + b)
    arithmetic(f"sub.{mode}.{format} d, a, b;", 2, format, mode, lambda a, b: a - b)
    arithmetic(f"mul.{mode}.{format} d, a, b;", 2, format, mode, lambda a, b: a * b)
    arithmetic(f"fma.{mode}.{format} d, a, b, c;", 3, format, mode, lambda a, b, c: a * b + c)
    arithmetic(f"div.{mode}.{format} d, a, b;", 2, format, mode, lambda a, b: a / b, divides=True)
    arithmetic(f"rcp.{mode}.{format} d, a;", 1, format, mode, lambda a: 1 / a, divides=True)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("format", ["f32", "f64"])
def test_square_roots(format, mode):
    """The square of the result lies as near to the operand as the rounding wants it: seen with integers."""

    def root(a):
        shifted = a * Fraction(2) ** 2600  # a square root of 1300 bits more than any float has
        floor = math.isqrt(shifted.numerator // shifted.denominator)
        exact = Fraction(floor, 1 << 1300)
        return (
            exact if exact * exact == a else exact + Fraction(1, 1 << 1301)
        )  # inexact: anywhere between two neighbours

    arithmetic(f"sqrt.{mode}.{format} d, a;", 1, format, mode, root, positive=True)


@pytest.mark.parametrize("format", ["f16", "bf16"])
def test_halves(format):
    """add, mul and fma of halves, rounded once; of two at a time, each for itself."""
    for packed in (False, True):
        type = f"{format}x2" if packed else format
        for op, count, function in (
            ("add.rn", 2, lambda a, b: a + b),
            ("sub.rn", 2, lambda a, b: a - b),
            ("mul.rn", 2, lambda a, b: a * b),
            ("fma.rn", 3, lambda a, b, c: a * b + c),
        ):
            if not packed:
                arithmetic(f"{op}.{type} d, {', '.join('abc'[:count])};", count, format, "rn", function)
                continue
            halves = [[floats(format, 7 * k + h, 4) for h in (0, 1)] for k in range(count)]
            given = {
                name: [low | high << 16 for low, high in zip(*pair, strict=True)]
                for name, pair in zip("abc", halves, strict=False)
            }

            def both(*x, f=function, o=op):
                parts = [[value(v >> 16 * h & 0xFFFF, format) for v in x] for h in (0, 1)]
                signs = [[v >> (16 * h + 15) & 1 for v in x] for h in (0, 1)]
                return sum(
                    rounded(f(*p), format, "rn", zero_sign(o, s, p, "rn")) << 16 * h
                    for h, (p, s) in enumerate(zip(parts, signs, strict=True))
                )

            holds(f"{op}.{type} d, {', '.join('abc'[:count])};", [32] * count, both, **given)


# ---- division: what is no plain quotient (PTX ISA, floating-point div: special values follow IEEE 754) ----

QUOTIENTS = [  # IEEE 754-2019, 6.1 (infinities), 6.3 (signs), 7.2 d and e (invalid), 7.3 (division by zero)
    (0x00000000, 0x3F800000, 0x00000000),
    (0x80000000, 0x3F800000, 0x80000000),
    (0x00000000, 0xBF800000, 0x80000000),
    (0x3F800000, 0x00000000, 0x7F800000),
    (0x3F800000, 0x80000000, 0xFF800000),
    (0xBF800000, 0x00000000, 0xFF800000),
    (0x7F800000, 0x00000000, 0x7F800000),
    (0x7F800000, 0xC0000000, 0xFF800000),
    (0x3F800000, 0x7F800000, 0x00000000),
    (0x3F800000, 0xFF800000, 0x80000000),
    (0x00000000, 0x00000000, "nan"),
    (0x7F800000, 0xFF800000, "nan"),
    (0x7FC00000, 0x3F800000, "nan"),
    (0x3F800000, 0x7F800001, "nan"),
    (0x00000001, 0x40000000, {"rn": 0, "rz": 0, "rm": 0, "rp": 1}),
    (0x7F7FFFFF, 0x3F000000, {"rn": 0x7F800000, "rz": 0x7F7FFFFF, "rm": 0x7F7FFFFF, "rp": 0x7F800000}),
]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_special_quotients(mode):
    """Zeros, infinities, NaN, and results out of range, as IEEE 754 has them; a NaN of f32 is 0x7FFFFFFF (PTX ISA: div)."""
    pairs = (QUOTIENTS * LANES)[:LANES]
    wanted = {(a, b): 0x7FFFFFFF if w == "nan" else w[mode] if isinstance(w, dict) else w for a, b, w in QUOTIENTS}
    holds(
        f"div.{mode}.f32 d, a, b;",
        [32, 32],
        lambda a, b: wanted[a, b],
        a=[p[0] for p in pairs],
        b=[p[1] for p in pairs],
    )


PERMUTED = {
    "f4e": ("3210", "4321", "5432", "6543"), "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"), "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"), "rc16": ("1010", "3232", "1010", "3232"),
}  # fmt: skip
"""The bytes that make d, the highest first, by the low bits of the selector (PTX ISA: prmt)."""


@pytest.mark.parametrize("mode", PERMUTED)
def test_modes_of_prmt(mode):
    """Every selector of every mode gives the bytes of the manual's table."""

    def expected(a, b, c):
        taken = [(b << 32 | a) >> 8 * int(k) & 0xFF for k in PERMUTED[mode][c & 3]]
        return int.from_bytes(taken, "big")

    holds(f"prmt.b32.{mode} d, a, b, c;", (32, 32, 32), expected)
