# ruff: noqa: D103 (the name of a case says what it is; its source says why)
"""Makes the case directories of the kernels in base/, ready to be recorded on a GPU by record.py.

base_cases.py FOLDER [NAME...]        needs nvcc for the CUDA sources, Triton and numba-cuda for those in Python, NumPy and ml_dtypes
"""

import importlib.metadata
import os
import sys
from pathlib import Path

import contractions_ptx
import ml_dtypes
import numpy as np
from case_files import (
    changed,
    f32,
    i32,
    nvcc,
    ptr,
    random,
    result,
    small,
    source,
    write_case,
)

HERE = Path(__file__).parent
CASES = {}
FLOATS = {"f16": (np.uint16, 10), "bf16": (np.uint16, 7), "f32": (np.uint32, 23), "f64": (np.uint64, 52)}


def case(function):
    """Register a function that gives the parts of a case under its name."""
    CASES[function.__name__] = function
    return function


def cuda(grid, block, buffers, params, *, target="sm_80", file=None, **more):
    """A CUDA case, whose source has its name unless ``file`` is given."""
    return {"grid": triple(grid), "block": triple(block), "buffers": buffers, "params": params, "target": target, "file": file, **more}  # fmt: skip


def triple(size):
    """Three dimensions."""
    return (*size, 1, 1)[:3] if isinstance(size, tuple) else (size, 1, 1)


def pointers(buffers):
    """One argument per buffer, in order."""
    return [ptr(name) for name in buffers]


