"""Copies, mbarriers and warps that poll: what is in flight, who waits for it, and where values came from."""

import numpy as np
import pytest

import warpsim
from warpsim.debug import DebugError, Session

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to, .param .u32 n)
{
  .reg .b32 r<6>; .reg .b64 d<6>; .reg .pred p, q, first; .reg .f32 f<4>;
  .shared .align 128 .b8 tile[512]; .shared .align 8 .b64 full; .shared .align 8 .b64 flag;
  ld.param.u64 d0, [from]; ld.param.u64 d1, [to]; mov.u32 r0, %tid.x; setp.eq.u32 first, r0, 0; mov.u32 r1, tile;
  @first mbarrier.init.shared.b64 [full], 1;
  @first mbarrier.init.shared.b64 [flag], 2;
  bar.sync 0;
  @first mbarrier.arrive.expect_tx.shared.b64 _, [full], 128;
  @first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [d0], 128, [full];
wait:
  mbarrier.try_wait.parity.shared.b64 p, [full], 0;
  @!p bra wait;
  mad.lo.u32 r2, r0, 16, r1;
  and.b32 r3, r0, 7;
  mad.wide.u32 d2, r3, 16, d0;
  setp.lt.u32 q, r0, 8;
  @q cp.async.ca.shared.global [r2+256], [d2], 16;
  cp.async.commit_group;
  cp.async.wait_group 0;
  bar.sync 0;
  fence.proxy.async;
  bar.sync 0;
  @first cp.async.bulk.global.shared::cta.bulk_group [d1], [tile], 64;
  @first cp.async.bulk.commit_group;
  @first cp.async.bulk.wait_group 0;
  @first mbarrier.inval.shared.b64 [flag];
  bar.sync 0;
  @q ld.shared.v2.b32 {r3, r4}, [r2+256];
  @q add.u32 r5, r3, r4;
  st.shared.b32 [tile], r5;
  mov.f32 f0, f1;
  ret;
}
"""
LINES = TEXT.splitlines()
PRODUCT = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k()
{
  .reg .b32 r<6>; .reg .b64 a, b; .reg .pred p, first, never;
  .shared .align 1024 .b8 tile[8192]; .shared .align 8 .b64 bar; .shared .b32 slot;
  mov.u32 r0, %tid.x; setp.eq.u32 first, r0, 0; setp.ne.u32 never, r0, r0;
  @first mbarrier.init.shared.b64 [bar], 1;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
  ld.shared.b32 r1, [slot];
  mov.u32 r2, tile; shr.u32 r2, r2, 4; cvt.u64.u32 a, r2; or.b64 a, a, 0x0000401000080000; add.u64 b, a, 256;
  mov.b32 r3, 0x08080010;
  @!first bra wait;
  tcgen05.mma.cta_group::1.kind::f16 [r1], a, b, r3, never;
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
  nanosleep.u32 1;
wait:
  mbarrier.try_wait.parity.shared.b64 p, [bar], 0;
  @!p bra wait;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 r1, 32;
  ret;
}
"""


def line(words):
    """The number of the line with these words."""
    return next(number for number, text in enumerate(LINES, 1) if words in text)


def begun(**options):
    """A session of 40 threads, before its first step."""
    source, target = np.arange(100, 132, dtype=np.uint32), np.zeros(32, np.uint32)
    made = Session(warpsim.load(TEXT)["k"], 1, 40, (source, target, 3), checks="none", **options)
    made.target = target
    return made


@pytest.fixture
def session():
    """A session in which copies are made as late as the rules allow."""
    return begun(async_effects="at_wait")


def test_mbarriers(session):
    """Phase, arrivals and bytes that a phase lacks, by name; who waits for which; those that are no more."""
    assert session.mbarriers() == ()
    session.until(line("bar.sync 0"))
    full, flag = session.mbarriers()
    assert [(b.name, b.phase, b.pending, b.expected, b.bytes, b.waiting) for b in (full, flag)] == [
        ("full", 0, 1, 1, 0, ()),
        ("flag", 0, 2, 2, 0, ()),
    ]
    assert flag.address == full.address + 8
    session.until(line("cp.async.bulk.shared::cluster"))
    assert [(b.pending, b.bytes) for b in session.mbarriers()] == [(0, 128), (2, 0)]
    session.focus(warp=1)
    session.until(line("@!p bra wait") - 1)
    assert session.mbarriers()[0].waiting == (1,)
    assert session.mbarriers()[1].waiting == ()
    session.focus(warp=0)
    session.until(line("mad.lo.u32 r2"))
    assert (session.mbarriers()[0].phase, session.mbarriers()[0].pending) == (1, 1)
    session.until(line("mbarrier.inval"))
    assert len(session.mbarriers()) == 2
    session.step()
    assert [b.name for b in session.mbarriers()] == ["full"]


def test_copies(session):
    """What each writes and reads, for whom, and what waits for it."""
    session.until(line("wait:") + 1)
    (bulk,) = session.in_flight()
    assert (bulk.line, bulk.warp, bulk.lanes, bulk.registers) == (line("cp.async.bulk.shared::cluster"), 0, "0", ())
    assert bulk.writes == (((0, 0, 0), 0, 128),)
    assert bulk.reads == ()
    assert bulk.until == "the phase of the mbarrier full of CTA (0, 0, 0) is over"
    session.until(line("cp.async.wait_group"))
    (small,) = session.in_flight()
    assert (small.lanes, small.writes) == ("0-7", (((0, 0, 0), 256, 128),))
    assert small.until.startswith("cp.async.wait_group (group ")
    session.until(line("cp.async.bulk.wait_group"))
    back = session.in_flight()[-1]
    assert back.reads == (((0, 0, 0), 0, 64),)
    assert back.writes == ()
    assert back.until.startswith("cp.async.bulk.wait_group (group ")
    session.step()
    assert not any(f.instruction.startswith("cp.async.bulk.global") for f in session.in_flight())
    assert session.cont().reason == "end"
    assert session.target.tolist() == [*range(100, 116), *[0] * 16]


