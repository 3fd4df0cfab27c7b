# ruff: noqa: D103 (the name of a case says what it is)
"""Makes the case directories of the kernels of `triton_kernels`, ready to be recorded on a GPU.

triton_cases.py FOLDER [NAME...]    needs Triton 3.9 (or 3.6), NumPy and ml_dtypes, no GPU; record.py then fills in what it leaves
"""

import os
import sys
from pathlib import Path

os.environ |= {"TRITON_DISABLE_LINE_INFO": "1", "TRITON_DEFAULT_FP_FUSION": "1"}
sys.path.append(str(Path(__file__).parent / "hopper"))

import numpy as np
import triton
import triton_kernels as kernels
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from case_files import SIZES, changed, f32, i32, make, ptr, random, result, source, write_case

TARGET = GPUTarget("cuda", 90, 32)
TRITON_TYPES = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "e4m3": "fp8e4nv", "s32": "i32", "u8": "i8", "s8": "i8"}
MAP_TYPES = {"f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "e4m3": "UINT8", "s8": "UINT8", "s32": "INT32"}
SWIZZLES = ("none", "32B", "64B", "128B")
CASES = {}


def case(name):
    """Register a function that gives a kernel, its grid, buffers, arguments, constants and options."""

    def keep(function):
        CASES[name] = function
        return function

    return keep


class Tiles:
    """A tensor descriptor over a matrix, of blocks."""

    def __init__(self, buffer, *block):
        self.buffer, self.block = buffer, block


def product(entry, dtype, m, n, k, blocks, out, **constants):
    """The parts that products by descriptors of the host share."""
    bm, bn, bk = blocks
    return {
        "kernel": entry, "grid": (m // bm * (n // bn), 1, 1),
        "buffers": {"A": source(dtype, random(m, k, seed=1)), "B": source(dtype, random(n, k, seed=2)), "C": result(out, m, n)},
        "args": {"a_desc": Tiles("A", bm, bk), "b_desc": Tiles("B", bn, bk), "c_desc": Tiles("C", bm, bn), "M": m, "N": n, "K": k},
        "constants": {"BM": bm, "BN": bn, "BK": bk, **constants},
    }  # fmt: skip


@case("triton_matmul_tma")
def matmul_tma():
    return product(kernels.matmul, "bf16", 128, 128, 160, (64, 128, 32), "bf16", WS=False) | {
        "options": {"num_stages": 4}
    }


@case("triton_matmul_warp_specialised")
def matmul_warp_specialised():
    return product(kernels.matmul, "f16", 128, 128, 192, (64, 64, 64), "f16", WS=True) | {"options": {"num_stages": 3}}


@case("triton_matmul_two_groups")
def matmul_two_groups():
    return product(kernels.matmul, "f16", 128, 64, 128, (128, 64, 64), "f16", WS=False) | {"options": {"num_warps": 8}}


def persistent(dtype, ws, grid, **options):
    """Products by descriptors that the kernel makes."""
    m, n, k = 128, 192, 96
    return {
        "kernel": kernels.matmul_persistent, "grid": (grid, 1, 1),
        "buffers": {"A": source(dtype, random(m, k, seed=1)), "B": source(dtype, random(n, k, seed=2)), "C": result(dtype, m, n)},
        "args": {"a_ptr": ptr("A"), "b_ptr": ptr("B"), "c_ptr": ptr("C"), "M": m, "N": n, "K": k},
        "constants": {"BM": 64, "BN": 64, "BK": 32, "WS": ws}, "options": options,
    }  # fmt: skip


@case("triton_matmul_persistent")
def matmul_persistent():
    return persistent("bf16", False, 2, num_stages=3)


@case("triton_matmul_persistent_specialised")
def matmul_persistent_specialised():
    return persistent("f16", True, 2, num_stages=2)


@case("triton_matmul_cluster")
def matmul_cluster():
    return product(kernels.matmul, "f16", 128, 128, 128, (128, 128, 64), "f16", WS=False) | {"options": {"num_ctas": 2}}


@case("triton_matmul_s8")
def matmul_s8():
    m, n, k = 64, 128, 128
    rng = np.random.default_rng(5)
    parts = product(kernels.matmul, "f16", m, n, k, (64, 128, 64), "s32", WS=False)
    operands = {"A": source("s8", rng.integers(-128, 128, (m, k))), "B": source("s8", rng.integers(-128, 128, (n, k)))}
    return parts | {"buffers": {**operands, "C": parts["buffers"]["C"]}}


@case("triton_matmul_fp8")
def matmul_fp8():
    m, n, k, bn = 64, 64, 256, 64
    parts = product(kernels.matmul_scaled, "e4m3", m, n, k, (64, bn, 128), "bf16")
    scales = {
        "sa": source("f32", np.exp2(random(k // 128, m, seed=3))),
        "sb": source("f32", np.exp2(random(k // 128, n // bn, seed=4))),
    }
    args = parts["args"]
    return parts | {
        "buffers": {**parts["buffers"], **scales},
        "args": {"a_desc": args["a_desc"], "b_desc": args["b_desc"], "sa_ptr": ptr("sa"), "sb_ptr": ptr("sb"), "c_ptr": ptr("C"), "M": m, "N": n, "K": k},
    }  # fmt: skip


@case("triton_matmul_split_k")
def matmul_split_k():
    m, n, k = 64, 64, 128
    parts = product(kernels.matmul_split, "f32", m, n, k, (64, 64, 32), "f32")
    return parts | {"buffers": {**parts["buffers"], "C": changed("f32", np.zeros((m, n)))}, "grid": (1, 1, 2)}


@case("triton_matmul_dequantised")
def matmul_dequantised():
    m, n, k = 100, 72, 80
    rng = np.random.default_rng(7)
    return {
        "kernel": kernels.matmul_dequantised, "grid": (2, 2, 1),
        "buffers": {"A": source("u8", rng.integers(0, 256, (m, k))), "B": source("bf16", random(k, n, seed=2)), "scale": source("f32", np.exp2(random(m, seed=3))), "C": result("f32", m, n)},
        "args": {"a_ptr": ptr("A"), "b_ptr": ptr("B"), "scale_ptr": ptr("scale"), "c_ptr": ptr("C"), "M": m, "N": n, "K": k},
        "constants": {"BM": 64, "BN": 64, "BK": 64},
    }  # fmt: skip


def attended(heads, n, d, dtype, *, causal, ws, **options):
    """Flash attention forward."""
    tensors = {name: source(dtype, random(heads * n, d, seed=i, scale=0.7)) for i, name in enumerate("QKV")}
    return {
        "kernel": kernels.attention, "grid": (n // 64, heads, 1),
        "buffers": {**tensors, "O": result(dtype, heads * n, d), "lse": result("f32", heads * n)},
        "args": {"q_desc": Tiles("Q", 64, d), "k_desc": Tiles("K", 64, d), "v_desc": Tiles("V", 64, d), "o_desc": Tiles("O", 64, d), "lse_ptr": ptr("lse"), "N": n, "scale": 1.4426950408889634 / d**0.5},
        "constants": {"BM": 64, "BN": 64, "D": d, "CAUSAL": causal, "WS": ws}, "options": options,
    }  # fmt: skip


@case("triton_attention")
def attention():
    return attended(2, 128, 64, "f16", causal=True, ws=False, num_stages=2)


@case("triton_attention_specialised")
def attention_specialised():
    return attended(1, 192, 64, "bf16", causal=False, ws=True, num_stages=2)


@case("triton_attention_backward")
def attention_backward():
    heads, n, d = 1, 128, 64
    rng = {name: random(heads * n, d, seed=i, scale=0.7) for i, name in enumerate("QKVO")}
    scale = 1.4426950408889634 / d**0.5
    scores = np.where(np.tri(n, dtype=bool), rng["Q"] @ rng["K"].T * scale, -np.inf)
    lse = np.log2(np.exp2(scores).sum(1))
    tensors = {k: source("f16", v) for k, v in rng.items()} | {
        "dO": source("f16", random(heads * n, d, seed=9, scale=0.5)),
        "lse": source("f32", lse),
    }
    outs = {k: result("f16", heads * n, d) for k in ("dQ", "dK", "dV")}
    args = {f"{k.lower()}_ptr": ptr(k) for k in ("Q", "K", "V", "O", "dO", "lse", "dQ", "dK", "dV")}
    return {
        "kernel": kernels.attention_backward, "grid": (n // 64, heads, 1), "buffers": {**tensors, **outs},
        "args": {**args, "N": n, "scale": scale}, "constants": {"B": 64, "D": d},
    }  # fmt: skip


@case("triton_layer_norm_passes")
def layer_norm():
    rows, n = 12, 300
    return {
        "kernel": kernels.layer_norm, "grid": (rows, 1, 1),
        "buffers": {"x": source("f16", random(rows, n, scale=3)), "w": source("f32", random(n, seed=1)), "b": source("f32", random(n, seed=2)),
                    "y": result("f16", rows, n), "mean": result("f32", rows), "rstd": result("f32", rows)},
        "args": {**{f"{k}_ptr": ptr(k) for k in ("x", "w", "b", "y", "mean", "rstd")}, "N": n, "eps": 1e-5}, "constants": {"B": 256},
    }  # fmt: skip


@case("triton_softmax")
def softmax():
    rows, n = 20, 500
    return {
        "kernel": kernels.softmax, "grid": (4, 1, 1), "buffers": {"x": source("f32", random(rows, n, scale=4)), "y": result("f32", rows, n)},
        "args": {"x_ptr": ptr("x"), "y_ptr": ptr("y"), "n_rows": rows, "N": n}, "constants": {"B": 512}, "options": {"num_warps": 8},
    }  # fmt: skip


def compiled(parts):
    """A kernel with its arguments' types."""
    signature = {}
    for name, value in parts["args"].items():
        if isinstance(value, Tiles):
            block = ",".join(str(b) for b in value.block)
            signature[name] = f"tensordesc<{TRITON_TYPES[parts['buffers'][value.buffer]['dtype']]}[{block}]>"
        elif isinstance(value, dict):
            signature[name] = "*" + TRITON_TYPES[parts["buffers"][value["buffer"]]["dtype"]]
        else:
            signature[name] = "i32" if isinstance(value, int) else "fp32"
    constants = parts["constants"]
    signature |= dict.fromkeys(constants, "constexpr")
    options = {"ptx_version": 87, **parts.get("options", {})}
    names = list(parts["kernel"].arg_names)
    attributes = {
        (names.index(k),): [["tt.divisibility", 16]]
        for k, v in parts["args"].items()
        if isinstance(v, dict) or (isinstance(v, int) and v % 16 == 0)
    }
    return triton.compile(ASTSource(parts["kernel"], signature, constants, attributes), target=TARGET, options=options)


def parameters(parts, kernel):
    """The arguments of the entry: descriptors with shapes and strides, and memory for those that the kernel makes."""
    found, described = [], iter(kernel.metadata.tensordesc_meta or ())
    for value in parts["args"].values():
        if isinstance(value, Tiles):
            found += descriptor(parts["buffers"][value.buffer], value, next(described))
        elif isinstance(value, dict):
            found.append(value)
        else:
            found.append(i32(value) if isinstance(value, int) else f32(value))
    return found


def descriptor(buffer, tiles, meta):
    """A map, then shapes and strides of its matrix."""
    rows, columns = buffer["in"].shape if buffer["in"] is not None else buffer["shape"]
    size, box = SIZES[buffer["dtype"]], meta["block_size"]
    return [
        {
            "kind": "tensormap", "buffer": tiles.buffer, "data_type": MAP_TYPES[buffer["dtype"]], "rank": 2, "global_dim": [columns, rows],
            "global_strides_bytes": [columns * size], "box_dim": list(box[::-1]), "element_strides": [1, 1], "interleave": "none",
            "swizzle": SWIZZLES[meta["swizzle"]], "l2_promotion": "128B", "oob_fill": "zero",
        },
        i32(rows), i32(columns), {"kind": "scalar", "dtype": "s64", "value": columns}, {"kind": "scalar", "dtype": "s64", "value": 1},
    ]  # fmt: skip


def write(folder, name, version=""):
    """One case directory; ``version`` follows its name."""
    parts = CASES[name]()
    kernel = compiled(parts)
    about, grid = kernel.metadata, parts["grid"]
    params = parameters(parts, kernel)
    nothing = {"kind": "scalar", "dtype": "u64", "value": 0}
    room = about.global_scratch_size * int(np.prod(grid))
    if room:
        parts["buffers"]["scratch"] = {"dtype": "u8", "in": None, "shape": (room,), "role": "in"}
    launched = {
        "entry": about.name, "grid": [grid[0] * about.num_ctas, *grid[1:]], "block": [32 * about.num_warps, 1, 1], "dynamic_smem": about.shared,
        "buffers": parts["buffers"], "params": [*params, ptr("scratch") if room else nothing, nothing],
        **({"cluster": [about.num_ctas, 1, 1]} if about.num_ctas > 1 else {}),
    }  # fmt: skip
    origin = {
        "origin": f"triton {triton.__version__}",
        "source": "hopper/triton_kernels.py",
        "target": "sm_90a",
    }
    write_case(Path(folder) / (name + version), kernel.asm["ptx"].split("\t.section\t.debug")[0], launched, origin)


if __name__ == "__main__":
    version = "" if triton.__version__.startswith("3.9") else "_" + triton.__version__[:3]
    make(lambda folder, name: write(folder, name, version), CASES, __doc__)
