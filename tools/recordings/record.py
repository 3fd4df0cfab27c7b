"""Runs case directories (kernel.ptx, case.json, data.npz with in_*) on a GPU; fills in out_*, ``hardware`` and stdout.txt.

record.py CASE...        needs libcuda and NumPy only; each case runs three times, in a process of its own
"""

import contextlib
import ctypes as C
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

MAP_TYPES = [
    "UINT8",
    "UINT16",
    "UINT32",
    "INT32",
    "UINT64",
    "INT64",
    "FLOAT16",
    "FLOAT32",
    "FLOAT64",
    "BFLOAT16",
    "FLOAT32_FTZ",
    "TFLOAT32",
    "TFLOAT32_FTZ",
]
INTERLEAVES, SWIZZLES, PROMOTIONS = (
    ("none", "16B", "32B"),
    ("none", "32B", "64B", "128B"),
    ("none", "64B", "128B", "256B"),
)
FILLS = ("zero", "nan_request_zero_fma")
SCALARS = {
    "s32": C.c_int32,
    "u32": C.c_uint32,
    "s64": C.c_int64,
    "u64": C.c_uint64,
    "f32": C.c_float,
    "f64": C.c_double,
}
DTYPES = {"f16": "<f2", "f32": "<f4", "f64": "<f8", "bf16": "<u2", "e4m3": "u1", "e5m2": "u1",
          **{f"{k}{n}": f"<{'i' if k == 's' else 'u'}{n // 8}" for k in "su" for n in (8, 16, 32, 64)}}  # fmt: skip


class Attribute(C.Structure):
    """CUlaunchAttribute."""

    _fields_ = [("id", C.c_int), ("pad", C.c_int), ("value", C.c_uint32 * 16)]


class Config(C.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", C.c_uint * 3),
        ("block", C.c_uint * 3),
        ("shared", C.c_uint),
        ("stream", C.c_void_p),
        ("attributes", C.POINTER(Attribute)),
        ("n", C.c_uint),
    ]


