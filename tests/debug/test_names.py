"""Names and types of C++: what is printed, watched and set by them, in what ``nvcc -lineinfo`` made of ``kernels/ring.cu``."""

from pathlib import Path

import numpy as np
import pytest

import warpsim
from ring_kernel import SCALE, WEIGHTS, started
from warpsim.debug import DebugError, symbols
from warpsim.debug.symbols import symbols_of
from warpsim.program.c_types import text


@pytest.fixture(scope="module")
def lines():
    """A session behind the first CTA's barrier, of a module with line information only."""
    session = started("ring.ptx")
    session.until("ring.cu:60")
    return session


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("coef[0]", 0.5),
        ("coef", [SCALE * w for w in WEIGHTS]),
        ("*tile@8", [0, 0, 0, 1, 2, 3, 4, 5]),
        ("tile[4]@3", [2, 3, 4]),
        ("tile[4:7]", [2, 3, 4]),
        ("table::weights", WEIGHTS),
        ("weights[3] + 1", 5),
        ("grid2", [1, 2, 3, -4, -5, -6]),
        ("*(&coef[1] + 2)", 2),
        ("&coef[3] - &coef[1]", 2),
        ("(int)coef[2]", 1),
        ("(unsigned char)-1", 255),
        ("sizeof(coef)", 28),
        ("sizeof(double)", 8),
        ("sizeof coef[0]", 4),
        ("square[6]", 6),
        ("ring.u8[20]", ord("a")),
        ("*(float*)&ring[28]@2", [10, 11]),
        ("x[3]", 4),
        ("_ZZ7stencilPKfPfi4StepE4coef[3]", 63),  # the bytes of 0.5f: 00 00 00 3f
    ],
)
def test_c_names(lines, text, expected):
    """Variables go by their names in CUDA, as elements of the type as which the kernel accesses them."""
    assert np.asarray(lines.evaluate(text)).tolist() == expected


def test_an_index_by_lane(lines):
    """An index that differs by lane gives an element to each."""
    assert lines.evaluate("tile[%tid.x + 3]").tolist() == list(range(1, 33))
    assert lines.evaluate("tile[%r1] == coef[0]").any() == np.False_


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("coef[7]", "element 7 is out of range: there are 7 elements"),
        ("*coef[0]", "only pointers and arrays have a *"),
        ("coef.x", "no member x in float"),
        ("%r1@4", "write OBJECT@COUNT"),
        ("*(void*)0", "void has no size"),
        ("(Slot*)0", "no type Slot"),
        ("(float)", "expected a value"),
        ("nowhere::x", "no register, variable or parameter nowhere::x"),
    ],
)
def test_what_has_no_value(lines, text, advice):
    """What has no value is refused with what there is."""
    with pytest.raises(DebugError, match=advice.replace("*", r"\*")):
        lines.evaluate(text)


def test_set():
    """A variable takes numbers of its type."""
    session = started("ring.ptx")
    session.until("ring.cu:60")
    session.set("coef[0]", "1.5")
    session.set("*tile@2", [7, 8.5])
    session.set("grid2[1]", -3)

    assert session.evaluate("coef[0]") == 1.5
    assert session.evaluate("tile[0:3]").tolist() == [7, 8.5, 0]
    assert session.evaluate("grid2[1]") == -3
    with pytest.raises(DebugError, match=r"grid2\[1\] is .s16, which takes integers of 16 bits"):
        session.set("grid2[1]", 0.5)


def test_watch():
    """A watchpoint stops where the element changes."""
    session = started("ring.ptx")
    session.watch("tile[%tid.x + 3]")
    stop = session.cont()

    assert (stop.reason, stop.old, stop.new) == ("watchpoint", 0, 1)
    assert session.break_at("ring.cu:60", "coef[%tid.x & 3] == 2").number == 2


def test_parameters():
    """A kernel's parameters have the names of the declaration in its CUDA file, and its types where they are C's."""
    session = started("ring.ptx")

    assert [symbol.name for symbol in session.variables() if symbol.parameter] == ["x", "y", "n", "step"]
    assert (session.evaluate("n"), session.evaluate("*(x + 3)"), session.evaluate("x[3]")) == (100, 4, 4)
    assert session.evaluate("step.f32[0]") == SCALE


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ("const float* __restrict__ x", ("x", "const float *")),
        ("unsigned n = 3", ("n", "unsigned int")),
        ("uint64_t *p", ("p", "unsigned long *")),
        ("float (&a)[3]", ("", None)),
        ("int a[]", ("a", "int *")),
        ("void **p", ("p", "void **")),
        ("std::pair<int, float> p", ("p", None)),
        ("const __grid_constant__ CUtensorMap map", ("map", None)),
        ("int", ("", None)),
    ],
)
def test_declarations(declaration, expected):
    """Declarations of parameters as programs have them."""
    name, type = symbols._declared(declaration)

    assert (name, None if type is None else text(type)) == expected


def test_bytes_are_said():
    """A struct without debug information is bytes, and it is said how they are accessed."""
    symbols = {symbol.name: symbol.known for symbol in started("ring.ptx").variables()}

    assert symbols["ring"] == "PTX, which has bytes; the module accesses them as .f32, .u32, .u8"
    assert symbols["coef"] == "the accesses of the module, .f32"


def test_signs():
    """A test for equality says nothing of a sign: ``unsigned bins[256]`` of the histogram is one of unsigned numbers."""
    program = warpsim.load(Path(__file__).parents[2] / "programs" / "histogram" / "kernel.ptx").program
    body = symbols_of(program).body(program.functions["histogram"])

    assert [text(s.type, s.name) for s in body.symbols if s.name == "bins"] == ["unsigned int bins[256]"]
