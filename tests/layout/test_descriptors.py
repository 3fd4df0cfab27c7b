"""wgmma matrix descriptors: fields and addresses."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from warpsim.layout import descriptors


def addresses(bits: int, k: int, extent: int, itemsize: int, transposed: bool) -> np.ndarray:
    """Byte addresses ``[k, extent]`` of one descriptor."""
    fields = descriptors.decode(np.array([bits], np.uint64))
    return descriptors.byte_addresses(fields, k, extent, itemsize, transposed=transposed)[..., 0]


def test_fields_come_back() -> None:
    """What encode packs, decode finds, in bytes."""
    fields = descriptors.decode(np.array([descriptors.encode(0x4400, 256, 1024, span=64, base_offset=3)], np.uint64))
    found = fields.start, fields.leading, fields.stride, fields.span, fields.base_offset
    assert [int(v[0]) for v in found] == [0x4400, 256, 1024, 64, 3]
    assert not fields.reserved.any()


@pytest.mark.parametrize("span", [32, 64, 128])
@pytest.mark.parametrize("transposed", [False, True])
def test_swizzled_tiles_are_permutations(span: int, transposed: bool) -> None:
    """A tight tile covers its bytes exactly once, whatever the swizzle."""
    bits = descriptors.encode(1024, 8 * span, 8 * span, span=span)
    k, extent = (8, span // 2) if transposed else (span // 2, 8)
    found = addresses(bits, k, extent, 2, transposed)
    assert sorted(found.reshape(-1).tolist()) == list(range(1024, 1024 + 8 * span, 2))


def test_plain_k_major_steps_by_the_leading_offset() -> None:
    """Without swizzle the next 16 bytes of K lie LBO further, the next 8 rows SBO further."""
    found = addresses(descriptors.encode(0, 128, 4096), 16, 16, 2, False)
    assert found[8, 0] == 128
    assert found[0, 8] == 4096
    assert found[1, 1] == 18


def test_base_offset_is_subtracted_from_the_pattern() -> None:
    """A start in the middle of the pattern with its base offset reads as from the pattern's start."""
    shifted = addresses(descriptors.encode(1024 + 256, 0, 1024, span=128, base_offset=2), 8, 8, 2, False)
    plain = addresses(descriptors.encode(1024, 0, 1024, span=128), 8, 8, 2, False)
    assert np.array_equal(shifted[:, :6] - 256, plain[:, :6])


@pytest.mark.parametrize("span", [0, 32, 64, 128])
@pytest.mark.parametrize("base", range(8))
def test_patterns_that_begin_elsewhere(span, base):
    """A base offset counts within the pattern: eight rows of 128 bytes, four of 64, two of 32."""
    rows = span // 16
    moved = span if span and base % rows else 0
    assert descriptors.moved_span(descriptors.encode(1024, 128, 256, span=span, base_offset=base)) == moved


@pytest.mark.parametrize(
    ("leading", "stride", "span", "k", "extent", "size", "transposed", "overlaps"),
    [
        (128, 256, 0, 16, 16, 2, False, False),
        (128, 128, 0, 16, 16, 2, False, True),
        (256, 128, 0, 16, 16, 2, False, False),
        (256, 128, 0, 16, 24, 2, False, True),
        (0, 512, 64, 32, 16, 2, False, False),
        (0, 256, 64, 32, 16, 2, False, True),
        (128, 256, 0, 16, 16, 2, True, False),
        (128, 128, 0, 16, 16, 2, True, True),
        (128, 128, 0, 8, 16, 2, True, False),
        (128, 256, 0, 32, 16, 1, False, False),
    ],
)
def test_elements_that_overlap(leading, stride, span, k, extent, size, transposed, overlaps):
    """Matrices of eight rows of 16 bytes (of a swizzle's row) that the offsets lay over each other."""
    bits = descriptors.encode(0, leading, stride, span=span)
    found = descriptors.problem(bits, k, extent, size, transposed=transposed)
    assert (found is not None) == overlaps
    if overlaps:
        assert f"a leading offset of {leading} and a stride offset of {stride} bytes" in found


