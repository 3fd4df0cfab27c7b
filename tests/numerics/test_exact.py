"""The matrix core against exact rationals, one output at a time: every type and architecture, random and special operands.

The rationals are written from the published model, not from the code.
"""

import functools
from fractions import Fraction

import numpy as np
import pytest

from warpsim.numerics import emulated, matrix
from warpsim.numerics import matrix as operands_module

FORMATS = {
    "f16": (5, 10, 15, True),
    "bf16": (8, 7, 127, True),
    "tf32": (8, 10, 127, True),
    "f32": (8, 23, 127, True),
    "e5m2": (5, 2, 15, True),
    "e4m3": (4, 3, 7, False),
    "e3m2": (3, 2, 3, False),
    "e2m3": (2, 3, 1, False),
    "e2m1": (2, 1, 1, False),
}
"""Bits of the exponent and of the fraction, bias, and whether the greatest exponent is for Inf and NaN."""
UNITS = {
    70: (23, 8),
    75: (24, 16),
    80: (24, 16),
    86: (24, 16),
    89: (24, 16),
    90: (25, 32),
    100: (25, 32),
    120: (25, 32),
}
"""Fraction bits and bytes of K in a block, by capability."""
NAN = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}
INF = {"f32": 0x7F800000, "f16": 0x7C00}


@functools.cache
def decode(bits, kind):
    """(value, exponent): a Fraction, or "nan", "inf", "-inf"."""
    if kind == "tf32":
        bits >>= 13  # the unit does not read the low bits
    width, fraction, bias, ieee = FORMATS[kind]
    sign = -1 if bits >> (width + fraction) & 1 else 1
    field, rest = bits >> fraction & ((1 << width) - 1), bits & ((1 << fraction) - 1)
    if ieee and field == (1 << width) - 1:
        return ("nan" if rest else "inf" if sign > 0 else "-inf"), 0
    if kind == "e4m3" and bits & 0x7F == 0x7F:
        return "nan", 0
    exponent = max(field, 1) - bias
    significand = Fraction(rest + (1 << fraction if field else 0), 1 << fraction)
    return sign * significand * Fraction(2) ** exponent, exponent


def combine(values):
    """What Inf and NaN among terms make: "nan", "inf", "-inf", or None."""
    kinds = {value for value in values if isinstance(value, str)}
    if "nan" in kinds or {"inf", "-inf"} <= kinds:
        return "nan"
    return kinds.pop() if kinds else None


def product(x, y):
    """A term: of Fractions and specials."""
    if not isinstance(x, str) and not isinstance(y, str):
        return x * y
    if "nan" in (x, y) or 0 in (x, y):
        return "nan"
    signs = [(value[0] == "-") if isinstance(value, str) else value < 0 for value in (x, y)]
    return "-inf" if signs[0] != signs[1] else "inf"


def magnitude(size):
    """The exponent of the greatest power of two that is not above a positive rational, whose denominator is one."""
    n, d = size.as_integer_ratio()
    return n.bit_length() - d.bit_length()


def encode(value, kind, nearest, kept=None):
    """Bits of a rational in f32 or f16: rounded to nearest even, or toward zero with ``kept`` fraction bits."""
    width, fraction, bias, _ = FORMATS[kind]
    sign = 1 << (width + fraction) if value < 0 else 0
    size = abs(value)
    if size == 0:
        return 0
    exponent = max(1 - bias, magnitude(size))
    unit = Fraction(2) ** (exponent - (fraction if kept is None else kept))
    count, rest = divmod(size, unit)
    if nearest and (rest > unit / 2 or (rest == unit / 2 and count % 2)):
        count += 1
    size = count * unit
    if size == 0:
        return 0
    if size >= Fraction(2) ** (bias + 1):
        return sign | INF[kind]
    exponent = max(exponent, magnitude(size))
    scaled = int(size / Fraction(2) ** (exponent - fraction))
    if scaled < 1 << fraction:
        return sign | scaled
    return sign | (exponent + bias) << fraction | scaled - (1 << fraction)


def special(value, kind):
    """Bits of "nan", "inf" or "-inf"."""
    sign = 1 << sum(FORMATS[kind][:2])
    return NAN[kind] if value == "nan" else INF[kind] | (sign if value == "-inf" else 0)


