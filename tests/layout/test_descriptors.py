"""wgmma matrix descriptors: fields and addresses."""

from __future__ import annotations

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
