# ruff: noqa: D103 (the name of a case says what it is)
"""Makes the bundled programs of programs/ from their kernel.cu, ready to be recorded on a GPU by record.py.

gallery_cases.py FOLDER [NAME...]        needs nvcc, NumPy and ml_dtypes
"""

import re
from pathlib import Path

import numpy as np

from case_files import SIZES, changed, f32, i32, make, nvcc, one_kernel, ptr, random, result, small, source, write_case

SOURCES = Path(__file__).parents[2] / "programs"
CASES = {}


def case(function):
    """Register a function that gives the parts of a case under its name."""
    CASES[function.__name__] = function
    return function


def parts(entry, target, grid, block, buffers, params, **more):
    """What a case consists of."""
    grid, block = ((*size, 1, 1)[:3] for size in (grid, block))
    return {
        "entry": entry,
        "target": target,
        "grid": grid,
        "block": block,
        "buffers": buffers,
        "params": params,
        **more,
    }


def tensor_map(buffer, data_type, kind, rows, columns, box):
    """A tensor map over a row-major matrix, with the swizzle of 128 bytes where a row of the box is that long."""
    size = SIZES[kind]
    return {
        "kind": "tensormap", "buffer": buffer, "data_type": data_type, "rank": 2, "global_dim": [columns, rows], "global_strides_bytes": [columns * size],
        "box_dim": list(box), "element_strides": [1, 1], "interleave": "none", "swizzle": "128B" if box[0] * size == 128 else "none",
        "l2_promotion": "none", "oob_fill": "zero",
    }  # fmt: skip


def half_map(buffer, rows, columns, box_rows=64):
    return tensor_map(buffer, "FLOAT16", "f16", rows, columns, (64, box_rows))


# ---- threads and warps ----------------------------------------------------------------------------


@case
def hello():
    return parts("hello", "sm_80", (1,), (32,), {"lanes": result("s32", 32)}, [ptr("lanes")])


@case
def saxpy():
    n = 1000
    buffers = {"x": source("f32", random(n, seed=1)), "y": changed("f32", random(n, seed=2))}
    return parts("saxpy", "sm_80", (4,), (256,), buffers, [i32(n), f32(2.5), ptr("x"), ptr("y")])


@case
def histogram():
    n = 10001
    data = np.random.default_rng(1).integers(0, 256, n)
    buffers = {"data": source("u8", data), "hist": result("u32", 256)}
    return parts("histogram", "sm_80", (4,), (256,), buffers, [ptr("data"), i32(n), ptr("hist")])


@case
def reduce_shfl():
    n = 5000
    buffers = {
        "x": source("f32", random(n, seed=1)), "xi": source("s32", small(n, seed=2, top=1000)),
        "partial": result("f32", 4), "total": result("s32", 1), "largest": result("f32", 4),
    }  # fmt: skip
    return parts("reduce_shfl", "sm_80", (4,), (256,), buffers, [ptr("x"), ptr("xi"), i32(n), ptr("partial"), ptr("total"), ptr("largest")])  # fmt: skip


@case
def softmax_rows():
    rows, columns = 8, 500
    buffers = {"x": source("f32", random(rows, columns, seed=1, scale=3.0)), "y": result("f32", rows, columns)}
    return parts(
        "softmax", "sm_80", (rows,), (128,), buffers, [ptr("x"), ptr("y"), i32(columns)], dynamic_smem=4 * columns
    )


@case
def transpose():
    rows, columns = 70, 45
    buffers = {"x": source("f32", random(rows, columns, seed=1)), "y": result("f32", columns, rows)}
    return parts(
        "transpose", "sm_80", (2, 3), (32, 8), buffers, [ptr("x"), ptr("y"), i32(rows), i32(columns)], keep="all"
    )


@case
def copy_pipeline():
    ctas, tiles = 2, 5
    buffers = {"x": source("f32", random(ctas * tiles * 256 + 4, seed=1)), "y": result("f32", ctas * tiles * 256)}
    return parts("copy_pipeline", "sm_80", (ctas,), (256,), buffers, [ptr("x"), ptr("y"), i32(tiles)])