def block(a, b, c, kinds, out, fraction, kept=None, held=None):
    """One block: bits of A's row and B's column, and of C (of type ``held``); cut to ``fraction`` bits below the greatest
    exponent."""
    left, right = [decode(x, kinds[0]) for x in a], [decode(y, kinds[1]) for y in b]
    terms = [(product(x, y), e + f) for (x, e), (y, f) in zip(left, right, strict=True)]
    terms.append(decode(c, held or out))
    odd = combine([value for value, _ in terms])
    if odd is not None:
        return special(odd, out)
    real = [(value, exponent) for value, exponent in terms if value]
    if not real:
        return 0
    least = (-126 if out == "f32" else -14) - (fraction - 18)
    unit = Fraction(2) ** (max([least, *[exponent for _, exponent in real]]) - fraction)
    total = sum(cut(value, unit) for value, _ in real) * unit
    return encode(total, out, out == "f16", kept)


def cut(value, unit):
    """How often a power of two goes into a rational, toward zero."""
    (n, d), (up, down) = value.as_integer_ratio(), unit.as_integer_ratio()
    count = abs(n) * down // (d * up)
    return count if n > 0 else -count


def chain(a, b, c, kinds, out, sm, itemsize):
    """The blocks of a long K, one after the other."""
    fraction, nbytes = UNITS[sm]
    step = nbytes // itemsize
    for k in range(0, len(a), step):
        c = block(a[k : k + step], b[k : k + step], c, kinds, out, fraction)
    return c


def add(x, y, kind):
    """An ordinary addition, to nearest even; of zeros, -0 only where both are."""
    (left, _), (right, _) = decode(x, kind), decode(y, kind)
    odd = combine([left, right])
    if odd is not None:
        return special(odd, kind)
    if left + right == 0:
        return x if x == y else 0
    return encode(left + right, kind, True)


# ---- against the code ------------------------------------------------------------------------

DTYPES = {"f16": np.uint16, "bf16": np.uint16, "tf32": np.uint32}
RESULTS = {"f32": (np.uint32, np.float32), "f16": (np.uint16, np.float16)}


def bits_of(rng, kind, shape):
    """Any bits; exponents near one another; specials; zeros and subnormals."""
    width = 32 if kind in ("tf32", "f32") else 16 if kind in ("f16", "bf16") else 8
    eb, fb, bias, _ = FORMATS["f32" if kind == "tf32" else kind]
    any_bits = rng.integers(0, 1 << (1 + eb + fb), shape, dtype=np.uint64)
    field = rng.integers(max(bias - 4, 1), bias + 2, shape).astype(np.uint64)
    near = (any_bits & np.uint64(~(((1 << eb) - 1) << fb) & (2**64 - 1))) | (field << np.uint64(fb))
    small = any_bits & np.uint64((1 << fb) - 1 | 1 << (eb + fb))
    names = [
        0,
        1 << (eb + fb),
        ((1 << eb) - 1) << fb,
        (1 << (eb + fb)) | ((1 << eb) - 1) << fb,
        (1 << (eb + fb)) - 1,
        1,
    ]
    odd = rng.choice(np.array(names, np.uint64), shape)
    which = rng.choice(4, shape, p=[0.2, 0.7, 0.08, 0.02])
    return np.choose(which, [any_bits, near, small, odd]).astype(f"u{width // 8}")


def operands(rng, kinds, k, out, w=2):
    """Bits of A ``[k, 16, w]``, B ``[k, 8, w]``, C ``[16, 8, w]``; the last warp without specials."""
    return bits_of(rng, kinds[0], (k, 16, w)), bits_of(rng, kinds[1], (k, 8, w)), bits_of(rng, out, (16, 8, w))


def compare(got, out, reference, w=2):
    """Every output; ``reference(m, n, warp)`` gives bits."""
    found = got.view(RESULTS[out][0])
    for m in range(0, 16, 3):
        for n in range(8):
            for warp in range(w):
                want = reference(m, n, warp)
                assert int(found[m, n, warp]) == want, (m, n, warp, hex(int(found[m, n, warp])), hex(want))


def listed(array, *index):
    """A row of K as Python integers."""
    return [int(x) for x in array[(slice(None), *index)]]


