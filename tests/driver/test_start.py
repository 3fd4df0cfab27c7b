"""Python programs of `warpsim exec`: which simulator they load, and which run time the extension modules of cuda.bindings."""

import ctypes
import functools
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from warpsim.cache import HEAD
from warpsim.cli import executing, main
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
STACK, EXECUTABLE = 0x6474E551, 1
"""A program header of ELF that is about the stack, and its flag."""
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


def built(folder, name):
    """One of our libraries."""
    kind = library.LIBRARIES[name]
    library._compile(folder, library.python_library(), {kind: header(kind)})
    library._link(folder, name, kind)
    return folder / name


FLOATS = """
import ctypes
library = ctypes.CDLL({!r})
number, word = ctypes.c_void_p(), ctypes.c_float()
status = [library.cuInit(0), library.cuCtxCreate_v2(ctypes.byref(number), 0, 0), library.cuTexRefCreate(ctypes.byref(number))]
library.cuTexRefSetMipmapLevelBias.argtypes = ctypes.c_void_p, ctypes.c_float
status += [library.cuTexRefSetMipmapLevelBias(number, 1.5), library.cuTexRefGetMipmapLevelBias(ctypes.byref(word), number)]
found = [word.value]
library.cuTexRefSetMipmapLevelClamp.argtypes = ctypes.c_void_p, ctypes.c_float, ctypes.c_float
status.append(library.cuTexRefSetMipmapLevelClamp(number, 2.5, -3.5))
other = ctypes.c_float()
status.append(library.cuTexRefGetMipmapLevelClamp(ctypes.byref(word), ctypes.byref(other), number))
print(any(status), found, word.value, other.value)
"""


def test_floats(driver):
    """They come in registers of their own."""
    home = str(Path(library.__file__).parents[2])
    assert python(FLOATS.format(str(driver)), {"WARPSIM_PATH": home, "WARPSIM_QUIET": "1"}) == (
        "False [1.5] 2.5 -3.5\n",
        "",
        0,
    )


ANSWER = """
#include <stdint.h>
static uint64_t last;
uint64_t second(uint64_t);
uint64_t answer(int at, uint64_t caller, const uint64_t *words) {
    uint64_t found = at;
    for (int i = 0; i < 16; i++)
        found = 3 * found + words[i];
    last = caller;
    return found;
}
uint64_t behind(void) { second(0); return last - (uint64_t)(uintptr_t)behind; }
"""


def test_entry_points(tmp_path):
    """Each passes on its number, and sixteen words of registers and of the stack in their order; debuggers find its caller."""
    (tmp_path / "functions.h").write_text("FUNCTION first\nFUNCTION second\n")
    (tmp_path / "answer.c").write_text(ANSWER)
    words = '-DLIBRARY="any"', '-DCALLS="functions.h"', f"-I{tmp_path}"
    library._object(tmp_path, "entries", "entries.S", *words)
    parts = [str(tmp_path / name) for name in ("answer.c", "entries.o")]
    library._run("-O0", "-shared", "-fPIC", *parts, "-o", str(tmp_path / "any.so"))
    first, second, behind = (ctypes.CDLL(str(tmp_path / "any.so"))[name] for name in ("first", "second", "behind"))
    assert 0 < behind() < 256  # it is called from there
    described = ctypes.CDLL("libgcc_s.so.1")._Unwind_FindEnclosingFunction
    described.restype = ctypes.c_void_p
    places = [ctypes.cast(each, ctypes.c_void_p).value for each in (first, second)]
    assert [described(ctypes.c_void_p(place + 1)) for place in places] == [places[0]] * 2
    second.restype, given = ctypes.c_uint64, [2**64 - 7**k for k in range(16)]

    assert (
        second(*map(ctypes.c_uint64, given)) == functools.reduce(lambda found, word: 3 * found + word, given, 1) % 2**64
    )


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    """Our run time's library."""
    return built(tmp_path_factory.mktemp("runtime"), library.RUNTIME)


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """Our driver's library."""
    return built(tmp_path_factory.mktemp("driver"), "libcuda.so.1")


def test_what_a_library_is(runtime):
    """It has the functions that take structures, a version of its name, and no stack that can be executed."""
    versioned, loaded = ctypes.CDLL(None).dlvsym, ctypes.CDLL(str(runtime))
    versioned.restype = ctypes.c_void_p
    handle, data = ctypes.c_void_p(loaded._handle), runtime.read_bytes()
    first, size, count = struct.unpack_from("<Q14xHH", data, 32)
    segments = [struct.unpack_from("<II", data, first + size * number) for number in range(count)]

    assert all(versioned(handle, name, runtime.name.encode()) for name in (b"cudaFree", b"cudaMemset3D"))
    assert not any(hasattr(loaded, name) for name in ("answer", "table"))
    assert [flags & EXECUTABLE for kind, flags in segments if kind == STACK] == [0]


