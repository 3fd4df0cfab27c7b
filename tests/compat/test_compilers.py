"""Clients whose compilers would make machine code: they are asked for PTX. The clients themselves are not needed here."""

import contextlib
import sys
from pathlib import Path
from types import SimpleNamespace

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
