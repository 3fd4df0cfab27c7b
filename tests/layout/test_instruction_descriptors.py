"""Instruction descriptors: fields as in the tables of the PTX ISA, every reserved or contradicting one, and the manual's
examples of zero-column masks."""

import attrs
import pytest

from warpsim.layout.instruction_descriptors import (
    DEPTHS,
    ELEMENTS,
    SCALED,
    Product,
    decode,
    encode,
    zero_columns,
)


def f16(m=128, n=128, **more):
    """A descriptor of .kind::f16 with f32 results."""
    return encode("f16", m, n, "f16", "f16", **more)


def problem(bits, kind="f16", *, weights=False, cta_group=1):
    """Why there is no such product."""
    found = decode(bits, kind, weights=weights, cta_group=cta_group)
    assert isinstance(found, str), found
    return found


def test_fields():
    """The bits of table 42: D f32 in 4, A bf16 in 7, B f16, transposed B in 16, N / 8 in 17, M / 16 in 24."""
    bits = 1 << 4 | 1 << 7 | 1 << 16 | 24 >> 3 << 17 | 64 >> 4 << 24
    found = decode(bits, "f16", weights=False, cta_group=1)

    assert isinstance(found, Product)
    assert (found.m, found.n, found.k, found.a, found.b, found.d) == (64, 24, 16, "bf16", "f16", "f32")
    assert found.transpose_b
    assert not found.transpose_a


def test_fields_of_scaled_kinds():
    """Those of tables 43 and 44: M / 128 in 27, the scale factors' identifiers in 29 and 4, their type in 23, K = 96 in 31."""
    bits = 1 << 7 | 1 << 10 | 2 << 4 | 64 >> 3 << 17 | 1 << 27 | 2 << 29
    found = decode(bits, "mxf4nvf4", weights=False, cta_group=1)

    assert isinstance(found, Product)
    assert (found.m, found.n, found.k, found.a, found.b, found.d) == (128, 64, 64, "e2m1", "e2m1", "f32")
    assert (found.scale, found.scale_a_id, found.scale_b_id) == ("ue4m3", 2, 2)
    assert decode(bits | 1 << 31, "mxf4nvf4", weights=False, cta_group=2).k == 96


