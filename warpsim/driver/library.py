"""Builds ``libcuda.so.1`` and ``libcudart.so``, and makes the environment in which a program finds them."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

from warpsim.cache import hashed
from warpsim.errors import LaunchError
from warpsim.owned import PART, cache_folder, doubt, read, sweep, write

SOURCES = Path(__file__).with_name("abi")
LIBRARIES = {
    "libcuda.so.1": "cuda",
    "libcudart.so.13": "cudart",
    "libcudart.so.12": "cudart",
    "libnvJitLink.so.13": "nvjitlink",
    "libnvJitLink.so.12": "nvjitlink",
    "libnvrtc.so.13": "nvrtc",
    "libnvrtc.so.12": "nvrtc",
    "libnvidia-ml.so.1": "nvml",
}
"""The libraries' files, and their functions."""
LINKS = {"libcuda.so": "libcuda.so.1", "libcudart.so": "libcudart.so.13"}
RUNTIME, LINKED = "libcudart.so.13", "libwarpsim-linked.so"
"""The runtime library that is preloaded, and the library that redirects programs with a statically linked runtime."""
DIGEST = "built"
"""The file with the libraries' digest."""
LARGEST = 32 << 20
"""The largest library file that is read, in bytes."""


def compiler() -> list[str]:
    """The C compiler: ``CC``, the system's, or that of the ziglang package."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name.split()[0]):
            return name.split()
    zig = importlib.util.find_spec("ziglang")
    if zig is not None and zig.origin is not None:  # -m would look into the current folder first
        return [sys.executable, str(Path(zig.origin).with_name("__main__.py")), "cc"]
    raise LaunchError("the driver library needs a C compiler: install gcc or clang, or pip install 'warpsim[cuda]'")


def python_library() -> str:
    """The shared library of this Python, which non-Python programs load."""
    name = sysconfig.get_config_var("INSTSONAME") or sysconfig.get_config_var("LDLIBRARY") or ""
    for folder in (sysconfig.get_config_var("LIBDIR"), os.path.join(sys.base_prefix, "lib")):
        path = os.path.join(folder or "", name)
        if ".so" in name and os.path.exists(path):
            return path
    return ""


DEVICE_RUNTIME = os.path.join("lib64", "libcudadevrt.a")
"""Where CuPy looks for it: beside the folder that it finds NVRTC in."""


def build(spare: Path | None = None) -> Path:
    """The folder with the libraries, in the user's cache; compiles them if they are missing or damaged.

    Args:
        spare: a folder to build them in if there is no cache, or no room in it.

    Raises:
        LaunchError: there is no compiler, it fails, or the system is not Linux.
    """
    if not sys.platform.startswith("linux"):
        raise LaunchError(f"the driver library runs on Linux; {sys.platform} has warpsim.driver and warpsim.compat")
    python = python_library()
    sources = (path.read_bytes() for path in sorted(SOURCES.glob("*.*")))  # they declare the functions
    key = hashed(b"\0".join([*sources, "\0".join([python, *LIBRARIES]).encode()])).hex()[:16]
    problem: Exception = LaunchError("there is no folder for the driver library: WARPSIM_CACHE names one")
    for folder in filter(None, (cache_folder(), spare)):
        home = Path(os.path.realpath(folder), f"cuda-{key}")
        try:
            if not _whole(home):
                _make(home, python)
            if not (home.parent / DEVICE_RUNTIME).exists():
                from warpsim.driver.merging import ARCHIVE

                (home.parent / DEVICE_RUNTIME).parent.mkdir(0o700, exist_ok=True)
                write(home.parent / DEVICE_RUNTIME, b"!<arch>\n" + ARCHIVE)
            return home
        except (OSError, LaunchError) as raised:
            problem = raised
    raise LaunchError(str(problem)) from None


def _digest(home: Path) -> bytes | None:
    """The digest of a folder's name and libraries; None if one is missing or another user may have written it."""
    found = [read(home / name, LARGEST) for name in (*LIBRARIES, LINKED)]
    if None in found or not all((home / link).exists() for link in LINKS):
        return None
    parts = [home.name.encode(), *(data or b"" for data in found)]
    return hashed(b"".join(map(hashed, parts)))


