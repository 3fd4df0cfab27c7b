"""The tensor core's arithmetic against words that a B200 returned (``tests/data/tcgen05_b200.json`` names their source)."""

import json
from pathlib import Path

import numpy as np
import pytest

from warpsim.numerics import emulated, matrix, plain_matrix

DOTS = json.loads((Path(__file__).parents[1] / "data" / "tcgen05_b200.json").read_text())["dots"]
WIDTHS = {"tf32": np.uint32, "f16": np.uint16, "bf16": np.uint16, "s8": np.int8}
RESULTS = {"f32": np.float32, "f16": np.float16, "s32": np.int32}


@pytest.mark.parametrize("dot", DOTS, ids=[dot["name"] for dot in DOTS])
def test_word(dot):
    """One output of tcgen05.mma."""
    (left, right, result), kind = dot["types"], dot["kind"]
    a, b = (
        np.array(dot[x], f"u{np.dtype(WIDTHS.get(type, np.uint8)).itemsize}") for x, type in (("a", left), ("b", right))
    )
    dtype = np.dtype(RESULTS[result])
    c = np.array([[[dot["c"]]]], f"u{dtype.itemsize}").view(dtype)
    x, y = a.reshape(-1, 1, 1, 1), b.reshape(-1, 1, 1, 1)
    with np.errstate(all="ignore"):
        if kind == "i8":
            x, y = (v.view(WIDTHS.get(t, np.uint8)) for v, t in ((a[None, None], left), (b[None, :, None], right)))
            d = plain_matrix.dot_integer(x, y, c, saturate=dot.get("saturate", False))
        elif "scale" in dot:
            scales = [np.array(dot[name], np.uint8).reshape(-1, 1, 1, 1) for name in ("scale_a", "scale_b")]
            if kind == "mxf8f6f4":
                d = emulated.dot_scaled(x, y, c, (left, right), (scales[0][0], scales[1][0]), 100)
            else:
                d = emulated.dot_groups(x, y, c, tuple(scales), dot["scale"])
        else:
            d = matrix.dot_add(x, y, c, (left, right), 100)

    assert int(d.view(f"u{dtype.itemsize}").item()) == dot["d"]
