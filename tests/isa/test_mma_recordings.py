"""mma and mma.sp give the bits that an H100 gave: every dense and sparse form, a case of each kind of operands.

``mma_h100.npz`` holds raw registers ``[case, lane, register]`` of ``a``, ``b``, ``c``, ``d`` (and metadata ``e``) by the
number of the form in ``names``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpsim

with np.load(Path(__file__).parents[1] / "data" / "mma_h100.npz") as _data:
    DATA = dict(_data)
NAMES = [str(name) for name in DATA["names"]]
GROUPS = sorted({name.split()[0].split(".row")[0].split(".col")[0] for name in NAMES})


def module(name: str, arrays: dict[str, np.ndarray]) -> str:
    """A kernel of one warp a case that loads the operands, runs the instruction and stores what it wrote."""
    text = name.split(" #")[0]
    lines = [".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k("]
    lines.append(", ".join(f".param .u64 p_{key}" for key in arrays))
    lines.append(") {\n.reg .b32 t, n; .reg .b64 q, w; mov.u32 t, %tid.x; mov.u32 n, %ctaid.x; mad.lo.u32 t, n, 32, t;")
    for key, array in arrays.items():
        count, width = array.shape[2], array.itemsize
        kind = ".f64" if width == 8 else ".b32"
        lines.append(f".reg {kind} {key}<{count}>; .reg .b64 p{key};")
        lines.append(f"ld.param.u64 q, [p_{key}]; mul.wide.u32 w, t, {count * width}; add.u64 p{key}, q, w;")
        if key != "d":
            lines += [f"ld.global{kind} {key}{i}, [p{key}+{i * width}];" for i in range(count)]
        braces = ", ".join(f"{key}{i}" for i in range(count))
        opcode, _, operands = text.partition(" ")
        operands = operands.replace(f"{key},", "e0," if key == "e" else f"{{{braces}}},").replace(
            f"{key};", f"{{{braces}}};"
        )
        text = f"{opcode} {operands}"
    lines.append(text)
    array = arrays["d"]
    kind = ".f64" if array.itemsize == 8 else ".b32"
    lines += [f"st.global{kind} [pd+{i * array.itemsize}], d{i};" for i in range(array.shape[2])]
    return "\n".join([*lines, "ret; }"])


@pytest.mark.parametrize("group", GROUPS)
def test_bits(group):
    """Forms of one shape, all layouts and types."""
    for number, name in enumerate(NAMES):
        if name.split()[0].split(".row")[0].split(".col")[0] != group:
            continue
        arrays = {key: DATA[f"{number}_{key}"] for key in "abcde" if f"{number}_{key}" in DATA}
        expected = arrays["d"]
        arrays["d"] = np.zeros_like(expected)
        warpsim.load(module(name, arrays))["k"](len(expected), 32, tuple(arrays.values()))

        different = np.argwhere(arrays["d"] != expected)
        assert not len(different), f"{name}: {len(different)} registers, the first at {different[0]}"
