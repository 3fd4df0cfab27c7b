"""Python programs of `warpsim exec`: which simulator they load, and which run time the extension modules of cuda.bindings."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from warpsim.cli import executing
from warpsim.driver import library
from warpsim.driver.abi.binding import header

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not any(map(shutil.which, ("cc", "gcc", "clang"))),
    reason="the libraries are for Linux, and a C compiler makes them",
)
MODULE = """
import ctypes
new = ctypes.pythonapi.PyCapsule_New
new.argtypes, new.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.py_object
theirs = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1)
where = ctypes.cast(theirs, ctypes.c_void_p)
__pyx_capi__ = {name: new(where, None, None) for name in ("_cudaFree", "cudaMalloc", "_cudaOther", "free")}
"""
TAKES = """
import ctypes
import cuda.bindings._internal.runtime as runtime
get = ctypes.pythonapi.PyCapsule_GetPointer
get.argtypes, get.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
call = ctypes.CFUNCTYPE(ctypes.c_int)
print({name: call(get(capsule, None))() for name, capsule in runtime.__pyx_capi__.items()})
"""


def python(program, env):
    """Run a program, and give what it prints."""
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd="/", env=env, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr, done.returncode


def test_the_run_time_of_cuda_bindings(tmp_path):
    """Pointers under the names that ours has are replaced; any other stays, and what Python starts with besides does too."""
    package = tmp_path / "cuda" / "bindings" / "_internal"
    package.mkdir(parents=True)
    (package / "runtime.py").write_text(MODULE)
    (tmp_path / "sitecustomize.py").write_text("print('theirs')")
    (tmp_path / "ours.c").write_text(
        "int cudaFree(void) { return 42; } int cudaMalloc(void) { return 43; } int free(void);"
    )
    ours = tmp_path / library.RUNTIME
    command = [*library.compiler(), "-shared", "-fPIC", str(tmp_path / "ours.c"), "-o", str(ours)]
    subprocess.run(command, check=True)
    env = library.environment(tmp_path, {"PYTHONPATH": str(tmp_path)}, preload=False)
    env = {name: value for name, value in env.items() if not name.startswith("LD_")}

    led = "{'_cudaFree': 42, 'cudaMalloc': 43, '_cudaOther': 1, 'free': 1}"
    assert python(TAKES, env) == (f"theirs\n{led}\n", "", 0)
    assert python(TAKES, env | {"WARPSIM_CUDART": ""})[0].splitlines()[1] == led.replace("42", "1").replace("43", "1")


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (
            "-gencode=arch=compute_80,code=sm_80 --cubin a/k.cu",
            "-gencode=arch=compute_80,code=compute_80 -ptx a/k.cu -o k.cubin",
        ),
        ("-cubin -arch=sm_80 k.cu -o x", "-ptx -arch=sm_80 k.cu -o x"),
        ("--cubin --device-link k.o -o x", "--cubin --device-link k.o -o x"),
        ("-dc -arch=sm_80 k.cu", "-dc -arch=sm_80 k.cu"),
        ("--version", "--version"),
    ],
)
def test_a_compiler_for_programs_that_compile_as_they_run(tmp_path, given, made):
    """nvcc is asked for PTX where a program asks for a cubin of one source, and for what it says else."""
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\necho $@\nexit 3\n")
    nvcc.chmod(0o755)
    env = library.environment(tmp_path, {"NVCC": str(nvcc), "PATH": os.environ["PATH"]}, preload=False)
    env = {name: value for name, value in env.items() if not name.startswith("LD_")}
    done = subprocess.run([*env["NVCC"].split(), *given.split()], env=env, capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr, done.returncode) == (made + "\n", "", 3)
    assert library.environment(tmp_path, env)["WARPSIM_NVCC"] == str(nvcc)


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    """Our run time's library."""
    folder = tmp_path_factory.mktemp("runtime")
    (folder / "cudart.h").write_text(header("cudart"))
    name = library.RUNTIME
    library._compile(folder, name, *library.LIBRARIES[name][:1], library.python_library(), library.LIBRARIES[name][1])
    return folder / name


@pytest.mark.long
def test_which_simulator(runtime, tmp_path):
    """The one whose library it is, though the program's Python finds another; unless that is loaded already."""
    other = tmp_path / "warpsim"
    other.mkdir()
    (other / "__init__.py").write_text("")
    home = str(Path(library.__file__).parents[2])
    env = {"PYTHONPATH": str(tmp_path), "WARPSIM_PATH": home}
    program = f"import ctypes; {{}}n = ctypes.c_int(); print(ctypes.CDLL({str(runtime)!r}).cudaGetDeviceCount(ctypes.byref(n)), n.value)"

    assert python(program.format(""), env) == ("0 1\n", "", 0)
    out, err, _ = python(program.format("import warpsim; "), env)
    assert out == "3 0\n"
    assert "the simulator did not start" in err


