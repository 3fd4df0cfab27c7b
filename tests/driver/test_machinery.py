"""What stands behind the functions of the libraries: guards, tables, reports, the compiler's libraries, the start of a program."""

import ctypes
import importlib
import io
import os
import struct
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from driver_calls import OUT_OF_MEMORY, UNKNOWN, row, string
from warpsim.driver import driver, library, modules, results
from warpsim.driver.abi import binding, compilers, process
from warpsim.driver.abi.calls import CALLS, INTERRUPT, Call, guarded
from warpsim.driver.abi.nvcc.__main__ import translated
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.results import DriverError, Result
from warpsim.errors import Finding, LaunchError

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the libraries are for Linux")


@pytest.mark.parametrize(
    ("problem", "code", "said"),
    [
        (DriverError(Result.NOT_READY), 600, ""),
        (DriverError(Result.INVALID_VALUE), 1, ""),
        (MemoryError(), OUT_OF_MEMORY, ""),
        (ZeroDivisionError("here"), UNKNOWN, "warpsim: cuNothing failed; please report it:"),
    ],
)
def test_what_leaves_a_call(call, capfd, problem, code, said):
    """No exception does: it becomes a code, with a word where it is a defect."""

    def fails():
        raise problem

    assert guarded(Call("cuNothing", "", fails))() == code
    told = capfd.readouterr().err
    assert told.startswith(said)
    assert ("in fails" in told) is bool(said)  # where it happened
    assert guarded(Call("cuNothing", "", lambda: None))() == 0
    assert guarded(Call("cuNothing", "", lambda: 7))() == 7


def test_an_environment_without_a_gpu(call, capfd, monkeypatch):
    """A device that does not exist: the libraries are not initialised, and say why."""
    monkeypatch.setenv("WARPSIM_DEVICE", "sm_1")
    assert call("cuInit", 0) == 3
    assert "warpsim: cuInit: " in capfd.readouterr().err


def test_calls_that_are_told(call, capfd, monkeypatch):
    """WARPSIM_TRACE tells of each call."""
    monkeypatch.setenv("WARPSIM_TRACE", "1")
    assert guarded(Call("cuSum", "PP", lambda a, b: a + b))(16, 1) == 17
    assert capfd.readouterr().err == "warpsim: cuSum(0x10, 0x1) = 17\n"


@pytest.mark.parametrize("embedded", [False, True])
def test_a_library_is_bound(call, monkeypatch, embedded):
    """Each slot gets a function of C that leads here when it is first called; the field before them the address of what has
    interrupted a call. The end of Python is waited for, unless that was done before the program began."""
    monkeypatch.setattr(binding, "_FIELDS", [])
    monkeypatch.delenv("WARPSIM_PYTHON", raising=False)
    monkeypatch.setattr(PROCESS, "addresses", {})
    monkeypatch.setattr(PROCESS, "embedded", False)
    monkeypatch.setattr(binding.compile_queue(), "in_line", False)  # and so it is for the tests that follow
    monkeypatch.setattr(binding, "_STARTED", [])
    ended = []
    monkeypatch.setattr(binding.atexit, "register", ended.append)
    wanted = ["cuInit", "cuDriverGetVersion"]
    names, table = string("\0".join(wanted)), row(*[0] * 8)
    where = ctypes.addressof(names), 4096, ctypes.addressof(table)
    binding.start("cuda", *where, 2, int(embedded), 1)
    assert table[6:] == [0, 0]
    for number in range(2):
        ctypes.CFUNCTYPE(None, ctypes.c_uint64)(table[5])(number)
        assert [slot != 0 for slot in table[6:]] == [True, number == 1]
    init, version = (
        ctypes.CFUNCTYPE(ctypes.c_uint64, kind)(at)
        for kind, at in zip((ctypes.c_uint32, ctypes.c_uint64), table[6:], strict=True)
    )
    out = ctypes.c_uint32()
    assert (init(0), version(ctypes.addressof(out))) == (0, 0)
    assert out.value >= 13000
    assert PROCESS.addresses == {"cuInit": 4096, "cuDriverGetVersion": 4112}
    assert PROCESS.embedded is binding.compile_queue().in_line is embedded
    assert PROCESS.runtime == 0
    assert table[0] == ctypes.addressof(INTERRUPT)
    assert ended.count(binding.leave) == (0 if embedded else 1)  # the compiler may have an end of its own
    binding.start("cuda", *where, 2, int(embedded))
    assert ended.count(binding.leave) == (0 if embedded else 1)
    assert len(binding._FIELDS) == 2
    monkeypatch.setattr(binding, "_STARTED", [])
    monkeypatch.setenv("WARPSIM_PYTHON", str(os.getpid()))
    binding.start("cuda", *where, 2, int(embedded))
    assert ended.count(binding.leave) == (0 if embedded else 1)


