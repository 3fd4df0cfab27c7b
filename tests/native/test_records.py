"""What earlier processes have compiled runs from the first step on, without LLVM, and is left where it may be another's."""

import ctypes
import json
import os
import subprocess
import sys

import attrs
import numpy as np
import pytest

import warpsim

pytest.importorskip("llvmlite", reason="the extra jit is not installed")

from warpsim import cache
from warpsim.native.compiling import images
from warpsim.native.compiling.compiler import compiler
from warpsim.native.compiling.linking import Linked
from warpsim.native.regions.region import BlockSlice, Region
from warpsim.native.tiering.records import _dumps, _facts, _region

pytestmark = pytest.mark.skipif(not images.possible(), reason="code is not mapped here")

PTX = """.version 8.0
.target sm_80
.address_size 64
.global .u32 many;
.visible .entry k(.param .u64 p) { .reg .b32 %r<6>; .reg .b64 %d<4>; .reg .pred %q;
.shared .align 4 .b8 room[256];
ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, 0; shl.b32 %r4, %r1, 2; mov.u32 %r5, room; add.u32 %r4, %r4, %r5;
mov.u64 %d3, many;
L: add.u32 %r1, %r1, 7; st.shared.u32 [%r4], %r1; ld.shared.u32 %r1, [%r4]; add.u32 %r2, %r2, 1; setp.lt.u32 %q, %r2, 50; @%q bra L;
bar.sync 0; atom.global.add.u32 %r3, [%d3], 1;
mov.u32 %r3, %tid.x; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r1; ret; }"""
RUN = f"""
import sys
import numpy as np, warpsim
from warpsim.native.regions.options import Outcome
text, done = '''{PTX}''', []
words = np.zeros(64, np.uint32)
module = warpsim.load(text)
if sys.argv[1] == 'watched':
    from warpsim.native.runtime.run import Runner
    run = Runner.run
    Runner.run = lambda *a, **k: done.append(run(*a, **k)) or done[-1]
result = module["k"]((1,), (64,), (words,))
assert words.tolist() == [k + 350 for k in range(64)]
print(result.instructions, 'llvmlite' in sys.modules, Outcome.DONE in done)
"""


