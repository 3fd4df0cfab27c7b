"""tcgen05.mma: every kind, layout and operand, on small integers whose products and sums are exact.

Matrices are laid out here as the manual has them: without swizzle, or as its canonical layouts.
"""

import itertools

import numpy as np
import pytest

import warpsim
from tensor_kernels import run
from warpsim.layout.instruction_descriptors import Product, decode, encode
from warpsim.layout.tensor_tiles import tiles

CODES = {
    "f16": lambda x: x.astype(np.float16).view(np.uint16),
    "bf16": lambda x: (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16),
    "tf32": lambda x: x.astype(np.float32).view(np.uint32),
    "e4m3": lambda x: _codes(x, [0, 0x38, 0x40, 0x44], 0x80),
    "e5m2": lambda x: _codes(x, [0, 0x3C, 0x40, 0x42], 0x80),
    "e3m2": lambda x: _codes(x, [0, 0x0C, 0x10, 0x12], 0x20),
    "e2m3": lambda x: _codes(x, [0, 0x08, 0x10, 0x14], 0x20),
    "e2m1": lambda x: _codes(x, [0, 2, 4, 5], 8),
    "s8": lambda x: x.astype(np.int8).view(np.uint8),
    "u8": lambda x: x.astype(np.uint8),
}
"""The bits of integers from -3 to 3 (0 to 3 in u8)."""


def _codes(x, magnitudes, sign):
    return (np.array(magnitudes, np.uint8)[np.abs(x)] | np.where(x < 0, sign, 0)).astype(np.uint8)