def test_the_end_of_a_program(call, tmp_path, monkeypatch):
    """The report says how many launches there were, in the process that has the driver and in no child of it."""
    monkeypatch.setenv("WARPSIM_REPORT", str(tmp_path / "report"))
    binding.finish()
    assert not (tmp_path / "report").exists()
    assert call("cuInit", 0) == 0
    PROCESS.driver.report.launches = 3
    monkeypatch.setattr(PROCESS, "number", os.getpid() + 1)
    binding.finish()
    assert not (tmp_path / "report").exists()
    monkeypatch.setattr(PROCESS, "number", os.getpid())
    binding.finish()
    assert '"rule": "end"' in (tmp_path / "report").read_text()
    assert '"launches": 3' in (tmp_path / "report").read_text()


def test_reports_that_cannot_be_written(call, tmp_path, monkeypatch, capsys):
    """They are told once, and forgotten."""
    monkeypatch.delenv("WARPSIM_QUIET")
    monkeypatch.setenv("WARPSIM_REPORT", str(tmp_path / "none" / "report"))
    monkeypatch.setenv("WARPSIM_PTX", str(tmp_path / "none"))
    assert call("cuInit", 0) == 0
    assert PROCESS.driver.file_of("text") == "module-1.ptx"
    assert PROCESS.driver.file_of("text") == "module-1.ptx"
    assert PROCESS.driver.file_of("other") == "module-2.ptx"
    said = capsys.readouterr().err
    assert said.count("cannot write the report") == 1
    assert said.count("cannot write") == 3


def test_texts_of_modules(call, tmp_path, monkeypatch):
    """WARPSIM_PTX has the text of each module, under the name that findings use."""
    monkeypatch.setenv("WARPSIM_PTX", str(tmp_path))
    assert call("cuInit", 0) == 0
    assert PROCESS.driver.file_of("text of it") == str(tmp_path / "module-1.ptx")
    assert (tmp_path / "module-1.ptx").read_text() == "text of it"


def test_what_kernels_print(call, capfd, monkeypatch):
    """It goes where the program prints: Python's stream, or that of C."""
    said = io.StringIO()
    monkeypatch.setattr(sys, "stdout", said)
    driver._to_stdout("one\n")
    assert said.getvalue() == "one\n"
    process._to_c("two\n")
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == "two\n"


@pytest.mark.parametrize(
    ("words", "made"),
    [
        ("-c a.cu -o a.o", None),
        ("-cubin a.cu b.cu", None),
        ("-cubin a.cu", "-ptx a.cu -o a.cubin"),
        ("--cubin -arch=sm_90 dir/a.b.cu", "-ptx -arch=sm_90 dir/a.b.cu -o a.b.cubin"),
        ("-cubin a.cc -o out", "-ptx a.cc -o out"),
        ("-cubin a.cpp --output-file=out", "-ptx a.cpp --output-file=out"),
        ("-cubin a.cu -o=out", "-ptx a.cu -o=out"),
        (
            "-gencode arch=compute_90,code=sm_90 -cubin a.cu -o x",
            "-gencode arch=compute_90,code=compute_90 -ptx a.cu -o x",
        ),
        ("--version", None),
        ("-cubin -x.cu", None),
        (
            "-gencode=arch=compute_90a,code=sm_90a -c a.cu -o a.o",
            "-gencode=arch=compute_90a,code=sm_90a -c a.cu -o a.o -gencode=arch=compute_90a,code=compute_90a",
        ),
        (
            "--generate-code arch=compute_80,code=[compute_80,sm_80] -gencode arch=compute_86,code=sm_86 -dc a.cu",
            "--generate-code arch=compute_80,code=[compute_80,sm_80] -gencode arch=compute_86,code=sm_86 -dc a.cu "
            "-gencode=arch=compute_86,code=compute_86",
        ),
        ("-gencode=arch=compute_90,code=sm_90 a.o -o a", None),
    ],
)
def test_compilers_that_make_machine_code(words, made):
    """A command that compiles one source to a cubin makes PTX under the same name, one that makes an object keeps PTX; any
    other stays."""
    assert " ".join(translated(words.split())) == (words if made is None else made)


