"""What the Hopper kernels are launched on: the registry of their cases, and tensor maps."""

import numpy as np

from case_files import SIZES

MAP_TYPES = {"UINT8": "u8", "UINT16": "u16", "UINT32": "u32", "INT32": "s32", "UINT64": "u64", "INT64": "s64", "FLOAT16": "f16",
             "FLOAT32": "f32", "FLOAT64": "f64", "BFLOAT16": "bf16", "FLOAT32_FTZ": "f32", "TFLOAT32": "f32", "TFLOAT32_FTZ": "f32"}  # fmt: skip
CASES = {}


def case(function):
    """Register a function that gives the parts of a case under its name."""
    CASES[function.__name__] = function
    return function


UNITS = {"none": 0, "16B": 16, "32B": 32}
"""Bytes of a pixel's slice of channels in interleaved maps."""


def tensor_map(
    buffer, data_type, dims, box, *, strides=None, swizzle="none", element_strides=None, fill="zero", im2col=None, interleave="none",
):  # fmt: skip
    """A tensor map argument over a dense tensor (``strides`` in bytes otherwise); ``im2col`` is (lower, upper, channels, pixels)."""
    size = UNITS[interleave] or SIZES[MAP_TYPES[data_type]]
    if strides is None:
        strides = [int(np.prod(dims[: i + 1])) * size for i in range(len(dims) - 1)]
    found = {
        "kind": "tensormap", "buffer": buffer, "data_type": data_type, "rank": len(dims), "global_dim": list(dims),
        "global_strides_bytes": list(strides), "box_dim": list(box or []), "element_strides": list(element_strides or [1] * len(dims)),
        "interleave": interleave, "swizzle": swizzle, "l2_promotion": "none", "oob_fill": fill,
    }  # fmt: skip
    if im2col:
        keys = ("pixel_box_lower_corner", "pixel_box_upper_corner", "channels_per_pixel", "pixels_per_column")
        found["im2col"] = dict(zip(keys, im2col, strict=True))
    return found