def shared_bytes(matrix, element, *, packed=False):
    """``[rows, bytes of K]`` as shared memory has elements: 6-bit and 4-bit types 16 to 16 bytes, unless packed."""
    bits = CODES[element](matrix)
    if packed:
        return bits[:, ::2] | bits[:, 1::2] << 4
    if element == "e2m1":
        out = np.zeros(bits.shape, np.uint8)
        for k in range(0, bits.shape[1], 2):
            out[:, k // 16 * 16 + k % 16 // 2] = bits[:, k] | bits[:, k + 1] << 4
        return out
    if element in ("e3m2", "e2m3"):
        out = np.zeros(bits.shape, np.uint8)
        for line in range(0, bits.shape[1], 16):
            for row in range(len(bits)):
                number = sum(int(b) << 6 * i for i, b in enumerate(bits[row, line : line + 16]))
                out[row, line : line + 12] = np.frombuffer(number.to_bytes(12, "little"), np.uint8)
        return out
    return np.ascontiguousarray(bits).view(np.uint8).reshape(len(bits), -1)


def core_matrices(octets):
    """Rows of bytes in K-major order without swizzle: 8 rows of 16 bytes stand together, those of K first."""
    rows, width = octets.shape
    return octets.reshape(rows // 8, 8, width // 16, 16).transpose(0, 2, 1, 3).reshape(-1)


def descriptor(start, leading, stride, mode=0):
    """A matrix descriptor; byte offsets."""
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | mode << 61


def plain_descriptor(start, width):
    """That of `core_matrices` with rows of ``width`` bytes."""
    return descriptor(start, 128, 8 * width)


def integers(rng, shape, element):
    """Numbers that every type has."""
    return rng.integers(0 if element == "u8" else -3, 4, shape)


def results(words, p, lane=0, column=0):
    """D ``[m, n]`` from tensor memory ``[CTAs, 128, columns]``, as numbers."""
    out = np.zeros((p.m, p.n))
    for t in tiles(p, lane):
        part = words[t.cta, t.lane : t.lane + t.rows, column : column + t.columns]
        part = {"f32": lambda x: x.view(np.float32), "f16": lambda x: x.astype(np.uint16).view(np.float16)}.get(
            p.d, lambda x: x.view(np.int32)
        )(np.ascontiguousarray(part))
        out[t.row : t.row + t.rows, t.column : t.column + t.columns] = part
    return out


def placed(p, matrix, lane=0, column=0, ctas=1, columns=512):
    """Tensor memory with D ``[m, n]``."""
    words = np.zeros((ctas, 128, columns), np.uint32)
    dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[p.d]
    bits = matrix.astype(dtype).view(f"u{np.dtype(dtype).itemsize}").astype(np.uint32)
    for t in tiles(p, lane):
        part = bits[t.row : t.row + t.rows, t.column : t.column + t.columns]
        words[t.cta, t.lane : t.lane + t.rows, column : column + t.columns] = part
    return words


def in_shared(a, b, p, *, width=1):
    """The images of the CTAs' shared memory, and where the descriptors of A and B point; ``width`` 2 if elements are packed."""
    parts = [
        [core_matrices(shared_bytes(x, element, packed=width == 2)) for x in halves(matrix, p.cta_group)]
        for matrix, element in ((a, p.a), (b, p.b))
    ]
    widths = [shared_bytes(x[:8], e, packed=width == 2).shape[1] for x, e in ((a, p.a), (b, p.b))]
    image = np.stack([np.concatenate(both) for both in zip(*parts, strict=True)])
    return image, plain_descriptor(0, widths[0]), plain_descriptor(len(parts[0][0]), widths[1])


def in_tensor(words, a, p, column, *, lane=0, packed=False):
    """Put A ``[m, stored]`` into tensor memory: in the lanes of the rows of D, in the copy of each tile."""
    octets = CODES[p.a](a)
    if packed:
        octets = octets[:, ::2] | octets[:, 1::2] << 4
    elif p.a == "e2m1":
        octets = octets << 2
    rows = np.ascontiguousarray(octets).view(np.uint32).reshape(len(a), -1)
    for t in tiles(p, lane):
        words[t.cta, t.lane : t.lane + t.rows, column : column + rows.shape[1]] = rows[t.row : t.row + t.rows]


def sparse(rng, m, k, p):
    """Sparse A ``[m, k]`` of integers, its stored elements, and the nibbles ``[m, chunks]`` that name them."""
    chunk, pair = {"tf32": (2, 1), "mxf4": (8, 2), "mxf4nvf4": (8, 2)}.get(p.kind, (4, 1))
    stored = integers(rng, (m, k // 2), p.a)
    a = np.zeros((m, k), int)
    nibbles = np.zeros((m, k // chunk), np.uint32)
    for row in range(m):
        for c in range(k // chunk):
            nibble = int(rng.choice([4, 14] if p.kind == "tf32" else [4, 8, 12, 9, 13, 6, 14]))
            nibbles[row, c] = nibble
            places = [nibble >> 3] if p.kind == "tf32" else [nibble & 3, nibble >> 2]
            for at, place in enumerate(places):
                for i in range(pair):
                    a[row, c * chunk + place * pair + i] = stored[row, c * chunk // 2 + at * pair + i]
    return a, stored, nibbles


def metadata(words, nibbles, p, column, *, lane=0):
    """Put metadata into tensor memory: 64 bits per row in its lane; for 16-bit and 32-bit types 16 bits, the first half of the
    chunks of rows 0 to 7 and 8 to 15 in one lane, the second half eight lanes on."""
    for t in tiles(p, lane):
        for row in range(t.rows):
            mine = nibbles[t.row + row].astype(np.uint64)
            at = t.lane + row
            if p.kind not in ("f16", "tf32"):
                number = sum(int(n) << 4 * i for i, n in enumerate(mine))
                words[t.cta, at, column : column + 2] = number & 0xFFFFFFFF, number >> 32
                continue
            first, row8 = at - at % 16 + at % 8, at % 16 // 8
            for half in range(2):
                number = sum(int(n) << 4 * i for i, n in enumerate(mine[4 * half : 4 * half + 4]))
                words[t.cta, first + 8 * half, column] |= np.uint32(number << 16 * row8)


def halves(matrix, ctas):
    """The rows of A (or columns of B) that each CTA of a group has."""
    return np.split(matrix, ctas)


def sampled(names, *axes):
    """Parametrise by all combinations; only a few, in which each value occurs, are in the default suite."""
    few = {tuple(t % len(axis) for axis in axes) for t in range(max(map(len, axes)))}
    rows = []
    for index in itertools.product(*[range(len(axis)) for axis in axes]):
        values = [
            v
            for axis, i in zip(axes, index, strict=True)
            for v in (axis[i] if isinstance(axis[i], tuple) else (axis[i],))
        ]
        rows.append(pytest.param(*values, marks=() if index in few else pytest.mark.long))
    return pytest.mark.parametrize(names, rows)


KINDS = [
    ("f16", "f16", "f16", "f32"),
    ("f16", "bf16", "f16", "f32"),
    ("f16", "f16", "f16", "f16"),
    ("tf32", "tf32", "tf32", "f32"),
    ("f8f6f4", "e4m3", "e5m2", "f32"),
    ("f8f6f4", "e3m2", "e2m3", "f16"),
    ("f8f6f4", "e2m1", "e3m2", "f32"),
    ("i8", "s8", "u8", "s32"),
]
SHAPES = [
    (64, 16, 1, False),
    (128, 32, 1, False),
    (128, 32, 2, False),
    (256, 32, 2, False),
    (32, 64, 1, True),
    (64, 64, 1, True),
]


@sampled("kind, left, right, result, m, n, group, weights", KINDS, SHAPES)
def test_shared(kind, left, right, result, m, n, group, weights):
    """D = A * B + D with both in shared memory, in every layout of D."""
    rng = np.random.default_rng(m + n)
    bits = encode(kind, m, n, left, right, result)
    p = decode(bits, kind, weights=weights, cta_group=group)
    assert isinstance(p, Product)
    a, b, c = integers(rng, (m, p.k), left), integers(rng, (n, p.k), right), rng.integers(-9, 9, (m, n))
    image, desc_a, desc_b = in_shared(a, b, p)
    name = f"tcgen05.mma{'.ws' if weights else ''}.cta_group::{group}.kind::{kind}"
    words, _ = run(
        f"{name} [base], desc_a, desc_b, idesc, yes;",
        image,
        placed(p, c, ctas=group, columns=64),
        desc_a=desc_a,
        desc_b=desc_b,
        idesc=bits,
    )

    assert np.array_equal(results(words, p), a @ b.T + c)


INSIDE = [("f16", "f16"), ("tf32", "tf32"), ("f8f6f4", "e2m1"), ("f8f6f4", "e3m2"), ("i8", "s8")]


@sampled("kind, element, m, n, group, weights", INSIDE, SHAPES)
def test_tensor_a(kind, element, m, n, group, weights):
    """A in tensor memory, where each tile of D reads the copy in its own lanes; layout F in the upper halves."""
    rng = np.random.default_rng(m + n)
    bits = encode(kind, m, n, element, element, "s32" if kind == "i8" else "f32")
    p = decode(bits, kind, weights=weights, cta_group=group)
    lane = 16 if (m, weights) == (64, False) else 0
    a, b, c = integers(rng, (m, p.k), element), integers(rng, (n, p.k), element), rng.integers(-9, 9, (m, n))
    image, _, desc_b = in_shared(a, b, p)
    cells = placed(p, c, lane, ctas=group, columns=128)
    in_tensor(cells, a, p, 64, lane=lane)
    name = f"tcgen05.mma{'.ws' if weights else ''}.cta_group::{group}.kind::{kind}"
    words, _ = run(
        f"add.u32 r2, base, {lane << 16}; add.u32 r3, r2, 64; {name} [r2], [r3], desc_b, idesc, yes;",
        image,
        cells,
        desc_b=desc_b,
        idesc=bits,
    )

    assert np.array_equal(results(words, p, lane), a @ b.T + c)


SPARSE = [("f16", "f16"), ("tf32", "tf32"), ("f8f6f4", "e4m3"), ("i8", "u8"), ("f16", "bf16")]


@sampled("kind, element, m, n, group, weights, from_tensor", SPARSE, SHAPES, [False, True])
def test_sparse(kind, element, m, n, group, weights, from_tensor):
    """Sparse A, whose metadata are in the lanes of its rows."""
    rng = np.random.default_rng(m + n)
    bits = encode(kind, m, n, element, element, "s32" if kind == "i8" else "f32", sparse=True)
    p = decode(bits, kind, weights=weights, cta_group=group)
    a, stored, nibbles = sparse(rng, m, p.k, p)
    b, c = integers(rng, (n, p.k), element), rng.integers(-9, 9, (m, n))
    image, desc_a, desc_b = in_shared(stored, b, p)
    cells = placed(p, c, ctas=group, columns=128)
    metadata(cells, nibbles, p, 64)
    in_tensor(cells, stored, p, 96)
    name = f"tcgen05.mma{'.ws' if weights else ''}.sp.cta_group::{group}.kind::{kind}"
    words, _ = run(
        f"add.u32 r2, base, 64; add.u32 r3, base, 96; {name} [base], {'[r3]' if from_tensor else 'desc_a'}, desc_b, [r2], idesc, yes;",
        image,
        cells,
        desc_a=desc_a,
        desc_b=desc_b,
        idesc=bits,
    )

    assert np.array_equal(results(words, p), a @ b.T + c)


def scale_words(words, factors, column, first, ctas, *, split=False):
    """Put scale factors ``[rows, S]`` (bytes) into all partitions of each CTA: 32 rows in a column, bytes from ``first`` on;
    ``split``: the first half of the rows in the lower two partitions, the second in the others (columns of B in layout B)."""
    for cta in range(ctas):
        for partition in range(4):
            mine = np.split(factors, 2)[partition // 2] if split else factors
            for row, bytes_of_row in enumerate(mine):
                for i, byte in enumerate(bytes_of_row):
                    at = column + row // 32 + (first + i) // 4 * 4 * -(-len(mine) // 128)
                    shift = 8 * ((first + i) % 4)
                    cell = words[cta, 32 * partition + row % 32]
                    cell[at] = int(cell[at]) & ~(0xFF << shift) | int(byte) << shift


SCALED = [
    ("mxf8f6f4", "", "ue8m0", 1, "e4m3", "e2m1"),
    ("mxf8f6f4", ".block32", "ue8m0", 1, "e3m2", "e5m2"),
    ("mxf4", ".scale_vec::2X", "ue8m0", 2, "e2m1", "e2m1"),
    ("mxf4nvf4", ".scale_vec::4X", "ue4m3", 4, "e2m1", "e2m1"),
    ("mxf4nvf4", ".block32", "ue8m0", 2, "e2m1", "e2m1"),
    ("mxf4nvf4", ".block16", "ue8m0", 4, "e2m1", "e2m1"),
]


@sampled(
    "kind, size, scale, count, left, right, m, n, group, has_metadata, from_tensor",
    SCALED,
    [(128, 48, 1), (256, 64, 2), (128, 64, 2), (128, 48, 1), (256, 64, 2)],
    [False, True, False, True],
    [False, True],
)
def test_scaled(kind, size, scale, count, left, right, m, n, group, has_metadata, from_tensor):
    """Scale factors of 1/2 to 4, from the bytes that the identifiers name."""
    if has_metadata and (m, group) == (128, 2):
        pytest.skip("sparse A of scaled kinds has M = 256 with a pair of CTAs")
    rng = np.random.default_rng(m + n + count)
    first = {1: (3, 1), 2: (2, 0), 4: (0, 0)}[count]
    bits = encode(kind, m, n, left, right, scale=scale, sparse=has_metadata) | first[0] << 29 | first[1] << 4
    p = decode(bits, kind, weights=False, cta_group=group)
    b, c = integers(rng, (n, p.k), right), rng.integers(-9, 9, (m, n))
    if has_metadata:
        a, stored, nibbles = sparse(rng, m, p.k, p)
    else:
        a = stored = integers(rng, (m, p.k), left)
    exponents = rng.integers(-1, 3, (m, count)), rng.integers(-1, 3, (n, count))
    codes = [(x + 127 if scale == "ue8m0" else (x + 7) << 3).astype(np.uint8) for x in exponents]
    packed = kind != "mxf8f6f4"
    image, desc_a, desc_b = in_shared(stored, b, p, width=2 if packed else 1)
    cells = placed(p, c, ctas=group, columns=192)
    in_tensor(cells, stored, p, 64, packed=packed)
    for cta in range(group):
        scale_words(cells[cta : cta + 1], halves(codes[0], group)[cta], 96, first[0], 1)
    scale_words(cells, codes[1], 112, first[1], group, split=(m, group) == (128, 2))
    if has_metadata:
        metadata(cells, nibbles, p, 128)
    meta = ", [r2]" if has_metadata else ""
    code = f"""add.u32 r2, base, 128; add.u32 r3, base, 64; add.u32 v0, base, 96; add.u32 v1, base, 112;
        tcgen05.mma{".sp" if has_metadata else ""}.cta_group::{group}.kind::{kind}.block_scale{size}
        [base], {"[r3]" if from_tensor else "desc_a"}, desc_b{meta}, idesc, [v0], [v1], yes;"""
    words, _ = run(code, image, cells, desc_a=desc_a, desc_b=desc_b, idesc=bits)
    block = p.k // count
    x, y = (v * np.repeat(2.0**e, block, axis=1) for v, e in ((a, exponents[0]), (b, exponents[1])))

    assert np.array_equal(results(words, p), x @ y.T + c)


@pytest.mark.parametrize("element", ["e2m1"])
@pytest.mark.parametrize(("size", "count", "first"), [("block16", 6, 2), ("block32", 3, 3)])
def test_96(element, size, count, first):
    """K = 96 of sm_103a, whose scale factors go on behind those of 128 rows."""
    rng = np.random.default_rng(count)
    m, n = 128, 32
    bits = encode("mxf4nvf4", m, n, element, element) | 1 << 31 | first << 29 | first << 4
    p = decode(bits, "mxf4nvf4", weights=False, cta_group=1)
    a, b = integers(rng, (m, 96), element), integers(rng, (n, 96), element)
    exponents = rng.integers(-1, 3, (m, count)), rng.integers(-1, 3, (n, count))
    image, desc_a, desc_b = in_shared(a, b, p, width=2)
    cells = np.zeros((1, 128, 64), np.uint32)
    for column, e in ((32, exponents[0]), (48, exponents[1])):
        scale_words(cells, (e + 127).astype(np.uint8), column, first, 1)
    code = f"""add.u32 v0, base, 32; add.u32 v1, base, 48;
        tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.{size} [base], desc_a, desc_b, idesc, [v0], [v1], 0;"""
    words, _ = run(code, image, cells, desc_a=desc_a, desc_b=desc_b, idesc=bits, target="sm_103a")
    x, y = (v * np.repeat(2.0**e, 96 // count, axis=1) for v, e in ((a, exponents[0]), (b, exponents[1])))

    assert np.array_equal(results(words, p), x @ y.T)


def test_absolute_leading_offset():
    """Rows of 48 bytes that begin 32 bytes before the end of their 128 go on at an address, in atoms of their own."""
    rng = np.random.default_rng(9)
    bits = encode("mxf4", 128, 16, "e2m1", "e2m1") | 1 << 31
    a, b = integers(rng, (128, 96), "e2m1"), integers(rng, (16, 96), "e2m1")
    images, numbers = [], []
    for matrix in (a, b):
        octets = shared_bytes(matrix, "e2m1", packed=True)
        both = np.zeros((len(octets), 256), np.uint8)
        both[:, 96:144] = octets
        first, second = (
            canonical(np.ascontiguousarray(x), 128, 16, transposed=False)[0] for x in np.split(both, 2, axis=1)
        )
        at = sum(map(len, images))
        numbers.append(descriptor(at + 96, at + len(first), 1024, 2) | 1 << 52)
        images += [first, second]
    cells = np.zeros((1, 128, 64), np.uint32)
    cells[:, :, 32:48] = 0x7F7F7F7F
    code = """add.u32 v0, base, 32; add.u32 v1, base, 40;
        tcgen05.mma.cta_group::1.kind::mxf4.block_scale [base], desc_a, desc_b, idesc, [v0], [v1], 0;"""
    words, _ = run(
        code, np.concatenate(images)[None], cells, desc_a=numbers[0], desc_b=numbers[1], idesc=bits, target="sm_103a"
    )
    p = decode(bits, "mxf4", weights=False, cta_group=1)

    assert np.array_equal(results(words, p), a @ b.T)


# ---- options -----------------------------------------------------------------------------------


def f16_product(code, *, m=128, n=32, weights=False, group=1, columns=64, zeros=0, mn=None, **more):
    """Run ``code`` on random f16 matrices; returns D, A, B and C."""
    rng = np.random.default_rng(n)
    bits = encode("f16", m, n, "f16", "f16", **more)
    p = decode(bits, "f16", weights=weights, cta_group=group)
    a, b, c = integers(rng, (m, p.k), "f16"), integers(rng, (n, p.k), "f16"), rng.integers(-8, 8, (m, n)) * 4
    image, desc_a, desc_b = in_shared(a, b, p)
    cells = placed(p, c, ctas=group, columns=columns)
    in_tensor(cells, a, p, 32)
    words, _ = run(code, image, cells, desc_a=desc_a, desc_b=desc_b, idesc=bits, zeros=zeros)
    return results(words, p), a, b, c


def test_no_input():
    """Without enable-input-d, D is A * B."""
    d, a, b, _ = f16_product("tcgen05.mma.cta_group::1.kind::f16 [base], desc_a, desc_b, idesc, !yes;")

    assert np.array_equal(d, a @ b.T)


@pytest.mark.parametrize("result", ["f32", "f16"])
def test_scale_input(result):
    """D * 2 ** -2 + A * B."""
    d, a, b, c = f16_product("tcgen05.mma.cta_group::1.kind::f16 [base], desc_a, desc_b, idesc, yes, 2;", d=result)

    assert np.array_equal(d, a @ b.T + c / 4)


def test_scale_input_of_integers():
    """The assembler takes scale-input-d with .kind::i8, for which the manual does not have it: nothing is scaled."""
    bits = encode("i8", 128, 32, "s8", "s8", "s32")
    p = decode(bits, "i8", weights=False, cta_group=1)
    a, b = np.ones((128, 32), int), np.ones((32, 32), int)
    image, desc_a, desc_b = in_shared(a, b, p)
    cells = placed(p, np.full((128, 32), 5), columns=64)
    in_tensor(cells, a, p, 32)
    code = """tcgen05.mma.cta_group::1.kind::i8 [base], desc_a, desc_b, idesc, yes, 3;
        add.u32 r2, base, 32; tcgen05.mma.cta_group::1.kind::i8 [base], [r2], desc_b, idesc, yes, 1;"""
    words, _ = run(code, image, cells, desc_a=desc_a, desc_b=desc_b, idesc=bits)

    assert (results(words, p) == 5 + 64).all()


def test_negated():
    """Both factors negated, and one."""
    both, a, b, c = f16_product(MMA, negate_a=True, negate_b=True)
    one, *_ = f16_product(MMA, negate_b=True)

    assert np.array_equal(both, a @ b.T + c)
    assert np.array_equal(one, c - a @ b.T)


MMA = "tcgen05.mma.cta_group::1.kind::f16 [base], desc_a, desc_b, idesc, yes;"


@pytest.mark.parametrize("scaled", ["", ", 1"])
@pytest.mark.parametrize("a", ["desc_a", "[r3]"])
@pytest.mark.parametrize("group", [1, 2])
def test_disabled_lanes(group, a, scaled):
    """Lanes whose bits are 1 keep what they hold; the second four words are those of the odd CTA."""
    vector = ["v1", "v0", "v0", "v0", "v0", "v0", "v2", "v0"][: 4 * group]
    code = f"""mov.u32 v0, 0; mov.u32 v1, 0x80000001; mov.u32 v2, 0xffff; add.u32 r3, base, 32;
        tcgen05.mma.cta_group::{group}.kind::f16 [base], {a}, desc_b, idesc, {{{", ".join(vector)}}}, yes{scaled};"""
    d, x, y, c = f16_product(code, m=128 * group, group=group)
    expected = x @ y.T + (c / 2 if scaled else c)
    kept = [0, 31] + ([*range(128 + 64, 128 + 80)] if group == 2 else [])
    expected[kept] = c[kept]

    assert np.array_equal(d, expected)


@pytest.mark.parametrize("a", ["desc_a", "[r3]"])
def test_zero_columns(a):
    """Columns of B that the mask names count as zero: three of every seven."""
    bits = 1 << 39 | 2 << 40 | 3 << 48
    code = f"add.u32 r3, base, 64; tcgen05.mma.ws.cta_group::1.kind::f16 [base], {a}, desc_b, idesc, yes, zeros;"
    rng = np.random.default_rng(1)
    descriptor_bits = encode("f16", 128, 64, "f16", "f16")
    p = decode(descriptor_bits, "f16", weights=True, cta_group=1)
    x, y = integers(rng, (128, 16), "f16"), integers(rng, (64, 16), "f16")
    image, desc_a, desc_b = in_shared(x, y, p)
    cells = np.zeros((1, 128, 128), np.uint32)
    in_tensor(cells, x, p, 64)
    words, _ = run(code, image, cells, desc_a=desc_a, desc_b=desc_b, idesc=descriptor_bits, zeros=bits)
    used = np.arange(64) % 7 < 4

    assert np.array_equal(results(words, p), np.where(used, x @ y.T, 0))


@pytest.mark.parametrize("use", ["", ".collector::a::discard"])
def test_shifted(use):
    """.ashift: each row of A is the next lane's, the last its own."""
    code = f"add.u32 r3, base, 32; tcgen05.mma.cta_group::1.kind::f16.ashift{use} [base], [r3], desc_b, idesc, yes;"
    d, a, b, c = f16_product(code)

    assert np.array_equal(d, np.concatenate([a[1:], a[-1:]]) @ b.T + c)


def test_shifted_in_a_pair():
    """The last row of each CTA stays."""
    code = "add.u32 r3, base, 32; tcgen05.mma.cta_group::2.kind::f16.ashift [base], [r3], desc_b, idesc, yes;"
    d, a, b, c = f16_product(code, m=256, group=2)
    next_rows = [*range(1, 128), 127, *range(129, 256), 255]

    assert np.array_equal(d, a[next_rows] @ b.T + c)


def test_collectors():
    """Collector buffers change no value."""
    code = "".join(
        f"tcgen05.mma.cta_group::1.kind::f16.collector::a::{use} [base], desc_a, desc_b, idesc, yes;"
        for use in ("fill", "use", "lastuse", "discard")
    )
    d, a, b, c = f16_product(code)

    assert np.array_equal(d, 4 * (a @ b.T) + c)


# ---- shared memory -------------------------------------------------------------------------------


def canonical(matrix, span, atom, *, transposed):
    """Bytes of ``[rows, k]`` elements in a canonical layout, and the descriptor's offsets: atoms of 8 rows (or k) of ``span``
    bytes, in which pieces of ``atom`` bytes are exchanged by XOR with the row."""
    size = matrix.dtype.itemsize
    major = np.ascontiguousarray(matrix.T if transposed else matrix)  # [minor, major]
    minor, length = major.shape
    octets = major.view(np.uint8).reshape(minor, length * size)
    atoms = octets.reshape(minor // 8, 8, -1, span).transpose(2, 0, 1, 3)  # [along major, along minor, 8, span]
    image = np.zeros(atoms.size, np.uint8)
    flat = np.ascontiguousarray(atoms).reshape(-1)
    address = np.arange(flat.size)
    row = address // span % 8
    where = address ^ ((row & 3) << 5 if atom == 32 else (address >> 7 & span // 16 - 1) << 4)
    image[where] = flat
    stride = 8 * span
    return image, stride * (minor // 8), stride


@pytest.mark.parametrize(
    ("kind", "mode", "span", "atom", "transposed"),
    [
        *(
            ("f16", mode, span, 16, transposed)
            for mode, span in ((6, 32), (4, 64), (2, 128))
            for transposed in (False, True)
        ),
        ("tf32", 1, 128, 32, True),  # transposed with 32-byte atoms only, which have no K-major layout
        ("tf32", 2, 128, 16, False),
        ("i8", 2, 128, 16, False),
        ("i8", 2, 128, 16, True),
    ],
)
def test_swizzled(kind, mode, span, atom, transposed):
    """The canonical layouts of both majors; a K-major row of a wider swizzle holds more K than one instruction reads."""
    rng = np.random.default_rng(span)
    element = {"i8": "s8"}.get(kind, kind)
    m, n = 128, 128
    bits = encode(
        kind, m, n, element, element, "s32" if kind == "i8" else "f32", transpose_a=transposed, transpose_b=transposed
    )
    p = decode(bits, kind, weights=False, cta_group=1)
    size = p.bits_a // 8
    depth = p.k if transposed else max(span // size, p.k)
    a, b = integers(rng, (m, depth), element), integers(rng, (n, depth), element)
    (x, leading, stride), (y, *_) = (canonical(CODES[element](v), span, atom, transposed=transposed) for v in (a, b))
    start = 0 if transposed else depth * size - 32  # the last K of the row
    words, _ = run(
        f"tcgen05.mma.cta_group::1.kind::{kind} [base], desc_a, desc_b, idesc, 0;",
        np.concatenate([x, y])[None],
        np.zeros((1, 128, 128), np.uint32),
        desc_a=descriptor(start, leading, stride, mode),
        desc_b=descriptor(len(x) + start, leading, stride, mode),
        idesc=bits,
    )

    assert np.array_equal(results(words, p), a[:, -p.k :] @ b[:, -p.k :].T)


# ---- findings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "options", "why"),
    [
        (MMA, {"idesc": encode("f16", 128, 32, "f16", "f16") | 1 << 6}, "bit 6 must be 0"),
        (MMA, {"idesc": encode("f16", 128, 32, "f16", "f16", sparse=True)}, "the sparsity bit is 1"),
        (MMA, {"desc_a": 1 << 16}, "bits 46 to 48 must be 1"),
        (MMA, {"desc_b": descriptor(0, 128, 256, 3)}, "3 is no swizzling mode"),
        (MMA, {"desc_b": descriptor(0, 128, 256, 2) | 1 << 52}, "absolute leading offset"),
        (
            MMA,
            {"idesc": encode("f16", 128, 32, "f16", "f16", transpose_b=True), "desc_b": descriptor(0, 128, 256, 1)},
            "32-byte atoms",
        ),
        (
            "add.u32 r2, base, 0x100000; tcgen05.mma.cta_group::1.kind::f16 [r2], desc_a, desc_b, idesc, yes;",
            {},
            "D begins at lane 16",
        ),
        (
            "add.u32 r2, base, 500; tcgen05.mma.cta_group::1.kind::f16 [r2], desc_a, desc_b, idesc, yes;",
            {},
            "columns 500 to 531",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::f16.ashift [base], [base], desc_b, idesc, yes;",
            {"idesc": encode("f16", 64, 32, "f16", "f16")},
            "M = 128 or 256",
        ),
        (
            "tcgen05.mma.ws.cta_group::1.kind::f16 [base], desc_a, desc_b, idesc, yes, zeros;",
            {"idesc": encode("f16", 32, 64, "f16", "f16"), "zeros": 9 << 56},
            "shifts B by 9 columns",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::mxf4.block_scale [base], desc_a, desc_b, idesc, [base], [base], yes;",
            {"idesc": encode("mxf4", 128, 32, "e2m1", "e2m1") | 1 << 29},
            "identifier of A is 1",
        ),
        (
            "tcgen05.mma.ws.cta_group::1.kind::f16 [base], desc_a, desc_b, idesc, yes, zeros;",
            {"idesc": encode("f16", 128, 64, "f16", "f16"), "zeros": 1 << 38},
            "bits 36 to 38 of the zero-column mask",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block32 [base], desc_a, desc_b, idesc, [base], [base], yes;",
            {"idesc": encode("mxf4nvf4", 128, 32, "e2m1", "e2m1", scale="ue4m3") | 1 << 31, "target": "sm_103a"},
            "ue4m3 are for blocks of 16",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [base], desc_a, desc_b, idesc, [base], [base], yes;",
            {"idesc": encode("mxf4nvf4", 128, 32, "e2m1", "e2m1") | 1 << 31, "target": "sm_103a"},
            "K = 96 goes with .block16",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::f16 [base], [base], desc_b, idesc, yes;",
            {"idesc": encode("f16", 128, 32, "f16", "f16", transpose_a=True)},
            "A in tensor memory cannot be transposed",
        ),
        (
            "add.u32 r2, base, 0x100000; tcgen05.mma.cta_group::1.kind::f16 [base], [r2], desc_b, idesc, yes;",
            {"idesc": encode("f16", 64, 32, "f16", "f16")},
            "A begins at lane 16, D at lane 0",
        ),
        (
            "add.u32 r2, base, 0x100000; tcgen05.mma.sp.cta_group::1.kind::f16 [base], desc_a, desc_b, [r2], idesc, yes;",
            {"idesc": encode("f16", 64, 32, "f16", "f16", sparse=True)},
            "the metadata begins at lane 16, D at lane 0",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::f16.collector::a::use [base], desc_a, desc_b, idesc, yes;",
            {},
            "collector buffer a does not hold",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [base], desc_a, desc_b, idesc, yes;"
            "add.u64 desc_a, desc_a, 2; tcgen05.mma.cta_group::1.kind::f16.collector::a::use [base], desc_a, desc_b, idesc, yes;",
            {},
            "::use of a matrix that collector buffer a does not hold",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [base], desc_a, desc_b, idesc, yes; "
            f"{MMA} tcgen05.mma.cta_group::1.kind::f16.collector::a::lastuse [base], desc_a, desc_b, idesc, yes;",
            {},
            "::lastuse of a matrix",
        ),
        (
            "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b1::fill [base], desc_a, desc_b, idesc, yes;"
            "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b2::use [base], desc_a, desc_b, idesc, yes;",
            {"idesc": encode("f16", 128, 64, "f16", "f16")},
            "collector buffer b2 does not hold",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::mxf4.block_scale [base], desc_a, desc_b, idesc, [base], [base], yes;",
            {"idesc": encode("mxf4", 128, 32, "e2m1", "e2m1") | 1 << 31},
            "sm_103a",
        ),
    ],
)
def test_findings(code, options, why):
    """What an instruction gets wrong is reported where it is issued."""
    good = {
        "idesc": encode("f16", 128, 32, "f16", "f16"),
        "desc_a": plain_descriptor(0, 32),
        "desc_b": plain_descriptor(0, 32),
    }
    with pytest.raises(warpsim.ExecutionError) as raised:
        run(code, np.zeros((1, 8192), np.uint8), np.zeros((1, 128, 64), np.uint32), **(good | options))
    finding = raised.value.findings[0]

    assert finding.rule == "tcgen05"
    assert finding.instruction.startswith("tcgen05.mma")
    assert why in finding.message


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize(
    ("kind", "nibble", "good"), [("tf32", 0b1000, 0b1110), ("f16", 0b0001, 0b0110), ("i8", 0b1010, 0b1001)]
)
def test_metadata_without_meaning(kind, nibble, good, effects):
    """Indices other than those that the text lists are undefined (PTX ISA, Sparse tcgen05.mma.sp)."""
    element = {"i8": "s8"}.get(kind, kind)
    bits = encode(kind, 128, 32, element, element, "s32" if kind == "i8" else "f32", sparse=True)
    p = decode(bits, kind, weights=False, cta_group=1)
    code = f"add.u32 r2, base, 64; tcgen05.mma.sp.cta_group::1.kind::{kind} [base], desc_a, desc_b, [r2], idesc, yes;"

    def launch(wrong):
        nibbles = np.full((128, p.k // {"tf32": 2}.get(kind, 4)), good, np.uint32)
        nibbles[37, 3] = wrong
        cells = placed(p, np.zeros((128, 32)), columns=128)
        metadata(cells, nibbles, p, 64)
        image, desc_a, desc_b = in_shared(np.ones((128, p.k // 2), int), np.ones((32, p.k), int), p)
        return run(code, image, cells, desc_a=desc_a, desc_b=desc_b, idesc=bits, async_effects=effects)

    launch(good)
    with pytest.raises(warpsim.ExecutionError) as raised:
        launch(nibble)
    finding = raised.value.findings[0]

    assert finding.rule == "sparse-metadata"
    assert f"row 37, chunk 3 is 0b{nibble:04b}" in finding.message


def test_beyond_shared_memory():
    """A descriptor that leaves shared memory."""
    with pytest.raises(warpsim.ExecutionError) as raised:
        run(
            MMA,
            np.zeros((1, 4096), np.uint8),
            np.zeros((1, 128, 64), np.uint32),
            idesc=encode("f16", 128, 32, "f16", "f16"),
            desc_a=descriptor(0, 1 << 17, 128),
            desc_b=plain_descriptor(0, 32),
        )

    assert raised.value.findings[0].rule == "out-of-bounds"


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_late_effects(effects):
    """A chain of products gives the same at either end of the time in which it may act."""
    rng = np.random.default_rng(3)
    bits = encode("f16", 128, 32, "f16", "f16")
    p = decode(bits, "f16", weights=False, cta_group=1)
    a, b = integers(rng, (128, 16), "f16"), integers(rng, (32, 16), "f16")
    image, desc_a, desc_b = in_shared(a, b, p)
    cells = np.zeros((1, 128, 64), np.uint32)
    words, _ = run(
        MMA.replace("yes", "!yes") + 2 * MMA,
        image,
        cells,
        desc_a=desc_a,
        desc_b=desc_b,
        idesc=bits,
        async_effects=effects,
    )

    assert np.array_equal(results(words, p), 3 * (a @ b.T))
