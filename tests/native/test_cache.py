"""Objects on disk: a damaged one is made anew, the folder is bounded, and several processes may share it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from warpsim.native.compiling import cache, compiler

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
    first, second = run(tmp_path), run(tmp_path)
    compiled, _ = counts(first)
    counts(second)

    assert compiled > 0
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


def test_the_folder_is_bounded(tmp_path, monkeypatch):
    """The oldest objects go where there are more than it may hold, and no file is left half written."""
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(cache, "CACHE_BYTES", 3500)
    for number in range(6):
        cache.write_object(f"{number}", bytes(1000))
        os.utime(tmp_path / f"{number}.o", (number, number))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["3.o", "4.o", "5.o"]
    assert cache.read_object("5") == bytes(1000)
    assert cache.read_object("0") is None


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