@pytest.mark.parametrize("sm", sorted(UNITS))
@pytest.mark.parametrize(
    ("kind", "out", "k"), [("f16", "f32", 16), ("f16", "f16", 16), ("bf16", "f32", 16), ("tf32", "f32", 8)]
)
def test_native(kind, out, k, sm):
    """Blocks of the units by architecture."""
    rng = np.random.default_rng(sm + k)
    a, b, c = operands(rng, (kind, kind), k, out)
    with np.errstate(all="ignore"):
        got = matrix.dot_add(a[:, :, None], b[:, None], c.view(RESULTS[out][1]), kind, sm)
    size = np.dtype(DTYPES[kind]).itemsize

    compare(
        got,
        out,
        lambda m, n, w: chain(listed(a, m, w), listed(b, n, w), int(c[m, n, w]), (kind, kind), out, sm, size),
    )


@pytest.mark.parametrize("kinds", [("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e5m2", "e5m2")])
@pytest.mark.parametrize("out", ["f32", "f16"])
@pytest.mark.parametrize("sm", [89, 90, 100, 120])
def test_fp8(kinds, out, sm):
    """Native with 13 fraction bits on sm_89, with 25 on sm_120, two sums and an addition elsewhere."""
    rng = np.random.default_rng(sm)
    a, b, c = operands(rng, kinds, 32, out)
    with np.errstate(all="ignore"):
        got = emulated.dot_fp8(a[:, :, None], b[:, None], c.view(RESULTS[out][1]), kinds, sm)

    def reference(m, n, w):
        x, y, start = listed(a, m, w), listed(b, n, w), int(c[m, n, w])
        if sm == 89:
            for k in (0, 16):
                kept = 13 if out == "f32" else None
                start = ada(x[k : k + 16], y[k : k + 16], start, kinds, out, kept)
            return start
        if sm == 120:
            return block(x, y, start, kinds, out, 25)
        x, y = ([unpacked(v, kind) for v in row] for row, kind in ((x, kinds[0]), (y, kinds[1])))
        total = 0
        for low in (True, False):
            chosen = [k for k in range(32) if (k % 4 < 2) == low]
            total = block([x[k] for k in chosen], [y[k] for k in chosen], total, ("f16", "f16"), out, 25)
        return add(start, total, out)

    compare(got, out, reference)


@functools.cache
def unpacked(bits, kind):
    """fp8 as f16, which is exact, and normal where fp8 was not."""
    value, _ = decode(bits, kind)
    return special(value, "f16") if isinstance(value, str) else encode(value, "f16", True)


def ada(a, b, c, kinds, out, kept):
    """A block of sm_89: 13 fraction bits, floors of its 24-bit unit."""
    return block(a, b, c, kinds, out, 13, kept)


@pytest.mark.parametrize("kinds", [("e3m2", "e2m3"), ("e2m1", "e4m3"), ("e2m3", "e2m1")])
def test_six_and_four_bits(kinds):
    """kind::f8f6f4 on sm_120."""
    rng = np.random.default_rng(5)
    a, b, c = operands(rng, kinds, 32, "f32")
    with np.errstate(all="ignore"):
        got = emulated.dot_fp8(a[:, :, None], b[:, None], c.view(np.float32), kinds, 120)

    compare(got, "f32", lambda m, n, w: block(listed(a, m, w), listed(b, n, w), int(c[m, n, w]), kinds, "f32", 25))


@pytest.mark.parametrize("sm", [70, 75])
@pytest.mark.parametrize("held", ["f16", "f32"])
def test_quads_of_a_v100(sm, held):
    """mma.m8n8k4 with f32 results: a subnormal f16 C is aligned where it stands, not as an f32 would be."""
    rng = np.random.default_rng(sm)
    a, b = bits_of(rng, "f16", (4, 16, 2)), bits_of(rng, "f16", (4, 8, 2))
    a[:, ::2] = rng.integers(1, 64, (4, 8, 2))  # products that lie far below C
    c = rng.integers(0, 1 << 10, (16, 8, 2)).astype(np.uint16) if held == "f16" else bits_of(rng, held, (16, 8, 2))
    with np.errstate(all="ignore"):
        got = emulated.dot_quads(a[:, :, None], b[:, None], c.view(RESULTS[held][1]), np.dtype(np.float32), sm)

    compare(
        got,
        "f32",
        lambda m, n, w: block(listed(a, m, w), listed(b, n, w), int(c[m, n, w]), ("f16", "f16"), "f32", 23, None, held),
    )


