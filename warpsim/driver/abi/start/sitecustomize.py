"""Imported when Python starts in ``warpsim exec``: prepares clients for the simulated GPU as they are imported.

cuda.bindings links NVIDIA's runtime statically, without symbols. But its extension modules share each entry point by
name, as a pointer in a capsule (``__pyx_capi__``); these pointers are replaced before other modules read them. Other
clients are prepared by `warpsim.compat`.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

RUNTIMES = (
    "cuda.bindings._internal.runtime",
    "cuda.bindings._internal.runtime_ptds",
    "cuda.bindings._bindings.cyruntime",  # before 13.1
    "cuda.bindings._bindings.cyruntime_ptds",
)
CLIENTS = {
    "torch": "aten",
    "triton.backends.nvidia.compiler": "triton",
    "triton.backends.nvidia.driver": "triton",
    "pycuda.compiler": "compilers",
    "tilelang.contrib.nvcc": "compilers",
    "cutlass.base_dsl.compiler": "compilers",
    "cuda.tile._compile": "compilers",
    "jaxlib": "compilers",
    "jax._src.hardware_utils": "compilers",
}
"""Modules, and which of `warpsim.compat` prepares each."""


class Loader:
    """Loads a module as its own loader does, and prepares it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def exec_module(self, module: ModuleType) -> None:
        """Initialise the module, then prepare it."""
        self._loader.exec_module(module)
        redirect(module) if module.__name__ in RUNTIMES else prepare(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)


class Finder:
    """Finds these modules where Python does."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module with our loader; None for any other module."""
        known = name in RUNTIMES or name in CLIENTS
        found = importlib.machinery.PathFinder.find_spec(name, path, target) if known else None
        if found is not None and found.loader is not None:
            found.loader = Loader(found.loader)  # type: ignore[assignment]
        return found


def prepare(module: ModuleType) -> None:
    """Let `warpsim.compat` prepare a client; PyTorch not before it begins to use CUDA."""
    if module.__name__ == "torch":
        module.cuda._lazy_call(lambda: compat("aten").register())
    else:
        compat(CLIENTS[module.__name__]).prepare(module)


def compat(client: str) -> ModuleType:
    """The module that serves a client, of the package that runs the program."""
    sys.path += [path for path in os.environ.get("WARPSIM_PATH", "").split(os.pathsep) if path not in sys.path]
    return importlib.import_module(f"{os.environ['WARPSIM_CLIENTS']}.{client}")


def redirect(module: ModuleType) -> None:
    """Replace entry points with our functions of the same names."""
    ours = ctypes.CDLL(os.environ["WARPSIM_CUDART"])
    put = ctypes.pythonapi.PyCapsule_SetPointer
    put.argtypes, put.restype = (ctypes.py_object, ctypes.c_void_p), ctypes.c_int
    for name, capsule in vars(module).get("__pyx_capi__", {}).items():
        function = getattr(ours, name.lstrip("_"), None) if name.lstrip("_").startswith("cuda") else None
        if function is not None:
            put(capsule, ctypes.cast(function, ctypes.c_void_p))


def run_next() -> None:
    """Run the ``sitecustomize`` that this one hides."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def leave() -> None:
    """Prepare for the end of Python. Registered before the program's own functions, it runs after them."""
    binding = sys.modules.get("warpsim.driver.abi.binding")
    if binding is not None:
        binding.leave()


if os.environ.get("WARPSIM_CUDART"):
    os.environ["WARPSIM_PYTHON"] = str(os.getpid())
    atexit.register(leave)
    sys.meta_path.insert(0, Finder)
if __name__ == "sitecustomize":
    run_next()
