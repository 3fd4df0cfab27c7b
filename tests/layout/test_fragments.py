"""Every fragment against the formulas of the text (PTX ISA 9.7.14.5), and each a bijection."""

import numpy as np
import pytest

from warpsim.layout import fragments, wmma_fragments

LANES = range(32)
MMA = {  # shapes with the element widths that exist
    (16, 4, 32): "m16n8k4 tf32",
    (16, 8, 16): "m16n8k8 f16",
    (16, 8, 32): "m16n8k8 tf32",
    (16, 16, 16): "m16n8k16 f16",
    (16, 16, 8): "m16n8k16 s8",
    (16, 32, 8): "m16n8k32 s8",
    (16, 32, 4): "m16n8k32 s4",
    (16, 64, 4): "m16n8k64 s4",
    (16, 128, 1): "m16n8k128 b1",
    (16, 256, 1): "m16n8k256 b1",
    (16, 4, 64): "m16n8k4 f64",
    (16, 8, 64): "m16n8k8 f64",
    (16, 16, 64): "m16n8k16 f64",
    (8, 4, 64): "m8n8k4 f64",
    (8, 16, 8): "m8n8k16 s8",
    (8, 32, 4): "m8n8k32 s4",
    (8, 128, 1): "m8n8k128 b1",
}