def process(folder, engine, **more):
    """What a process prints that launches the kernel."""
    given = {**os.environ, "WARPSIM_CACHE": str(folder), "WARPSIM_ENGINE": engine, "OPENBLAS_NUM_THREADS": "1", **more}
    done = subprocess.run(
        [sys.executable, "-c", RUN, "watched"], env=given, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.split()


def test_another_process(tmp_path, monkeypatch):
    """With the default engine its first launch is machine code from the disk, and the compiler is not even imported."""
    monkeypatch.delenv("WARPSIM_COMPILE")
    count, *cold = process(tmp_path, "auto")
    assert cold == ["False", "False"]
    assert process(tmp_path, "compiled", WARPSIM_COMPILE="at-once") == [count, "True", "True"]

    assert process(tmp_path, "auto") == [count, "False", "True"]
    assert process(tmp_path, "compiled") == [count, "False", "True"]


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """An empty folder for objects."""
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    return tmp_path


def launched(engine="compiled"):
    """A module anew, after a launch."""
    module, words = warpsim.load(PTX), np.zeros(64, np.uint32)
    module["k"]((1,), (64,), (words,), engine=engine)
    assert words.tolist() == [k + 350 for k in range(64)]
    return module


def regions(module):
    """Its regions, and how they begin."""
    profile = module.image(module.device).plan("k").main.notes["native"]
    return [(place, entry.options, entry.region, profile) for place, entry in profile.entries.items() if entry.region]


def test_a_region_again(folder):
    """It equals the one that was kept, in every field."""
    found = regions(launched())
    assert found
    for _, _, region, profile in found:
        again = _region(profile.plan, json.loads(_dumps(_facts(region))))
        assert again.entry is again.slices.get(again.entry.block) or again.entry.first > 0
        for field in attrs.fields(Region):
            old, new = getattr(region, field.name), getattr(again, field.name)
            if field.name in ("entry", "slices"):
                old, new = ([s] if isinstance(s, BlockSlice) else list(s.values()) for s in (old, new))
                old, new = ([attrs.astuple(s) for s in slices] for slices in (old, new))
            assert (type(new), new) == (type(old), old), field.name


def test_in_the_same_process(folder, monkeypatch, done):
    """A module that is read again finds its code; what was made by other files, another compiler or processor is not taken."""
    launched()
    monkeypatch.delenv("WARPSIM_COMPILE")
    del done[:]
    launched("auto")
    assert done

    del done[:]
    monkeypatch.setattr(images, "made_by", lambda: "others")
    launched("auto")
    assert not done


def test_other_code(folder, done):
    """Another text, or the same for another GPU, has its own."""
    launched()
    names = set(os.listdir(folder))
    again = warpsim.load(PTX.replace("add.u32 %r1, %r1, 7", "add.u32 %r1, %r1, 9"))
    again["k"]((1,), (64,), (words := np.zeros(64, np.uint32),), engine="compiled")
    assert words.tolist() == [k + 450 for k in range(64)]
    assert set(os.listdir(folder)) > names


def test_a_note_that_is_missing(folder, monkeypatch, done):
    """Code is not looked for before the first step; what is compiled later finds it, and leaves the note again."""
    launched()
    notes = list(folder.glob("*.n"))
    assert len(notes) == 1
    notes[0].unlink()
    with monkeypatch.context() as usual:
        usual.delenv("WARPSIM_COMPILE")
        del done[:]
        launched("auto")
        assert not done

    before = compiler().compiled
    launched()
    assert (compiler().compiled, list(folder.glob("*.n"))) == (before, notes)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: data[: len(data) // 2]]
)
def test_damaged_code(folder, monkeypatch, done, damage):
    """Counts as none."""
    launched()
    for path in folder.glob("*.o"):
        path.write_bytes(damage(path.read_bytes()))
    monkeypatch.delenv("WARPSIM_COMPILE")
    del done[:]
    launched("auto")
    assert not done


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_code_that_others_could_have_written(folder, monkeypatch, done):
    """Counts as none, too."""
    launched()
    for path in folder.glob("*.o"):
        path.chmod(0o666)
    monkeypatch.delenv("WARPSIM_COMPILE")
    del done[:]
    launched("auto")
    assert not done


def test_what_decides_code(monkeypatch):
    """A file of the package, LLVM, NumPy or the processor that is another."""
    images._made_by.cache_clear()
    found = [images.made_by()]
    for module, name, value in (
        (images, "_sources", lambda: []),
        (images, "_compiler", lambda: ("elsewhere", 1)),
        (images, "_processor", lambda: ["flags : none"]),
        (images.np, "__version__", "0.0"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, value)
            images._made_by.cache_clear()
            found.append(images.made_by())
    for name in ("_compiler", "_processor"):
        with monkeypatch.context() as patched:
            patched.setattr(images, name, lambda: None)
            images._made_by.cache_clear()
            assert images.made_by() is None
    images._made_by.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(images.REGISTRY, "revision", images.DECLARED + 1)
        assert images.made_by() is None  # an instruction that others declare may mean something else next time

    assert len(set(found)) == 5
    assert any(path.endswith("library.ll") for path, *_ in images._sources())


def test_tables_beside_code(monkeypatch, tmp_path):
    """What code reads comes back aligned, and the code behind it."""
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    tables = [
        np.arange(3, dtype=np.uint8),
        np.zeros((0, 2), np.int64),
        np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3).T,
    ]
    code = bytes(range(48))
    images.keep("tables beside code", Linked(code, {"f": 16}, []), {"name": "f"}, tables)
    facts, addresses, found = images.find("tables beside code")

    assert facts["name"] == "f"
    assert ctypes.string_at(addresses["f"], 32) == code[16:]
    for table, back in zip(tables, found, strict=True):
        assert (back.dtype, back.shape) == (table.dtype, table.shape)
        assert (back == table).all()
        assert back.flags.aligned
