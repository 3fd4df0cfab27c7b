"""Programs on disk are those that were read, and whatever else lies there is passed over."""

from __future__ import annotations

import os
import pickle
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import warpsim
from warpsim import owned
from warpsim.analysis import assembled, flow, loops, undefined, wgmma_order
from warpsim.analysis.strict import check_program
from warpsim.cache import digest, write_object
from warpsim.isa.spec import REGISTRY
from warpsim.program import build, load, stored
from warpsim.program.program import Function, Instruction, Program
from warpsim.program.shapes import Shapes, shapes_of
from warpsim.program.uses import uses_of

TOP = Path(__file__).parents[2]
TEXTS = sorted([*(TOP / "programs").glob("*/*.ptx"), *(TOP / "tests" / "cases").glob("*/*.ptx")])
SHORT = [
    path for path in TEXTS if path.parent.name in ("hello", "gemm_sparse", "histogram", "assert_fails", "bit_fields")
]
TEXT = """.version 8.6
.target sm_100a
.address_size 64
.global .texref image;
.visible .entry k(.param .u64 p)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	mad.wide.u32 %rd2, %r1, 4, %rd1;
	st.global.u32 [%rd2], %r1;
	ret;
}
"""
WRONG = TEXT.replace("%r1, %tid.x", "%rd1, %tid.x")
DOUBTFUL = TEXT.replace("mov.u32 %r1, %tid.x;", "")
FOR_PAIRS = TEXT.replace(
    "ret;",
    "and.b32 %r3, %r1, 7;\n\tand.b32 %r2, %r1, 0xFEFFFFFF;\n\ttcgen05.commit.cta_group::2.mbarrier::arrive::one.b64 [%rd2];\n\tret;",
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache, for texts of any length."""
    monkeypatch.setenv("WARPSIM_CACHE", str(tmp_path))
    monkeypatch.setattr(load, "LONG", 0)
    monkeypatch.setattr(stored, "LONG", 60)
    for kept in (owned.cache_folder, load._kept_program):
        kept.cache_clear()
    yield tmp_path
    for kept in (owned.cache_folder, load._kept_program):
        kept.cache_clear()


@pytest.fixture
def as_later(monkeypatch):
    """Makes this process read nothing, like one that comes after it."""

    def begin():
        load._kept_program.cache_clear()
        monkeypatch.setattr(build, "read_program", lambda text, file: pytest.fail("it was to come from the disk"))

    return begin


def facts(made: object) -> object:
    """Everything that a program says; ops, which are equal to themselves alone, are taken apart."""
    match made:
        case Program():
            others = ("functions", "symbols", "uses", "__weakref__")
            fields = [getattr(made, name) for name in Program.__slots__ if name not in others]
            return fields, [facts(f) for f in made.functions.values()], uses_of(made)
        case Function():
            rest = made.name, made.entry, made.params, made.returns, made.variables, made.directives, made.linkage
            code = [facts(instruction) for instruction in made.code], [facts(each) for each in made.kinds]
            return rest, made.span, made.noreturn, made.registers, made.labels, code
        case Instruction():
            where = made.guard, made.span, made.source, made.inlined_at
            return made.form, vars(made.op), made.traits, made.operands, where
    raise TypeError(made)


def both(text: str) -> tuple[Program, Program]:
    """A program as it is read, and from the disk."""
    read = load.program_of(text, "a.ptx")
    for function in read.functions.values():
        _ = function.code
    name = stored.name_of(text, "a.ptx")
    found = stored.find(name, text, lambda: pytest.fail("it was to come from the disk"))
    assert found is not None
    return read, found


@pytest.mark.parametrize("path", SHORT, ids=lambda path: path.parent.name)
def test_like_what_was_read(path):
    """Registers, operands, lines, columns, sources, symbols: all as in the text."""
    read, found = both(path.read_text())

    assert facts(found) == facts(read)
    assert found.functions.keys() == read.functions.keys()


def test_what_is_rare():
    """A parameter that is a texture has another type than a variable; a selector, a minus, and an element left out belong to an op;
    what is asynchronous, to the module."""
    rare = "cp.async.wait_all;\n\tvmad.s32.s32.s32 %r1, %r1.b1, -%r2.h1, %r1;\n\tst.global.v8.b32 [%rd2], {%r1, _, %r1, %r1, %r1, %r1, %r1, _};\n\tret;"
    read, found = both(TEXT.replace("8.6", "8.8").replace("p)", "p, .param .texref q)").replace("ret;", rare))

    assert facts(found) == facts(read)


@pytest.mark.long
def test_all_like_what_was_read():
    """The same of a quarter of the gallery and the cases."""
    for path in TEXTS[::4]:
        read, found = both(path.read_text())
        assert facts(found) == facts(read), path


def test_later_processes_read_nothing(as_later):
    """A kernel runs from the disk, and a pass says of it what it said before; a text with a problem has it again."""
    before = check_program(load.program_of(DOUBTFUL)), load.program_of(TEXT).functions["k"].code
    with pytest.raises(warpsim.PtxError) as first:
        load.program_of(WRONG)
    with pytest.raises(warpsim.PtxError) as second:
        load.program_of(WRONG)
    as_later()
    words = np.zeros(64, np.uint32)

    warpsim.load(TEXT)["k"]((1,), (64,), (words,))

    assert words.tolist() == list(range(64))
    assert check_program(load.program_of(DOUBTFUL)) == before[0] != ()
    assert first.value.findings == second.value.findings


def damaged(data: bytes) -> bytes:
    """Data whose last bit is another."""
    return data[:-1] + bytes([data[-1] ^ 1])


def test_what_the_assembler_makes_is_kept(as_later, monkeypatch):
    """A later process finds what is dropped, folded, fused (also with factors that are overwritten) and exchanged, and the blocks."""
    body = """add.f32 %f4, %f4, %f3;
	neg.f32 %f5, %f1; neg.f32 %f6, %f5; mul.rn.f32 %f7, %f6, 0f3F800000; ex2.approx.f32 %f8, 0f3F000000;
	mul.f64 %fd3, %fd2, %fd1; st.global.f64 [%rd1+16], %fd3;
	st.global.v4.f32 [%rd1], {%f4, %f6, %f7, %f8};
	ret;"""
    text = TEXT.replace(".reg .b32 %r<4>;", ".reg .b32 %r<4>; .reg .f32 %f<9>; .reg .f64 %fd<4>;").replace(
        "st.global.u32 [%rd2], %r1;\n\tret;",
        "ld.global.v2.f64 {%fd1, %fd2}, [%rd1]; ld.global.v4.f32 {%f1, %f2, %f3, %f5}, [%rd1];\n\tmul.f32 %f4, %f1, %f2;\n"
        "\tmov.f32 %f1, %f3;\nnext:\n\t" + body,
    )

    def ran():
        kernel = warpsim.load(text)["k"]
        x = np.array([1.1, -2.7, 3.3, 0.1, 5, 6], np.float32)
        kernel((1,), (1,), (x,))
        plan = kernel.module.image(kernel.module.device).plan("k").main
        code = [(i.text, i.operands, i.reads, i.writes, i.traits.contraction) for i in plan.function.code]
        return (
            x.tobytes(),
            code,
            [(b.first, b.last, b.successors, b.live_in) for b in plan.flow],
            plan.function.registers,
        )

    first = ran()
    as_later()
    for number in range(4):
        fail = (lambda function: pytest.fail("it was to come from the disk"), assembled.PASSES[number][1])
        monkeypatch.setattr(assembled, "PASSES", (*assembled.PASSES[:number], fail, *assembled.PASSES[number + 1 :]))
    for part, name in (flow, "_ordered"), (flow, "used_registers"), (undefined, "_accesses"):
        monkeypatch.setattr(part, name, lambda *given: pytest.fail("it was to come from the disk"))
    assert ran() == first
    for function in load.program_of(text, "<ptx>").functions.values():
        changes, _ = stored.derived(function, "assembled", lambda: pytest.fail("it was to come from the disk"))
        assert all(changes)


@pytest.mark.parametrize("name", ["gemm_sparse_f16", "histogram"])
def test_what_is_known_of_loops_and_registers_is_kept(as_later, monkeypatch, name):
    """A later process finds loops, registers of wgmma, and what nobody reads."""
    path = next(path for path in TEXTS if path.parent.name == name)

    def known():
        module = warpsim.load(path.read_text())
        plan = module.image(module.device).plan(next(iter(module.kernels))).main
        found = [plan.loop(block.index) for block in plan.flow if any(s <= block.index for s in block.successors)]
        facts = [[getattr(loop, field) for field in loop.__slots__[:11]] for loop in found]
        counters = [None if loop.counter is None else (loop.counter.register, loop.counter.stride) for loop in found]
        assert facts
        return facts, counters, plan.wgmma_rows, plan.on_wgmma_rows, plan.unread

    first = known()
    as_later()
    for part, function in (loops, "loop_blocks"), (wgmma_order, "_moves_in_flight"), (flow, "used_registers"):
        monkeypatch.setattr(part, function, lambda *given: pytest.fail("it was to come from the disk"))
    assert known() == first


@pytest.mark.parametrize("damage", [damaged, lambda data: data[: len(data) // 2], lambda data: b""])
def test_damage(folder, damage):
    """A damaged file is passed over, and written anew."""
    read, _ = both(TEXT)
    files = {path: path.read_bytes() for path in folder.glob("*.o")}
    assert len(files) == 2
    for path, data in files.items():
        path.write_bytes(damage(data))
    load._kept_program.cache_clear()

    again = load.program_of(TEXT, "a.ptx")

    assert facts(again)[1][0][:5] == facts(read)[1][0][:5]
    assert {path: path.read_bytes() for path in folder.glob("*.o")} == files


def test_code_that_is_gone():
    """Where only the code of a function is missing, the text is read again."""
    text = TEXT.replace("entry k", "entry j")
    read = load.program_of(text)
    load._kept_program.cache_clear()

    found = load.program_of(text)

    assert found is not read
    assert [i.text for i in found.functions["j"].code] == [i.text for i in read.functions["j"].code]


class Call:
    """What would run when it is read, were anything run."""

    def __reduce__(self):
        return os.mkdir, ("made",)


@pytest.mark.parametrize("content", [pickle.dumps(Call()), pickle.dumps((Call(), b"")), pickle.dumps(print), b"junk"])
def test_other_content(folder, monkeypatch, content):
    """A file makes the parts of programs, and nothing else."""
    monkeypatch.chdir(folder)
    name = stored.name_of(TEXT, "<ptx>")
    write_object(name, content)
    write_object(digest(name, "k"), content)

    assert load.program_of(TEXT).functions["k"].code[0].text == "ld.param.u64"
    assert not (folder / "made").exists()


def test_names(monkeypatch):
    """A program is known by its text, its file (of any name), and the version of the package; there is none where others declare forms."""
    names = [stored.name_of(*of) for of in ((TEXT, "<ptx>"), (TEXT, "a.ptx"), (TEXT, "\udcff.ptx"), (WRONG, "<ptx>"))]
    monkeypatch.setattr(stored, "_version", lambda: "another")
    names.append(stored.name_of(TEXT, "<ptx>"))
    assert len(set(names)) == 5
    assert None not in names

    monkeypatch.setattr(REGISTRY, "revision", REGISTRY.revision + 1)
    assert stored.name_of(TEXT, "<ptx>") is None
    assert runpy.run_path(stored.__file__)["name_of"](TEXT, "<ptx>") is None  # they may do so before this is imported


def test_version_follows_the_files(tmp_path, monkeypatch):
    """Another file, or another content of one, is another version."""
    for part in stored._PARTS:
        (tmp_path / part).mkdir(exist_ok=True)
    monkeypatch.setattr(warpsim.isa, "__file__", str(tmp_path / "isa" / "__init__.py"))
    file = tmp_path / "isa" / "logic.py"
    found = [stored._version.__wrapped__()]
    for content, time in (("one", 1), ("three", 1), ("eight", 2)):
        file.write_text(content)
        os.utime(file, ns=(time, time))
        found.append(stored._version.__wrapped__())

    assert len(set(found)) == 4


def test_what_is_not_kept(folder, monkeypatch):
    """What is read quickly, and code with a form that no declaration has: its text is read again."""
    monkeypatch.setattr(load, "LONG", 60)
    assert load.program_of(TEXT).functions["k"].code
    assert list(folder.glob("*.o")) == []

    monkeypatch.setattr(load, "LONG", 0)
    code = load.program_of(FOR_PAIRS).functions["k"].code
    assert len(list(folder.glob("*.o"))) == 1
    load._kept_program.cache_clear()
    assert [i.form for i in load.program_of(FOR_PAIRS).functions["k"].code] == [i.form for i in code]


@pytest.mark.long
def test_processes(folder):
    """The second of two processes imports no parser."""
    run = (
        "import sys, numpy as np, warpsim; words = np.zeros(64, np.uint32);"
        f"warpsim.load({TEXT!r})['k']((1,), (64,), (words,)); print(words.sum(), 'warpsim.program.build' in sys.modules)"
    )
    said = [subprocess.check_output([sys.executable, "-c", run], text=True).split() for _ in range(2)]

    assert said == [["2016", "True"], ["2016", "False"]]


def code(text: str) -> object:
    """What is read of a text, which is not kept."""
    return facts(build.read_program(text, "a.ptx"))


OTHER = (
    TEXT.replace("image", "picture")
    .replace("k(", "other(")
    .replace("p]", "q]")
    .replace("u64 p", "u64 q")
    .replace("%r1", "%r3")
)


@pytest.fixture
def later_shapes(monkeypatch):
    """Ends this process as far as it knows shapes; what follows is one that comes after it."""
    shapes_of.cache_clear()
    monkeypatch.setattr(stored, "LONG", 0)
    yield shapes_of.cache_clear
    shapes_of.cache_clear()


def test_shapes_serve_other_texts(folder, monkeypatch, later_shapes):
    """A later process checks no line whose like was checked in another module of the same header."""
    expected = code(TEXT)
    for file in folder.glob("*.o"):
        file.unlink()
    later_shapes()
    code(OTHER)
    later_shapes()
    made = []
    monkeypatch.setattr(Shapes, "_made", lambda self, text: made.append(text))

    assert code(TEXT) == expected
    assert made == []
    code(TEXT.replace("sm_100a", "sm_90"))
    assert made != []


@pytest.mark.long
def test_shapes_are_kept_when_a_process_ends():
    """Nothing but its end has them written."""
    run = f"import warpsim; from warpsim.program import stored; stored.LONG = 0; warpsim.load({TEXT!r})"
    subprocess.check_call([sys.executable, "-c", run])

    assert stored.Shelf(("sm_100a",), (8, 6)).shapes


def test_shapes_that_are_too_many(monkeypatch, later_shapes):
    """Those of the module that was read last stay."""
    monkeypatch.setattr(stored, "MOST", 6)
    monkeypatch.setattr(stored, "WRITING", 0)
    code(TEXT)
    later_shapes()
    code(TEXT.replace("st.global.u32", "st.global.s32"))
    later_shapes()
    assert len(stored.Shelf(("sm_100a",), (8, 6)).shapes) == 6
    code(TEXT.replace("st.global.u32", "st.global.b32"))
    later_shapes()

    (last,) = stored.Shelf(("sm_100a",), (8, 6)).shapes
    assert "st.global.b32" in last


@pytest.mark.parametrize("damage", ["shape", "file", "registry"])
def test_shapes_that_cannot_be_taken(folder, monkeypatch, later_shapes, damage):
    """What is no shape, or what a process with other instructions found, is found again."""
    expected = code(TEXT)
    later_shapes()
    (path,) = folder.glob("*.o")
    if damage == "file":
        path.write_bytes(path.read_bytes()[:-1])
    elif damage == "shape":
        shelf = stored.Shelf(("sm_100a",), (8, 6))
        kept = dict.fromkeys(shelf.shapes, b"no pickle")
        write_object(path.stem, pickle.dumps((kept, shelf.limits)))
    else:
        monkeypatch.setattr(REGISTRY, "revision", REGISTRY.revision + 1)
    later_shapes()
    found = []
    original = Shapes._made
    monkeypatch.setattr(Shapes, "_made", lambda self, text: [found.append(text), original(self, text)][1])

    assert code(TEXT) == expected
    assert len(found) == 5