def a_of_the_text(lane, i, rows, k, bits):
    """Row and k of element a_i, as the page of each shape writes it."""
    group, member = lane >> 2, lane % 4
    per = max(32 // bits, 1)
    if bits == 64:
        if rows == 8:
            return group, member
        return (group if i % 2 == 0 else group + 8), (i // 2) * 4 + member
    if rows == 8:
        return group, member * per + i
    row = group if (i // per) % 2 == 0 else group + 8
    column = member * per + (i & (per - 1))
    return row, column + (4 * per if i >= 2 * per else 0)


@pytest.mark.parametrize(("rows", "k", "bits"), MMA, ids=MMA.values())
def test_multiplicand_a(rows, k, bits):
    """A as the text's formulas place it; every element once."""
    fragment = fragments.multiplicand(rows, k, bits)
    expected = [[a_of_the_text(lane, i, rows, k, bits) for i in range(fragment.values)] for lane in LANES]

    np.testing.assert_array_equal(np.array(expected), np.stack(fragment.table(), axis=-1))
    assert len({place for line in expected for place in line}) == rows * k
    assert fragment.layout.is_bijection


@pytest.mark.parametrize(("rows", "k", "bits"), MMA, ids=MMA.values())
def test_multiplicand_b(rows, k, bits):
    """B: column g, consecutive k from 4 registers' worth to the next."""
    fragment = fragments.multiplicand(8, k, bits)
    per = max(32 // bits, 1)
    for lane in LANES:
        for i in range(fragment.values):
            row = (lane % 4) * per + i % per + i // per * 4 * per
            assert fragment.place(lane, i) == (lane >> 2, row)
    assert fragment.layout.is_bijection


@pytest.mark.parametrize("bits", [16, 32])
def test_accumulator(bits):
    """row = g for c0, c1 and g + 8 for c2, c3; col = 2t + (i & 1)."""
    fragment = fragments.accumulator(16, 8, bits)
    for lane in LANES:
        for i in range(4):
            assert fragment.place(lane, i) == ((lane >> 2) + 8 * (i >= 2), 2 * (lane % 4) + (i & 1))
    assert fragment.registers == (2 if bits == 16 else 4)


def quad_pair_of_the_text(operand, by_rows, bits, lane, i):
    """9.7.14.5.1, with the matrix of quad pair q at 8q."""
    high, q = 4 * (lane >= 16), lane // 4 % 4
    if operand in "ab":
        row, k = (lane % 4 + high, i) if by_rows else (i % 4 + high, lane % 4)
        return row + 8 * q, k
    if bits == 16:
        return lane % 4 + high, i + 8 * q
    return (lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1) + 8 * q


@pytest.mark.parametrize(
    ("operand", "by_rows", "bits"), [("a", True, 16), ("a", False, 16), ("c", False, 16), ("c", False, 32)]
)
def test_quad_pairs(operand, by_rows, bits):
    """mma.m8n8k4 of f16: four matrices, one for each pair of quads."""
    fragment = fragments.quad_pair(operand, bits, by_rows=by_rows)
    for lane in LANES:
        for i in range(fragment.values):
            assert fragment.place(lane, i) == quad_pair_of_the_text(operand, by_rows, bits, lane, i)
    assert fragment.layout.is_bijection


@pytest.mark.parametrize("n", [8, 24, pytest.param(256, marks=pytest.mark.long)])
def test_wgmma_accumulator(n):
    """Thread 32 w + 4 g + t: rows 16 w + g and 16 w + g + 8, columns 8 j + 2 t and the next."""
    fragment = fragments.accumulator(64, n, 32)
    for thread in range(128):
        warp, lane = divmod(thread, 32)
        for i in range(n // 2):
            row = 16 * warp + lane // 4 + 8 * (i >> 1 & 1)
            assert fragment.place(thread, i) == (row, 8 * (i >> 2) + 2 * (lane % 4) + (i & 1))
    assert fragment.layout.is_bijection


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_wgmma_a(bits):
    """Each warp holds 16 rows as mma holds A."""
    fragment, tile = fragments.warpgroup_multiplicand(bits), fragments.multiplicand(16, 256 // bits, bits)
    for warp in range(4):
        for lane in LANES:
            for i in range(fragment.values):
                row, k = tile.place(lane, i)
                assert fragment.place(32 * warp + lane, i) == (16 * warp + row, k)
    assert fragment.layout.is_bijection


@pytest.mark.parametrize("shape", ["m16n16k16", "m8n32k16", "m32n8k16"])
@pytest.mark.parametrize("type", ["f16", "bf16", "s8"])
@pytest.mark.parametrize("operand", ["a", "b"])
def test_wmma_multiplicands(operand, shape, type):
    """Every element is held, each equally often; the numbers of registers are the text's."""
    fragment = wmma_fragments.multiplicand(operand, shape, type)
    m, n, k = wmma_fragments.dimensions(shape)
    rows = m if operand == "a" else n
    counts = np.zeros((rows, k), int)
    np.add.at(counts, fragment.table(), 1)

    assert counts.min() == counts.max() == fragment.values * 32 // (rows * k)
    assert fragment.registers == (8 if type == "f16" else rows * k * fragment.bits // 32 // 32)


@pytest.mark.parametrize("shape", ["m16n16k16", "m8n32k16", "m32n8k16"])
@pytest.mark.parametrize("sm", [70, 90])
def test_wmma_accumulators(shape, sm):
    """Eight values a lane, every element once."""
    for type in ("f16", "f32"):
        fragment = wmma_fragments.accumulator(shape, type, sm)

        assert fragment.values == 8
        assert fragment.layout.is_bijection


def test_volta_quad_pairs_compute_their_blocks():
    """On a V100 each quad pair holds the rows of A and the columns of B of its own 8x8 block of C."""
    a, b = (wmma_fragments.volta_multiplicand(o, along_k=True).table()[0] for o in "ab")
    rows, columns = wmma_fragments.volta_accumulator("f32").table()
    for q in range(4):
        lanes = [lane for lane in LANES if lane // 4 % 4 == q]

        assert set(a[lanes].ravel()) == set(rows[lanes].ravel())
        assert set(b[lanes].ravel()) == set(columns[lanes].ravel())


@pytest.mark.parametrize(("chunks", "floats", "selectors"), [(4, True, 4), (8, True, 2), (8, False, 2), (16, False, 1)])
def test_metadata(chunks, floats, selectors):
    """Nibble of chunk c of row r, from the lanes that the selector names: as an H100 reads it."""
    for selector in range(selectors):
        fragment = fragments.metadata(chunks, selector, floats=floats)
        held = {}
        for thread in range(fragment.threads):
            for nibble in range(fragment.values):
                held[fragment.place(thread, nibble)] = fragment.lane(thread), 4 * nibble
        for r in range(16):
            for c in range(chunks):
                g, h = r % 8, r // 8
                if chunks == 4:
                    lane, bit = selector, 16 * h + 4 * c
                elif floats:
                    lane, bit = 2 * selector + c // 4, 16 * h + 4 * (c % 4)
                elif chunks == 8:
                    lane, bit = 2 * selector + h, 4 * c
                else:
                    lane, bit = 2 * (c // 8) + h, 4 * (c % 8)
                assert held[r, c] == (4 * g + lane, bit)


def test_moved_matrices():
    """ldmatrix (9.7.14.5.15): lane 4g + t holds columns 2t, 2t + 1 of row g; with .trans, rows 2t, 2t + 1 of column g."""
    for lane in LANES:
        g, t = lane // 4, lane % 4
        for h in range(2):
            assert fragments.moved("m8n8", transposed=False).place(lane, h) == (g, 2 * t + h)
            assert fragments.moved("m8n8", transposed=True).place(lane, h) == (2 * t + h, g)
    for shape in ("m16n16", "m16n8", "m8n16"):
        fragment = fragments.moved(shape, transposed=True)
        assert fragment.layout.is_bijection
        assert fragment.layout.size == fragment.rows * fragment.columns


@pytest.mark.parametrize("along_k", [True, False])
@pytest.mark.parametrize("operand", ["a", "b"])
def test_volta_multiplicands(operand, along_k):
    """A V100 computes a 16x16x16 product as four steps of mma.m8n8k4, whose elements each quad pair holds (PTX ISA
    9.7.14.5.1): of A, lanes 4 to 7 and 12 to 15 (and those 16 further) have the lower rows; of B, lanes 8 to 15 the columns on
    the right."""
    fragment = wmma_fragments.volta_multiplicand(operand, along_k=along_k)
    for lane in LANES:
        base = 8 * (lane // 4 % 2 if operand == "a" else lane // 8 % 2)
        for i in range(16):
            row, k = quad_pair_of_the_text(operand, along_k, 16, lane % 4 + lane // 16 * 16, i % 4)
            assert fragment.place(lane, i) == (base + row, 4 * (i // 4) + k)


@pytest.mark.parametrize("sm", [70, 72, 75, 80])
@pytest.mark.parametrize("shape", ["m16n16k16", "m8n32k16", "m32n8k16"])
def test_older_wmma(sm, shape):
    """Only 16x16x16 before sm_75 is held otherwise."""
    old = sm < 75 and shape == "m16n16k16"
    for operand in "ab":
        found = wmma_fragments.multiplicand(operand, shape, "f16", sm, along_k=False)
        assert (found.layout != wmma_fragments.multiplicand(operand, shape, "f16").layout) == old
        assert (found is wmma_fragments.volta_multiplicand(operand, along_k=False)) == old
    for type in ("f16", "f32"):
        found = wmma_fragments.accumulator(shape, type, sm)
        assert (found is wmma_fragments.volta_accumulator(type)) == old


@pytest.mark.parametrize("operand", ["a", "b"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_scales(operand, count):
    """Byte j of row g comes from lane 4g, of row g + 8 from lane 4g + 1; of column g of B from lane 4g."""
    fragment = fragments.scales(operand, count)
    held = {}
    for thread in range(fragment.threads):
        for value in range(fragment.values):
            held[fragment.place(thread, value)] = int(fragment.lane(thread)), value

    rows = 16 if operand == "a" else 8
    assert held == {(r, j): (4 * (r % 8) + r // 8, j) for r in range(rows) for j in range(count)}


@pytest.mark.parametrize(
    ("shape", "m", "n", "k"), [("m16n16k16", 16, 16, 16), ("m8n32k16", 8, 32, 16), ("m8n8k4", 8, 8, 4)]
)
def test_dimensions(shape, m, n, k):
    """By their letters."""
    assert wmma_fragments.dimensions(shape) == (m, n, k)


def test_words_of_bits():
    """wmma of b1: a lane holds the 32 bits of row g from k = 32t on."""
    for operand in "ab":
        fragment = wmma_fragments.words(operand, "m8n8k128")
        assert [fragment.place(lane, 0) for lane in LANES] == [(lane // 4, lane % 4) for lane in LANES]
        assert (fragment.bits, fragment.values) == (32, 1)
