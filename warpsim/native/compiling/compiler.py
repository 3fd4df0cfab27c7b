"""Compile LLVM IR for this machine: target, passes, symbols, object cache."""

from __future__ import annotations

import ctypes
import hashlib
import threading
from functools import lru_cache
from typing import Any

from warpsim.native.compiling.cache import has_object, read_object, write_object
from warpsim.native.runtime.library import module_of
from warpsim.version import VERSION

LIGHT = 0
"""The optimisation level of regions: SROA alone. Higher levels double the compile time, and regions run no faster."""


class Invalid(Exception):
    """LLVM rejects the IR: a defect of what emitted it."""


class Compiler:
    """One target machine; functions stay loaded until the process ends."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm  # takes a tenth of a second: only where something is compiled

        self._llvm = llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._lock = threading.RLock()
        self._cpu = llvm.get_host_cpu_name()
        self._features = llvm.get_host_cpu_features().flatten()
        target = llvm.Target.from_default_triple()
        self._target = target.create_target_machine(cpu=self._cpu, features=self._features, opt=2, jit=True)
        self._engine = llvm.create_mcjit_compiler(
            llvm.parse_assembly(""),
            target.create_target_machine(cpu=self._cpu, features=self._features, opt=2, jit=True),
        )
        self._addresses: dict[str, int] = {}
        self.compiled = 0
        self.loaded = 0

    def helper(self, name: str) -> int:
        """The address of a library function."""
        if name not in self._addresses:
            self._load(module_of(name), (name,), 1, shared=True)
        return self._addresses[name]

    def function(self, text: str, name: str, helpers: Any = (), level: int = 2, *, shared: bool = False) -> Any:
        """The function of a module, as ``int f(void *)``; ``shared``: other modules call it."""
        if name not in self._addresses:
            for other in helpers:
                self.helper(other)
            self._load(text, (name,), level, shared=shared)
        return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(self._addresses[name])

    def has(self, text: str, name: str, level: int = 2) -> bool:
        """Whether a function is loaded, or its object is in the cache."""
        return name in self._addresses or has_object(self._key(text, level))

    def _key(self, text: str, level: int) -> str:
        parts = VERSION, str(self._llvm.llvm_version_info), self._cpu, self._features, str(level), text
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _load(self, text: str, names: Any, level: int, *, shared: bool = False) -> None:
        """Load the functions of a module; ``shared``: other modules may call them."""
        key = self._key(text, level)
        data = read_object(key)
        made = data is None
        if data is None:
            data = self._compile(text, level)
            write_object(key, data)
        with self._lock:
            if names[0] in self._addresses:  # another thread was faster
                return
            self._engine.add_object_file(self._llvm.ObjectFileRef.from_data(data))
            self._engine.finalize_object()
            for name in names:
                address = self._engine.get_function_address(name)
                if shared:
                    self._llvm.add_symbol(name, address)
                self._addresses[name] = address
            self.compiled += made
            self.loaded += not made

    def _compile(self, text: str, level: int) -> bytes:
        llvm = self._llvm
        try:
            module = llvm.parse_assembly(text)
            module.verify()  # LLVM's passes end the process over a text that is not valid
        except RuntimeError as problem:
            raise Invalid(" ".join(str(problem).split())) from None
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        options.loop_vectorization = False
        options.slp_vectorization = False
        builder = llvm.create_pass_builder(self._target, options)
        if level == LIGHT:
            passes = llvm.create_new_module_pass_manager()
            passes.add_sroa_pass()
        else:
            passes = builder.getModulePassManager()
        passes.run(module, builder)
        data: bytes = self._target.emit_object(module)
        return data


_FIRST = threading.Lock()


def compiler() -> Compiler:
    """The compiler of this process."""
    with _FIRST:
        return _compiler()


@lru_cache(maxsize=1)
def _compiler() -> Compiler:
    return Compiler()