@pytest.mark.parametrize(
    ("kind", "out", "sm"),
    [
        ("f16", "f32", 80),
        ("f16", "f32", 90),
        ("f16", "f16", 90),
        ("bf16", "f32", 80),
        ("bf16", "f32", 90),
        ("e5m2", "f32", 90),
    ],
)
def test_sparse(kind, out, sm):
    """Terms are the stored elements times the elements of B that they meet: what they pass over, an Inf too, counts for nothing."""
    rng = np.random.default_rng(8 + sm)
    stored, c = bits_of(rng, kind, (16, 16, 2)), bits_of(rng, out, (16, 8, 2))
    b = bits_of(rng, kind, (32, 8, 2))
    positions = np.sort(rng.permuted(np.tile(np.arange(4)[:, None, None, None], (1, 8, 16, 2)), axis=0)[:2], axis=0)
    positions = (positions + 4 * np.arange(8)[None, :, None, None]).transpose(1, 0, 2, 3).reshape(16, 16, 2)
    a, present = (x[:, :, None] for x in operands_module.expand(stored, positions))
    if kind == "e5m2":
        got = emulated.dot_fp8(a, b[:, None], c.view(RESULTS[out][1]), (kind, kind), sm, present)
    else:
        got = matrix.dot_add(a, b[:, None], c.view(RESULTS[out][1]), kind, sm, present)

    def reference(m, n, w):
        met = [int(b[k, n, w]) for k in positions[:, m, w]]
        x, start = listed(stored, m, w), int(c[m, n, w])
        if kind != "e5m2":
            return chain(x, met, start, (kind, kind), out, sm, 2)
        x, met = ([unpacked(v, kind) for v in row] for row in (x, met))
        total = 0
        for low in (True, False):
            chosen = [k for k in range(16) if (k % 4 < 2) == low]
            total = block([x[k] for k in chosen], [met[k] for k in chosen], total, ("f16", "f16"), out, 25)
        return add(start, total, out)

    compare(got, out, reference)


# ---- tcgen05 and block scales --------------------------------------------------------------------


@pytest.mark.parametrize("out", ["f32", "f16"])
@pytest.mark.parametrize("kinds", [("e4m3", "e5m2"), ("e3m2", "e4m3"), ("e2m1", "e2m3")], ids="-".join)
def test_narrow_of_a_tensor_core(kinds, out):
    """kind::f8f6f4 of tcgen05 sums 32 products at once, with 25 fraction bits."""
    a, b, c = operands(np.random.default_rng(7), kinds, 32, out)
    with np.errstate(all="ignore"):
        got = matrix.dot_add(a[:, :, None], b[:, None], c.view(RESULTS[out][1]), kinds, 100)

    compare(got, out, lambda m, n, w: block(listed(a, m, w), listed(b, n, w), int(c[m, n, w]), kinds, out, 25))


def scale(bits, kind):
    """(significand, exponent) of a scale factor: a Fraction, or "nan"."""
    if kind == "ue8m0":
        return ("nan" if bits == 255 else Fraction(1)), bits - 127
    value, exponent = decode(bits & 0x7F, "e4m3")
    return (value if isinstance(value, str) else value / Fraction(2) ** exponent), exponent


def scaled_block(a, b, c, kinds, sa, sb):
    """kind::mxf8f6f4: each product is raised by the exponents of its two scale factors."""
    (x, e), (y, f) = scale(sa, "ue8m0"), scale(sb, "ue8m0")
    pairs = [(decode(p, kinds[0]), decode(q, kinds[1])) for p, q in zip(a, b, strict=True)]
    terms = [(product(p, q), i + j + e + f) for (p, i), (q, j) in pairs]
    odd = combine([x, y, *[value for value, _ in terms], decode(c, "f32")[0]])
    if odd is not None:
        return special(odd, "f32")
    raised = Fraction(2) ** (e + f)
    real = [(value * raised, exponent) for value, exponent in terms if value]
    held = decode(c, "f32")
    real += [held] if held[0] else []
    if not real:
        return 0
    unit = Fraction(2) ** (max([-133, *[exponent for _, exponent in real]]) - 25)
    return encode(sum(cut(value, unit) for value, _ in real) * unit, "f32", False)


