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


@pytest.mark.parametrize(
    ("field", "value"), [("rank", 6), ("elemtype", 14), ("interleave_layout", 3), ("swizzle_mode", 5)]
)
def test_bytes_that_are_no_map(field: str, value: int) -> None:
    """Zeros, and numbers that mean nothing, are not taken for a map."""
    place, raw = tensor_map.PLACES[field], int.from_bytes(matrix().encode(0x7F0000000100), "little")
    cleared = raw & ~place.write(place.less + (1 << 4) - 1)

    assert tensor_map.decode(bytes(128)) is None
    assert tensor_map.decode(raw.to_bytes(128, "little")) is not None
    assert tensor_map.decode((cleared | place.write(value)).to_bytes(128, "little")) is None


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
    bits = sum(tensor_map.PLACES[field].write(value) for field, value in (("global_dim", 100), ("box_dim", 32)))

    found = tensor_map.decode(bits.to_bytes(128, "little"))

    assert (found.rank, found.dims, found.box, found.strides) == (1, (100,), (32,), ())
    assert tensor_map.problem(found) is None


@pytest.mark.parametrize("data_type", ["UINT8", "FLOAT16", "FLOAT32", "TFLOAT32", "INT64"])
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("width", [96, 104, 100])
def test_units_are_the_same_bytes(data_type: str, swizzle: str, width: int) -> None:
    """Boxes of whole units have the bytes of boxes of single elements, in the same places, whether inside or not."""
    size = tensor_map.SIZES[tensor_map.DATA_TYPES.index(data_type)]
    inner = {"none": 48, "32B": 32, "64B": 64, "128B": 128}[swizzle]
    fields = TensorMap(
        0, data_type=data_type, global_dim=[width, 9, 3], global_strides=[1024, 16384], box_dim=[inner // size, 4, 2],
        element_strides=[1, 2, 1], swizzle=swizzle, oob_fill="nan" if data_type.count("FLOAT") else "zero",
    ).fields  # fmt: skip
    at = [np.array([0, -16 // size, width - inner // size // 16 * 16, 32]), np.array([0, 7, -2, 3]), np.arange(4) - 1]
    at[0] = at[0] // (16 // size) * (16 // size)
    start, which = np.array([0, 1024, 1024, 4096]), np.array([3, 0, 1, 2])
    single, units = (Boxes(fields, at, [], units=wide) for wide in (False, True))

    def spread(boxes: Boxes) -> tuple[list[int], list[bool], list[int], bytes]:
        """Of each byte of the boxes: place in the tensor, whether it is inside, place in shared memory; and the fill."""
        place, inside = boxes.elements(which)
        parts, to = np.arange(boxes.dtype.itemsize), np.broadcast_to(boxes.shared(start[which]), place.shape)
        each = [(x[..., None] + parts).reshape(-1).tolist() for x in (place, to)]
        filled = np.full(8 // boxes.dtype.itemsize, boxes.fill, boxes.dtype).tobytes()
        return each[0], np.repeat(inside, len(parts)).tolist(), each[1], filled

    assert units.dtype.itemsize == (8 if width * size % 8 == 0 else size)
    assert spread(units) == spread(single)
    assert units.shared(start[:1]).tolist() == units.shared(start)[:1].tolist()
