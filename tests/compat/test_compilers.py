"""Clients whose compilers would make machine code: they are asked for PTX. The clients themselves are needed for the last test alone."""

import contextlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from warpsim.compat.compilers import prepare


def test_pycuda():
    """Its compiler is asked for PTX where the program leaves that open."""
    module = SimpleNamespace(
        compile_plain=None, compile=lambda source, arch=None, target="cubin": (source, arch, target)
    )
    prepare(module)

    assert module.compile("source", arch="sm_90") == ("source", "sm_90", "ptx")


def test_tilelang():
    """Whatever format it asks for, and whatever real architecture."""
    asked = []
    module = SimpleNamespace(compile_cuda=lambda *args, **options: asked.append((*args, options)))
    prepare(module)
    module.compile_cuda("code", "cubin", ["-gencode", "arch=compute_90a,code=sm_90a"], verbose=False)
    module.compile_cuda("code", "fatbin", "sm_80")

    assert asked == [
        ("code", "ptx", ["-gencode", "arch=compute_90a,code=compute_90a"], {"verbose": False}),
        ("code", "ptx", "sm_80", {}),
    ]


def test_cute_dsl(monkeypatch):
    """The PTX that it wrote takes the place of the binary in the module, and nothing else does."""

    def compiled(self, ir, pipeline, arch=""):
        where = pipeline.split("dump-ptx-path=")[1].split()[0]
        Path(f"{where}.sm_90a.ptx").write_text(".version 8.0")
        return ir

    compiler = type("Compiler", (), {"compile": compiled})
    prepare(SimpleNamespace(Compiler=compiler))
    names = {"get": lambda value: value, "parse": lambda text: text}
    mlir = SimpleNamespace(
        StringAttr=SimpleNamespace(**names), Type=SimpleNamespace(**names), TypeAttr=SimpleNamespace(**names)
    )
    for name in ("cutlass", "cutlass._mlir", "cutlass._mlir.ir"):
        monkeypatch.setitem(sys.modules, name, mlir)
    globals_ = [
        SimpleNamespace(
            operation=SimpleNamespace(name="llvm.mlir.global"), attributes={"sym_name": f'"{name}"', "value": "elf"}
        )
        for name in ("kernels_binary", "other")
    ]
    ir = SimpleNamespace(context=contextlib.nullcontext(), body=SimpleNamespace(operations=globals_))

    assert compiler().compile(ir, "x{cubin-format=bin opt-level=3}", arch="sm_90a") is ir
    assert globals_[0].attributes["value"] == ".version 8.0\0"
    assert globals_[0].attributes["global_type"] == "!llvm.array<13 x i8>"
    assert globals_[1].attributes["value"] == "elf"


def test_cutile(monkeypatch, tmp_path):
    """Its compiler looks in a folder of ours, which has our ptxas and the rest of its own; its cache has keys of ours."""
    for name in ("bin/tileiras", "bin/ptxas", "lib/libnvvm.so.4"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setenv("CUDA_ROOT", "")
    module = SimpleNamespace(
        _find_compiler_bin=lambda: SimpleNamespace(path=str(tmp_path / "bin" / "tileiras")),
        _get_compiler_version_string=lambda: "13.4",
    )
    prepare(module)
    assert module._find_compiler_bin() is module._find_compiler_bin()
    assert Path(os.environ["CUDA_ROOT"], "lib/libnvvm.so.4").read_text() == "lib/libnvvm.so.4"
    assert Path(os.environ["CUDA_ROOT"], "bin/ptxas").read_text().startswith("#!/bin/sh")
    assert module._get_compiler_version_string() == "13.4-warpsim"


@pytest.mark.skipif(not Path("/bin/sh").exists(), reason="JAX for GPUs is for Linux")
def test_ptxas_of_jax(monkeypatch, tmp_path):
    """JAX finds a GPU without its files, and a ptxas that hands PTX on and says which it takes; what the user asked for stays."""
    hardware = SimpleNamespace(has_visible_nvidia_gpu=lambda: False)
    prepare(hardware)
    assert hardware.has_visible_nvidia_gpu()

    env = {"PATH": os.defpath, "XLA_FLAGS": "--xla_dump_to=here", "XLA_PYTHON_CLIENT_PREALLOCATE": "true"}
    monkeypatch.setattr(os, "environ", env)
    prepare(SimpleNamespace())
    assert env["XLA_FLAGS"].split()[-1] == "--xla_dump_to=here"
    assert env["XLA_PYTHON_CLIENT_PREALLOCATE"] == "true"

    def ptxas(*words):
        return subprocess.run(["ptxas", *words], env=env, capture_output=True, text=True, check=False)

    (tmp_path / "in").write_text(".version 8.0\n")
    assert ptxas("-arch", "sm_90a", tmp_path / "in", "-o", tmp_path / "out", "--opt-level", "3").returncode == 0
    assert (tmp_path / "out").read_bytes() == b".version 8.0\n\0"
    assert "release 13.0" in ptxas("--version").stdout
    asked = ptxas("--input-as-string", ".version 99.99")
    assert asked.returncode == 1
    assert "current version is '9.0'" in asked.stderr


JAX = """
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu

def add(x, y, out):
    out[...] = x[...] + y[...]

x = np.arange(4096, dtype=np.float32).reshape(64, 64) % 7
shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
assert (np.asarray(jax.jit(lambda v: jnp.where(v > 2, v * 3 + 1, -v).sum(0))(x)) == np.where(x > 2, x * 3 + 1, -x).sum(0)).all()
assert (np.asarray(pl.pallas_call(add, out_shape=shape)(x, x)) == 2 * x).all()
assert (np.asarray(mosaic_gpu.kernel(add, out_type=shape)(x, x)) == 2 * x).all()
assert (np.asarray(jnp.asarray(x) @ x) == x @ x).all()
"""


@pytest.mark.skipif(importlib.util.find_spec("jax_cuda13_plugin") is None, reason="JAX for CUDA is not installed")
def test_jax():
    """What XLA fuses, a matrix product, and kernels of Pallas by Triton and by Mosaic, whose sums are exact in f32."""
    command = [sys.executable, "-m", "warpsim", "exec", "--", sys.executable, "-c", JAX]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
