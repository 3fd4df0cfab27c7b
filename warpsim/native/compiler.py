"""From LLVM's text to functions: the target of this machine, optimisation, objects kept on disk, symbols."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import sys
import tempfile
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

from warpsim.native.library.modules import module_of
from warpsim.version import VERSION

CACHE_BYTES = 256 << 20
"""The objects on disk take at most so much; the oldest go first."""
_MARK = b"warpsim object 1\n"


@lru_cache(maxsize=1)
def available() -> bool:
    """Whether there is a compiler: the extra ``jit`` is installed."""
    return importlib.util.find_spec("llvmlite") is not None


class Invalid(Exception):
    """A text that LLVM refuses: a defect of what wrote it."""


class Compiler:
    """One target machine; functions stay loaded as long as the process lives."""

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
        """The address of a helper, for code that refers to it."""
        with self._lock:
            if name not in self._addresses:
                text, made, needed = module_of(name)
                for other in needed:
                    self.helper(other)
                self._load(text, made, 1)
                for other in made:
                    self._llvm.add_symbol(other, self._addresses[other])
            return self._addresses[name]

    def function(self, text: str, name: str, helpers: Any = (), level: int = 2) -> Any:
        """The function of a module, as ``int f(void *)``."""
        with self._lock:
            if name not in self._addresses:
                for other in helpers:
                    self.helper(other)
                self._load(text, (name,), level)
            return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(self._addresses[name])

    def has(self, text: str, name: str, level: int = 2) -> bool:
        """Whether a function is loaded, or its object lies on disk."""
        folder = cache_folder()
        return name in self._addresses or (folder is not None and (folder / f"{self._key(text, level)}.o").exists())

    def _key(self, text: str, level: int) -> str:
        parts = VERSION, str(self._llvm.llvm_version_info), self._cpu, self._features, str(level), text
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _load(self, text: str, names: Any, level: int) -> None:
        key = self._key(text, level)
        data = read_object(key)
        if data is None:
            data = self._compile(text, level)
            write_object(key, data)
            self.compiled += 1
        else:
            self.loaded += 1
        self._engine.add_object_file(self._llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()
        for name in names:
            self._addresses[name] = self._engine.get_function_address(name)

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
        builder.getModulePassManager().run(module, builder)
        data: bytes = self._target.emit_object(module)
        return data


@lru_cache(maxsize=1)
def compiler() -> Compiler:
    """The compiler of this process."""
    return Compiler()


# ---- objects on disk ------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def cache_folder() -> Path | None:
    """Where objects are kept: ``WARPSIM_CACHE``, or the user's folder for caches; None where that cannot be written."""
    given = os.environ.get("WARPSIM_CACHE")
    if given is not None and not given:
        return None
    if given:
        base = Path(given)
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", tempfile.gettempdir())) / "warpsim"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches" / "warpsim"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warpsim"
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return base


def read_object(key: str) -> bytes | None:
    """An object by its key; a damaged one counts as none."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        data = (folder / f"{key}.o").read_bytes()
    except OSError:
        return None
    head = len(_MARK) + 32
    body = data[head:]
    if data[: len(_MARK)] != _MARK or hashlib.sha256(body).digest() != data[len(_MARK) : head]:
        return None
    return body


def write_object(key: str, body: bytes) -> None:
    """Keep an object; other processes see all of it or nothing."""
    folder = cache_folder()
    if folder is None:
        return
    try:
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(_MARK + hashlib.sha256(body).digest() + body)
        os.replace(file.name, folder / f"{key}.o")
        _prune(folder)
    except OSError:
        pass


def _prune(folder: Path) -> None:
    """Take the oldest objects out where there are too many."""
    found = []
    for path in folder.glob("*.o"):
        try:
            stat = path.stat()
        except OSError:  # another process was faster
            continue
        found.append((stat.st_mtime, stat.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= CACHE_BYTES:
            break
        path.unlink(missing_ok=True)
        total -= size
