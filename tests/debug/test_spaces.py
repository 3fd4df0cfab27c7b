"""Every state space as a session reads and writes it: what the kernel put there is what is there."""

import numpy as np
import pytest

import warpsim
from warpsim.debug import DebugError, Session

TEXT = """.version 8.0
.target sm_90a
.address_size 64
.const .align 4 .u32 table[4] = {10, 20, 30, 40};
.global .align 4 .u32 cells[4] = {1, 2, 3, 4};
.visible .entry k(.param .u64 out, .param .u32 n)
{
  .reg .b32 %r<6>; .reg .b64 %rd<6>;
  .shared .align 16 .u32 tile[8];
  .local .align 8 .u32 mine[2];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %cluster_ctarank;
  add.u32 %r2, %r1, 100;
  st.shared.u32 [tile+4], %r2;
  mov.u32 %r5, 0;
  st.shared.u32 [tile+8], %r5;
  add.u32 %r3, %r0, 50;
  st.local.u32 [mine+4], %r3;
  cvta.shared.u64 %rd1, tile;
  cvta.local.u64 %rd2, mine;
  cvta.const.u64 %rd3, table;
  cvta.global.u64 %rd4, cells;
  ld.param.u64 %rd5, [out];
  mov.u32 %r5, %ctaid.x;
  mad.wide.u32 %rd0, %r5, 4, %rd5;
  mov.u32 %r5, tile;
  mapa.shared::cluster.u32 %r4, %r5, 1;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ld.shared.u32 %r3, [tile+8];
  st.global.u32 [%rd0], %r3;
  ret;
}
"""
WAIT = next(number for number, line in enumerate(TEXT.splitlines(), 1) if "cluster.wait" in line)
LANES = list(range(32))


def at_the_barrier(stops):
    """A session on clusters of two CTAs of 40 threads, of which so many warps have come to their barrier."""
    out = np.arange(7, 11, dtype=np.uint32)
    made = Session(warpsim.load(TEXT)["k"], 4, 40, (out, 6), cluster=2)
    made.break_at(WAIT)
    for _ in range(stops):
        made.cont()
    made.delete()
    made.out = out
    return made


@pytest.fixture
def session():
    """A session whose first two CTAs have come to their cluster's barrier; CTA 0 is in focus."""
    made = at_the_barrier(4)
    made.focus((0, 0, 0), 0, 0)
    return made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tile[1]", 100),
        ("shared.u32[4]", 100),
        ("shared.u8[&tile + 4]", 100),
        ("u32[%rd1 + 4]", [100] * 32),
        ("generic.u32[%rd1 + 4]", [100] * 32),
        ("shared.u32[%r4 + 4]", [101] * 32),
        ("mine[1]", 50),
        ("local.u32[&mine + 4]", 50),
        ("u32[%rd2 + 4]", [50 + n for n in LANES]),
        ("u32[%rd2 + 4][9]", 59),
        ("table[2]", 30),
        ("table", [10, 20, 30, 40]),
        ("const.u32[&table + 8]", 30),
        ("u32[%rd3 + 8]", [30] * 32),
        ("cells[3]", 4),
        ("global.u32[%rd4]", [1] * 32),
        ("u32[&cells + 4 * 2]", 3),
        ("u32[out + 4]", 8),
        ("global.u32[out:out + 16]", [7, 8, 9, 10]),
        ("global.u16[out:out + 7]", [7, 0, 8]),
        ("global.u32[out + 4:out]", []),
        ("param.u32[8]", 6),
        ("param.u64[0] == out", True),
        ("n", 6),
        ("&tile[3] - &tile", 12),
        ("&mine[1] - &mine[0]", 4),
        ("&table[%laneid & 3] - &table", [4 * (n & 3) for n in LANES]),
        ("tile.u16[2]", 100),
        ("tile.u64[0] >> 32", 100),
        ("+n - -n", 12),
    ],
)
def test_reads(session, text, expected):
    """By name, by address in a space, and by generic address, of one thread or of each lane."""
    assert np.asarray(session.evaluate(text)).tolist() == expected