def test_where_compiler_libraries_are(monkeypatch, tmp_path, capsys):
    """A variable, a package, the folders of the loader but ours, a toolkit: in this order."""
    loaded = []
    monkeypatch.setattr(compilers, "LOADED", {})
    monkeypatch.setattr(compilers.ctypes, "CDLL", lambda path: loaded.append(path) or path)
    for name in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "WARPSIM_NVRTC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    real = compilers.glob.glob
    monkeypatch.setattr(
        compilers.glob, "glob", lambda pattern: [p for p in real(pattern) if p.startswith(str(tmp_path))]
    )

    def file(*parts):
        path = tmp_path.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        return str(path)

    assert compilers.library("nvrtc") is None
    found = capsys.readouterr().err
    assert found == "warpsim: no libnvrtc found: pip install nvidia-cuda-nvrtc, or let WARPSIM_NVRTC name the file\n"
    assert compilers.library("nvrtc") is None
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(compilers, "LOADED", {})
    files = [file("cuda", "lib64", "libnvrtc.so.12"), file("folder", "libnvrtc.so.13")]
    files.append(file("site", "nvidia", "cuda_nvrtc", "lib", "libnvrtc.so.12"))
    files.append(file("mine.so"))
    file("ours", "libwarpsim-linked.so")
    file("ours", "libnvrtc.so.12")
    for name, value in (
        ("CUDA_HOME", tmp_path / "cuda"),
        ("LD_LIBRARY_PATH", f"{tmp_path / 'ours'}::{tmp_path / 'folder'}"),
    ):
        monkeypatch.setenv(name, str(value))
    assert compilers.library("nvrtc") == files[2]
    assert compilers.library("nvrtc") == files[2]
    assert loaded == [files[2]]
    for hidden, found in ((files[2], files[1]), (files[1], files[0])):
        os.remove(hidden)
        compilers.LOADED.clear()
        assert compilers.library("nvrtc") == found
    monkeypatch.setenv("WARPSIM_NVRTC", files[3])
    compilers.LOADED.clear()
    assert compilers.library("nvrtc") == files[3]


class Compiler:
    """NVIDIA's compiler library: what it is asked."""

    def __init__(self):
        self.asked = []

    def __getattr__(self, name):
        if name == "nvrtcGetErrorString":
            return type(self).error
        if name == "nvrtcGetCUBIN":
            raise AttributeError(name)
        return lambda *words: self.asked.append((name, [w.value for w in words])) or 0

    @staticmethod
    def error(code):
        """An address."""
        return 4096 + code