def test_events(session):
    """Copies that are waited for, by groups and by mbarriers; barriers that are left."""
    session.catch("async")
    seen = []
    while (stop := session.cont()).reason != "end":
        seen.append(stop.event.split(" have completed")[0].split(" (")[0] + stop.event.rpartition(":")[2])
    copies = [(f"the copies of line {line(words)}", said) for words, said in (
        ("cp.async.bulk.shared::cluster", " their mbarrier has counted them"),
        ("cp.async.ca", " threads have waited for them"),
        ("cp.async.bulk.global", " threads have waited for them"),
    )]  # fmt: skip
    found = list(dict.fromkeys(seen))
    assert len(found) == 3
    for place, said in copies:
        assert any(each.startswith(place) and each.endswith(said) for each in found)


def test_warps_that_poll():
    """A warp in a loop around a wait sleeps there, and is named by the mbarrier that it waits for."""
    text = TEXT.replace("  @first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [d0], 128, [full];\n", "  @first bra gone;\n").replace("  ret;\n", "gone:\n  ret;\n")  # fmt: skip
    session = Session(warpsim.load(text)["k"], 1, 40, (np.zeros(32, np.uint32), np.zeros(32, np.uint32), 3))
    stop = session.cont()
    assert stop.reason == "finding"
    states = {w.state for w in session.warps()}
    assert "polls memory" in states
    assert session.mbarriers()[0].waiting == (0, 1)
    assert session.mbarriers()[1].waiting == ()


def test_origins():
    """Guards, parts of vectors, parameters and copies are sources; a value that nothing gave has none."""
    session = begun()
    session.until(line("st.shared.b32 [tile]"))
    session.focus(lane=3)
    found = session.origin("r5", 3)
    assert (found.line, found.lane) == (line("add.u32 r5"), 3)
    values = dict(found.values)
    assert (values["q"], values["r3"], values["r4"]) == (True, 112, 113)
    assert found.text.startswith("@q add.u32 r5")
    (third,) = [source for source in found.sources if source.what == "r3"]
    assert third.line == line("ld.shared.v2")
    assert {name for name, _ in third.values} >= {"q", "r2"}
    pointer = session.origin("d0", 2)
    assert dict(pointer.values)["from"] == session.evaluate("d0")[3]
    assert pointer.sources == ()
    copied = session.origin("shared.u32[256]")
    assert (copied.line, copied.lane) == (line("cp.async.ca"), 0)
    assert str(session.origin("tile")).startswith("tile: step ")
    assert str(session.origin("f0")) == "f0: nothing wrote it in this launch"
    with pytest.raises(DebugError):
        session.origin("n + 1")


def test_a_profile():
    """A session that is asked for one has the profile of the launch, however often steps were executed."""
    kernel = warpsim.load(TEXT)["k"]
    given = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32), 3
    session = Session(kernel, 1, 40, given, profile=True)
    session.until(line("bar.sync 0"))
    session.goto(0)
    session.cont()
    plain = kernel(1, 40, given, profile=True)
    found, expected = (
        {each["line"]: each["executions"] for each in p.record()["lines"]}
        for p in (session.result.profile, plain.profile)
    )
    assert found == expected
    assert Session(kernel, 1, 40, given).cont().reason == "end"


def test_numbers_are_converted(session):
    """Integers set a float's value, floats too; bits of a float's width keep theirs."""
    for value, expected in (
        (3, 3.0),
        ("5", 5.0),
        (1.5, 1.5),
        ("r0 * 2", None),
        (np.float32(0.1), float(np.float32(0.1))),
    ):
        session.set("f1", value)
        found = session.evaluate("f1")
        assert found.tolist() == ([expected] * 32 if expected is not None else [0.0] * 32)
    session.set("f1", np.arange(32, dtype=np.float64) / 2)
    assert session.evaluate("f1").tolist() == [n / 2 for n in range(32)]
    session.set("p", "%laneid < 3")
    assert session.evaluate("p").tolist() == [n < 3 for n in range(32)]
    session.set("r1", -1)
    assert session.evaluate("r1").tolist() == [2**32 - 1] * 32
    session.set("r1", "b32(1 << 35 | 7)")
    assert session.evaluate("r1").tolist() == [7] * 32


def test_tensor_core():
    """A product in flight: what it reads in shared memory, what it writes in tensor memory, and the commit that follows."""
    made = Session(warpsim.load(PRODUCT)["k"], 1, 32, (), checks="none", async_effects="at_wait")
    made.until(1 + next(number for number, text in enumerate(PRODUCT.splitlines(), 1) if "tcgen05.commit" in text))
    product, commit = made.in_flight()

    assert product.instruction.startswith("tcgen05.mma")
    assert sum(nbytes for _, _, nbytes in product.reads) == 128 * 32 + 32 * 32
    assert product.tensor == ("writes lanes 0 to 127, columns 0 to 31 of tensor memory of CTA (0, 0, 0)",)
    assert product.until == "the phase of the mbarrier of a later tcgen05.commit is over"
    assert commit.instruction.startswith("tcgen05.commit")
    assert commit.until == "the phase of the mbarrier bar of CTA (0, 0, 0) is over"