def test_which_version(tmp_path):
    """Programs of CUDA 12 load a library of that name."""
    older = str(built(tmp_path, "libcudart.so.12"))
    program = f"import ctypes; ctypes.CDLL({older!r}).cudaGetLastError(); from warpsim.driver.abi.process import PROCESS; print(PROCESS.runtime)"

    assert python(program, {"WARPSIM_PATH": str(Path(library.__file__).parents[2])}) == ("12\n", "", 0)


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


def test_programs_are_linked_to_it(driver, tmp_path, monkeypatch, capsys):
    """``-lcuda`` is found where ``--link-flags`` says, and the program asks for the library by the name that every driver has."""
    (driver.parent / "libcuda.so").symlink_to(driver.name)
    monkeypatch.setattr(library, "build", lambda: driver.parent)
    assert main(["exec", "--link-flags"]) == 0
    (tmp_path / "p.c").write_text("int cuInit(unsigned); int main(void) { return cuInit(0); }")
    words = [*capsys.readouterr().out.split(), "-lcuda"]
    subprocess.run([*library.compiler(), str(tmp_path / "p.c"), "-o", str(tmp_path / "p"), *words], check=True)

    assert b"\0libcuda.so.1\0" in (tmp_path / "p").read_bytes()


CALLS = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
typedef unsigned long long ptr;
int cuInit(unsigned), cuCtxCreate_v2(void **, unsigned, int), cuCtxDestroy_v2(void *), cuCtxSynchronize(void);
int cuCtxPushCurrent_v2(void *), cuCtxPopCurrent_v2(void **), cuCtxGetCurrent(void **), cuCtxSetCurrent(void *);
int cuMemAlloc_v2(ptr *, size_t), cuMemFree_v2(ptr), cuMemcpyDtoH_v2(void *, ptr, size_t), cuMemsetD32_v2(ptr, int, size_t);
int cuGetErrorName(int, const char **), cuDevicePrimaryCtxGetState(int, unsigned *, int *);
static void *context;
static ptr memory;
static int begin(void)
{
    return cuInit(0) | cuCtxCreate_v2(&context, 0, 0) | cuMemAlloc_v2(&memory, 4) | cuMemsetD32_v2(memory, 5, 1);
}
static void call(const char *who)
{
    void *now = 0, *before = 0, *last = 0;
    const char *name = "";
    int word = 0, status = cuCtxGetCurrent(&before) | cuCtxPushCurrent_v2((void *)64) | cuCtxGetCurrent(&now) |
                           cuCtxPopCurrent_v2(&last) | cuCtxSynchronize() | cuGetErrorName(4, &name);
    void *none = &none;
    unsigned flags = 9;
    int active = 9;
    status |= cuCtxSetCurrent(0) | cuCtxGetCurrent(&none) | cuCtxSetCurrent(before) | (none != 0);
    status |= cuDevicePrimaryCtxGetState(0, &flags, &active) | flags | active;
    int copied = cuMemcpyDtoH_v2(&word, memory, 4), freed = cuMemFree_v2(memory), destroyed = cuCtxDestroy_v2(context);
    printf("%s: %d %d %d %s; copy %d %d, free %d, destroy %d\\n", who, status, before == context, now == last, name, copied, word,
           freed, destroyed);
    fflush(stdout);
}
"""


def test_c_programs_that_end(driver, tmp_path):
    """Calls by a handler that was registered before the first one, by a destructor, and by a thread that goes on, get what
    any call gets."""
    (tmp_path / "ends.c").write_text(
        CALLS.replace("(void *)64", "context")
        + """
