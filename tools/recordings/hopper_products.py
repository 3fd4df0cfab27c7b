# ruff: noqa: D103 (the name of a case says what it is)
"""Cases of matrix products, of pipelines of copies and products, and of tensor maps that a kernel makes."""

import numpy as np

from case_files import f32, i32, ptr, random, result, small, source
from hopper_parts import case, tensor_map

# ---- matrix products ------------------------------------------------------------------------------


def gemm(entry, dtype, data_type, m, n, k, *, per_slice, a=None, b=None, b_type=None, extra=(), grid=None, **more):
    """The parts that most products share: A [m, k] and B [n, k] with maps of 128-byte slices, C [m, n]."""
    name, b_data = b_type or (dtype, data_type)
    return {
        "source": "gemms", "entry": entry, "grid": grid or (n // 64, m // 64, 1), "block": (128, 1, 1),
        "buffers": {"A": source(dtype, random(m, k, seed=1) if a is None else a), "B": source(name, random(n, k, seed=2) if b is None else b),
                    "C": result("f32", m, n), **{key: value for key, value, _ in extra}},
        "params": [tensor_map("A", data_type, (k, m), (per_slice, 64), swizzle="128B"), tensor_map("B", b_data, (k, n), (per_slice, 64), swizzle="128B"),
                   *(p for *_, p in extra), ptr("C"), i32(n), i32(k)],
        **more,
    }  # fmt: skip


@case
def gemm_ss_f16():
    return gemm("gemm_ss_f16", "f16", "FLOAT16", 128, 128, 192, per_slice=64)


@case
def gemm_ss_tf32():
    return gemm("gemm_ss_tf32", "f32", "FLOAT32", 64, 64, 96, per_slice=32)


@case
def gemm_fp8_scaled():
    scales = [
        ("sa", source("f32", np.exp2(random(3, 64, seed=3))), ptr("sa")),
        ("sb", source("f32", np.exp2(random(3, seed=4))), ptr("sb")),
    ]
    return gemm("gemm_fp8_scaled", "e4m3", "UINT8", 64, 64, 384, per_slice=128, extra=scales)


@case
def gemm_fp8_mixed():
    return gemm(
        "gemm_fp8_mixed",
        "e5m2",
        "UINT8",
        64,
        64,
        256,
        per_slice=128,
        b_type=("e4m3", "UINT8"),
        a=random(64, 256, seed=1, scale=20),
    )


@case
def gemm_rs_bf16():
    parts = gemm("gemm_rs_bf16", "bf16", "BFLOAT16", 64, 64, 192, per_slice=64)
    return {**parts, "params": [ptr("A"), *parts["params"]]}


@case
def gemm_rs_fp8():
    parts = gemm("gemm_rs_fp8", "e4m3", "UINT8", 64, 64, 256, per_slice=128, b_type=("e5m2", "UINT8"))
    return {**parts, "params": [ptr("A"), *parts["params"]]}


@case
def gemm_sparse_f16():
    rng = np.random.default_rng(5)
    pairs = np.array([p | q << 2 for p in range(4) for q in range(p + 1, 4)])
    nibbles = pairs[rng.integers(0, len(pairs), (2, 128, 8))]
    meta = (nibbles << 4 * np.arange(8)).sum(-1)
    return {
        "source": "gemms", "entry": "gemm_sparse_f16", "grid": (1, 1, 1), "block": (128, 1, 1),
        "buffers": {"A": source("f16", random(2048, seed=1)), "B": source("f16", random(4096, seed=2)), "E": source("u32", meta), "C": result("f32", 64, 64)},
        "params": [ptr("A"), ptr("B"), ptr("E"), ptr("C")],
    }  # fmt: skip


@case
def gemm_s8():
    k = 192
    return {
        "source": "gemms", "entry": "gemm_s8", "grid": (1, 1, 1), "block": (128, 1, 1),
        "buffers": {"A": source("u8", small(64, k, seed=1, top=127).astype(np.int8).view(np.uint8)), "B": source("u8", small(32, k, seed=2, top=127).astype(np.uint8)), "C": result("s32", 64, 32)},
        "params": [tensor_map("A", "UINT8", (k, 64), (64, 64), swizzle="64B"), tensor_map("B", "UINT8", (k, 32), (64, 32), swizzle="64B"), ptr("C"), i32(k)],
    }  # fmt: skip


@case
def gemm_cp_async():
    k = 160
    return {
        "source": "gemms", "entry": "gemm_cp_async", "grid": (1, 1, 1), "block": (128, 1, 1),
        "buffers": {"A": source("f16", random(64, k, seed=1)), "B": source("f16", random(64, k, seed=2)), "C": result("f32", 64, 64)},
        "params": [ptr("A"), ptr("B"), ptr("C"), i32(k)],
    }  # fmt: skip


# ---- pipelines ------------------------------------------------------------------------------------


@case
def gemm_pingpong():
    m, n, k = 192, 128, 128
    return {
        "source": "pipelines", "entry": "gemm_pingpong", "grid": (2, 1, 1), "block": (384, 1, 1), "dynamic_smem": 3 * 16384 + 2 * 16384 + 1024,
        "buffers": {"A": source("f16", random(m, k, seed=1)), "B": source("f16", random(n, k, seed=2)), "C": result("f32", m, n)},
        "params": [tensor_map("A", "FLOAT16", (k, m), (64, 64), swizzle="128B"), tensor_map("B", "FLOAT16", (k, n), (64, 64), swizzle="128B"),
                   tensor_map("C", "FLOAT32", (n, m), (64, 64)), i32(m), i32(n), i32(k)],
    }  # fmt: skip


@case
def gemm_multicast():
    m, n, k = 128, 128, 256
    return {
        "source": "pipelines", "entry": "gemm_multicast", "grid": (2, 2, 1), "block": (128, 1, 1), "cluster": (2, 1, 1),
        "buffers": {"A": source("f16", random(m, k, seed=1)), "B": source("f16", random(n, k, seed=2)), "C": result("f32", m, n)},
        "params": [tensor_map("A", "FLOAT16", (k, m), (64, 64), swizzle="128B"), tensor_map("B", "FLOAT16", (k, n), (64, 32), swizzle="128B"), ptr("C"), i32(n), i32(k)],
    }  # fmt: skip


@case
def gemm_stream_k():
    m, n, k = 128, 128, 320
    slices = k // 64
    total = m // 64 * n // 64 * slices
    return {
        "source": "pipelines", "entry": "gemm_stream_k", "grid": (3, 1, 1), "block": (128, 1, 1),
        "buffers": {"A": source("f16", small(m, k, seed=1)), "B": source("f16", small(n, k, seed=2)), "C": result("f32", m, n)},
        "params": [tensor_map("A", "FLOAT16", (k, m), (64, 64), swizzle="128B"), tensor_map("B", "FLOAT16", (k, n), (64, 64), swizzle="128B"),
                   tensor_map("C", "FLOAT32", (n, m), (64, 64)), i32(n // 64), i32(slices), i32(-(-total // 3)), i32(total)],
    }  # fmt: skip


@case
def attention():
    queries, keys = 128, 192
    maps = [
        tensor_map(b, "FLOAT16", (64, n), (64, 64), swizzle="128B")
        for b, n in (("Q", queries), ("K", keys), ("V", keys))
    ]
    return {
        "source": "pipelines", "entry": "attention", "grid": (2, 1, 1), "block": (128, 1, 1),
        "buffers": {"Q": source("f16", random(queries, 64, seed=1)), "K": source("f16", random(keys, 64, seed=2)), "V": source("f16", random(keys, 64, seed=3)), "O": result("f16", queries, 64)},
        "params": [*maps, ptr("O"), i32(keys), f32(0.18033688)],
    }  # fmt: skip


@case
def attention_overlapped():
    parts = attention()
    return {**parts, "source": "overlap", "entry": "attention_overlapped", "dynamic_smem": 5 * 8192 + 1024}


def plain_tiles(entry, *more):
    """A kernel of overlap.cu on 64x16 tiles that threads store."""
    count = 4096 if entry == "two_sets" else 1024
    return {
        "source": "overlap", "entry": entry, "grid": (1, 1, 1), "block": (128, 1, 1),
        "buffers": {"A": source("f16", random(count, seed=1)), "B": source("f16", random(count, seed=2)), "C": result("f32", 64, 64)},
        "params": [ptr("A"), ptr("B"), ptr("C"), *more],
    }  # fmt: skip


@case
def two_sets():
    return plain_tiles("two_sets")


@case
def swapped():
    return plain_tiles("swapped", i32(3))


@case
def cluster_ring():
    return {
        "source": "pipelines", "entry": "cluster_ring", "grid": (4, 1, 1), "block": (256, 1, 1), "cluster": (4, 1, 1),
        "buffers": {"x": source("u32", np.random.default_rng(1).integers(0, 1 << 31, 1024)), "y": result("u32", 4096)},
        "params": [ptr("x"), ptr("y")],
    }  # fmt: skip


@case
def bulk_stream():
    return {
        "source": "pipelines", "entry": "bulk_stream", "grid": (2, 1, 1), "block": (256, 1, 1), "cluster": (2, 1, 1),
        "buffers": {"x": source("f32", random(14 * 256, seed=1)), "y": result("f32", 14 * 256)},
        "params": [ptr("x"), ptr("y"), i32(7)],
    }  # fmt: skip


# ---- tensor maps made on the device ---------------------------------------------------------------


@case
def map_replace():
    rows, stride = 20, 72
    return {
        "source": "maps", "entry": "map_replace", "grid": (3, 1, 1), "block": (64, 1, 1),
        "buffers": {"x": source("f16", random(3 * rows, stride, seed=1)), "maps": result("u8", 3, 128), "y": result("f16", 3, 1024)},
        "params": [tensor_map("x", "FLOAT16", (70, 8), (64, 16), strides=[256], swizzle="128B"), ptr("x"), ptr("maps"), ptr("y"), i32(rows), i32(stride)],
        "unchecked": ("maps",),
    }  # fmt: skip


@case
def map_build():
    return {
        "source": "maps", "entry": "map_build", "grid": (1, 1, 1), "block": (64, 1, 1),
        "buffers": {"x": source("f32", random(24, 40, seed=1)), "maps": result("u8", 128), "y": result("f32", 256)},
        "params": [ptr("x"), ptr("maps"), ptr("y"), i32(40), i32(24)], "unchecked": ("maps",),
    }  # fmt: skip