@pytest.mark.parametrize("spread", [3, 40, 120])
@pytest.mark.parametrize("kinds", [("e4m3", "e5m2"), ("e2m1", "e3m2")], ids="-".join)
def test_scaled(kinds, spread):
    """Scale factors near 1 and at the ends of their range, NaN among them."""
    rng = np.random.default_rng(spread)
    a, b, c = operands(rng, kinds, 32, "f32")
    sa, sb = (rng.integers(127 - spread, 129 + spread, shape).astype(np.uint8) for shape in ((16, 1, 2), (1, 8, 2)))
    if spread == 120:
        sa[3, 0, 1] = 255
    with np.errstate(all="ignore"):
        got = emulated.dot_scaled(a[:, :, None], b[:, None], c.view(np.float32), kinds, (sa, sb), 100)

    def reference(m, n, w):
        return scaled_block(
            listed(a, m, w), listed(b, n, w), int(c[m, n, w]), kinds, int(sa[m, 0, w]), int(sb[0, n, w])
        )

    compare(got, "f32", reference)


def groups_of_blocks(a, b, c, sa, sb, kind, count):
    """kind::mxf4 and mxf4nvf4: groups of products summed exactly, times the significands of their scale factors, and cut to 35
    bits below the greatest exponent of two scale factors, or of C."""
    size, terms = len(a) // count, []
    for group in range(count):
        (x, e), (y, f) = (scale(s[group * len(s) // count], kind) for s in (sa, sb))
        pairs = [
            decode(p, "e2m1")[0] * decode(q, "e2m1")[0]
            for p, q in zip(a[group * size : group * size + size], b[group * size : group * size + size], strict=True)
        ]
        if "nan" in (x, y):
            terms.append(("nan", 0))
        elif any(pairs) and x * y:
            terms.append((sum(pairs) * x * y * Fraction(2) ** (e + f), e + f))
    held = decode(c, "f32")
    odd = combine([value for value, _ in terms] + [held[0]])
    if odd is not None:
        return special(odd, "f32")
    terms += [held] if held[0] else []
    if not terms:
        return 0
    unit = Fraction(2) ** (max([-139, *[exponent for _, exponent in terms]]) - 35)
    return encode(sum(cut(value, unit) for value, _ in terms if value) * unit, "f32", False)


@pytest.mark.parametrize("tiles", [False, True], ids=["fragments", "tiles"])
@pytest.mark.parametrize(
    ("k", "size", "kind"), [(64, 2, "ue8m0"), (64, 4, "ue4m3"), (128, 4, "ue8m0"), (96, 3, "ue8m0"), (96, 6, "ue4m3")]
)
def test_groups(k, size, kind, tiles):
    """Packed 4-bit types, in the layouts of fragments and of large tiles; a third of the elements are 0."""
    rng = np.random.default_rng(k + size)
    a, b = (rng.integers(0, 16, shape).astype(np.uint8) for shape in ((k, 16, 2), (k, 8, 2)))
    for x in (a, b):
        x[rng.random(x.shape) < 1 / 3] = 0
    a[: k // 4, 3] = 0
    c = bits_of(rng, "f32", (16, 8, 2))
    low, high = (100, 150) if kind == "ue8m0" else (0, 0x78)
    sa, sb = (rng.integers(low, high, shape).astype(np.uint8) for shape in ((size, 16, 2), (size, 8, 2)))
    sa[0, 6] = 0xFF
    with np.errstate(all="ignore"):
        if tiles:
            x, y = a.transpose(0, 2, 1)[..., None], b.transpose(0, 2, 1)[:, :, None]
            factors = sa.transpose(0, 2, 1)[..., None], sb.transpose(0, 2, 1)[:, :, None]
            held = np.ascontiguousarray(c.transpose(2, 0, 1)).view(np.float32)
            got = np.ascontiguousarray(emulated.dot_groups(x, y, held, factors, kind).transpose(1, 2, 0))
        else:
            got = emulated.dot_groups(
                a[:, :, None], b[:, None], c.view(np.float32), (sa[:, :, None], sb[:, None]), kind
            )

    def reference(m, n, w):
        scales = listed(sa, m, w), listed(sb, n, w)
        return groups_of_blocks(listed(a, m, w), listed(b, n, w), int(c[m, n, w]), *scales, kind, 6 if k == 96 else 4)

    compare(got, "f32", reference)
