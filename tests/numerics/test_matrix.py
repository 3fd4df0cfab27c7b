"""The tensor core's dot product against exact integers."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from warpsim.numerics import matrix, plain_matrix


def reference(a, b, c, fraction):
    """One output in exact rationals: align to the largest exponent, cut, add, cut to 24 bits."""

    def exponent(x):
        return max(int(np.frexp(abs(x))[1]) - 1, -14)

    terms = [
        (Fraction(float(x)) * Fraction(float(y)), exponent(x) + exponent(y))
        for x, y in zip(a, b, strict=True)
        if x and y
    ]
    if c:
        terms.append((Fraction(float(c)), max(int(np.frexp(abs(c))[1]) - 1, -126)))
    if not terms:
        return Fraction(0)
    unit = Fraction(2) ** (max(e for _, e in terms) - fraction)
    total = sum(int(v / unit) for v, _ in terms)
    size = abs(total)
    drop = max(size.bit_length() - 24, 0)
    return (size >> drop << drop) * unit * (1 if total >= 0 else -1)


@pytest.mark.parametrize(("sm", "fraction"), [(90, 25)])
@pytest.mark.parametrize("spread", [1.0, 1e3, 1e-4])
def test_f16_block(sm, fraction, spread):
    """m16n8k16 with f32 results: every output equals the exact model."""
    rng = np.random.default_rng(3)
    a = (rng.standard_normal((16, 16, 3)) * rng.choice([1.0, spread], (16, 16, 3))).astype(np.float16)
    b = rng.standard_normal((16, 8, 3)).astype(np.float16)
    c = (rng.standard_normal((16, 8, 3)) * spread).astype(np.float32)
    with np.errstate(all="ignore"):
        got = matrix.dot_add(a.view(np.uint16)[:, :, None], b.view(np.uint16)[:, None], c, "f16", sm)

    for m in range(16):
        for n in range(8):
            assert reference(a[:, m, 1], b[:, n, 1], c[m, n, 1], fraction) == Fraction(float(got[m, n, 1]))


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 8, 24, 100])
def test_pieces_of_a_large_product(monkeypatch, limit, special):
    """However a product is cut, along whichever axis, every output is that of its row and column alone."""
    rng = np.random.default_rng(4)
    a, b = (
        rng.standard_normal((16, 5, 3, 1, 2)).astype(np.float16),
        rng.standard_normal((16, 5, 1, 4, 2)).astype(np.float16),
    )
    c = rng.standard_normal((5, 3, 4, 2)).astype(np.float32)
    if special:
        a[2, 1, 1], b[3, 4, 0, 2, 1] = np.inf, np.nan
    monkeypatch.setattr(matrix, "PRODUCTS", 16 * limit)
    with np.errstate(all="ignore"):
        got = matrix.dot_add(a.view(np.uint16), b.view(np.uint16), c, "f16", 90)
        for index in np.ndindex(c.shape):
            w, m, n, lane = index
            row, column = a[:, w, m, 0, lane].copy(), b[:, w, 0, n, lane].copy()
            alone = matrix.dot_add(
                row.view(np.uint16)[:, None], column.view(np.uint16)[:, None], c[index].reshape(1), "f16", 90
            )
            assert alone.view(np.uint32)[0] == got[index].view(np.uint32), index


@pytest.mark.parametrize("exclusive", [False, True])
def test_dot_bits(exclusive):
    """Counts of more bits than a byte holds; each output of its own row and column; negative sums."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 1 << 32, (15, 3, 1), np.uint32), rng.integers(0, 1 << 32, (15, 1, 4), np.uint32)
    a[:, 0], b[:, :, 0] = 0xFFFFFFFF, 0 if exclusive else 0xFFFFFFFF
    c = rng.integers(-500, 500, (3, 4)).astype(np.int32)
    got = plain_matrix.dot_bits(a, b, c, exclusive=exclusive)

    assert got[0, 0] == 15 * 32 + c[0, 0]
    for m, n in np.ndindex(3, 4):
        pairs = zip(a[:, m, 0].tolist(), b[:, 0, n].tolist(), strict=True)
        assert got[m, n] == c[m, n] + sum((x ^ y if exclusive else x & y).bit_count() for x, y in pairs)


def test_special_values():
    """Inf times zero and opposite infinities are the canonical NaN; a single Inf stays."""
    a = np.zeros((16, 16, 1), np.float16)
    b = np.zeros((16, 8, 1), np.float16)
    a[0, 0], b[0, 1], a[1, 0] = np.inf, 1, 1
    c = np.zeros((16, 8, 1), np.float32)
    with np.errstate(all="ignore"):
        got = matrix.dot_add(a.view(np.uint16)[:, :, None], b.view(np.uint16)[:, None], c, "f16", 90)

    assert got[0, 0, 0].view(np.uint32) == 0x7FFFFFFF
    assert got[0, 1, 0] == np.inf


def test_integer_saturation():
    """satfinite clamps the exact total; without it the sum wraps."""
    a = np.full((1, 16, 32), 127, np.int8)
    b = np.full((1, 32, 8), 127, np.int8)
    c = np.full((1, 16, 8), 2**31 - 1, np.int32)

    assert plain_matrix.dot_integer(a, b, c, saturate=True)[0, 0, 0] == 2**31 - 1
    assert plain_matrix.dot_integer(a, b, c, saturate=False)[0, 0, 0] == (2**31 - 1 + 32 * 127 * 127) - 2**32