def test_compiling(call, monkeypatch):
    """What asks for a cubin gets PTX; without the library every call fails, and none ends the program."""
    found = Compiler()
    monkeypatch.setitem(compilers.LOADED, "nvrtc", found)
    assert call("nvrtcGetCUBINSize", 5, 6) == call("nvrtcGetCUBIN", 5, 6) == call("nvrtcGetPTX", 7, 8) == 0
    assert found.asked == [
        (name, [*words, 0, 0, 0, 0])
        for name, *words in (("nvrtcGetPTXSize", 5, 6), ("nvrtcGetPTX", 5, 6), ("nvrtcGetPTX", 7, 8))
    ]
    assert call("nvrtcGetErrorString", 3) == 4099
    assert call("nvrtcCreateProgram", 1, string("text\n"), string("own_name.cu"), 2, 3, 4) == 0
    assert found.asked[-1][0] == "nvrtcCreateProgram"
    assert found.asked[-1][1][3:] == [2, 3, 4]
    import linecache

    assert linecache.getline(os.path.join(os.getcwd(), "own_name.cu"), 1) == "text\n"
    monkeypatch.setitem(compilers.LOADED, "nvrtc", None)
    assert call("nvrtcGetPTX", 7, 8) == 11
    assert b"pip install nvidia-cuda-nvrtc" in ctypes.string_at(call("nvrtcGetErrorString", 3))


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Libraries in a cache of their own, without a compiler: the names of those that were compiled."""
    names = []

    def run(*words):
        target = Path(words[words.index("-o") + 1])
        names.append(target.name)
        lists = [word for word in words if word.startswith("-DCALLS=")]
        assert all((target.parent / word.split('"')[1]).read_text().startswith("FUNCTION ") for word in lists)
        target.write_text(f"library {target.name}")

    monkeypatch.setattr(library, "_run", run)
    monkeypatch.setattr(library, "cache_folder", lambda: tmp_path / "cache")
    (tmp_path / "cache").mkdir(mode=0o700)
    return names


needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the libraries are Linux's")


def test_the_compiler(monkeypatch, tmp_path):
    """``CC``, one of the system's, or that of the ziglang package, of which nothing is looked for in the current folder."""
    for name in ("gcc", "mine"):
        monkeypatch.setattr(library.shutil, "which", lambda word, name=name: word == name)
        monkeypatch.setenv("CC", "mine -O2" if name == "mine" else "")
        assert library.compiler() == (["mine", "-O2"] if name == "mine" else ["gcc"])
    monkeypatch.setattr(library.shutil, "which", lambda word: None)
    found = types.SimpleNamespace(origin=str(tmp_path / "ziglang" / "__init__.py"))
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: found)
    assert library.compiler() == [sys.executable, str(tmp_path / "ziglang" / "__main__.py"), "cc"]
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(LaunchError, match="needs a C compiler"):
        library.compiler()


OBJECTS = {f"{name}.o" for name in ("shim", "structures", *library.LIBRARIES.values())}


def test_most_arguments():
    """An entry point passes sixteen words on."""
    assert max(len(each.kinds) for kind in binding.CALLS for each in binding.declared(kind).values()) <= 16


@needs_linux
def test_the_libraries_are_built_once(made, tmp_path):
    """Those that differ by name are compiled once, each is linked and put in its place; a second time nothing is."""
    home = library.build()
    placed = [*library.LIBRARIES, library.LINKED]
    assert sorted(made) == sorted([*placed, *OBJECTS])
    assert sorted(path.name for path in home.iterdir()) == sorted([*placed, *library.LINKS, library.DIGEST])
    assert (home / "libcudart.so").resolve().name == "libcudart.so.13"
    assert library.build() == home
    assert len(made) == len(placed) + len(OBJECTS)
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {home.name, Path(library.DEVICE_RUNTIME).parts[0]}
    assert (tmp_path / "cache" / library.DEVICE_RUNTIME).read_bytes().startswith(b"!<arch>")


@needs_linux
@pytest.mark.parametrize("damage", [
    lambda home: (home / "libcuda.so.1").write_text("other"),
    lambda home: (home / "libcuda.so.1").unlink(),
    lambda home: (home / "libcuda.so.1").chmod(0o777),
    lambda home: (home / "libnvrtc.so.12").replace(home / "libnvrtc.so.13"),
    lambda home: (home / library.DIGEST).write_text("other"),
    lambda home: (home / "libcuda.so").unlink(),
    lambda home: home.chmod(0o777),
    lambda home: (home.rename(home.with_name("old")), home.symlink_to("old")),
    lambda home: (home.rename(home.with_name("old")), home.write_text("")),
])  # fmt: skip
def test_libraries_that_are_damaged(made, damage):
    """Or that others may have written: all are built anew."""
    home = library.build()
    damage(home)
    assert library.build() == home
    assert len(made) == 2 * (len(library.LIBRARIES) + len(OBJECTS) + 1)
    assert library._whole(home)
    assert not home.is_symlink()