@pytest.mark.parametrize(("size", "k", "transposed"), [(1, 32, False), (2, 16, False), (2, 16, True), (4, 8, False)])
@pytest.mark.parametrize("columns", [1, 3])
def test_elements_in_words_of_columns(size, k, transposed, columns):
    """Each CTA's words lie beside those of the others: where the elements of the first one are, and how far they reach."""
    bits = descriptors.encode(64, 128, 256)
    found = descriptors.elements(bits, k, 16, size, transposed=transposed)
    memory = np.random.default_rng(1).integers(0, 1 << 32, (256, columns), np.uint32)
    own = np.ascontiguousarray(memory[:, 0]).view(f"u{size}")
    address = found.address.reshape(-1)
    assert (memory.reshape(-1).view(f"u{size}")[found.places(columns)] == own[address // size]).all()
    assert (found.low, found.high) == (address.min(), address.max() + size)
    assert sorted(found.chunks.reshape(-1).tolist()) == sorted({int(a) // 16 * 16 for a in address})
    places, start = found.words(columns)
    assert start == places.ctypes.data
    words = memory.reshape(-1)[places.reshape(-1) // 4]
    along = found.address[:, :: 4 // size] if transposed else found.address[:: 4 // size]
    assert (words == memory[along.reshape(-1) // 4, 0]).all()
    assert places.shape == (1, 1, *along.shape[:2])


@pytest.mark.parametrize("start", [0x400, 0x1C60, 0x3F80, 0x3FFC0])
@pytest.mark.parametrize(("span", "base"), [(0, 0), (32, 0), (64, 1), (128, 5)])
def test_elements_further_on(start, span, base):
    """What is taken from a descriptor that begins earlier is what the descriptor itself names, also where addresses wrap; each has
    places of its own."""
    for begin in (start % 1024, start):
        bits = descriptors.encode(begin, 128, 256, span=span, base_offset=base)
        found = descriptors.elements(bits, 16, 64, 2, transposed=False)
        address = descriptors.byte_addresses(descriptors.decode(np.array([[bits]])), 16, 64, 2, transposed=False)
        assert (found.address == address).all()
        assert (found.low, found.high) == (address.min(), address.max() + 2)
        assert (found.chunks == np.unique(address & -16).reshape(-1, 1, 1)).all()
        assert found.problem == descriptors.problem(bits, 16, 64, 2, transposed=False)
        assert found.places(1).tolist() == (address >> 1).reshape(-1).tolist()
        assert found.words(2)[0].reshape(-1).tolist() == ((address[::2] >> 2) * 8).reshape(-1).tolist()


def test_reserved_bits() -> None:
    """Those outside the fields that the PTX ISA names (Matrix Descriptor Format) are named."""
    fields = {*range(14), *range(16, 30), *range(32, 46), 49, 50, 51, 62, 63}
    for bit in range(64):
        found = descriptors.problem(16 << 32 | 8 << 16 | 1 << bit, 16, 8, 2, transposed=False) or ""

        assert (found == f"reserved bits are set: 0x{1 << bit:x}") == (bit not in fields), bit


def test_rank_in_a_descriptor() -> None:
    """An H200 reads through the rank that an unmasked address brings into the leading offset, and not by reserved bits
    (tools/recordings/descriptors_of_ranks.cu)."""
    blocks = re.split(r"^\d+: 0\n", (Path(__file__).parent / "descriptors_of_ranks_h200.txt").read_text(), flags=re.M)
    lines = blocks[1].splitlines()
    found = [lines[1::2], *[block.splitlines() for block in blocks[2:]]]
    read = np.array([[[p.split(",") for p in line.split()] for line in rows] for rows in found], int)
    own, mapped, peer = np.array([[int(a, 16) for a in line.split()] for line in lines[::2]]).T
    assert list(own) == list(mapped) == [rank << 24 | 0x400 for rank in range(4)]

    start, plain, swizzled = (own & 0x3FFFF) >> 4, 16 << 32 | 8 << 16, 1 << 62 | 64 << 32
    bits = [start | plain, own >> 4 | plain, mapped >> 4 | plain, peer >> 4 | plain, (own >> 4) + plain]
    bits += [start | swizzled, own >> 4 | swizzled, peer >> 4 | swizzled]
    bits += [start | plain | extra for extra in (3 << 14, 3 << 30, 3 << 46, 1 << 52)]
    address = descriptors.byte_addresses(descriptors.decode(np.array(bits)), 16, 64, 2, transposed=False)
    expected = (address[[0, 8], ::9].transpose(2, 3, 1, 0) - 0x400) // 16
    assert (expected == read).all()