def test_a_simulator_that_does_not_start(runtime, tmp_path):
    """Functions give an error, and those that give a text give one."""
    program = f"""
import ctypes
library = ctypes.CDLL({str(runtime)!r})
library.cudaGetErrorString.restype = library.cudaGetErrorName.restype = ctypes.c_char_p
print(library.cudaFree(0), library.cudaGetErrorString(3), library.cudaGetErrorName(3))
"""
    (tmp_path / "warpsim").mkdir()
    (tmp_path / "warpsim" / "__init__.py").write_text("raise ImportError('broken')")
    out, err, status = python(program, {"WARPSIM_PATH": str(tmp_path)})

    text = b"the simulator did not start"
    assert (out, status) == (f"3 {text} {text}\n", 0)
    assert "ImportError: broken" in err


def test_after_the_end_of_python(runtime, tmp_path):
    """Destructors of the program come after Python's: they may give back, and ask for the device and for an error's text."""
    (tmp_path / "last.c").write_text("""
#include <stdio.h>
int cudaGetDevice(int *), cudaSetDevice(int), cudaEventDestroy(void *), cudaMalloc(void **, size_t);
const char *cudaGetErrorString(int);
__attribute__((destructor)) static void end(void)
{
    int n = 7, status = cudaGetDevice(&n);
    printf("%d %d %d %d %d %s\\n", status, n, cudaSetDevice(0), cudaEventDestroy(0), cudaMalloc(0, 4), cudaGetErrorString(4));
    fflush(stdout);
}
""")
    last = tmp_path / "last.so"
    command = [*library.compiler(), "-shared", "-fPIC", str(tmp_path / "last.c"), str(runtime), "-o", str(last)]
    subprocess.run(command, check=True)
    env = {"WARPSIM_PATH": str(Path(library.__file__).parents[2]), "LD_LIBRARY_PATH": str(runtime.parent)}
    program = f"import ctypes; print(ctypes.CDLL({str(last)!r}).cudaFree(0), flush=True)"

    assert python(program, env) == ("0\n0 0 0 0 4 the simulator has ended\n", "", 0)


def test_exceptions_around_a_call(runtime, tmp_path):
    """One that is on its way is neither seen nor lost; one that interrupts a call is raised where the call returns, and
    leaves no error behind."""
    (tmp_path / "unwinding.c").write_text("""
extern void *PyExc_ValueError;
void PyErr_SetString(void *, const char *);
int cudaFree(void *), cudaMalloc(void **, unsigned long);
int unwind(void)
{
    void *made;
    PyErr_SetString(PyExc_ValueError, "theirs");
    return cudaMalloc(&made, 4) || cudaFree(made) || cudaFree((void *)16) != 1;
}
""")
    other = tmp_path / "unwinding.so"
    command = [*library.compiler(), "-shared", "-fPIC", str(tmp_path / "unwinding.c"), str(runtime), "-o", str(other)]
    subprocess.run(command, check=True)
    env = {"WARPSIM_PATH": str(Path(library.__file__).parents[2]), "LD_LIBRARY_PATH": str(runtime.parent)}
    program = f"""
import ctypes
ours, theirs, made = ctypes.CDLL({str(runtime)!r}), ctypes.PyDLL({str(other)!r}), ctypes.c_void_p()
def stop(*words):
    raise KeyboardInterrupt("enough")
def run(function, *words):
    try:
        print(function(*words))
    except (ValueError, KeyboardInterrupt) as problem:
        print(repr(problem))
run(theirs.unwind)
from warpsim.driver.abi.calls import PROCESS
PROCESS.driver.memory.allocate = stop
run(ours.cudaMalloc, ctypes.byref(made), 4)
del PROCESS.driver.memory.allocate
run(ours.cudaMalloc, ctypes.byref(made), 4)
"""

    out, err, status = python(program, env)
    assert (out, status) == ("ValueError('theirs')\nKeyboardInterrupt('enough')\n0\n", 0)
    assert err.count("\n") == 1  # cudaFree(16) is refused


def test_a_signal_reaches_the_program():
    """Who ends ``warpsim exec`` ends the program, which would run on without it."""
    before = signal.getsignal(signal.SIGTERM)

    def end():
        while signal.getsignal(signal.SIGTERM) is before:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, daemon=True).start()
    status = executing._run([sys.executable, "-c", "import time; time.sleep(60)"], dict(os.environ))

    assert status == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before