@needs_linux
def test_libraries_without_a_cache(made, monkeypatch, tmp_path):
    """They are built in a folder that the caller lends, and without one it is said; so it is where the cache has no room."""
    monkeypatch.setattr(library, "cache_folder", lambda: None)
    assert library.build(tmp_path).parent == tmp_path
    with pytest.raises(LaunchError, match="there is no folder for the driver library"):
        library.build()
    monkeypatch.setattr(library, "cache_folder", lambda: tmp_path / "gone")
    assert library.build(tmp_path).parent == tmp_path
    with pytest.raises(LaunchError, match="No such file or directory"):
        library.build()
    tmp_path.chmod(0o777)
    with pytest.raises(LaunchError, match=r"cannot be used: .* may be written by other users"):
        library.build(tmp_path)


def test_calls_of_other_threads_as_python_ends(monkeypatch):
    """The gate is closed, the current context is kept, and a call that goes on is interrupted: the driver has ended."""
    behind, begun, results = binding.Fields(inside=1), threading.Event(), []

    def forever():
        begun.set()
        while True:
            time.sleep(0.001)

    def thread():
        results.append(guarded(Call("cuForever", "", forever))())
        behind.inside = 0

    monkeypatch.setattr(binding, "_FIELDS", [behind])
    monkeypatch.setattr(binding, "PATIENCE", 0.0)
    monkeypatch.setattr(PROCESS.thread, "stack", [types.SimpleNamespace(handle=77)], raising=False)
    caller = threading.Thread(target=thread)
    caller.start()
    begun.wait()
    binding.leave()
    caller.join()

    assert results == [Result.DEINITIALIZED]
    assert (behind.closed, behind.current) == (threading.get_ident(), 77)
    behind.inside = 1
    binding.leave()  # a second time it waits for nobody


def test_a_call_that_cannot_be_interrupted(monkeypatch):
    """It is left alone after a while."""
    monkeypatch.setattr(binding, "_FIELDS", [binding.Fields(inside=1)])
    monkeypatch.setattr(binding, "MOST", 0.01)
    monkeypatch.setattr(binding, "finish", list)
    binding.leave()

    assert binding._FIELDS[0].inside == 1