@pytest.mark.parametrize("greatest", [0, 2, 60, 900, 60000])
@pytest.mark.parametrize(("kind", "unit"), [("f16", 90), ("f16", 80), ("e5m2", matrix.WGMMA_FP8)])
@pytest.mark.parametrize("result", [np.float32, np.float16])
def test_tiles_of_integers(greatest, kind, unit, result):
    """Tiles give the bits of the same matrices with the batch last, also where all sums are exact; a zero is +0."""
    rng = np.random.default_rng(greatest)
    dtype = np.float16 if kind == "f16" else ml_dtypes.float8_e5m2
    a, b = (rng.integers(-greatest, greatest + 1, (16, 2, n)).astype(dtype) for n in (16, 8))
    c = (rng.integers(-greatest, greatest + 1, (2, 16, 8)) * rng.choice([0.0, 1.0, -1.0], (2, 16, 8))).astype(result)
    a, b = (x.view(f"u{x.itemsize}") for x in (a, b))
    tiles = matrix.dot_add(a[..., None], b[:, :, None], c, kind, unit)
    last = np.ascontiguousarray(c.transpose(1, 2, 0))
    batch = matrix.dot_add(a.transpose(0, 2, 1)[:, :, None], b.transpose(0, 2, 1)[:, None], last, kind, unit)

    np.testing.assert_array_equal(tiles.transpose(1, 2, 0).view(f"u{c.itemsize}"), batch.view(f"u{c.itemsize}"))
    if greatest == 2 and kind == "f16":
        exact = np.einsum("kwm,kwn->wmn", a.view(dtype).astype(int), b.view(dtype).astype(int)) + c.astype(int)
        np.testing.assert_array_equal(tiles, exact)
        assert not np.signbit(tiles[exact == 0]).any()


def test_pieces_of_operands_that_are_spread():
    """A piece of a product needs that piece of an operand, and the whole of an axis along which the operand is spread."""
    array = np.arange(2 * 4 * 8).reshape(2, 4, 1, 8)
    piece = (slice(1, 3), slice(4, 8), slice(2, 5))

    assert matrix._cut_axes(array, piece).tolist() == array[:, 1:3, :, 2:5].tolist()
    assert matrix._cut_axes(array[:, :2], piece[:1]).tolist() == array[:, 1:2].tolist()


@pytest.mark.parametrize(("below", "quick"), [(3, True), (2, False), (0, False)])
def test_sums_that_every_step_holds(below, quick):
    """Whole numbers are multiplied as matrices as long as no sum of theirs loses a bit."""
    unit = matrix.unit_of(90)
    bound = 1 << min(unit.fraction, unit.kept) + 1
    c = np.full((1, 1, 1), bound - below, np.float32)
    ones = np.ones((2, 1, 1, 1), np.float32)
    assert (matrix._whole_numbers(ones, ones, c, unit) is not None) == quick


@pytest.mark.parametrize("kind", ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "f16", "bf16"])
@pytest.mark.parametrize("odd", [False, True])
def test_decoding_few_and_many(kind, odd):
    """However many operands there are, one by one or in words: their values, and whether an infinity or NaN is among them."""
    types = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e3m2": ml_dtypes.float6_e3m2fn,
             "e2m3": ml_dtypes.float6_e2m3fn, "e2m1": ml_dtypes.float4_e2m1fn, "f16": np.float16, "bf16": ml_dtypes.bfloat16}  # fmt: skip
    width = {"e3m2": 6, "e2m3": 6, "e2m1": 4, "f16": 16, "bf16": 16}.get(kind, 8)
    codes = np.arange(1 << width, dtype=np.uint16 if width == 16 else np.uint8)
    with np.errstate(invalid="ignore"):
        values = codes.view(types[kind]).astype(np.float32)
    bad = ~np.isfinite(values)
    codes, values = codes[odd | ~bad], values[odd | ~bad]
    for count in (600, 1200):
        chosen = np.resize(np.arange(len(codes))[::-1], count)
        found = matrix.decode(codes[chosen], kind)
        np.testing.assert_array_equal(found.values, values[chosen])
        assert found.special == bool((~np.isfinite(values[chosen])).any())
        low = 2 if kind == "e2m1" else 0
        words = np.ascontiguousarray(codes[chosen] << low).view(np.uint32).reshape(-1, 1)
        found = matrix.decode(words, kind)
        np.testing.assert_array_equal(found.values.reshape(-1), values[chosen])
        some = (values[chosen] != 0) & np.isfinite(values[chosen])
        exponent = np.frexp(values[chosen][some])[1] - 1
        least = {"f16": -14, "e5m2": -14, "e4m3": -6, "e3m2": -2, "e2m3": 0, "e2m1": 0, "bf16": -126}[kind]
        raised = 0 if kind == "bf16" else matrix.RAISED
        assert (found.exponents.reshape(-1)[some] == np.maximum(exponent, least) + raised).all()
