"""Objects on disk: a damaged one is made anew, the folder is bounded, and several processes may share it."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from warpsim import cache
from warpsim.native.compiling import compiler
from warpsim.owned import PART

pytest.importorskip("llvmlite", reason="the extra jit is not installed")
RUN = """
import numpy as np, warpsim
from warpsim.native.compiling.compiler import compiler
text = '''.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .pred %q;
ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
L: add.u32 %r1, %r1, 7; add.u32 %r2, %r2, 1; setp.lt.u32 %q, %r2, 50; @%q bra L;
mov.u32 %r3, %tid.x; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r1; ret; }'''
words = np.zeros(64, np.uint32)
warpsim.load(text)["k"]((1,), (64,), (words,), engine="compiled")
assert words.tolist() == [k + 350 for k in range(64)]
print(compiler().compiled, compiler().loaded)
"""


def run(folder: Path) -> subprocess.Popen[str]:
    """A process that compiles into a folder, or loads from it."""
    environment = {**os.environ, "WARPSIM_CACHE": str(folder), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", RUN], env=environment, stdout=subprocess.PIPE, text=True)


def counts(process: subprocess.Popen[str]) -> list[int]:
    """How many objects it compiled, and how many it loaded."""
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return [int(n) for n in out.split()]


@pytest.mark.long
def test_processes_that_share_a_folder(tmp_path):
    """Two at once both give the right words, and a third compiles nothing."""
    both = run(tmp_path), run(tmp_path)

    assert sum(counts(process)[0] for process in both) > 0
    assert counts(run(tmp_path))[0] == 0


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: data[: len(data) // 2], lambda data: b""]
)
def test_a_damaged_object(tmp_path, monkeypatch, damage):
    """It is made anew."""
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    text = "define i32 @f(ptr %p) {\n ret i32 7\n}"
    first, second, third = (compiler.Compiler() for _ in range(3))
    first.function(text, "f")
    (path,) = tmp_path.glob("*.o")
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    second.function(text, "f")
    third.function(text, "f")

    assert path.read_bytes() == whole
    assert [(c.compiled, c.loaded) for c in (first, second, third)] == [(1, 0), (1, 0), (0, 1)]


def right_digest(data):
    """Other bytes, with a digest of themselves, as anybody can make one."""
    body = bytes(range(256))
    return (
        data[: cache.HEAD - 40]
        + hashlib.blake2b(body, digest_size=cache.SIZE).digest()
        + len(body).to_bytes(8, "little")
        + body
    )


@pytest.mark.parametrize("change", [
    right_digest,
    lambda data: data + b"\0",
    lambda data: data[: cache.HEAD],
    lambda data: data[: cache.HEAD - 8] + (1 << 40).to_bytes(8, "little") + data[cache.HEAD :],
    lambda data: data[40:],
])  # fmt: skip
def test_what_is_no_object(tmp_path, monkeypatch, change):
    """A digest is of the key, of the length and of the bytes."""
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    tmp_path.chmod(0o700)
    cache.write_object("key", bytes(100))
    data = (tmp_path / "key.o").read_bytes()
    (tmp_path / "key.o").write_bytes(change(data))
    assert cache.read_object("key") is None
    (tmp_path / "key.o").write_bytes(data)
    assert cache.read_object("key") == bytes(100)


def test_objects_in_each_others_places(tmp_path, monkeypatch):
    """Neither is taken, and each is made anew."""
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    texts = {name: f"define i32 @{name}(ptr %p) {{\n ret i32 7\n}}" for name in ("f", "g")}
    first, second = compiler.Compiler(), compiler.Compiler()
    for name, text in texts.items():
        first.function(text, name)
    one, other = tmp_path.glob("*.o")
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)
    assert cache.read_object(one.stem) is None

    assert [second.function(text, name)(None) for name, text in texts.items()] == [7, 7]
    assert (second.compiled, second.loaded) == (2, 0)
    assert other.read_bytes() != data


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_an_object_of_which_nothing_comes(tmp_path, monkeypatch):
    """A pipe that nobody writes into counts as none, and a new object takes its place."""
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    os.mkfifo(tmp_path / "key.o")
    assert not cache.has_object("key")
    assert cache.read_object("key") is None
    cache.write_object("key", b"body")

    assert cache.read_object("key") == b"body"


def test_what_is_not_kept(tmp_path, monkeypatch):
    """An object that is too long, and any where there is no room: nothing is left of it, and it is no fault."""
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(cache, "OBJECT_BYTES", 100)
    cache.write_object("long", bytes(101))

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    cache.write_object("key", bytes(100))
    cache.note("name")

    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_bounded(tmp_path, monkeypatch):
    """The oldest objects and notes go where there are more than it may hold, so many that the next writes find room without looking,
    and no file is left half written."""
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(cache, "CACHE_BYTES", 4500)
    cache.note("old")
    (tmp_path / f"{PART}1").write_bytes(b"half")
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    scanned, prune = [], cache._prune
    monkeypatch.setattr(cache, "_prune", lambda folder: scanned.append(folder) or prune(folder))
    for number in range(8):
        cache.write_object(f"{number}", bytes(900))
        os.utime(tmp_path / f"{number}.o", (number, number))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["4.o", "5.o", "6.o", "7.o", cache.COUNT]
    assert len(scanned) == 3  # the first to count what is there
    assert cache.read_object("7") == bytes(900)
    assert cache.read_object("0") is None


@pytest.mark.parametrize("kind", ["none", "long", "link", "pipe", "folder"])
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes, and links only with rights")
def test_what_is_no_count(tmp_path, monkeypatch, kind):
    """The folder is bounded whatever stands in the place of its count, and a link leads to no file of others."""
    folder, other = tmp_path / "cache", tmp_path / "other"
    folder.mkdir()
    other.write_bytes(bytes(3))
    monkeypatch.setattr(cache, "cache_folder", lambda: folder)
    for number in range(8):
        (folder / f"{number}.o").write_bytes(bytes(1000))
    make = {
        "none": lambda path: None,
        "long": lambda path: path.write_bytes(bytes(50)),
        "link": lambda path: path.symlink_to(other),
        "pipe": os.mkfifo,
        "folder": os.mkdir,
    }
    make[kind](folder / cache.COUNT)
    monkeypatch.setattr(cache, "CACHE_BYTES", 9500)
    for number in range(20):
        cache.write_object(f"more {number}", bytes(1000))
        assert 6 <= len(list(folder.glob("*.o"))) <= 9

    assert kind == "folder" or (folder / cache.COUNT).lstat().st_size in range(6, 20)
    assert other.read_bytes() == bytes(3)


def test_a_process_that_ends_before_it_has_counted(tmp_path, monkeypatch):
    """The next one counts."""
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    for number in range(8):
        (tmp_path / f"{number}.o").write_bytes(bytes(1000))
    with monkeypatch.context() as ended:
        ended.setattr(cache, "_prune", lambda _: None)
        cache.write_object("first", bytes(1000))
    cache.write_object("second", bytes(1000))

    assert (tmp_path / cache.COUNT).stat().st_size == 10


@pytest.mark.long
def test_no_folder(tmp_path):
    """Where no folder can be had, everything works without one."""
    (tmp_path / "file").write_text("")

    assert counts(run(tmp_path / "file"))[1] == 0


def test_a_text_that_is_not_valid():
    """A label that stands twice, over which LLVM's passes end the process, is refused before."""
    from warpsim.native.compiling.compiler import Invalid, compiler

    with pytest.raises(Invalid, match="Terminator found in the middle"):
        compiler().function("define i32 @f(ptr %p) {\n br label %a\na:\n ret i32 0\na:\n ret i32 1\n}", "f")


def test_long_modules(monkeypatch):
    """A long module is made without reducing the strength of its loops, which is an option of the process; another one with."""
    made, given = compiler.Compiler(), []
    monkeypatch.setattr(made._llvm, "set_option", lambda _, option: given.append(option))
    monkeypatch.setattr(made, "_target", SimpleNamespace(emit_object=lambda module: given.append(module) or b""))
    made._emit("short", long=False)
    made._emit("long", long=True)

    assert given == ["short", "-disable-lsr=true", "long", "-disable-lsr=false"]