def test_memory(session):
    """Bytes of each space; shared memory is that of a CTA, local memory that of a thread."""
    out, const = int(session.evaluate("out")), int(session.evaluate("&table"))

    def word(*place, **of):
        return int.from_bytes(session.memory(*place, 4, **of), "little")

    assert [word("shared", 4), word("shared", 4, cta=(1, 0, 0)), word("shared", 4, cta=1)] == [100, 101, 101]
    local = int(session.evaluate("&mine")) + 4
    assert [word("local", local), word("local", local, thread=33)] == [50, 83]
    assert [word("local", local, cta=1, thread=3), word("generic", int(session.evaluate("%rd2")[0]) + 4)] == [53, 50]
    assert [word("const", const + 4), word("global", out), word("param", 8)] == [20, 7, 6]
    assert session.memory("const", 4, 4) == (20).to_bytes(4, "little")  # from the beginning of constant memory
    assert session.memory("shared", 5, 6) == bytes([0, 0, 0]) + session.memory("shared", 8, 3)
    assert session.memory("shared", 32, 0) == b""
    assert session.memory("param", 0, 12) == out.to_bytes(8, "little") + (6).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("space", "address", "nbytes", "said"),
    [
        ("tensor", 0, 4, "'tensor' is not a state space; state spaces: global, const, shared, local, param, generic"),
        ("shared", 0, -1, "too many to read at once"),
        ("shared", 0, (1 << 30) + 1, "too many to read at once"),
        ("shared", 29, 4, "outside the 32 bytes of shared memory"),
        ("shared", -4, 4, "outside the 32 bytes of shared memory"),
        ("shared", 5 << 24, 4, "outside"),
        ("local", 1 << 20, 1, "of local memory"),
        ("param", 9, 4, "the kernel has 12 bytes of parameters"),
        ("param", -1, 1, "the kernel has 12 bytes of parameters"),
        ("global", -8, 4, "outside any allocation"),
        ("global", 16, 4, "the nearest is"),
    ],
)
def test_bytes_that_do_not_exist(session, space, address, nbytes, said):
    """What is outside of a space, or no space, is refused."""
    with pytest.raises(DebugError) as caught:
        session.memory(space, address, nbytes)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("what", "value", "read", "expected"),
    [
        ("tile[2]", 9, "tile[1:3]", [100, 9]),
        ("tile.u8[9]", 0x12, "tile[2] & 0xff00", 0x1200),
        ("shared.u32[8:16]", [5, 6], "tile[2:4]", [5, 6]),
        ("tile[2:4]", 3, "tile[2:4]", [3, 3]),
        ("shared.u32[%r4 + 8]", 8, "shared.u32[%r4 + 8]", [8] * 32),
        ("shared.b128[16]", 5 << 96 | 3, "tile[4:8]", [3, 0, 0, 5]),
        ("mine[0]", 11, "mine", [11, 50]),
        ("u32[%rd2]", "%laneid * 3", "u32[%rd2]", [3 * n for n in LANES]),
        ("u32[%rd2]", 4, "u32[%rd2]", [4] * 32),
        ("cells[1]", 77, "cells", [1, 77, 3, 4]),
        ("table[1]", 77, "table", [10, 77, 30, 40]),
        ("global.u32[out + 4]", 66, "global.u32[out:out + 16]", [7, 66, 9, 10]),
        ("%r3", np.arange(32, dtype=np.uint32) * 2, "%r3", [2 * n for n in LANES]),
        ("%r3[7]", 1000, "%r3[7] - %r3[6]", 1000 - 56),
        ("%r3", True, "%r3", [1] * 32),
    ],
)
def test_writes(session, what, value, read, expected):
    """What is set is read back, and nothing beside it; coming to this step again sets it again."""
    session.set(what, value)
    assert np.asarray(session.evaluate(read)).tolist() == expected
    here = session.stop.step
    session.goto(here - 1)
    session.goto(here)
    session.focus((0, 0, 0), 0, 0)
    assert np.asarray(session.evaluate(read)).tolist() == expected


@pytest.mark.parametrize(
    ("what", "value", "said"),
    [
        ("n", 3, "cannot be changed"),
        ("param.u32[8]", 3, "cannot be changed"),
        ("n + 1", 3, "cannot be changed"),
        ("tile[0:3]", [1, 2], "has 3 elements, not 2"),
        ("tile[0:2]", np.zeros((2, 2)), "one per lane or element"),
        ("%r0", np.arange(31), "1 or 32 values, not 31"),
        ("%r0[32]", 1, "lane 32 does not stand here"),
        ("%r0[-1]", 1, "lane -1 does not stand here"),
        ("shared.u32[0x1000]", 1, "outside the 32 bytes"),
        ("global.u32[16]", 1, "outside any allocation"),
        ("nowhere.u32[0]", 1, "no variable or state space nowhere"),
        ("tile.u32", 1, "expected '['"),
        ("tile[0]", "nothing", "nothing"),
    ],
)
def test_writes_that_are_refused(session, what, value, said):
    """Nothing is changed by what is refused."""
    before = [session.evaluate(text).tolist() for text in ("tile", "mine", "cells", "%r0")]
    with pytest.raises(DebugError) as caught:
        session.set(what, value)
    assert said in str(caught.value)
    assert [session.evaluate(text).tolist() for text in ("tile", "mine", "cells", "%r0")] == before