static void *go_on(void *unused)
{
    for (;;)
        cuInit(0);
}
static void handler(void) { call("handler"); }
__attribute__((destructor)) static void end(void)
{
    printf("destructor: %d\\n", begin());
    call("destructor");
}
int main(void)
{
    pthread_t thread;
    atexit(handler);
    return begin() | pthread_create(&thread, 0, go_on, 0);
}
"""
    )
    program = tmp_path / "ends"
    subprocess.run(
        [*library.compiler(), str(tmp_path / "ends.c"), str(driver), "-o", str(program), "-lpthread"], check=True
    )
    paths = {"WARPSIM_PATH": os.pathsep.join([str(Path(library.__file__).parents[2]), *sys.path])}
    env = {**paths, "LD_LIBRARY_PATH": str(driver.parent), "WARPSIM_PYTHONHOME": sys.base_prefix}
    done = subprocess.run([str(program)], env=env, capture_output=True, text=True, check=False)

    answered = "0 1 1 CUDA_ERROR_DEINITIALIZED; copy 0 5, free 0, destroy 0"
    assert done.stdout == f"handler: {answered}\ndestructor: 0\ndestructor: {answered}\n"
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize(("given", "said"), [({}, "none 1\n"), ({"OPENBLAS_NUM_THREADS": "2"}, "2 ")])
def test_threads_of_c_programs(driver, tmp_path, given, said):
    """NumPy starts none in them, unless told to; what they start has the environment that they were given."""
    (tmp_path / "p.c").write_text("""