@case
def scan_lookback():
    ctas, threads = 12, 128
    buffers = {
        "x": source("u32", np.random.default_rng(1).integers(0, 1000, ctas * threads)), "y": result("u32", ctas * threads),
        "states": result("u64", ctas), "ticket": result("u32", 1),
    }  # fmt: skip
    return parts("scan_lookback", "sm_80", (ctas,), (threads,), buffers, [ptr(b) for b in buffers])


@case
def cluster_reduce():
    rows, columns = 3, 1500
    buffers = {"x": source("f32", random(rows, columns, seed=1)), "y": result("f32", rows)}
    return parts("cluster_reduce", "sm_90", (4 * rows,), (128,), buffers, [ptr("x"), ptr("y"), i32(columns)], cluster=(4, 1, 1))  # fmt: skip


# ---- matrices -------------------------------------------------------------------------------------


@case
def mma_f16_gemm():
    m, n, k = 128, 64, 96
    buffers = {
        "A": source("f16", random(m, k, seed=1)),
        "B": source("f16", random(k, n, seed=2)),
        "C": result("f32", m, n),
    }
    return parts(
        "mma_f16_gemm", "sm_80", (n // 64, m // 64), (128,), buffers, [*map(ptr, "ABC"), i32(m), i32(n), i32(k)]
    )


@case
def gemm_sparse():
    k = 96
    pairs = np.array([p | q << 2 for p in range(4) for q in range(p + 1, 4)])
    nibbles = pairs[np.random.default_rng(5).integers(0, len(pairs), (k // 32, 32, 8))]
    meta = (nibbles << 4 * np.arange(8)).sum(-1)
    buffers = {
        "A": source("f16", random(16, k // 2, seed=1)), "meta": source("u32", meta), "B": source("f16", random(8, k, seed=2)),
        "C": result("f32", 16, 8),
    }  # fmt: skip
    return parts("gemm_sparse", "sm_80", (1,), (32,), buffers, [ptr("A"), ptr("meta"), ptr("B"), ptr("C"), i32(k)])


@case
def flash_attention():
    queries, keys, width = 64, 96, 32
    buffers = {name: source("f16", random(n, width, seed=s)) for s, (name, n) in enumerate([("Q", queries), ("K", keys), ("V", keys)])}  # fmt: skip
    buffers["O"] = result("f16", queries, width)
    scale = width**-0.5 * np.log2(np.e)
    return parts(
        "flash_attention", "sm_80", (queries // 32,), (64,), buffers, [*map(ptr, "QKVO"), i32(keys), f32(scale)]
    )


def product(name, m, n, k, grid, *, a=None, b=None, block=128, params=(), b_rows=64, **more):
    """A [m, k] and B [n, k] in f16 with maps, C [m, n] in f32."""
    buffers = {
        "A": source("f16", random(m, k, seed=1) if a is None else a),
        "B": source("f16", random(n, k, seed=2) if b is None else b),
        "C": result("f32", m, n),
    }
    maps = [half_map("A", m, k), half_map("B", n, k, b_rows)]
    return parts(name, "sm_90a", grid, (block,), buffers, [*maps, *params], **more)


@case
def gemm_tma():
    m, n, k = 128, 64, 256
    return product("gemm_tma", m, n, k, (n // 64, m // 64), params=[ptr("C"), i32(n), i32(k)])


@case
def gemm_multicast():
    m, n, k = 128, 128, 256
    return product("gemm_multicast", m, n, k, (2, 2), b_rows=32, params=[ptr("C"), i32(n), i32(k)], cluster=(2, 1, 1))


def blackwell(name, m, n, k, grid, rows, **more):
    """A product of small integers by tcgen05.mma, whose exact result stands for a recording: no such GPU was asked."""
    a, b = small(m, k, seed=1), small(n, k, seed=2)
    buffers = {"A": source("f16", a), "B": source("f16", b), "C": {**result("f32", m, n), "out": a @ b.T}}
    maps = [half_map("A", m, k, rows[0]), half_map("B", n, k, rows[1])]
    return parts(name, "sm_100a", grid, (128,), buffers, [*maps, ptr("C"), i32(n), i32(k)], **more)


@case
def cancelled_launches():
    rows = small(24, 200, seed=1)
    buffers = {"rows": source("f32", rows), "sums": {**result("f32", 24), "out": rows.sum(axis=1)}}
    return parts("cancelled_launches", "sm_100a", (24,), (128,), buffers, [ptr("rows"), ptr("sums"), i32(200)])


@case
def gemm_tcgen05():
    return blackwell("gemm_tcgen05", 256, 64, 256, (1, 2), (128, 64), dynamic_smem=49152)


@case
def gemm_tcgen05_pair():
    return blackwell("gemm_tcgen05_pair", 256, 128, 192, (2, 2), (128, 32), cluster=(2, 1, 1))


@case
def gemm_mxfp8():
    m, n, k = 128, 64, 384
    a, b = small(m, k, seed=1), small(n, k, seed=2)
    rng = np.random.default_rng(3)
    scale_a, scale_b = rng.integers(125, 131, (m, k // 32)), rng.integers(125, 131, (n, k // 32))
    x, y = (v * np.repeat(2.0 ** (s - 127), 32, axis=1) for v, s in ((a, scale_a), (b, scale_b)))
    buffers = {
        "A": source("e4m3", a), "B": source("e4m3", b), "SA": source("u8", scale_a), "SB": source("u8", scale_b),
        "C": {**result("f32", m, n), "out": x @ y.T},
    }  # fmt: skip
    maps = [tensor_map("A", "UINT8", "e4m3", m, k, (128, m)), tensor_map("B", "UINT8", "e4m3", n, k, (128, n))]
    params = [*maps, ptr("SA"), ptr("SB"), ptr("C"), i32(n), i32(k)]
    return parts("gemm_mxfp8", "sm_100a", (1, 1), (128,), buffers, params)


@case
def gemm_specialised():
    m, n, k = 192, 128, 128
    c = tensor_map("C", "FLOAT32", "f32", m, n, (64, 64))
    return product(
        "gemm_specialised", m, n, k, (2,), block=384, params=[c, i32(m), i32(n), i32(k)], dynamic_smem=5 * 16384
    )


@case
def stream_k():
    m, n, k = 128, 64, 320
    slices = k // 64
    total = m // 64 * n // 64 * slices
    c = tensor_map("C", "FLOAT32", "f32", m, n, (64, 64))
    a, b = small(m, k, seed=1), small(n, k, seed=2)  # so that the order of the reductions changes no bit
    params = [c, i32(n // 64), i32(slices), i32(-(-total // 3)), i32(total)]
    return product("stream_k", m, n, k, (3,), a=a, b=b, params=params)


@case
def gemm_fp8_scaled():
    n, k = 64, 384
    buffers = {
        "A": source("e4m3", random(n, k, seed=1)), "B": source("e4m3", random(n, k, seed=2)),
        "scale_a": source("f32", np.exp2(random(3, n, seed=3))), "scale_b": source("f32", np.exp2(random(3, seed=4))), "C": result("f32", n, n),
    }  # fmt: skip
    maps = [tensor_map(b, "UINT8", "e4m3", n, k, (128, 64)) for b in "AB"]
    return parts("gemm_fp8_scaled", "sm_90a", (1, 1), (128,), buffers, [*maps, ptr("scale_a"), ptr("scale_b"), ptr("C"), i32(n), i32(n), i32(k)])  # fmt: skip


@case
def attention_overlapped():
    queries, keys = 128, 192
    buffers = {name: source("f16", random(n, 64, seed=s)) for s, (name, n) in enumerate([("Q", queries), ("K", keys), ("V", keys)])}  # fmt: skip
    maps = [half_map("Q", queries, 64), half_map("K", keys, 64), half_map("V", keys, 64)]
    buffers["O"] = result("f16", queries, 64)
    return parts("attention_overlapped", "sm_90a", (2,), (128,), buffers, [*maps, ptr("O"), i32(keys), f32(64**-0.5 * np.log2(np.e))], dynamic_smem=5 * 8192)  # fmt: skip


def write(folder, name):
    """The case of one program, with its line information."""
    made = CASES[name]()
    text = nvcc(SOURCES / name / "kernel.cu", f"-arch={made['target']}", "-lineinfo")
    if made.pop("keep", None) is None:
        text = one_kernel(text, made["entry"])
    text = re.sub(r'(\.file\s+\d+ )"[^"]*?([^"/]+)"', r'\1"\2"', text)  # no paths of this machine
    about = {"origin": "nvcc 13.0 -lineinfo", "source": "kernel.cu", "target": made["target"]}
    write_case(Path(folder) / name, text, made, about)


if __name__ == "__main__":
    make(write, CASES, __doc__)