def test_the_start_of_a_program(monkeypatch, tmp_path):
    """Modules of cuda.bindings are redirected as they are loaded; others are found as ever."""
    monkeypatch.delenv("WARPSIM_CUDART", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.theirs_has_run = True\n")
    path = Path(library.__file__).with_name("abi") / "start" / "sitecustomize.py"
    spec = importlib.util.spec_from_file_location("sitecustomize", path)
    started = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(started)
    assert sys.__dict__.pop("theirs_has_run")
    (tmp_path / "cuda" / "bindings" / "_internal").mkdir(parents=True)
    (tmp_path / "cuda" / "bindings" / "_internal" / "runtime.py").write_text("value = 5")
    done = []
    monkeypatch.setattr(started, "redirect", lambda module: done.append(module.value))
    name = "cuda.bindings._internal.runtime"
    found = started.Finder.find_spec(name, [str(tmp_path / "cuda" / "bindings" / "_internal")])
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    assert done == [5]
    assert started.Finder.find_spec("json") is None
    assert started.Finder.find_spec(name, [str(tmp_path)]) is None


def test_pointers_of_extension_modules(monkeypatch):
    """Functions of the run time in capsules become ours, those with other names stay."""
    monkeypatch.delenv("WARPSIM_CUDART", raising=False)
    path = Path(library.__file__).with_name("abi") / "start" / "sitecustomize.py"
    spec = importlib.util.spec_from_file_location("sitecustomize", path)
    started = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(started)
    ours = type("Ours", (), {})()
    one, two = (ctypes.CFUNCTYPE(ctypes.c_int)(lambda n=n: n) for n in (42, 43))
    ours.cudaFree = two
    monkeypatch.setenv("WARPSIM_CUDART", "ours.so")
    monkeypatch.setattr(started.ctypes, "CDLL", lambda path: ours)
    new, get = ctypes.pythonapi.PyCapsule_New, ctypes.pythonapi.PyCapsule_GetPointer
    new.argtypes, new.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.py_object
    get.argtypes, get.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    where = ctypes.cast(one, ctypes.c_void_p)
    held = {name: new(where, None, None) for name in ("_cudaFree", "cudaMalloc", "free")}
    module = types.ModuleType("runtime")
    started.redirect(module)
    module.__pyx_capi__ = held
    started.redirect(module)
    found = {name: ctypes.CFUNCTYPE(ctypes.c_int)(get(capsule, None))() for name, capsule in held.items()}
    assert found == {"_cudaFree": 43, "cudaMalloc": 42, "free": 42}


@pytest.mark.parametrize("wrapped", [False, True])
def test_images_in_memory(wrapped):
    """Text to its end, a fatbin as long as its header says, an object's header; nvcc's wrapper leads to them."""

    def read(data):
        kept = ctypes.create_string_buffer(data)
        address = ctypes.addressof(kept)
        if wrapped:
            kept = kept, ctypes.create_string_buffer(struct.pack("<IIQQ", 0x466243B1, 1, address, 0))
            address = ctypes.addressof(kept[1])
        return modules.image_at(address)

    fatbin = struct.pack("<4sHHQ", modules.sources.MAGIC, 1, 16, 20) + bytes(range(20))
    assert read(fatbin + b"more") == fatbin
    assert read(b"\x7fELF" + bytes(100)) == b"\x7fELF" + bytes(60)
    assert read(b".version 8.0\n" + b" " * 20 + b"\0more") == b".version 8.0\n" + b" " * 20
    with pytest.raises(DriverError, match="the image is null"):
        modules.image_at(0)


def test_fatbins_without_ptx():
    """Machine code alone, and PTX that is damaged, are refused by the code for images of no GPU."""
    with pytest.raises(DriverError, match="machine code and no PTX") as caught:
        modules.ptx_of(struct.pack("<4sHHQ", modules.sources.MAGIC, 1, 16, 0), 90)
    assert caught.value.result is Result.NO_BINARY_FOR_GPU


def test_every_function_of_the_run_time_has_a_code():
    """Names of the driver begin with cu, and those of each library are in its own table."""
    for module in binding.MODULES:
        importlib.import_module(f"warpsim.driver.abi.{module}")
    starts = {"cuda": ("cu",), "cudart": ("cuda", "__cuda", "warpsim"), "nvrtc": ("nvrtc",), "nvml": ("nvml",), "nvjitlink": ("nvJitLink", "__nvJitLink")}  # fmt: skip
    for name, begins in starts.items():
        assert all(each.startswith(begins) for each in CALLS[name])
    assert not any(each.startswith("cuda") for each in CALLS["cuda"])


def test_findings_are_printed_so_often(capsys, tmp_path):
    """Twenty in full, each place once; all of them are in the report."""
    report = results.Report(str(tmp_path / "report"))
    for line in range(results.SHOWN + 3):
        for _ in range(2):
            report.finding(Finding("race", f"number {line}", line=line, kernel="k"), "CUDA_SUCCESS")
    assert capsys.readouterr().err.count("in kernel k, launch 0") == results.SHOWN == 20
    assert len((tmp_path / "report").read_text().splitlines()) == results.SHOWN + 3
    quiet = results.Report(quiet=True)
    quiet.finding(Finding("race", "text", line=1, kernel="k"), "CUDA_SUCCESS")
    quiet.problem("cuInit", "why", "CUDA_SUCCESS")
    assert capsys.readouterr().err == ""
    loud = results.Report(str(tmp_path / "other"))
    for result, severity in ((results.NO_KERNEL, "error"), ("CUDA_SUCCESS", "note")):
        for _ in range(2):
            loud.problem("cuInit", f"why {result}", result)
        assert f'"severity": "{severity}"' in (tmp_path / "other").read_text().splitlines()[-1]
    assert len((tmp_path / "other").read_text().splitlines()) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"warpsim: cuInit: why {r}" for r in (results.NO_KERNEL, "CUDA_SUCCESS")
    ]
