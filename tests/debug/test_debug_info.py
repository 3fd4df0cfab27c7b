"""Variables, types and scopes from debug information: what ``nvcc -G`` made of ``kernels/ring.cu``."""

import numpy as np
import pytest

from ring_kernel import SCALE, SHIFT, WEIGHTS, started
from warpsim.debug import DebugError
from warpsim.program import dwarf, load
from warpsim.program.c_types import SCALARS, Array, Member, Pointer, Scalar, Struct, definition, text

LANES = np.arange(32)


@pytest.fixture(scope="module")
def session():
    """A session where the first CTA sums: all variables of the kernel have values."""
    made = started("ring_debug.ptx")
    made.until("ring.cu:61")
    return made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("coef", [SCALE * w for w in WEIGHTS]),
        ("ring[1].a[3]", 13),
        ("ring[0].head", SHIFT),
        ("ring[1].flag", ord("b")),
        ("*ring[1].a@2", [10, 11]),
        ("(&ring[1])->head", 1 + SHIFT),
        ("square[1][2]", 6),
        ("square", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]),
        ("grid2[1]", [-4, -5, -6]),
        ("n", 100),
        ("*x@3", [1, 2, 3]),
        ("x[5]", 6),
        ("*(x + 5)", 6),
        ("step.scale", SCALE),
        ("step.bias[1]", 200),
        ("last.head", 0),
        # what the compiler says on sizeof and offsetof
        ("sizeof(Slot)", 24),
        ("sizeof(ring)", 48),
        ("(unsigned long)&ring[0].flag - (unsigned long)&ring", 20),
        ("sizeof(Step)", 16),
        ("sizeof(struct Step*)", 8),
    ],
)
def test_values(session, text, expected):
    """Members, elements and pointers of C++ give the values that the kernel has computed."""
    assert np.asarray(session.evaluate(text)).tolist() == expected


def test_locals(session):
    """A local variable has the value of each lane."""
    assert session.evaluate("t").tolist() == LANES.tolist()
    assert session.evaluate("tile[t + 1]").tolist() == [max(lane - 1, 0) for lane in LANES]
    assert session.evaluate("ring[t & 1].head").tolist() == [(lane & 1) + SHIFT for lane in LANES]


def test_structs(session):
    """A struct is a structured value."""
    slot = session.evaluate("ring[1]")

    assert (slot["head"], slot["a"].tolist(), slot["flag"]) == (1 + SHIFT, [10, 11, 12, 13], ord("b"))
    assert session.evaluate("ring[t & 1]")["head"][:2].tolist() == [SHIFT, 1 + SHIFT]


def test_scopes():
    """A name means the variable of the innermost block around the instruction that comes next."""
    session = started("ring_debug.ptx")
    with pytest.raises(DebugError, match="no register, variable or parameter s in"):
        session.evaluate("s")
    session.until("ring.cu:24")

    assert session.evaluate("k").tolist() == [0] * 32
    assert session.evaluate("*row").tolist() == [max(lane - 2, 0) for lane in LANES]
    with pytest.raises(DebugError, match="w has no value yet"):
        session.evaluate("w")
    session.until("ring.cu:25")

    assert session.evaluate("w").tolist() == [WEIGHTS[0]] * 32
    with pytest.raises(DebugError, match="no register, variable or parameter t in"):
        session.evaluate("t")


def test_a_place_that_moves():
    """The variable of a loop is in one register after another."""
    session = started("ring_debug.ptx")
    values = []
    session.break_at("ring.cu:25")
    for _ in range(3):
        session.cont()
        values.append(int(session.evaluate("k")[0]))

    assert values == [0, 1, 2]


def test_set_a_local():
    """A local variable takes a number of its type, and the kernel goes on with it."""
    session = started("ring_debug.ptx")
    session.until("ring.cu:61")
    session.set("i", -1)
    session.set("ring[1].a[0]", "2.5")

    assert session.evaluate("i").tolist() == [-1] * 32
    assert session.evaluate("ring[1].a").tolist() == [2.5, 11, 12, 13]
    with pytest.raises(DebugError, match=r"ring\[0\] is of type Slot: set a member, head, a, flag"):
        session.set("ring[0]", 1)


def test_watch_a_local():
    """A local variable is watched as the register that it is in."""
    session = started("ring_debug.ptx")
    session.until("ring.cu:46")
    session.watch("i")
    stop = session.cont()

    assert (stop.reason, stop.new.tolist()) == ("watchpoint", LANES.tolist())


FLOAT = Scalar("float", None)


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        (FLOAT, "float"),
        (Pointer(lambda: FLOAT), "float *"),
        (Array(Array(FLOAT, 4), 3), "float [3][4]"),
        (Pointer(lambda: Array(FLOAT, 3)), "float (*)[3]"),
        (Array(Pointer(lambda: FLOAT), 3), "float *[3]"),
        (Array(Struct("S", 4, ()), 2), "S [2]"),
    ],
)
def test_types_as_text(type, expected):
    """Types are written as C writes them."""
    assert text(type) == definition(type) == expected


@pytest.mark.parametrize(
    ("data", "unsigned", "signed"),
    [("02", 2, 2), ("7f", 127, -1), ("8001", 128, 128), ("ff7e", 16255, -129), ("e58e26", 624485, 624485)],
)
def test_leb128(data, unsigned, signed):
    """The examples of the DWARF standard (Appendix C), and one of its own text."""
    assert dwarf.Reader(bytes.fromhex(data)).uleb() == unsigned
    assert dwarf.Reader(bytes.fromhex(data)).sleb() == signed


def test_an_unknown_form_costs_the_types_only(monkeypatch):
    """Debug information of another kind is left out: names and accesses serve."""
    monkeypatch.setattr(dwarf, "FORMS", {})
    load._kept_program.cache_clear()
    session = started("ring_debug.ptx")
    session.until("ring.cu:61")

    assert session.evaluate("coef[1]") == 1
    assert session.evaluate("square[6]") == 6
    load._kept_program.cache_clear()


def test_parts_without_names():
    """Members of nameless unions and of base classes are found as if they were the struct's own."""
    union = Struct("", 4, (Member("i", SCALARS["int"], 0), Member("f", SCALARS["float"], 0)), "union")
    other = Struct("", 4, (Member("j", SCALARS["int"], 0),))
    whole = Struct("S", 8, (Member("", union, 0), Member("", other, 4)))

    assert whole.dtype.itemsize == 8
    assert (whole.find("f"), whole.find("j")) == ((SCALARS["float"], 0), (SCALARS["int"], 4))
    assert whole.find("k") is None