def _whole(home: Path) -> bool:
    digest = _digest(home)
    return digest is not None and digest == read(home / DIGEST, len(digest))


def _make(home: Path, python: str) -> None:
    """Compile into a new folder, which then replaces the old one."""
    from warpsim.driver.abi.binding import header  # only here: it imports all that the functions do
    from warpsim.driver.abi.calls import CALLS

    sweep(home.parent)
    with tempfile.TemporaryDirectory(prefix=PART, dir=home.parent) as folder:
        work, made = Path(folder), Path(folder, home.name)
        made.mkdir(0o700)
        _compile(work, python, {library: header(library) for library in CALLS})
        for name, library in LIBRARIES.items():
            _link(work, name, library)
        _run("-O1", "-fPIC", "-shared", str(SOURCES / "linked.c"), "-o", str(work / LINKED))
        for name in (*LIBRARIES, LINKED):
            os.replace(work / name, made / name)
        for link, target in LINKS.items():
            os.symlink(target, made / link)
        write(made / DIGEST, _digest(made) or b"")
        if os.path.lexists(home) and not _whole(home):
            os.replace(home, work / "damaged")
        with contextlib.suppress(OSError):  # another process was faster
            os.rename(made, home)
    if not _whole(home):
        raise LaunchError(f"the driver library in {home} cannot be used: {doubt(home) or 'it is damaged'}")


def _compile(work: Path, python: str, functions: Mapping[str, str]) -> None:
    """Compile what libraries are linked of, given the ``functions`` of each as ``entries.S`` includes them."""
    for name in ("shim", "structures"):
        _object(work, name, f"{name}.c", "-O0", f'-DPYTHON_LIBRARY="{python}"')
    for library, text in functions.items():
        Path(work, f"{library}.h").write_text(text, encoding="utf-8")
        _object(work, library, "entries.S", f'-DLIBRARY="{library}"', f'-DCALLS="{library}.h"', f"-I{work}")


def _object(work: Path, name: str, source: str, *words: str) -> None:
    _run("-c", "-fPIC", *words, str(SOURCES / source), "-o", str(work / f"{name}.o"))


def _link(work: Path, name: str, library: str) -> None:
    script, objects = work / "versions", (library, "shim", *("structures",) * (library == "cudart"))
    script.write_text(f"{name} {{ global: *; }};\n", encoding="utf-8")
    versioned = (f"-Wl,--version-script={script}",) if library not in ("cuda", "nvml") else ()
    parts = [str(work / f"{each}.o") for each in objects]
    _run("-shared", f"-Wl,-soname,{name}", *versioned, *parts, "-o", str(work / name), "-lpthread", "-ldl")


def _run(*words: str) -> None:
    command = [*compiler(), "-fno-sanitize=undefined", *words]  # otherwise Zig would add its runtime
    done = subprocess.run(command, capture_output=True, text=True, check=False, umask=0o077)
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
    env["WARPSIM_CACHE"] = str(cache_folder() or "")
    env.setdefault("TRITON_LIBCUDA_PATH", str(libraries))
    env.setdefault("CUPY_CACHE_DIR", str(libraries.parent / "cupy"))  # that of a real GPU has machine code
    env.setdefault("TILELANG_CACHE_DIR", str(libraries.parent / "tilelang"))  # likewise
    env.setdefault("CUTE_DSL_CACHE_DIR", str(libraries.parent / "cute"))
    env.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # its other processes would make machine code
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
    nvcc = env.get("NVCC") or found
    wrapper = [sys.executable, str(SOURCES / "nvcc")]
    if nvcc and "WARPSIM_NVCC" not in env and not any(" " in word for word in wrapper):  # CuPy splits it at spaces
        env |= {"NVCC": " ".join(wrapper), "WARPSIM_NVCC": nvcc}
        env.setdefault("PYTORCH_NVCC", " ".join(wrapper))


def _before(env: dict[str, str], name: str, words: list[str], between: str) -> None:
    env[name] = between.join([*words, *filter(None, [env.get(name)])])
