"""Makes the case directories of the kernels in base/, ready to be recorded on a GPU by record.py.

base_cases.py FOLDER [NAME...]        needs nvcc for the CUDA sources, Triton and numba-cuda for those in Python, NumPy and ml_dtypes
"""

import importlib.metadata
import os
import sys
from pathlib import Path

import base_algorithms  # noqa: F401 - its cases
import base_arithmetic  # noqa: F401
import base_python  # noqa: F401
import base_threads  # noqa: F401
from base_parts import CASES
from case_files import make, nvcc, write_case

HERE = Path(__file__).parent


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
    make(write, CASES, __doc__)