#include <stdlib.h>
int cuInit(unsigned);
int main(void) { return cuInit(0) | system("echo ${OPENBLAS_NUM_THREADS-none} $(ls /proc/$PPID/task | wc -l)"); }
""")
    program = tmp_path / "p"
    subprocess.run([*library.compiler(), str(tmp_path / "p.c"), str(driver), "-o", str(program)], check=True)
    env = {
        "WARPSIM_PATH": os.pathsep.join([str(Path(library.__file__).parents[2]), *sys.path]),
        "PATH": os.environ["PATH"],
    }
    env |= {"LD_LIBRARY_PATH": str(driver.parent), "WARPSIM_PYTHONHOME": sys.base_prefix, **given}
    done = subprocess.run([str(program)], env=env, capture_output=True, text=True, check=False)

    assert (done.stdout[: len(said)], done.stderr, done.returncode) == (said, "", 0)


PRODUCTS = r"""
#include <stdio.h>
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuCtxSynchronize(void);
int cuModuleLoadData(void **, const void *), cuModuleGetFunction(void **, void *, const char *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int main(void)
{
    void *context, *module, *kernel;
    int failed = cuInit(0) | cuDevicePrimaryCtxRetain(&context, 0) | cuCtxSetCurrent(context);
    failed |= cuModuleLoadData(&module, ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {"
        ".reg .b32 %r<9>, %n; .reg .f32 %f<4>; .reg .pred %q; mov.b32 %r1, 0; mov.b32 %n, 0;"
        "mov.b32 %f0, 0f00000000; mov.b32 %f1, %f0; mov.b32 %f2, %f0; mov.b32 %f3, %f0;"
        "L: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r1,%r1,%r1,%r1}, {%r1,%r1}, {%f0,%f1,%f2,%f3};"
        "add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 1000; @%q bra L; ret; }");
    failed |= cuModuleGetFunction(&kernel, module, "k");
    return failed | cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0) | cuCtxSynchronize();
}
"""


@pytest.mark.long
def test_what_c_programs_leave_on_disk(driver, tmp_path):
    """A program that launches a kernel once: the first run notes what took a while, the second compiles it, and its code is there
    when the third begins."""
    pytest.importorskip("llvmlite", reason="the extra jit is not installed")
    (tmp_path / "products.c").write_text(PRODUCTS)
    program, kept = tmp_path / "products", tmp_path / "kept"
    subprocess.run([*library.compiler(), str(tmp_path / "products.c"), str(driver), "-o", str(program)], check=True)
    kept.mkdir(0o700)
    paths = {"WARPSIM_PATH": os.pathsep.join([str(Path(library.__file__).parents[2]), *sys.path])}
    env = {**paths, "LD_LIBRARY_PATH": str(driver.parent), "WARPSIM_PYTHONHOME": sys.base_prefix}
    found = []
    for _ in range(3):
        done = subprocess.run([str(program)], env={**env, "WARPSIM_CACHE": str(kept)}, capture_output=True, check=False)
        assert (done.stdout, done.stderr, done.returncode) == (b"", b"", 0)
        files = [path for path in kept.glob("*.[no]") if path.read_bytes()[HEAD:][:1] != pickle.PROTO]  # no programs
        found.append({path.name for path in files})
    objects = [{name for name in names if name.endswith(".o")} for names in found]
    assert found[0]
    assert not objects[0]
    assert objects[1]
    assert objects[2] == objects[1]


@pytest.mark.parametrize("started", [True, pytest.param(False, marks=pytest.mark.long)])
def test_python_programs_that_end(driver, tmp_path, started):
    """Handlers of the program, whatever thread they have call, get what any call gets. When Python has ended, contexts are as
    before, what is given back has been, and work is too late; threads that call meanwhile are left alone."""
    (tmp_path / "last.c").write_text(
        CALLS
        + """
static volatile int asked, answer, over;
static void killed(void *unused) { abort(); }
static void *go_on(void *unused)
{
    pthread_cleanup_push(killed, 0);
    for (cuCtxSetCurrent(context); !over; cuCtxSynchronize())
        if (asked) {
            ptr other;
            answer = 1 + (cuMemAlloc_v2(&other, 4) | cuMemFree_v2(other));
            asked = 0;
        }
    pthread_cleanup_pop(0);
    return 0;
}
static void *arrive(void *unused) { call("thread"); return 0; }
static pthread_t thread;
int prepare(void) { return begin() | pthread_create(&thread, 0, go_on, 0); }
int ask(void) { for (asked = 1; asked;) usleep(100); return answer; }
void tell(void) { call("object"); }
__attribute__((destructor)) static void end(void)
{
    over = 1;
    pthread_join(thread, 0);
    pthread_create(&thread, 0, arrive, 0);
    pthread_join(thread, 0);
    call("destructor");
}
"""
    )
    last = tmp_path / "last.so"
    command = [
        *library.compiler(),
        "-shared",
        "-fPIC",
        str(tmp_path / "last.c"),
        str(driver),
        "-o",
        str(last),
        "-lpthread",
    ]
    subprocess.run(command, check=True)
    program = f"""
import atexit, ctypes
atexit.register(lambda: print(library.ask() if {started} else 1, flush=True))
library = ctypes.CDLL({str(last)!r})
print(library.prepare(), flush=True)
class Thing:
    def __del__(self, tell=library.tell):
        tell()
thing = Thing()
"""
    env = {"WARPSIM_PATH": str(Path(library.__file__).parents[2]), "LD_LIBRARY_PATH": str(driver.parent)}
    if started:
        env |= {"PYTHONPATH": str(library.SOURCES / "start"), "WARPSIM_CUDART": "ours"}
    late = "0 1 1 CUDA_ERROR_DEINITIALIZED; copy 4 0, free 0, destroy 0"
    out = "".join(f"{who}: {late}\n" for who in ("object", "thread", "destructor"))

    assert python(program, env) == (f"0\n1\n{out}", "", 0)


def test_a_first_call_after_the_end_of_python(driver, tmp_path):
    """Python does not begin again."""
    (tmp_path / "last.c").write_text(
        CALLS + '__attribute__((destructor)) static void end(void) { call("destructor"); }'
    )
    last = tmp_path / "last.so"
    subprocess.run(
        [*library.compiler(), "-shared", "-fPIC", str(tmp_path / "last.c"), str(driver), "-o", str(last)], check=True
    )
    start = {"PYTHONPATH": str(library.SOURCES / "start"), "WARPSIM_CUDART": "ours"}
    env = start | {"WARPSIM_PATH": str(Path(library.__file__).parents[2]), "LD_LIBRARY_PATH": str(driver.parent)}

    late = "destructor: 0 1 1 CUDA_ERROR_DEINITIALIZED; copy 4 0, free 0, destroy 0\n"
    assert python(f"import numpy, ctypes; ctypes.CDLL({str(last)!r})", env) == (late, "", 0)


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
from warpsim.driver.abi.process import PROCESS
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


WITHOUT_NAMES = """
int cuInit(unsigned), cuDeviceGetCount(int *);
const char table[] = "\\x6b\\xd5\\xfb\\x6c\\x5b\\xf4\\xe7\\x4a\\x89\\x87\\xd9\\x39\\x12\\xfd\\x9d\\xf9";
int begin(void) { int found = cuInit(0); return found + 0; }
"""


@pytest.mark.long
@pytest.mark.parametrize(("stripped", "found"), [("-s", 100), ("-g", 0)])
def test_a_library_that_needs_the_run_time_of_nvidia_sees_no_device(tmp_path, stripped, found):
    """Told at cuInit, it announces none; one with its names, and everybody else in the process, sees the device."""
    (tmp_path / "theirs.c").write_text(WITHOUT_NAMES)
    theirs = tmp_path / "libtheirs.so"
    words = ("-O1", "-shared", "-fPIC", stripped, str(tmp_path / "theirs.c"), "-o", str(theirs))
    subprocess.run([*library.compiler(), *words], check=True)
    program = f"import ctypes; print(ctypes.CDLL({str(theirs)!r}).begin(), ctypes.CDLL('libcuda.so.1').cuInit(0))"
    command = [sys.executable, "-m", "warpsim", "exec", "--", sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.stdout == f"{found} 0\n", done.stderr
    assert ("libtheirs.so has NVIDIA's run time linked in" in done.stderr) == bool(found)
