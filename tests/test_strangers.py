"""Files that come from strangers are never run: what loads code, or pickles, is on a list, with the reason why it may."""

import ast
import io
import os
import pickle
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

import warpsim
from warpsim.cli import main
from warpsim.host.cases import run_case
from warpsim.testing.snapshots import Snapshot

PACKAGE = Path(warpsim.__file__).parent
MODULES = {"pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "runpy", "imp", "code"}
LOADERS = {"eval", "exec", "compile", "__import__", "import_module", "spec_from_file_location", "exec_module", "run_path",
           "CDLL", "PyDLL", "WinDLL", "OleDLL", "LoadLibrary", "load_library", "add_object_file",
           "load_library_permanently", "map_code"}  # fmt: skip
READERS = {"load", "read_array", "fromfile", "memmap", "open_memmap"}
ALLOWED = {
    ("__init__.py", "import_module"): "a module of this package",
    ("cli/__init__.py", "import_module"): "a module of this package",
    ("driver/__init__.py", "import_module"): "a module of this package",
    ("testing/__init__.py", "import_module"): "a module of this package",
    ("isa/spec.py", "import_module"): "a module of this package",
    ("machine/binding/ports.py", "import_module"): "a module of this package",
    ("driver/abi/binding.py", "importlib.import_module"): "a module of this package",
    ("compat/tinygrad.py", "importlib.import_module"): "a module of tinygrad, which is running",
    ("cli/launching.py", "importlib.import_module"): "Dask, by its name",
    ("host/sources.py", "importlib.import_module"): "an installed library for zstd, by its name",
    ("driver/abi/start/sitecustomize.py", "self._loader.exec_module"): "a client's module, as Python loads it",
    (
        "driver/abi/start/sitecustomize.py",
        "importlib.import_module",
    ): "our module for a client, which `warpsim exec` names",
    ("driver/abi/start/sitecustomize.py", "spec.loader.exec_module"): "the sitecustomize that ours hides",
    ("driver/abi/start/sitecustomize.py", "ctypes.CDLL"): "our libcudart, which `warpsim exec` names",
    ("driver/abi/compilers.py", "ctypes.CDLL"): "NVIDIA's compilers, installed or named by the user",
    ("driver/abi/process.py", "ctypes.CDLL"): "the C library",
    ("driver/raw.py", "ctypes.CDLL"): "the C library",
    ("driver/virtual.py", "ctypes.CDLL"): "the C library",
    ("compat/torch.py", "ctypes.CDLL"): "the driver's libraries, made here",
    ("compat/torch.py", "runpy"): "what a program under `warpsim exec` starts with",
    ("compat/torch.py", "runpy.run_path"): "the same",
    ("cli/testing.py", "runpy"): "the file that the user gives as --reference",
    ("cli/testing.py", "runpy.run_path"): "the same",
    ("proving/ranges.py", "model.eval"): "the value of a term in a solver's model",
    ("driver/abi/entry_points.py", "ctypes.CDLL"): "our libcuda, which has called",
    ("capture/gpu.py", "ctypes.CDLL"): "the GPU's driver; NVIDIA's CUPTI, installed or already loaded",
    ("native/compiling/compiler.py", "self._engine.add_object_file"): "made here, or from the cache: see warpsim.owned",
    ("native/compiling/compiler.py", "images.map_code"): "made here, or from the cache: see warpsim.owned",
    ("native/compiling/images.py", "map_code"): "from the cache: see warpsim.owned; and zeros, which are never called",
    (
        "program/stored.py",
        "pickle",
    ): "from the cache: see warpsim.owned; and it makes nothing but the parts of a program",
    ("machine/state/launch.py", "pickle"): "a state of this process, for the caller",
    (
        "parallel/processes.py",
        "pickle",
    ): "messages and memory from this process to those that it started, or the user's cluster",
}
"""What loads code, or unpickles, and where that comes from."""


WORDS = re.compile(
    rf"\b(?:{'|'.join((MODULES | LOADERS) - {'compile', 'code'})})\b|(?<!re\.)\bcompile\(|\bimport code\b|\bfrom code\b"
    rf"|\b(?:np|numpy)\b[.\w]*\.(?:{'|'.join(READERS)})\("
)
"""One of these stands in any text of which something would be found: to parse all of them takes a second."""


def found_in(text):
    """What loads code, or could unpickle, in a module's text."""
    if not WORDS.search(text):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and not node.level and str(node.module).split(".")[0] in MODULES:
            yield node.module
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            last = called.split(".")[-1]
            if last in LOADERS and called != "re.compile":
                yield called
            plain = any(word.arg == "allow_pickle" and ast.unparse(word.value) == "False" for word in node.keywords)
            if last in READERS and called.split(".")[0] in ("np", "numpy") and not plain:
                yield called


def test_what_loads_code():
    """It is on the list, and the list has nothing else."""
    found = {
        (path.relative_to(PACKAGE).as_posix(), what)
        for path in PACKAGE.rglob("*.py")
        for what in found_in(path.read_text(encoding="utf-8"))
    }

    assert found == set(ALLOWED)


@pytest.mark.parametrize("planted", [
    "import pickle as p",
    "def f():\n    from pickle import loads",
    "eval(text)",
    "np.load(path)",
    "np.load(path, allow_pickle=True)",
    "np.lib.format.read_array(stream, allow_pickle=given)",
    "ctypes.cdll.LoadLibrary(path)",
    "runpy.run_path(path)",
    "import code",
    "compile(text, '', 'exec')",
])  # fmt: skip
def test_what_loads_code_is_found(planted):
    """The test above sees each way."""
    assert list(found_in(planted))


# ---- files ---------------------------------------------------------------------------------------


class Attack:
    """Unpickling it makes a folder."""

    def __init__(self, proof):
        self.proof = str(proof)

    def __reduce__(self):
        return os.mkdir, (self.proof,)


@pytest.fixture(params=["array of objects", "pickle"])
def hostile(request, tmp_path):
    """A .npy file's bytes that run code where somebody unpickles them; in the end nobody has."""
    attack, stream = Attack(tmp_path / "proof"), io.BytesIO()
    if request.param == "pickle":
        stream.write(pickle.dumps(attack))
    else:
        np.save(stream, np.array([attack], object), allow_pickle=True)
    yield stream.getvalue()
    assert not (tmp_path / "proof").exists()


def repacked(path, data):
    """Put bytes in the place of each array of an archive."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, data)


def test_the_attack(tmp_path):
    """It works on those who unpickle."""
    stream = io.BytesIO()
    np.save(stream, np.array([Attack(tmp_path / "proof")], object), allow_pickle=True)
    stream.seek(0)
    np.load(stream, allow_pickle=True)

    assert (tmp_path / "proof").exists()


@pytest.mark.parametrize("whole", [True, False])
def test_a_case(hostile, tmp_path, whole):
    """Its data.npz is refused, whatever of it is hostile."""
    case = tmp_path / "case"
    shutil.copytree(PACKAGE.parent / "programs" / "saxpy", case)
    if whole:
        (case / "data.npz").write_bytes(hostile)
    else:
        repacked(case / "data.npz", hostile)

    with pytest.raises(warpsim.LaunchError, match="cannot read"):
        run_case(case)


@pytest.mark.parametrize("whole", [True, False])
def test_a_snapshot(hostile, tmp_path, whole):
    """The elements of its large arrays are not read, and the test fails."""
    path = tmp_path / "a.txt"
    values = np.arange(5000)
    assert values == Snapshot(path, record=True)
    if whole:
        path.with_suffix(".npz").write_bytes(hostile)
    else:
        repacked(path.with_suffix(".npz"), hostile)
    found = Snapshot(path, record=False)

    assert values + 1 != found
    assert found.problem[0].startswith("value differs; the recorded elements cannot be read")


def test_an_argument(hostile, tmp_path, capsys):
    """``--arg`` takes no such file."""
    (tmp_path / "x.npy").write_bytes(hostile)
    (tmp_path / "k.ptx").write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }"
    )

    words = ["run", str(tmp_path / "k.ptx"), "--grid", "1", "--block", "1", "--arg", f"in:{tmp_path / 'x.npy'}"]
    assert main(words) == 2
    assert "cannot read" in capsys.readouterr().err
