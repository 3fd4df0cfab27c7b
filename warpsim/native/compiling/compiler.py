"""Compile LLVM IR for this machine: target, passes, symbols, object cache."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from warpsim.cache import digest, has_object, read_object, write_object
from warpsim.native.compiling import images
from warpsim.native.compiling.images import Function, function_at
from warpsim.native.compiling.linking import Linked, Unlinkable, link
from warpsim.native.compiling.queue import compile_queue
from warpsim.native.runtime.context import module_of
from warpsim.version import VERSION

LIGHT = 0
"""The optimisation level of regions: SROA alone. Higher levels double the compile time, and regions run no faster."""
LONG = 4000
"""Lines of a module of which LLVM does not reduce the strength of loops: in long regions that took most of the time, or minutes (a
kernel of Triton with 870 instructions and 192 accesses to memory: more than 100 seconds, 7 without)."""


class Invalid(Exception):
    """LLVM rejects the IR: a defect of what emitted it."""


def load(linked: Linked) -> dict[str, int]:
    """The addresses of linked functions.

    Raises:
        Invalid: they cannot be mapped.
    """
    begins = images.map_code(linked.code, linked.outside)
    if begins is None:
        raise Invalid(f"code cannot be mapped, or there is none of {sorted(name for name, _ in linked.outside)}")
    return {name: begins + at for name, at in linked.functions.items()}


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
        self._links = images.possible()
        triple = llvm.get_default_triple()
        self._target = self._machine(f"{triple}-elf" if self._links and sys.platform == "darwin" else triple)
        if not self._links:
            self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(""), self._machine(triple))
        self._addresses: dict[str, int] = {}
        self._objects: dict[str, bytes] = {}
        """Those that others are linked with, by their keys."""
        self.compiled = 0
        self.loaded = 0

    def _machine(self, triple: str) -> Any:
        how = {"reloc": "pic", "codemodel": "small"} if self._links else {"jit": True}
        target = self._llvm.Target.from_triple(triple)
        return target.create_target_machine(cpu=self._cpu, features=self._features, opt=2, **how)

    def address(
        self, text: str, name: str, level: int = 2, helpers: Sequence[str] = (), others: Mapping[str, str] | None = None
    ) -> int:
        """The address of a module's function, which calls library functions and ``others``, the texts of modules by the names of
        their functions."""
        if name not in self._addresses:
            self._load(text, name, level, helpers, others or {})
        return self._addresses[name]

    def function(
        self, text: str, name: str, helpers: Sequence[str] = (), level: int = 2, others: Mapping[str, str] | None = None
    ) -> Function:
        """The same as ``int f(void *)``."""
        return function_at(self.address(text, name, level, helpers, others))

    def has(self, text: str, name: str, level: int = 2) -> bool:
        """Whether a function is loaded, or its object is in the cache."""
        return name in self._addresses or has_object(self._key(text, level))

    def linked(
        self, text: str, helpers: Sequence[str] = (), level: int = 2, others: Mapping[str, str] | None = None
    ) -> Linked | None:
        """A module linked with all that it calls; None where code is not linked here.

        Raises:
            Invalid: LLVM rejects a module, or it calls what cannot be linked.
        """
        if not self._links:
            return None
        objects = [self._object(text, level)]
        objects += [self._object(other, 2, again=True) for other in (others or {}).values()]
        objects += [self._object(module_of(name), 1, again=True) for name in helpers]
        try:
            return link(objects)
        except Unlinkable as problem:
            raise Invalid(str(problem)) from None

    def _key(self, text: str, level: int) -> str:
        how = f"{level} linked" if self._links else str(level)
        parts = VERSION, str(self._llvm.llvm_version_info), self._cpu, self._features, how, text
        return digest(*parts)

    def _object(self, text: str, level: int, *, again: bool = False) -> bytes:
        """A module's object; ``again``: it is needed more than once."""
        key = self._key(text, level)
        data = self._objects.get(key)
        if data is None:
            data = read_object(key)
            self.loaded += data is not None
            if data is None:
                with compile_queue().away():
                    data = self._compile(text, level)
                self.compiled += 1
                write_object(key, data)
            if again:
                self._objects[key] = data
        return data

    def _load(self, text: str, name: str, level: int, helpers: Sequence[str], others: Mapping[str, str]) -> None:
        """Load the function of a module."""
        linked = self.linked(text, helpers, level, others)
        if linked is not None:
            self._addresses[name] = load(linked)[name]
            return
        for helper in helpers:
            self.address(module_of(helper), helper, 1)
        for other, its_text in others.items():
            self.address(its_text, other)
        data = self._object(text, level)
        with self._lock:
            if name not in self._addresses:  # or another thread was faster
                self._engine.add_object_file(self._llvm.ObjectFileRef.from_data(data))
                self._engine.finalize_object()
                self._addresses[name] = self._engine.get_function_address(name)
                self._llvm.add_symbol(name, self._addresses[name])

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
        return self._emit(module, long=text.count("\n") > LONG)

    def _emit(self, module: Any, *, long: bool) -> bytes:
        """The object of a module; of a long one without strength reduction, an option of the process: where another thread compiles
        meanwhile, it is its code that is made so, and means the same."""
        if long:
            self._llvm.set_option("warpsim", "-disable-lsr=true")
        data: bytes = self._target.emit_object(module)
        if long:
            self._llvm.set_option("warpsim", "-disable-lsr=false")
        return data


_FIRST = threading.Lock()


def compiler() -> Compiler:
    """The compiler of this process."""
    with _FIRST:
        return _compiler()


@lru_cache(maxsize=1)
def _compiler() -> Compiler:
    return Compiler()


def kept_function(what: str) -> int | None:
    """The address of a function that calls no others, from the disk; ``what`` names it among all of this version."""
    found = None if images.made_by() is None else images.find(digest(images.made_by(), what))
    return None if found is None else next(iter(found[1].values()))


def compiled_function(what: str, text: str, name: str, level: int = 2) -> int:
    """The same where it has to be compiled; it is kept."""
    linked = compiler().linked(text, level=level)
    if linked is None:
        return compiler().address(text, name, level)
    if images.made_by() is not None:
        images.keep(digest(images.made_by(), what), linked, {})
    return load(linked)[name]


@cache
def library_function(name: str) -> int:
    """The address of a library function that is called from here."""
    return kept_function(name) or compiled_function(name, module_of(name), name, 1)