class Gpu:
    """The CUDA driver with a context."""

    def __init__(self):
        self.cu = C.CDLL("libcuda.so.1")
        device, context = C.c_int(), C.c_void_p()
        self("cuInit", 0)
        self("cuDeviceGet", C.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", C.byref(context), device)
        self("cuCtxSetCurrent", context)
        self("cuCtxSetLimit", 0, C.c_size_t(1 << 14))  # the stack of a thread, for recursion

    def __call__(self, name, *arguments):
        """Call the driver; every status but success is an error."""
        status = getattr(self.cu, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: {status}")

    def kernel(self, text, entry):
        """A function of a module."""
        module, function, log = C.c_void_p(), C.c_void_p(), C.create_string_buffer(8192)
        options, values = (C.c_int * 2)(5, 6), (C.c_void_p * 2)(C.cast(log, C.c_void_p), 8192)
        if self.cu.cuModuleLoadDataEx(C.byref(module), text + b"\0", 2, options, values):
            raise RuntimeError(log.value.decode()[:600])
        self("cuModuleGetFunction", C.byref(function), module, entry.encode())
        return function

    def tensor_map(self, p, address):
        """A buffer with an encoded map, and where in it the map lies."""
        buffer, n = C.create_string_buffer(256), p["rank"]
        at = (C.addressof(buffer) + 63) & ~63
        first = (
            C.c_void_p(at),
            MAP_TYPES.index(p["data_type"]),
            n,
            C.c_void_p(address),
            (C.c_uint64 * n)(*p["global_dim"]),
            (C.c_uint64 * max(1, n - 1))(*p["global_strides_bytes"]),
        )
        last = (
            (C.c_uint32 * n)(*p["element_strides"]),
            INTERLEAVES.index(p["interleave"]),
            SWIZZLES.index(p["swizzle"]),
            PROMOTIONS.index(p["l2_promotion"]),
            FILLS.index(p["oob_fill"]),
        )
        if "im2col" in p:
            q = p["im2col"]
            corners = [(C.c_int * (n - 2))(*q[f"pixel_box_{c}_corner"]) for c in ("lower", "upper")]
            self("cuTensorMapEncodeIm2col", *first, *corners, q["channels_per_pixel"], q["pixels_per_column"], *last)
        else:
            self("cuTensorMapEncodeTiled", *first, (C.c_uint32 * n)(*p["box_dim"]), *last)
        return buffer, at


def launch(gpu, function, case, data):
    """One launch in fresh memory: the outputs."""
    addresses = {}
    for b in case["buffers"]:
        address, size = C.c_uint64(), max(256, b["nbytes"])
        gpu("cuMemAlloc_v2", C.byref(address), size)
        gpu("cuMemsetD8_v2", address, 0, size)
        if b["in"]:
            raw = np.ascontiguousarray(data[b["in"]])
            gpu("cuMemcpyHtoD_v2", address, raw.ctypes.data_as(C.c_void_p), C.c_size_t(raw.nbytes))
        addresses[b["name"]] = address
    kept, arguments = [], (C.c_void_p * len(case["params"]))()
    for i, p in enumerate(case["params"]):
        if p["kind"] == "tensormap":
            value, arguments[i] = gpu.tensor_map(p, addresses[p["buffer"]].value)
        else:
            value = (
                C.c_uint64(addresses[p["buffer"]].value + p["byte_offset"] if p["buffer"] else 0)
                if p["kind"] == "ptr"
                else SCALARS[p["dtype"]](p["value"])
            )
            arguments[i] = C.addressof(value)
        kept.append(value)
    attributes, n = (Attribute * 2)(), 0
    if case["cluster"]:
        attributes[n].id, attributes[n].value[0:3] = 4, case["cluster"]
        n += 1
    if case["cooperative"]:
        attributes[n].id, attributes[n].value[0] = 2, 1
        n += 1
    shared = case["dynamic_smem"]
    if shared:
        gpu("cuFuncSetAttribute", function, 8, shared)
    config = Config((C.c_uint * 3)(*case["grid"]), (C.c_uint * 3)(*case["block"]), shared, None, attributes, n)
    gpu("cuLaunchKernelEx", C.byref(config), function, arguments, None)
    gpu("cuCtxSynchronize")
    out = {}
    for b in case["buffers"]:
        if b["out"]:
            out[b["out"]] = raw = np.zeros(b["shape"], DTYPES[b["dtype"]])
            gpu("cuMemcpyDtoH_v2", raw.ctypes.data_as(C.c_void_p), addresses[b["name"]], C.c_size_t(raw.nbytes))
        gpu("cuMemFree_v2", addresses[b["name"]])
    return out


@contextlib.contextmanager
def printed(texts):
    """Catches what the process prints, the device's text included."""
    kept = os.dup(1)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)
            caught.seek(0)
            texts.append(caught.read().decode())


def record(path):
    """Run a case and write what came out."""
    case = json.loads((path / "case.json").read_text())
    with np.load(path / "data.npz") as stored:
        data = {name: stored[name] for name in stored.files}
    gpu = Gpu()
    outs, texts = [], []
    for _ in range(3):
        function = gpu.kernel((path / "kernel.ptx").read_bytes(), case["entry"])  # anew, for the module's variables
        with printed(texts):
            outs.append(launch(gpu, function, case, data))
    if texts[0]:
        (path / "stdout.txt").write_text(texts[0])
    np.savez_compressed(path / "data.npz", **{**data, **outs[0]})
    query = ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"]
    name, driver, capability = (
        subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().split("\n")[0].split(", ")
    )
    same = len(set(texts)) == 1 and all(o[k].tobytes() == outs[0][k].tobytes() for o in outs for k in o)
    case["hardware"] = {
        "gpu": name,
        "driver": driver,
        "sm": "sm_" + capability.replace(".", ""),
        "launches": 3,
        "bit_identical": same,
    }
    (path / "case.json").write_text(json.dumps(case, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        record(Path(sys.argv[2]))
    elif not sys.argv[1:] or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    else:
        failed = 0
        for folder in sys.argv[1:]:
            try:
                done = subprocess.run(
                    [sys.executable, __file__, "--one", folder], capture_output=True, text=True, timeout=30
                )
                problem = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]
            except subprocess.TimeoutExpired:
                problem = "no end"
            failed += bool(problem)
            print(folder, problem or "recorded", flush=True)
        sys.exit(failed != 0)
