# ruff: noqa: D103 (the name of a case says what it is; its source says why)
"""Cases of arithmetic in all types."""

import ml_dtypes
import numpy as np

import contractions_ptx
from base_parts import case, cuda, floats, given, integers, pointers
from case_files import i32, ptr, random, result, source


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