def integers(n, bits, seed=0):
    """Unsigned integers: edges, powers of two with neighbours, runs of ones, values of all magnitudes, zeros."""
    rng, top = np.random.default_rng(seed), (1 << bits) - 1
    edges = [0, 1, 2, 3, top, top - 1, top >> 1, (top >> 1) + 1, (top >> 1) + 2, top // 3, 10, 255, 256]
    edges += [(1 << k) + d for k in range(2, bits - 1, 3) for d in (-1, 0)]
    edges = rng.permutation(np.array(edges, np.uint64))[: n // 2]
    rest = rng.integers(0, top, n - len(edges), np.uint64, endpoint=True) >> rng.integers(
        0, bits, n - len(edges)
    ).astype(np.uint64)
    return rng.permutation(np.r_[edges, rest])


def floats(n, dtype, seed=0, *, wild=0.5):
    """Bit patterns of floats: specials, subnormals and any bits for a share of ``wild``, else numbers of a few magnitudes."""
    rng, (raw, fraction) = np.random.default_rng(seed), FLOATS[dtype]
    bits = raw(0).nbytes * 8
    sign, one = 1 << (bits - 1), ((1 << (bits - 2 - fraction)) - 1) << fraction
    infinite = one * 2 + (1 << fraction)
    positive = [
        0,
        1,
        (1 << fraction) - 1,
        1 << fraction,
        one,
        one + 1,
        one - 1,
        infinite - 1,
        infinite,
        infinite + 1,
        infinite + (1 << fraction >> 1) + 5,
    ]
    specials = np.array([p | s for p in positive for s in (0, sign)], np.uint64).astype(raw)
    strange = np.r_[
        specials,
        rng.integers(0, 1 << bits, n, np.uint64, endpoint=False).astype(raw)
        if bits < 64
        else rng.integers(0, 1 << 64, n, np.uint64),
    ]
    number = rng.standard_normal(n) * 4.0 ** rng.integers(-3, 4, n)
    kind = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}[dtype]
    plain = number.astype(kind).view(raw)
    count = int(n * wild)
    return rng.permutation(np.r_[strange[:count], plain[: n - count]])


def given(dtype, raw, **more):
    """A buffer of bit patterns that the kernel reads."""
    stored = {"f32": np.float32, "f64": np.float64, "f16": np.float16}.get(dtype)
    return {"dtype": dtype, "in": raw.view(stored) if stored else raw, "role": "in", **more}


# ---- arithmetic -----------------------------------------------------------------------------------


@case
def bignum_mod():
    n = 64
    words = [integers(n * 8, 32, seed=s) for s in (1, 2)]
    for w in words:
        w[:16] = 2**32 - 1
    buffers = {
        "a": source("u32", words[0]),
        "b": source("u32", words[1]),
        "power": result("u32", n, 8),
        "borrows": result("u32", n),
        "wide": result("u64", n, 2),
    }
    return cuda(1, 64, buffers, [*pointers(buffers), i32(n)])


@case
def int_widths():
    n = 192
    buffers = {"x": source("u32", integers(n, 32, 1)), "y": source("u32", integers(n, 32, 2)), "wx": source("u64", integers(n, 64, 3)), "wy": source("u64", integers(n, 64, 4)),
               "narrow": result("u32", n, 20), "wide": result("u64", n, 12)}  # fmt: skip
    return cuda(3, 64, buffers, [*pointers(buffers), i32(n)])


@case
def bit_fields():
    n = 192
    lengths = np.random.default_rng(5).permutation(np.r_[np.arange(66), 255, 256, integers(n - 68, 32, 3)])
    positions = np.random.default_rng(6).permutation(np.r_[np.arange(66), 255, 256, integers(n - 68, 32, 2)])
    buffers = {"x": source("u32", integers(n, 32, 1)), "y": source("u32", positions), "z": source("u32", lengths), "wide": source("u64", integers(n, 64, 4)),
               "out": result("u32", n, 40), "out64": result("u64", n, 10)}  # fmt: skip
    return cuda(3, 64, buffers, [*pointers(buffers), i32(n)])


@case
def dot_products():
    n = 160
    buffers = {
        "x": source("u32", integers(n, 32, 1)),
        "y": source("u32", integers(n, 32, 2)),
        "out": result("s32", 9, n),
    }
    return cuda(2, 96, buffers, [*pointers(buffers), i32(n)])


@case
def simd_in_words():
    n = 192
    buffers = {
        "x": source("u32", integers(n, 32, 1)),
        "y": source("u32", integers(n, 32, 2)),
        "z": source("u32", integers(n, 32, 3)),
        "out": result("u32", n, 48),
    }
    return cuda(3, 64, buffers, [*pointers(buffers), i32(n)])


def packed(dtype, count):
    """A function of three vectors of pairs that leaves ``count`` words."""
    n = 192
    x, y = floats(2 * n, dtype, 1), floats(2 * n, dtype, 2)
    y[::7] = x[::7]
    buffers = {
        "x": given(dtype, x),
        "y": given(dtype, y),
        "z": given(dtype, floats(2 * n, dtype, 3)),
        "out": result("u32", count, n),
    }
    return cuda(3, 64, buffers, [*pointers(buffers), i32(n)])


@case
def half_math():
    return packed("f16", 48)


@case
def bf16_math():
    return packed("bf16", 42)


@case
def bf16_math_sm90():
    return {**packed("bf16", 42), "target": "sm_90", "file": "bf16_math"}


@case
def fp8_formats():
    n = 320
    wide = floats(n, "f64", 2)
    wide[::3] = floats(n, "f32", 3)[::3].view(np.float32).astype(np.float64).view(np.uint64)
    codes = np.arange(n).astype(np.uint16) * np.uint16(257 * 3)
    buffers = {
        "x": given("f32", floats(n, "f32", 1, wild=0.2)),
        "wide": given("f64", wide),
        "codes": source("u16", codes),
        "narrow": result("u16", 14, n),
        "back": result("u32", 3, n),
    }
    return cuda(3, 128, buffers, [*pointers(buffers), i32(n)])


@case
def fp8_formats_sm90():
    return {**fp8_formats(), "target": "sm_90", "file": "fp8_formats"}


@case
def double_functions():
    n = 160
    buffers = {
        "x": given("f64", floats(n, "f64", 1, wild=0.3)),
        "y": given("f64", floats(n, "f64", 2, wild=0.3)),
        "out": result("u64", 58, n),
    }
    return cuda(2, 96, buffers, [*pointers(buffers), i32(n)])


@case
def far_angles():
    n, rng = 256, np.random.default_rng(1)
    angles = [
        ((rng.random(n) - 0.5) * 2.0 ** rng.integers(10, top, n)).astype(kind)
        for kind, top in ((np.float32, 127), (np.float64, 1023))
    ]
    angles[0][:3], angles[1][:3] = [np.inf, -np.nan, 1.5e38], [np.inf, np.nan, 6381956970095103 * 2.0**797]
    buffers = {
        "x": source("f32", angles[0]),
        "wide": source("f64", angles[1]),
        "out": result("u32", 3, n),
        "out64": result("u64", 3, n),
    }
    return cuda(2, 128, buffers, [*pointers(buffers), i32(n)])


@case
def float_functions():
    n = 160
    buffers = {
        "x": given("f32", floats(n, "f32", 1, wild=0.3)),
        "y": given("f32", floats(n, "f32", 2, wild=0.3)),
        "out": result("u32", 58, n),
    }
    return cuda(2, 96, buffers, [*pointers(buffers), i32(n)])


@case
def float_functions_fast():
    return {**float_functions(), "file": "float_functions", "options": ["-use_fast_math"]}


@case
def roundings():
    n = 256
    x, y = (floats(n, "f32", s) for s in (1, 2))
    p, q = (floats(n, "f64", s) for s in (3, 4))
    near = np.array(
        [
            0.5,
            1.5,
            -0.5,
            -2.5,
            2.0**31,
            -(2.0**31),
            2.0**31 - 0.5,
            2.0**32,
            2.0**63,
            2.0**64,
            -(2.0**63),
            126.5,
            65503.9,
            32767.5,
            -32768.5,
            1e-45,
        ]
    )
    x[::16], p[::16] = near.astype(np.float32).view(np.uint32), near.view(np.uint64)
    buffers = {"x": given("f32", x), "y": given("f32", y), "p": given("f64", p), "q": given("f64", q), "whole": source("s64", integers(n, 64, 5).view(np.int64)),
               "out": result("u32", 36, n), "out64": result("u64", 15, n)}  # fmt: skip
    return cuda(2, 128, buffers, [*pointers(buffers), i32(n)])


@case
def dynamic_programming():
    n = 192
    buffers = {
        "x": source("u32", integers(n, 32, 1)),
        "y": source("u32", integers(n, 32, 2)),
        "z": source("u32", integers(n, 32, 3)),
        "out": result("u32", 25, n),
    }
    return cuda(3, 64, buffers, [*pointers(buffers), i32(n)])


@case
def complex_numbers():
    n = 100
    buffers = {
        "c": source("f32", random(n, 3, 2)),
        "d": source("f64", random(n, 3, 2, seed=1)),
        "out": result("f32", n, 3, 2),
        "out64": result("f64", n, 3, 2),
    }
    return cuda(2, 64, buffers, [*pointers(buffers), i32(n)])


@case
def cofactors():
    n = 100
    buffers = {
        "m": source("f32", random(n, 16)),
        "d": source("f64", random(n, 16, seed=1)),
        "out": result("f32", n, 10),
        "out64": result("f64", n, 10),
    }
    return cuda(2, 64, buffers, [*pointers(buffers), i32(n)])


@case
def rays():
    width, height = 40, 24
    spheres = np.c_[random(6, 3, scale=0.7), np.abs(random(6, seed=1, scale=0.3)) + 0.1]
    buffers = {
        "spheres": source("f32", spheres),
        "triangle": source("f32", [[-1, -1, 1], [1, -1, 1.5], [0, 1.2, 2]]),
        "image": result("f32", height, width, 4),
    }
    return cuda(
        (3, 3), (16, 8), buffers, [ptr("spheres"), i32(6), ptr("triangle"), ptr("image"), i32(width), i32(height)]
    )


@case
def half_expressions():
    n = 192
    buffers = {
        "x": given("f16", floats(8 * n, "f16", 1, wild=0.1)),
        "y": given("bf16", floats(8 * n, "bf16", 2, wild=0.1)),
        "out": result("u32", 12, n),
        "out_bf": result("u32", 12, n),
    }
    return cuda(3, 64, buffers, [*pointers(buffers), i32(n)])


@case
def half_expressions_sm90():
    return {**half_expressions(), "target": "sm_90", "file": "half_expressions"}


@case
def contractions():
    """Programs of contractions_ptx.py, with numbers of few digits and of many."""
    text, types = contractions_ptx.kernel(200)
    raw, kinds = (
        np.zeros((len(types), 128), np.uint8),
        {"f16x2": np.float16, "bf16x2": ml_dtypes.bfloat16, "f64": np.float64},
    )
    for k, type in enumerate(types):
        numbers = random(16, seed=k, scale=1e-30 if type == "ftz.f32" and k % 2 else 2).astype(
            kinds.get(type, np.float32)
        )
        raw[k, : numbers.nbytes] = numbers.view(np.uint8)
    buffers = {"a": source("u8", raw), "b": result("u8", len(types), 128)}
    return {
        "ptx": text,
        "grid": (len(types), 1, 1),
        "block": (1, 1, 1),
        "buffers": buffers,
        "params": pointers(buffers),
    }


# ---- memory ---------------------------------------------------------------------------------------


@case
def stencil_2d():
    buffers = {"in": source("f32", random(19, 50)), "out": result("f32", 19, 50)}
    return cuda((2, 3), (32, 8), buffers, [*pointers(buffers), i32(50), i32(19)])


@case
def swizzled_transpose():
    buffers = {"in": source("u32", np.arange(64 * 96) * 2654435761 % 2**32), "out": result("u32", 96, 64)}
    return cuda((3, 2), 256, buffers, [*pointers(buffers), i32(96), i32(64)])


@case
def vector_accesses():
    n = 256
    raw = np.random.default_rng(1).integers(0, 256, 16 * n)
    raw[np.arange(3, 16 * n, 4)] &= 0x3F  # no infinities among the floats
    buffers = {"in": source("u8", raw), "out": result("u8", 22 * n), "packets": result("u8", n, 40)}
    return cuda(2, 128, buffers, [*pointers(buffers), i32(16 * n)])


@case
def local_arrays():
    n = 100
    buffers = {"x": source("f32", random(n)), "sorted": result("f32", n, 12), "order": result("u32", n)}
    return cuda(2, 64, buffers, [*pointers(buffers), i32(n)])


@case
def async_stages():
    tiles = 5
    n = 2 * tiles * 128
    buffers = {
        "x": source("f32", random(n)),
        "keys": source("u64", integers(n, 64)),
        "z": source("f32", random(n, 4, seed=1)),
        "out": result("f32", 256),
        "hashes": result("u64", 256),
    }
    return cuda(2, 128, buffers, [*pointers(buffers), i32(tiles)])


@case
def special_registers():
    threads = 2 * 2 * 2 * 40
    buffers = {"out": result("u32", threads, 32), "x": source("s32", np.zeros(4))}
    return cuda((2, 2, 2), (5, 4, 2), buffers, pointers(buffers), dynamic_smem=256)


@case
def cache_hints():
    n = 64
    buffers = {
        "x": source("u32", integers(n, 32)),
        "out": result("u32", n),
        "wide": result("u64", n),
        "scratch": result("u32", n, 32),
    }
    return cuda(1, 64, buffers, pointers(buffers))


# ---- barriers, warps, atomics ---------------------------------------------------------------------


@case
def split_barrier():
    rounds = 6
    buffers = {"x": source("s32", small(rounds * 256, top=50)), "out": result("s32", 128)}
    return cuda(1, 256, buffers, [*pointers(buffers), i32(rounds)])


@case
def named_barriers():
    rounds = 7
    buffers = {"x": source("s32", small(rounds * 64, top=50)), "out": result("s32", 128)}
    return cuda(2, 192, buffers, [*pointers(buffers), i32(rounds)])


@case
def barrier_votes():
    buffers = {"x": source("s32", small(3 * 150, top=45)), "out": result("s32", 3 * 150, 8)}
    return cuda(3, 150, buffers, pointers(buffers))


@case
def warp_scans():
    n = 144  # half a warp is left over
    buffers = {
        "x": source("s32", small(n, top=99)),
        "heads": source("u8", small(n, seed=1, top=60) + 60),
        "out": result("s32", 8, n),
        "wide": result("f64", n),
    }
    return cuda(2, 96, buffers, [*pointers(buffers), i32(n)])


@case
def bitonic_sorts():
    buffers = {"x": source("u32", integers(1024, 32)), "keys": result("u32", 1024), "places": result("u16", 1024)}
    return cuda(2, 512, buffers, pointers(buffers))


@case
def votes_and_matches():
    n = 128
    buffers = {
        "x": source("u32", np.random.default_rng(1).integers(0, 64, n)),
        "wide": source("u64", np.where(np.arange(n) < 32, 1 << 40, np.arange(n) << 33 | np.arange(n) % 6)),
        "out": result("u32", 17, n),
    }
    return cuda(2, 64, buffers, [*pointers(buffers), i32(n)])


@case
def tiles():
    n = 128
    buffers = {"x": source("s32", small(n, top=20)), "out": result("s32", 13, n)}
    return cuda(2, 64, buffers, [*pointers(buffers), i32(n)])


@case
def aggregated_atomics():
    n = 256
    buffers = {
        "x": source("s32", np.random.default_rng(1).integers(0, 100, 4 * n)),
        "kept": result("s32", 4 * n),
        "count": result("u32", 4),
        "bins": result("u32", 16),
    }
    return cuda(4, 32, buffers, [*pointers(buffers), i32(n)])


@case
def atomic_kinds():
    cells = np.zeros((4, 36), np.uint32)
    cells[2, [6, 22, 23]] = 2**32 - 1
    buffers = {
        "x": source("s32", np.random.default_rng(1).integers(0, 100, 128)),
        "cells": changed("u32", cells),
        "olds": result("s32", 2, 14),
    }
    return cuda(2, 64, buffers, pointers(buffers))


@case
def wide_atomics():
    buffers = {
        "x": source("s32", np.random.default_rng(1).integers(0, 16, 96)),
        "sums": result("u64", 6),
        "floats": result("f32", 8),
        "halves": result("u32", 8),
        "elected": result("s32", 96),
    }
    return cuda(2, 48, buffers, pointers(buffers), target="sm_90")


# ---- threads that wait for each other -------------------------------------------------------------


@case
def lookback_scan():
    tiles = 40
    buffers = {
        "x": source("s32", small(tiles * 128, top=1000)),
        "out": result("s32", tiles * 128),
        "states": result("u32", tiles, 2),
    }
    return cuda(tiles, 128, buffers, pointers(buffers))


@case
def flag_rings():
    rounds = 11
    buffers = {
        "x": source("s32", small(rounds * 32, top=1000)),
        "stage": result("s32", 3, rounds, 32),
        "flags": result("s32", 3, rounds),
        "out": result("s32", rounds, 32),
    }
    return cuda(3, 64, buffers, [*pointers(buffers), i32(rounds)])


@case
def lane_locks():
    buffers = {
        "x": source("s32", np.random.default_rng(1).integers(0, 1000, 64)),
        "product": result("u64", 1),
        "balances": result("s32", 10),
    }
    return cuda(2, 32, buffers, pointers(buffers))


@case
def grid_barrier():
    a = random(1, 384)[0].astype(np.float32)
    buffers = {"a": changed("f32", a), "b": result("f32", 384)}
    return cuda((2, 3, 1), (16, 4), buffers, [*pointers(buffers), i32(371), i32(6)], cooperative=True)


# ---- calls and the heap ---------------------------------------------------------------------------


@case
def device_heap():
    n = 128
    buffers = {"x": source("s32", small(n, top=40)), "out": result("s32", 2 * n)}
    return cuda(2, 64, buffers, [*pointers(buffers), i32(n)])


@case
def function_table():
    n = 150
    buffers = {
        "x": source("f32", random(n)),
        "picks": source("u8", np.random.default_rng(2).integers(0, 80, n)),
        "out": result("f32", n),
    }
    return cuda(2, 96, buffers, [*pointers(buffers), i32(n)])


@case
def virtual_shapes():
    n = 128
    buffers = {"x": source("f32", random(n)), "out": result("f32", n)}
    return cuda(2, 64, buffers, [*pointers(buffers), i32(n)])


@case
def deep_recursion():
    n = 40
    buffers = {"values": changed("s32", small(n, 16, top=99)), "out": result("s32", n, 3)}
    return cuda(1, 64, buffers, [*pointers(buffers), i32(n)])


@case
def printf_divergent():
    buffers = {"x": source("s32", np.arange(32) * 37 % 101 - 20), "counts": result("s32", 32)}
    return cuda(1, 32, buffers, pointers(buffers))


@case
def stack_room():
    n = 80
    buffers = {"x": source("s32", small(n, top=60)), "out": result("s32", n)}
    return cuda(2, 64, buffers, [*pointers(buffers), i32(n)])


@case
def jump_tables():
    n, size, rng = 100, 24, np.random.default_rng(5)
    code = rng.integers(0, 256, (4, size + 40))
    code[:, :size][rng.random((4, size)) < 0.2] = 0x45
    code[:, size:] = 0
    buffers = {
        "code": source("u8", np.r_[code[:, :size].reshape(-1), np.zeros(40, int)]),
        "x": source("s32", small(n, top=500)),
        "out": result("s32", n),
        "steps": result("s32", n),
    }
    return cuda(2, 64, buffers, [*pointers(buffers), i32(n), i32(size)])


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


# ---- Triton ---------------------------------------------------------------------------------------


def triton(grid, types, buffers, scalars, *, warps=4, **constants):
    """A Triton case: ``types`` in the order of the parameters, ``scalars`` after the buffers, ``constants`` last."""
    return {
        "grid": triple(grid),
        "block": (32 * warps, 1, 1),
        "buffers": buffers,
        "params": [*pointers(buffers), *scalars],
        "triton": (types, constants, warps),
    }


@case
def triton_layer_norm():
    columns = 200
    buffers = {
        "x": source("bf16", random(6, columns)),
        "weight": source("f32", random(columns, seed=1)),
        "bias": source("f32", random(columns, seed=2)),
        "out": result("bf16", 6, columns),
        "mean": result("f32", 6),
    }
    return triton(
        6, ("*bf16", "*fp32", "*fp32", "*bf16", "*fp32", "i32", "fp32"), buffers, [i32(columns), f32(1e-5)], BLOCK=256
    )


@case
def triton_softmax_max():
    buffers = {"x": source("f32", random(5, 300, scale=4)), "out": result("f32", 5, 300), "index": result("s32", 5)}
    return triton(5, ("*fp32", "*fp32", "*i32", "i32"), buffers, [i32(300)], BLOCK=512)


@case
def triton_recurrence():
    n = 1000
    buffers = {
        "decay": source("f32", 1 - np.abs(random(n, scale=0.1))),
        "x": source("f32", random(n, seed=1)),
        "out": result("f32", n),
    }
    return triton(2, ("*fp32", "*fp32", "*fp32", "i32"), buffers, [i32(n)], BLOCK=512)


@case
def triton_counts():
    n = 900
    buffers = {
        "x": source("s32", np.random.default_rng(1).integers(0, 64, n)),
        "bins": result("s32", 64),
        "uniques": result("s32", 16),
    }
    return triton(4, ("*i32", "*i32", "*i32", "i32"), buffers, [i32(n)], BLOCK=256, BINS=64)


@case
def triton_dropout():
    n = 700
    buffers = {"x": source("f32", random(n)), "out": result("f32", n)}
    return triton(3, ("*fp32", "*fp32", "i32", "i32", "fp32"), buffers, [i32(n), i32(1234), f32(0.75)], BLOCK=256)


@case
def triton_locked_sums():
    buffers = {
        "x": source("s32", small(12, 100, top=99)),
        "lock": result("s32", 1),
        "total": result("s32", 100),
        "out": result("s32", 12),
    }
    return triton(12, ("*i32", "*i32", "*i32", "*i32", "i32"), buffers, [i32(100)], BLOCK=128)


@case
def triton_fp8_quantise():
    columns = 200
    buffers = {
        "x": source("f32", random(6, columns)),
        "codes": result("e5m2", 6, columns),
        "scales": result("f32", 6),
        "back": result("f32", 6, columns),
    }
    return triton(6, ("*fp32", "*fp8e5", "*fp32", "*fp32", "i32"), buffers, [i32(columns)], BLOCK=256)


@case
def triton_functions():
    n = 300
    buffers = {
        "x": source("f32", random(n, scale=3)),
        "y": source("f32", random(n, seed=1)),
        "out": result("f32", 7, n),
    }
    return triton(2, ("*fp32", "*fp32", "*fp32", "i32"), buffers, [i32(n)], BLOCK=256)


@case
def triton_batched_product():
    m, n, k = 50, 40, 100
    buffers = {
        "a": source("s8", small(m, k, top=127)),
        "b": source("s8", small(k, n, seed=1, top=127)),
        "out": result("s32", m, n),
    }
    return triton(
        (2, 2), ("*i8", "*i8", "*i32", "i32", "i32", "i32"), buffers, [i32(m), i32(n), i32(k)], BM=32, BN=32, BK=32
    )


@case
def triton_sort_gather():
    places = np.random.default_rng(1).integers(0, 64, (8, 64))
    buffers = {
        "x": source("s32", small(8, 64, top=1000)),
        "places": source("s32", places),
        "out": result("s32", 8, 64),
        "flipped": result("s32", 8, 64),
    }
    return triton(1, ("*i32", "*i32", "*i32", "*i32"), buffers, [], ROWS=8, COLUMNS=64)


@case
def triton_rotary():
    buffers = {
        "x": source("f32", random(5, 256)),
        "angles": source("f32", random(128, seed=1)),
        "out": result("f32", 5, 256),
    }
    return triton(5, ("*fp32", "*fp32", "*fp32", "i32"), buffers, [i32(100)], HALF=128)


# ---- numba ----------------------------------------------------------------------------------------


def array(buffers, name, shape, size):
    """The arguments that numba passes for an array: two handles, counts, the data, the shape and the strides in bytes."""
    strides = [size * int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
    numbers = [{"kind": "scalar", "dtype": "s64", "value": int(v)} for v in (np.prod(shape), size, *shape, *strides)]
    nothing = {"kind": "ptr", "buffer": None, "byte_offset": 0}
    return [nothing, nothing, *numbers[:2], ptr(name), *numbers[2:]]


def numba(grid, block, types, buffers, scalars=(), *, shapes=None, **more):
    """A numba case: ``types`` are the types of all parameters, in numba's words; arrays come first."""
    params = []
    for name, buffer in buffers.items():
        shape, size = (shapes or {}).get(name) or (
            buffer["in"].shape if buffer["in"] is not None else buffer["shape"],
            np.dtype(DTYPES[buffer["dtype"]]).itemsize,
        )
        params += array(buffers, name, shape, size)
    return {
        "grid": triple(grid),
        "block": triple(block),
        "buffers": buffers,
        "params": [*params, *scalars],
        "numba": types,
        **more,
    }


DTYPES = {"s16": "i2", "s32": "i4", "u32": "u4", "f32": "f4", "f64": "f8", "s64": "i8", "u8": "u1"}


def i64(value):
    """An integer argument of 64 bits."""
    return {"kind": "scalar", "dtype": "s64", "value": value}


@case
def numba_julia():
    return numba(
        (3, 3),
        (16, 8),
        "(int16[:, ::1], int64, int64, int64)",
        {"out": result("s16", 24, 40)},
        [i64(40), i64(24), i64(30)],
    )


@case
def numba_tiled_product():
    buffers = {
        "a": source("f64", random(20, 13)),
        "b": source("f64", random(13, 18, seed=1)),
        "c": result("f64", 20, 18),
    }
    return numba((3, 3), (8, 8), "(float64[:, ::1], float64[:, ::1], float64[:, ::1])", buffers)


@case
def numba_medians():
    buffers = {"x": source("s32", small(200, top=500)), "out": result("s32", 200)}
    return numba(2, 128, "(int32[::1], int32[::1])", buffers)


@case
def numba_statistics():
    buffers = {
        "x": source("s32", np.abs(small(500, top=900))),
        "bins": result("s32", 32),
        "extremes": changed("s32", [0, 9999, 0]),
        "total": result("f64", 1),
    }
    return numba(2, 64, "(int32[::1], int32[::1], int32[::1], float64[::1])", buffers)


@case
def numba_warp_sums():
    buffers = {"x": source("f64", random(128)), "out": result("f64", 128), "votes": result("u32", 128)}
    return numba(2, 64, "(float64[::1], float64[::1], uint32[::1])", buffers)


@case
def numba_particles():
    kind = np.dtype([("mass", np.float32), ("kind", np.int16), ("at", np.float64, 2)], align=True)
    rng, records = np.random.default_rng(1), np.zeros(100, kind)
    records["mass"], records["kind"], records["at"] = (
        rng.random(100),
        rng.integers(-9, 9, 100),
        rng.standard_normal((100, 2)),
    )
    buffers = {"records": changed("u8", records.view(np.uint8)), "out": result("f64", 100)}
    return numba(
        2, 64, "(PARTICLE[::1], float64[::1], int64)", buffers, [i64(3)], shapes={"records": ((100,), kind.itemsize)}
    )


@case
def numba_heat():
    buffers = {"a": changed("f32", random(128)), "b": result("f32", 128)}
    return numba(1, 128, "(float32[::1], float32[::1], int64)", buffers, [i64(4)])


@case
def numba_dates():
    days = np.random.default_rng(1).integers(-400000, 400000, 150)
    buffers = {"days": source("s64", days), "out": result("s64", 150, 4)}
    return numba(3, 64, "(int64[::1], int64[:, ::1])", buffers)


@case
def numba_waves():
    buffers = {
        "z": source("f64", random(100, 2)),
        "c": source("f64", random(100, 2, seed=1)),
        "out": result("f64", 100, 3),
    }
    shapes = {"z": ((100,), 16), "c": ((100,), 16)}
    return numba(2, 64, "(complex128[::1], complex128[::1], float64[:, ::1], int64)", buffers, [i64(5)], shapes=shapes)


# ---- files ----------------------------------------------------------------------------------------


def compile_cuda(name, parts):
    """PTX and origin of a CUDA case."""
    path = f"base/{parts['file'] or name}.cu"
    text = nvcc(HERE / path, f"-arch={parts['target']}", *parts.get("options", ()))
    entry = parts["file"] or name
    options = "".join(f" {o}" for o in parts.get("options", ()))
    return text, entry, {"origin": f"nvcc 13.0{options}", "source": path, "target": parts["target"]}


def compile_triton(name, parts):
    """PTX and origin of a Triton case."""
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    from triton import compile as build
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    sys.path.insert(0, str(HERE / "base"))
    import triton_kernels

    kernel = getattr(triton_kernels, name.removeprefix("triton_"))
    types, constants, warps = parts["triton"]
    signature = dict(zip(kernel.arg_names, [*types, *["constexpr"] * len(constants)], strict=True))
    built = build(
        ASTSource(kernel, signature=signature, constexprs=constants),
        target=GPUTarget("cuda", 80, 32),
        options={"num_warps": warps},
    )
    parts["params"] += [{"kind": "ptr", "buffer": None, "byte_offset": 0}] * 2  # scratch memory, for profiles too
    parts["dynamic_smem"] = built.metadata.shared
    version = importlib.metadata.version("triton")
    about = {"origin": f"triton {version}", "source": "base/triton_kernels.py", "target": "sm_80"}
    return built.asm["ptx"], built.metadata.name, about


def compile_numba(name, parts):
    """PTX and origin of a numba case."""
    import numba
    from numba import cuda as numba_cuda

    sys.path.insert(0, str(HERE / "base"))
    import numba_kernels

    names = {**vars(numba.types), "PARTICLE": numba.from_dtype(numba_kernels.PARTICLE)}
    signature = eval(parts["numba"], names)
    text, _ = numba_cuda.compile_ptx(
        getattr(numba_kernels, name.removeprefix("numba_")), signature, cc=(8, 0), abi="numba"
    )
    entry = text.split(".entry ")[1].split("(")[0]
    version = importlib.metadata.version("numba-cuda")
    return text, entry, {"origin": f"numba-cuda {version}", "source": "base/numba_kernels.py", "target": "sm_80"}


def write(folder, name):
    """One case directory."""
    parts = CASES[name]()
    if "ptx" in parts:
        about = {"origin": "written by hand", "source": "contractions_ptx.py", "target": "sm_90"}
        write_case(Path(folder) / name, parts["ptx"], {**parts, "entry": name}, about)
        return
    build = compile_triton if "triton" in parts else compile_numba if "numba" in parts else compile_cuda
    text, entry, about = build(name, parts)
    write_case(Path(folder) / name, text, {**parts, "entry": entry}, about)


if __name__ == "__main__":
    for wanted in sys.argv[2:] or CASES:
        write(sys.argv[1], wanted)