def test_names_of_two_variables():
    """A function's variable hides one of the module, for who reads and who writes; the module's is seen from elsewhere."""
    text = """.version 8.0
.target sm_90a
.address_size 64
.global .align 4 .u32 v = 7;
.func f() { .reg .b32 r; ld.global.u32 r, [v]; ret; }
.visible .entry k() { .reg .b32 r; .shared .align 4 .u32 v; st.shared.u32 [v], 3; call f, (); ld.shared.u32 r, [v]; ret; }"""
    session = Session(warpsim.load(text)["k"], 1, 1, ())
    session.until("op:call*")
    assert session.evaluate("v") == 3
    session.set("v", 5)
    session.until("f")
    assert session.evaluate("v") == 7
    session.until("op:ret")
    session.step()
    session.step()
    assert session.evaluate("r[0]") == 5


def test_lanes_that_a_warp_lacks(session):
    """Warp 1 has eight threads: the others have no values, and cannot be set."""
    session.focus(warp=1)
    values = session.evaluate("%r0")

    assert np.ma.getmaskarray(values).tolist() == [False] * 8 + [True] * 24
    assert values[:8].tolist() == list(range(32, 40))
    session.set("u32[%rd2]", "%laneid")
    assert session.evaluate("u32[%rd2]")[:8].tolist() == list(range(8))
    with pytest.raises(DebugError, match="lane 8 does not stand here"):
        session.set("%r0[8]", 1)


def test_what_is_written_reaches_the_kernel(session):
    """The kernel reads what was set in shared memory, of this CTA and of no other, and stores it where the caller sees it."""
    session.set("tile[2]", 44)
    session.focus(1)
    session.set("tile[2]", 55)

    assert session.cont().reason == "end"
    assert session.out.tolist() == [44, 55, 0, 0]


def test_the_cluster_barrier():
    """Who waits for whom at a cluster's barrier; that it is complete is an event."""
    session = at_the_barrier(3)
    waits = [(w.cta, w.warp) for w in session.warps() if w.state == "waits at the cluster barrier"]

    assert waits == [((0, 0, 0), 0), ((0, 0, 0), 1)]
    (barrier,) = session.barriers()
    assert (barrier.cta, barrier.number, barrier.arrived, barrier.expected) == ((0, 0, 0), None, 72, 80)
    assert barrier.waiting == (0, 1)
    session.catch("barrier")
    stop = session.cont()
    assert (stop.reason, stop.event) == ("catchpoint", "the cluster barrier is complete")
    assert session.barriers() == ()


def test_ctas_that_have_not_begun(session):
    """A CTA that has not begun has parameters and global memory, no registers, shared or local memory; a step waits for it."""
    session.focus((3, 0, 0))

    assert session.where() == ()
    assert dict(session.registers) == {}
    assert session.evaluate("n") == 6
    assert session.evaluate("cells[1]") == 2
    for text in ("tile", "mine", "%tid.x", "%r0", "mine[0]"):
        with pytest.raises(DebugError):
            session.evaluate(text)
    with pytest.raises(DebugError, match="does not run"):
        session.matrix("a")
    with pytest.raises(DebugError, match="none, because the thread is not running"):
        session.select(0)
    assert session.step().focus.cta == (3, 0, 0)
    assert session.where()[0].function == "k"


def test_clocks(session):
    """The clock at a stop is that of the next instruction there; its upper half is that of 64 bits."""
    low, wide, high = (session.evaluate(f"%{name}").tolist() for name in ("clock", "clock64", "clock_hi"))
    assert low == wide
    assert high == [0] * 32
    nanoseconds = int(session.evaluate("%globaltimer")[0])
    assert int(session.evaluate("%globaltimer_hi")[0]) == nanoseconds >> 32
    session.step()
    assert session.evaluate("%clock64")[0] >= wide[0]
