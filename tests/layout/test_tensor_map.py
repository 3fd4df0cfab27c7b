"""Tensor maps: arguments, encoding, elements of a box."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpsim.errors import LaunchError
from warpsim.host.tensor_map import TensorMap
from warpsim.layout import tensor_map
from warpsim.layout.boxes import Boxes


def matrix(**changes: Any) -> TensorMap:
    """A map of a 24 x 40 f16 matrix."""
    arguments: dict[str, Any] = {
        "data_type": "FLOAT16",
        "global_dim": [40, 24],
        "global_strides": [80],
        "box_dim": [32, 8],
        "swizzle": "64B",
    }
    return TensorMap(0, **{**arguments, **changes})


def test_bytes_come_back() -> None:
    """The 128 bytes hold every field."""
    raw = matrix().encode(0x7F0000000100)
    found = tensor_map.decode(raw)
    assert len(raw) == 128
    assert found is not None
    assert (found.address, found.dims, found.strides, found.box) == (0x7F0000000100, (40, 24), (80,), (32, 8))


def test_bytes_that_are_no_map() -> None:
    """Other bytes are not taken for a map."""
    assert tensor_map.decode(bytes(128)) is None


def test_box_over_the_edge() -> None:
    """Elements outside the tensor are marked."""
    boxes = Boxes(matrix().fields, [np.array([16, 0]), np.array([20, 0])], [])
    place, inside = (x[0] for x in boxes.elements(np.array([0, 1])))
    assert inside.reshape(8, 32)[:4, :24].all()
    assert inside.sum() == 4 * 24
    assert place[0] == 20 * 80 + 32


def test_swizzle_exchanges_chunks_of_a_row() -> None:
    """64B: chunks of 16 bytes are XORed with bits 7 and 8 of the address."""
    boxes = Boxes(matrix().fields, [np.zeros(1)] * 2, [])
    found = boxes.shared(np.array([0])).reshape(8, 32)
    assert found[0, 0] == 0
    assert found[2, 0] == 128 + 16
    assert found[7, 0] == 448 + 48
    assert sorted(found.reshape(-1).tolist()) == list(range(0, 512, 2))


@pytest.mark.parametrize(
    "changes",
    [
        {"global_strides": [82]},
        {"box_dim": [257, 8]},
        {"box_dim": [36, 8]},
        {"swizzle": "32B"},
        {"element_strides": [1, 9]},
        {"global_dim": [0, 24]},
        {"interleave": "32B"},
        {"data_type": "UINT16", "oob_fill": "nan"},
        {"swizzle": "96B"},
    ],
)
def test_arguments_that_the_driver_refuses(changes: dict[str, Any]) -> None:
    """Each is a LaunchError."""
    with pytest.raises(LaunchError):
        matrix(**changes)


def test_a_map_made_of_zeros_has_one_dimension():
    """Compilers fill a map with zeros and give it only what is not 0: of a rank that is counted from 0, nothing for one
    dimension."""
    raw = bytearray(128)
    for field, value in (("magic", tensor_map.MAGIC), ("dims", 100), ("box", 32), ("element_strides", 1)):
        offset, size = tensor_map.place_of(field)
        raw[offset : offset + size] = value.to_bytes(size, "little")

    found = tensor_map.decode(bytes(raw))

    assert (found.rank, found.dims, found.box, found.strides) == (1, (100,), (32,), ())
    assert tensor_map.problem(found) is None
