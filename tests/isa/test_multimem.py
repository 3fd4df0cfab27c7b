"""multimem on one GPU: a multicast object of one device."""

from __future__ import annotations

import numpy as np
import pytest

import warpsim


def run(instruction: str, cells: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Execute an instruction in one thread; ``a`` points to the cells, ``b0`` to ``b3`` hold the operand."""
    size = b.itemsize * 8
    text = f""".version 8.8
    .target sm_100a
    .address_size 64
    .visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) {{
    .reg .b64 a, pb, po; .reg .b{size} b<4>, d<4>;
    ld.param.u64 a, [p0]; ld.param.u64 pb, [p1]; ld.param.u64 po, [p2];
    ld.global.v2.b{size} {{b0, b1}}, [pb]; mov.b{size} d0, b0; mov.b{size} d1, b1;
    {instruction} st.global.v2.b{size} [po], {{d0, d1}}; ret; }}"""
    out = np.zeros(2, b.dtype)
    warpsim.load(text)["k"]((1,), (1,), (cells, b, out))
    return out


@pytest.mark.parametrize(
    ("instruction", "dtype", "expected"),
    [
        ("multimem.red.relaxed.sys.global.add.u32 [a], b0;", np.uint32, [13, 20]),
        ("multimem.red.max.s64 [a], b1;", np.int64, [10, 20]),
        ("multimem.red.release.gpu.and.b32 [a], b0;", np.uint32, [10 & 3, 20]),
        ("multimem.red.add.v2.f32 [a], {b0, b1};", np.float32, [13, 24]),
        ("multimem.red.min.v2.f16 [a], {b0, b1};", np.float16, [3, 4]),
        ("multimem.red.relaxed.gpu.global.add.v2.f32 [a], {b0, b1};", np.float32, [13, 24]),
        ("multimem.red.relaxed.gpu.global.max.v2.f16 [a], {b0, b1};", np.float16, [10, 20]),
        ("multimem.st.v2.f32 [a], {b0, b1};", np.float32, [3, 4]),
        ("multimem.st.relaxed.gpu.global.v2.f32 [a], {b0, b1};", np.float32, [3, 4]),
        ("multimem.st.v2.f16 [a], {b0, b1};", np.float16, [3, 4]),
        ("multimem.st.relaxed.sys.global.v2.f16 [a], {b0, b1};", np.float16, [3, 4]),
        ("multimem.st.weak.global.u32 [a], b1;", np.uint32, [4, 20]),
        ("multimem.st.relaxed.gpu.v2.e5m2x4 [a], {b0, b1};", np.uint32, [3, 4]),
        ("multimem.st.e4m3x4 [a], b1;", np.uint32, [4, 20]),
        ("multimem.st.release.sys.global.u64 [a], b1;", np.uint64, [4, 20]),
    ],
)
def test_writes(instruction: str, dtype: type, expected: list[int]) -> None:
    """Stores and reductions reach the one copy."""
    cells = np.array([10, 20], dtype)

    run(instruction, cells, np.array([3, 4], dtype))

    assert cells.tolist() == expected


@pytest.mark.parametrize(
    ("instruction", "dtype", "expected"),
    [
        ("multimem.ld_reduce.relaxed.sys.global.add.acc::f16.v2.e4m3x4 {d0, d1}, [a];", np.uint32, [10, 20]),
        ("multimem.ld_reduce.min.v2.e5m2x4 {d0, d1}, [a];", np.uint32, [10, 20]),
        ("multimem.ld_reduce.max.e5m2x4 d0, [a];", np.uint32, [10, 4]),
        ("multimem.ld_reduce.acquire.sys.global.add.u32 d0, [a];", np.uint32, [10, 4]),
        ("multimem.ld_reduce.add.v2.f32 {d0, d1}, [a];", np.float32, [10, 20]),
        ("multimem.ld_reduce.relaxed.gpu.global.add.v2.f32 {d0, d1}, [a];", np.float32, [10, 20]),
        ("multimem.ld_reduce.weak.min.v2.f16 {d0, d1}, [a];", np.float16, [10, 20]),
        ("multimem.ld_reduce.relaxed.sys.max.v2.f16 {d0, d1}, [a];", np.float16, [10, 20]),
        ("multimem.ld_reduce.relaxed.gpu.add.acc::f32.v2.f16 {d0, d1}, [a];", np.float16, [10, 20]),
        ("multimem.ld_reduce.weak.add.u32 d0, [a];", np.uint32, [10, 4]),
        ("multimem.ld_reduce.add.acc::f32.v2.f16 {d0, d1}, [a];", np.float16, [10, 20]),
    ],
)
def test_reads(instruction: str, dtype: type, expected: list[int]) -> None:
    """A reduction over one copy is that copy."""
    assert run(instruction, np.array([10, 20], dtype), np.array([3, 4], dtype)).tolist() == expected
