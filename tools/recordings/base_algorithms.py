# ruff: noqa: D103 (the name of a case says what it is; its source says why)
"""Cases of whole algorithms, and of libraries."""

import numpy as np

from base_parts import case, cuda, floats, given, integers, pointers
from case_files import changed, f32, i32, random, result, small, source

# ---- algorithms -----------------------------------------------------------------------------------


@case
def hash_table():
    n = 600
    buffers = {
        "keys": source("u32", np.random.default_rng(1).integers(0, 300, n)),
        "slots": result("u64", 1024),
        "counts": result("u32", 1024),
        "found": result("u32", n),
    }
    return cuda(1, 128, buffers, [*pointers(buffers), i32(n)])


def graph(nodes, seed=1):
    """Rows and columns of a random sparse matrix."""
    rng = np.random.default_rng(seed)
    degrees = rng.integers(0, 9, nodes)
    degrees[[3, nodes // 2]] = 60
    return np.r_[0, np.cumsum(degrees)], rng.integers(0, nodes, degrees.sum())


@case
def work_queue():
    nodes = 150
    rows, columns = graph(nodes)
    buffers = {
        "rows": source("s32", rows),
        "columns": source("s32", columns),
        "distance": changed("s32", np.full(nodes, 1 << 30)),
        "queue": result("s32", 20000),
    }
    return cuda(3, 64, buffers, [*pointers(buffers), i32(nodes)], unchecked=("queue",))


@case
def radix_sorts():
    buffers = {"x": source("u32", integers(768, 32)), "out": result("u32", 768)}
    return cuda(3, 256, buffers, pointers(buffers))


@case
def sparse_rows():
    n = 50
    rows, columns = graph(n)
    buffers = {
        "rows": source("s32", rows),
        "columns": source("s32", columns),
        "values": source("f32", random(len(columns))),
        "x": source("f64", random(n, seed=1)),
        "y": result("f64", n),
        "longest": result("f32", n),
    }
    return cuda(7, 256, buffers, [*pointers(buffers), i32(n)])


@case
def fourier():
    buffers = {"in": source("f32", random(2, 256, 2)), "out": result("f32", 2, 256, 2)}
    return cuda(2, 64, buffers, pointers(buffers))


@case
def bodies():
    n = 128
    buffers = {
        "positions": changed("f32", np.abs(random(n, 4))),
        "velocities": changed("f32", random(n, 4, seed=1, scale=0.1)),
    }
    return cuda(1, n, buffers, [*pointers(buffers), i32(n), i32(2), f32(0.01)], dynamic_smem=64 * 16)


@case
def random_walks():
    buffers = {"prices": result("f32", 256), "inside": result("u32", 1)}
    return cuda(2, 128, buffers, [*pointers(buffers), f32(100), f32(0.0003), f32(0.11), i32(12)])


@case
def aes_blocks():
    n = 300
    buffers = {
        "key": source("u32", integers(4, 32)),
        "text": source("u32", integers(4 * n, 32, 1)),
        "cipher": result("u32", n, 4),
    }
    return cuda(2, 256, buffers, [*pointers(buffers), i32(n)])


@case
def digests():
    n = 128
    buffers = {
        "messages": source("u8", np.random.default_rng(1).integers(0, 256, n + 100)),
        "out": result("u32", n, 8),
        "lowest": changed("u32", [2**32 - 1]),
    }
    return cuda(2, 64, buffers, [*pointers(buffers), i32(n)])


@case
def chacha():
    blocks = 50
    buffers = {
        "key": source("u32", integers(11, 32)),
        "text": source("u32", integers(16 * blocks, 32, 1)),
        "cipher": result("u32", blocks, 16),
    }
    return cuda(2, 128, buffers, [*pointers(buffers), i32(blocks)])


@case
def edit_distances():
    pairs, length, rng = 4, 64, np.random.default_rng(1)
    a, b = rng.integers(97, 101, (2, pairs, length))
    b[1, 3:] = a[1, :-3]
    buffers = {"a": source("u8", a), "b": source("u8", b), "out": result("s32", pairs)}
    return cuda(pairs, 32, buffers, [*pointers(buffers), i32(length)])


@case
def string_search():
    n, chunk = 2000, 16
    buffers = {
        "text": source("u8", np.random.default_rng(1).integers(97, 101, n)),
        "pattern": source("u8", list(b"ab.ad")),
    }
    outputs = {"hits": result("s32", 128), "words": result("s32", 128), "first": changed("u32", [2**32 - 1])}
    return cuda(2, 64, {**buffers, **outputs}, [*pointers(buffers), i32(5), *pointers(outputs), i32(n), i32(chunk)])


@case
def small_systems():
    n = 24
    buffers = {
        "matrices": source("f64", random(n, 8, 8)),
        "right": source("f64", random(n, 8, seed=1)),
        "solution": result("f64", n, 8),
        "determinant": result("f64", n),
    }
    return cuda(2, 96, buffers, pointers(buffers))


@case
def private_histograms():
    n = 700
    pixels = np.random.default_rng(1).normal(128, 40, 4 * n).clip(0, 255)
    buffers = {"pixels": source("u8", pixels), "bins": result("u32", 64), "entropy": result("f32", 1)}
    return cuda(1, 128, buffers, [*pointers(buffers), i32(n)])


@case
def morphology():
    width, height = 24, 40
    buffers = {
        "in": source("u32", np.random.default_rng(1).integers(0, 1 << 32, (height, width))),
        "out": result("u32", height, width),
    }
    return cuda((2, 3), 128, buffers, [*pointers(buffers), i32(width), i32(height)])


@case
def life():
    width, height = 4, 96
    buffers = {
        "in": source("u32", np.random.default_rng(1).integers(0, 1 << 32, (height, width))),
        "out": result("u32", height, width),
    }
    return cuda(
        1, 192, buffers, [*pointers(buffers), i32(width), i32(height), i32(9)], dynamic_smem=2 * 4 * width * height
    )


@case
def stencil_3d():
    nx, ny, nz = 32, 8, 9
    buffers = {"in": source("f64", random(nz, ny, nx)), "out": result("f64", nz, ny, nx)}
    return cuda((2, 2), (16, 4), buffers, [*pointers(buffers), i32(nx), i32(ny), i32(nz)])


# ---- libraries ----------------------------------------------------------------------------------


@case
def block_primitives():
    n = 192
    buffers = {"x": source("u32", np.random.default_rng(1).integers(0, 700, 2 * n)), "keys": result("u32", 2 * n), "values": result("u16", 2 * n), "scanned": result("s32", 2 * n),
               "bins": result("u32", 2, 16), "flags": result("s32", 2 * n), "sums": result("f32", 2)}  # fmt: skip
    return cuda(2, 64, buffers, pointers(buffers))


@case
def merges():
    buffers = {
        "x": source("f32", np.round(random(128), 1)),
        "entries": result("u32", 128, 2),
        "warps": result("s64", 192),
        "found": result("s32", 64),
        "products": result("f64", 64),
    }
    return cuda(1, 64, buffers, pointers(buffers), options=["--expt-extended-lambda"])


@case
def pipeline_roles():
    rounds = 7
    buffers = {"x": source("s32", small(rounds * 64, top=50)), "out": result("s32", 96)}
    return cuda(1, 64, buffers, [*pointers(buffers), i32(rounds)])


@case
def small_floats():
    n = 288
    buffers = {
        "x": given("f32", floats(n, "f32", 1, wild=0.3)),
        "wide": given("f64", floats(n, "f64", 2, wild=0.3)),
        "codes": result("u8", 11, n),
        "back": result("u32", 2, n),
    }
    return cuda(3, 96, buffers, [*pointers(buffers), i32(n)])


@case
def standard_library():
    n = 100
    buffers = {
        "x": source("f64", random(n)),
        "out": result("f64", n, 3, 2),
        "words": result("u64", n),
        "total": result("f64", 1),
        "top": result("u64", 1),
    }
    return cuda(2, 64, buffers, [*pointers(buffers), i32(n)])
