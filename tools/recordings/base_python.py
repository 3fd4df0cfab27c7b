# ruff: noqa: D103 (the name of a case says what it is; its source says why)
"""Cases of Triton and numba."""

import numpy as np

from base_parts import case, pointers, triple
from case_files import changed, f32, i32, ptr, random, result, small, source

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
