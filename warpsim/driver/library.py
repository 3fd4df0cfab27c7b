"""Builds ``libcuda.so.1`` and ``libcudart.so``, and makes the environment in which a program finds them."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

from warpsim.driver.abi.binding import header
from warpsim.driver.abi.calls import CALLS
from warpsim.errors import LaunchError

SOURCES = Path(__file__).with_name("abi")
LIBRARIES = {
    "libcuda.so.1": ("cuda", ()),
    "libcudart.so.13": ("cudart", ("-DRUNTIME",)),
    "libcudart.so.12": ("cudart", ("-DRUNTIME",)),
    "libnvJitLink.so.13": ("nvjitlink", ()),
    "libnvJitLink.so.12": ("nvjitlink", ()),
    "libnvrtc.so.13": ("nvrtc", ()),
    "libnvrtc.so.12": ("nvrtc", ()),
    "libnvidia-ml.so.1": ("nvml", ()),
}
"""The libraries' files, their functions, and compiler options."""
LINKS = {"libcuda.so": "libcuda.so.1", "libcudart.so": "libcudart.so.13"}
RUNTIME, LINKED = "libcudart.so.13", "libwarpsim-linked.so"
"""The runtime library that is preloaded, and the library that redirects programs with a statically linked runtime."""


def compiler() -> list[str]:
    """The C compiler: ``CC``, the system's, or that of the ziglang package."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name.split()[0]):
            return name.split()
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    raise LaunchError("the driver library needs a C compiler: install gcc or clang, or pip install 'warpsim[cuda]'")


def python_library() -> str:
    """The shared library of this Python, which non-Python programs load."""
    name = sysconfig.get_config_var("INSTSONAME") or sysconfig.get_config_var("LDLIBRARY") or ""
    for folder in (sysconfig.get_config_var("LIBDIR"), os.path.join(sys.base_prefix, "lib")):
        path = os.path.join(folder or "", name)
        if ".so" in name and os.path.exists(path):
            return path
    return ""


def cache() -> Path:
    """The directory of built libraries: ``WARPSIM_CACHE``, or the user's cache directory."""
    base = os.environ.get("WARPSIM_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "warpsim"
    )
    return Path(base)


def build(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder with the libraries; compiles those that are missing.

    Raises:
        LaunchError: there is no compiler, it fails, or the system is not Linux.
    """
    if not sys.platform.startswith("linux"):
        raise LaunchError(f"the driver library runs on Linux; {sys.platform} has warpsim.driver and warpsim.compat")
    shim = "".join((SOURCES / name).read_text(encoding="utf-8") for name in ("shim.c", "runtime.h", "linked.c"))
    lists = {library: header(library) for library in CALLS}
    python = python_library()
    key = hashlib.sha256("\0".join([shim, *lists.values(), python, *LIBRARIES]).encode()).hexdigest()[:16]
    home = Path(folder) if folder is not None else cache() / f"cuda-{key}"
    done = home / "built"
    if done.exists() and done.read_text(encoding="utf-8") == key:
        return home
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as work:
        for library, text in lists.items():
            Path(work, f"{library}.h").write_text(text, encoding="utf-8")
        for name, (library, more) in LIBRARIES.items():
            _compile(Path(work), name, library, python, more)
            os.replace(Path(work, name), home / name)
        _run("-O2", "-fPIC", "-shared", str(SOURCES / "linked.c"), "-o", str(Path(work, LINKED)))
        os.replace(Path(work, LINKED), home / LINKED)
    for link, target in LINKS.items():
        if not (home / link).exists():
            os.symlink(target, home / link)
    done.write_text(key, encoding="utf-8")
    return home


def _compile(work: Path, name: str, library: str, python: str, more: tuple[str, ...]) -> None:
    script = work / "versions"
    script.write_text(f"{name} {{ global: *; }};\n", encoding="utf-8")
    versioned = (f"-Wl,--version-script={script}",) if library not in ("cuda", "nvml") else ()
    words = ["-O0", "-fPIC", "-shared", "-fvisibility=hidden", f"-Wl,-soname,{name}", *versioned, *more]
    words += [f'-DLIBRARY="{library}"', f'-DCALLS="{library}.h"', f'-DPYTHON_LIBRARY="{python}"', f"-I{work}"]
    _run(*words, str(SOURCES / "shim.c"), "-o", str(work / name), "-lpthread", "-ldl")


def _run(*words: str) -> None:
    command = [*compiler(), "-fno-sanitize=undefined", *words]  # otherwise Zig would add its runtime
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LaunchError(f"{command[0]} cannot build the driver library: {done.stderr.strip()[-400:]}")


def environment(libraries: Path, given: Mapping[str, str], *, preload: bool = True) -> dict[str, str]:
    """The environment variables with which a program finds the libraries, and these find this Python and this package.

    Args:
        libraries: the folder returned by `build`.
        given: the environment to extend.
        preload: preload all libraries ahead of those that the program brings; otherwise only libcudart, for programs
            with a statically linked NVIDIA runtime.
    """
    env = dict(given)
    runtime = str(libraries / RUNTIME)
    _before(env, "LD_LIBRARY_PATH", [str(libraries)], os.pathsep)
    _before(env, "LD_PRELOAD", [str(libraries / name) for name in LIBRARIES] if preload else [runtime], " ")
    _before(env, "LD_AUDIT", [str(libraries / LINKED)], ":")
    _before(env, "PYTHONPATH", [str(SOURCES / "start")], os.pathsep)
    env["WARPSIM_CUDART"] = runtime
    _set_nvcc(env)
    env.setdefault("CUPY_CACHE_DIR", str(cache() / "cupy"))  # that of a real GPU has machine code
    env.setdefault("CUPY_ACCELERATORS", "")  # CuPy would not check whether its machine code (CUB) ran
    env.setdefault("WARPSIM_LIBPYTHON", python_library())
    env.setdefault("WARPSIM_PYTHONHOME", sys.base_prefix)
    home = str(Path(__file__).resolve().parents[2])
    env["WARPSIM_PATH"] = os.pathsep.join(dict.fromkeys([home, *(p for p in sys.path if os.path.isdir(p))]))
    return env


def _set_nvcc(env: dict[str, str]) -> None:
    """Make ``NVCC`` name a compiler that makes PTX, for programs that compile as they run."""
    home = env.get("CUDA_PATH") or env.get("CUDA_HOME") or "/usr/local/cuda"
    found = shutil.which("nvcc", path=env.get("PATH")) or shutil.which(os.path.join(home, "bin", "nvcc"))
    theirs = env.get("NVCC") or found
    ours = [sys.executable, str(SOURCES / "nvcc")]
    if theirs and "WARPSIM_NVCC" not in env and not any(" " in word for word in ours):  # CuPy splits it at spaces
        env |= {"NVCC": " ".join(ours), "WARPSIM_NVCC": theirs}


def _before(env: dict[str, str], name: str, words: list[str], between: str) -> None:
    env[name] = between.join([*words, *filter(None, [env.get(name)])])
