"""PyCUDA, TileLang, CuTe DSL, cuTile and JAX under ``warpsim exec``: their compilers end at PTX, where they would make machine code."""

from __future__ import annotations

import atexit
import functools
import glob
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, MutableMapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Protocol

from warpsim.driver.library import SOURCES


def prepare(module: ModuleType) -> None:
    """Prepare the module that compiles: ``pycuda.compiler``, ``tilelang.contrib.nvcc``, ``cutlass.base_dsl.compiler`` or
    ``cuda.tile._compile``; of JAX ``jaxlib``, and ``jax._src.hardware_utils``, which looks for the files of a GPU."""
    if hasattr(module, "compile_plain"):
        vars(module)["compile"] = functools.partial(module.compile, target="ptx")
    elif hasattr(module, "compile_cuda"):
        _tilelang(module)
    elif hasattr(module, "Compiler"):
        _cute(module)
    elif hasattr(module, "_find_compiler_bin"):
        _cutile(module)
    elif hasattr(module, "has_visible_nvidia_gpu"):
        vars(module)["has_visible_nvidia_gpu"] = lambda: True
    else:
        _jax()


TOOLKIT = SOURCES / "toolkit"
"""Holds ``bin/ptxas``, whose output is PTX."""


def _cutile(module: ModuleType) -> None:
    """Let tileiras run our ptxas. It looks in ``CUDA_ROOT``, for libnvvm, too; what it compiles has keys of its own in cuTile's cache."""
    find, version = module._find_compiler_bin, module._get_compiler_version_string

    @functools.cache
    def find_compiler() -> object:
        found, root = find(), tempfile.mkdtemp(prefix="warpsim-")
        atexit.register(shutil.rmtree, root, ignore_errors=True)
        for path in Path(found.path).resolve().parents[1].iterdir():
            Path(root, path.name).symlink_to(TOOLKIT / "bin" if path.name == "bin" else path)
        os.environ["CUDA_ROOT"] = root
        return found

    vars(module)["_find_compiler_bin"] = find_compiler
    vars(module)["_get_compiler_version_string"] = lambda: version() and f"{version()}-warpsim"


def _jax() -> None:
    """Let XLA, and Mosaic, run a ptxas whose output is PTX: XLA looks for it in ``CUDA_ROOT``, Mosaic on the path."""
    env = os.environ
    env["CUDA_ROOT"], env["PATH"] = str(TOOLKIT), os.pathsep.join([str(TOOLKIT / "bin"), env.get("PATH", os.defpath)])
    env["XLA_FLAGS"] = f"--xla_gpu_autotune_level=0 {env.get('XLA_FLAGS', '')}"  # times say nothing here
    env.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # it takes 60 GB
    env.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")  # CUPTI does not run
    if env.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":  # as JAX sets it: each compilation tells of errors of cuDNN
        env["TF_CPP_MIN_LOG_LEVEL"] = "3"


def _tilelang(module: ModuleType) -> None:
    compile_cuda = module.compile_cuda

    def compile_ptx(
        code: str, target_format: str = "ptx", arch: str | Sequence[str] | None = None, **options: object
    ) -> object:
        words = arch if arch is None or isinstance(arch, str) else [word.replace("=sm_", "=compute_") for word in arch]
        return compile_cuda(code, "ptx", words, **options)

    vars(module)["compile_cuda"] = compile_ptx


def _cute(module: ModuleType) -> None:
    compile_module = module.Compiler.compile

    def compile_ptx(self: object, ir: Module, pipeline: str, *args: object, **options: object) -> object:
        with tempfile.TemporaryDirectory() as folder:
            if "dump-ptx-path=" not in pipeline:
                pipeline = pipeline.replace("cubin-format=", f"dump-ptx-path={folder}/kernels cubin-format=")
            found = compile_module(self, ir, pipeline, *args, **options)
            kept = re.search(r"dump-ptx-path=(\S+)", pipeline)
            texts = [Path(name).read_text(encoding="ascii") for name in glob.glob(f"{kept[1]}.*ptx")] if kept else []
        if texts:
            _replace(ir, texts[0] + "\0")
        return found

    module.Compiler.compile = compile_ptx


class Operation(Protocol):
    """An operation of MLIR."""

    name: str


class Global(Protocol):
    """A global variable of MLIR, seen as an operation."""

    operation: Operation
    attributes: MutableMapping[str, object]


class Body(Protocol):
    """What a module holds."""

    operations: Iterable[Global]


class Module(Protocol):
    """A module of MLIR."""

    body: Body
    context: AbstractContextManager[object]


def _replace(ir: Module, text: str) -> None:
    """Put PTX in the place of the machine code that the host's part of a module loads."""
    from cutlass._mlir.ir import StringAttr, Type, TypeAttr

    with ir.context:
        for each in ir.body.operations:
            if each.operation.name == "llvm.mlir.global" and str(each.attributes["sym_name"]) == '"kernels_binary"':
                each.attributes["value"] = StringAttr.get(text)
                each.attributes["global_type"] = TypeAttr.get(Type.parse(f"!llvm.array<{len(text)} x i8>"))
