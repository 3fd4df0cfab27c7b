# ruff: noqa: D103 (the name of a case says what it is; its source says why)
"""Cases of memory, barriers, warps, atomics, waiting, calls and the heap."""

import numpy as np

from base_parts import case, cuda, integers, pointers
from case_files import changed, i32, random, result, small, source

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
