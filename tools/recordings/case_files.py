"""The parts of a case directory: buffers, arguments, and how they are written; nvcc beside them."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np

SIZES = {"u8": 1, "s8": 1, "e4m3": 1, "e5m2": 1, "f16": 2, "bf16": 2, "u16": 2, "s16": 2,
         "f32": 4, "u32": 4, "s32": 4, "u64": 8, "s64": 8, "f64": 8}  # fmt: skip
STORED = {"f16": np.float16, "f32": np.float32, "f64": np.float64,
          "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64}  # fmt: skip


def stored(values, dtype):
    """Numbers as the case format stores a dtype."""
    values = np.asarray(values)
    if dtype == "bf16":
        return values.astype(ml_dtypes.bfloat16).view(np.uint16)
    if dtype in ("e4m3", "e5m2"):
        return values.astype({"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[dtype]).view(np.uint8)
    return values.astype(STORED.get(dtype, f"u{SIZES[dtype]}"))


def source(dtype, values):
    """A buffer that the kernel reads."""
    return {"dtype": dtype, "in": stored(values, dtype), "role": "in"}


def changed(dtype, values):
    """A buffer that the kernel changes."""
    return {"dtype": dtype, "in": stored(values, dtype), "role": "inout"}


def result(dtype, *shape):
    """A buffer that starts as zeros and that the kernel writes."""
    return {"dtype": dtype, "in": None, "shape": shape, "role": "out"}


def ptr(buffer):
    """A pointer argument."""
    return {"kind": "ptr", "buffer": buffer, "byte_offset": 0}


def i32(value):
    """An integer argument."""
    return {"kind": "scalar", "dtype": "s32", "value": value}


def f32(value):
    """A float argument."""
    return {"kind": "scalar", "dtype": "f32", "value": float(np.float32(value))}


def random(*shape, seed=0, scale=1.0):
    """Normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape) * scale


def small(*shape, seed=0, top=3):
    """Small integers."""
    return np.random.default_rng(seed).integers(-top, top + 1, shape)


def nvcc(path, *options):
    """The PTX of a source file."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "all.ptx"
        subprocess.run(["nvcc", *options, "-ptx", "-o", target, path], check=True)
        return target.read_text()


def one_kernel(text, entry):
    """A module without its other kernels."""
    head, *parts = re.split(r"(?=^\t// \.globl)", text, flags=re.M)
    return head + next(p for p in parts if f".entry {entry}(" in p)


def write_case(path, ptx, parts, about):
    """One case directory; ``about`` holds its origin, source and target."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "kernel.ptx").write_text(ptx)
    data, buffers = {}, []
    for key, buffer in parts["buffers"].items():
        shape = list(buffer["in"].shape if buffer["in"] is not None else buffer["shape"])
        if buffer["in"] is not None:
            data[f"in_{key}"] = buffer["in"]
        if "out" in buffer:
            data[f"out_{key}"] = stored(buffer["out"], buffer["dtype"])
        skipped = key in parts.get("unchecked", ())
        buffers.append({
            "name": key, "dtype": buffer["dtype"], "shape": shape, "nbytes": int(np.prod(shape)) * SIZES[buffer["dtype"]], "role": "in" if skipped else buffer["role"],
            "in": f"in_{key}" if buffer["in"] is not None else None, "out": f"out_{key}" if buffer["role"] != "in" and not skipped else None,
        })  # fmt: skip
    found = {
        "format": 1, "name": path.name, "origin": about["origin"], "source": about["source"], "entry": parts["entry"], "target": about["target"],
        "grid": list(parts["grid"]), "block": list(parts["block"]), "cluster": list(parts["cluster"]) if "cluster" in parts else None,
        "cooperative": parts.get("cooperative", False), "dynamic_smem": parts.get("dynamic_smem", 0), "buffers": buffers, "params": parts["params"],
        "check": {b["name"]: {"mode": "bits"} for b in buffers if b["out"]},
    }  # fmt: skip
    (path / "case.json").write_text(json.dumps(found, indent=1) + "\n")
    np.savez_compressed(path / "data.npz", **data)


def make(write, cases, doc):
    """What the command line of a maker of cases asks for, ``FOLDER [NAME...]``: all of them where none is named."""
    folder, *names = sys.argv[1:] or ["-h"]
    unknown = [name for name in names if name not in cases]
    if folder.startswith("-") or unknown:
        sys.exit(f"no case {unknown[0]}; there are {', '.join(cases)}" if unknown else doc)
    for name in names or cases:
        write(folder, name)