@pytest.mark.parametrize("kind", ELEMENTS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_round_trip(kind, sparse):
    """What is encoded is decoded, for every pair of types; K is that of table 39."""
    for a in ELEMENTS[kind].values():
        for b in ELEMENTS[kind].values():
            d = "s32" if kind == "i8" else "f32"
            bits = encode(kind, 128, 48, a, b, d, sparse=sparse)
            found = decode(bits, kind, weights=False, cta_group=1)

            assert isinstance(found, Product), found
            assert (found.a, found.b, found.m, found.n) == (a, b, 128, 48)
            assert found.k == DEPTHS.get(kind, 32) * (2 if sparse else 1)


@pytest.mark.parametrize(
    ("bits", "kind", "why"),
    [
        *(
            (f16() | 1 << at, "f16", word)
            for at, word in ((6, "bit 6"), (23, "bit 23"), (29, "bit 29"), (3, "saturation"))
        ),
        (f16() | 1, "f16", "selector"),
        (f16() & ~(3 << 4) | 2 << 4, "f16", "type of D"),
        (f16() | 2 << 7, "f16", "type of A"),
        (encode("f16", 128, 64, "f16", "bf16", "f16"), "f16", "f32 if"),
        (f16() | 1 << 30, "f16", "maximum shift"),
        (f16(m=32), "f16", "M is"),
        (f16(m=256), "f16", "M is"),
        (f16(n=0), "f16", "N = 0"),
        (encode("f8f6f4", 128, 64, "e3m2", "e4m3", transpose_a=True), "f8f6f4", "transposed"),
        (encode("f8f6f4", 128, 24, "e4m3", "e4m3", transpose_b=True), "f8f6f4", "multiple of 16"),
        (encode("f8f6f4", 128, 24, "e4m3", "e4m3") | 2 << 7, "f8f6f4", "type of A"),
        (encode("i8", 128, 40, "s8", "u8", "s32"), "i8", "N = 40"),
        (encode("i8", 128, 32, "s8", "u8", "s32", negate_a=True), "i8", "negation"),
        (encode("i8", 128, 32, "s8", "u8", "s32", sparse=True) | 1, "i8", "selector"),
        (encode("mxf8f6f4", 128, 32, "e4m3", "e4m3", scale="ue4m3"), "mxf8f6f4", "ue8m0"),
        (encode("mxf8f6f4", 128, 32, "e4m3", "e4m3") | 1 << 24, "mxf8f6f4", "bits 24"),
        (encode("mxf8f6f4", 128, 32, "e4m3", "e4m3") | 1 << 31, "mxf8f6f4", "bit 31"),
        (encode("mxf4", 128, 32, "e2m1", "e2m1", transpose_a=True), "mxf4", "transposition"),
        (encode("mxf4", 128, 32, "e2m1", "e2m1", sparse=True) | 1 << 31, "mxf4", "dense"),
        (encode("mxf4", 128, 32, "e2m1", "e2m1", sparse=True), "mxf4 2", "M is 256"),
    ],
)
def test_problems(bits, kind, why):
    """Reserved fields must be 0, and the others must fit each other."""
    name, *group = kind.split()

    assert why in problem(bits, name, cta_group=int(group[0]) if group else 1)


def test_shapes():
    """Table 39: .ws has M = 32 and three N, a pair of CTAs steps of 16, and of 32 for integers."""
    assert isinstance(decode(f16(m=32, n=64), "f16", weights=True, cta_group=1), Product)
    assert "N = 96" in problem(f16(m=32, n=96), weights=True)
    assert "N = 256" in problem(f16(m=64, n=256, sparse=True), weights=True)
    assert "N = 24" in problem(f16(n=24), cta_group=2)
    assert "N = 48" in problem(encode("i8", 256, 48, "s8", "s8", "s32"), "i8", cta_group=2)
    assert isinstance(decode(f16(m=256, n=48), "f16", weights=False, cta_group=2), Product)
    assert "16 for M = 32" in problem(f16(m=32, n=64) | 3 << 30, weights=True)


def test_bits_of_elements():
    """Types of 6 and 4 bits have bytes in shared memory, except in the kinds with packed ones."""
    found = decode(encode("mxf8f6f4", 128, 32, "e2m1", "e3m2"), "mxf8f6f4", weights=False, cta_group=1)
    packed = decode(encode("mxf4", 128, 32, "e2m1", "e2m1", sparse=True), "mxf4", weights=False, cta_group=1)

    assert (found.bits_a, found.bits_b) == (8, 8)
    assert (packed.bits_a, packed.stored) == (4, 64)
    assert attrs.evolve(packed, sparse=False).stored == 128
    assert {"mxf8f6f4", "mxf4", "mxf4nvf4"} == SCALED


def mask(starts, firsts, some, skip, use, shift):
    """A zero-column mask descriptor; lists are written as in the manual, number 0 last."""
    bits = some << 39 | skip << 40 | use << 48 | shift << 56
    for at, (start, first) in enumerate(zip(reversed(starts), reversed(firsts), strict=True)):
        bits |= start << 8 * at | first << 32 + at
    return bits


def text(columns):
    """Columns as the manual writes masks: the first one last."""
    return "".join(str(int(one)) for one in reversed(columns))


def test_no_zero_columns():
    """The manual's first example."""
    assert not any(zero_columns(mask([0] * 4, [0] * 4, 0, 4, 3, 0), 128, 128))


def test_zero_columns():
    """The manual's other examples."""
    second = zero_columns(mask([0] * 4, [0] * 4, 1, 2, 3, 0), 128, 128)
    third = zero_columns(mask([0] * 4, [0, 0, 0, 1], 1, 2, 3, 0), 64, 128)
    bits = mask([1, 2, 1, 0], [0, 0, 1, 1], 1, 2, 3, 2)
    fourth = zero_columns(bits, 32, 128)

    assert text(second[:14]) == "11100001110000"
    assert text(third[:17]) == "11100001110000111"
    assert text(third[64:81]) == "00011100001110000"
    assert [text(fourth[32 * part :][: len(want)]) for part, want in enumerate(FOURTH)] == FOURTH


FOURTH = ["00001110000111", "0000111000011", "111000011100", "1110000111000"]
