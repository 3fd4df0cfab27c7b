"""What counts as written: bytes that bulk copies, launches without checks and the cluster have stored, and wide atomics."""

import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.checks.written import WrittenBits

HEAD = module_head("sm_90")
COPY = (
    HEAD
    + """
.visible .entry k(.param .u64 a, .param .u64 b)
{
    .reg .b32 %r<4>; .reg .b64 %rd<5>; .shared .align 16 .b32 s[32];
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
    ld.global.u32 %r2, [%rd1]; st.global.u32 [%rd2], %r2;
    ret;
}
"""
)
BULK = (
    HEAD
    + """
.visible .entry k(.param .u64 a)
{
    .reg .b32 %r<4>; .reg .b64 %rd<3>; .reg .pred %p<2>; .shared .align 16 .b32 s[32];
    ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; mov.u32 %r2, s;
    shl.b32 %r3, %r1, 2; add.u32 %r3, %r3, %r2; st.shared.u32 [%r3], %r1;
    fence.proxy.async.shared::cta; bar.sync 0;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra done;
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 64;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
done:
    ret;
}
"""
)


@pytest.fixture
def device():
    """A Hopper."""
    return warpsim.Device("sm_90a")


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_bulk_stores_write(device, effects):
    """What a bulk copy has stored in new memory may be read by the next kernel; what lies beside it may not."""
    new, out = device.empty(32, np.uint32), device.array(np.zeros(32, np.uint32))
    warpsim.load(BULK)["k"](1, 32, (new,), device=device, async_effects=effects)

    copy = warpsim.load(COPY)["k"]
    assert copy(1, 16, (new, out), device=device, on_finding="collect").findings == ()
    (found,) = copy(1, 32, (new, out), device=device, on_finding="collect").findings
    assert (found.rule, found.lanes) == ("uninitialised", tuple(range(16, 32)))


def test_bulk_copies_of_several_ctas(device):
    """Each CTA stores 64 bytes of a row of 80: those are written, what lies between is not."""
    new, out = device.empty(60, np.uint32), device.array(np.zeros(60, np.uint32))
    text = BULK.replace(
        "mov.u32 %r1, %tid.x;", "mov.u32 %r1, %ctaid.x; mad.wide.u32 %rd1, %r1, 80, %rd1; mov.u32 %r1, %tid.x;"
    )
    warpsim.load(text)["k"](3, 32, (new,), device=device)
    result = warpsim.load(COPY)["k"](1, 60, (new, out), device=device, on_finding="collect")

    lanes = [32 * f.warp + lane for f in result.findings for lane in f.lanes]
    assert [f.rule for f in result.findings] == ["uninitialised"] * len(result.findings)
    assert set(lanes) <= {*range(16, 20), *range(36, 40), *range(56, 60)}
    assert {*range(16, 20)} <= set(lanes)


def test_launches_without_the_rule_write(device):
    """A launch that does not check the rule still tells the next what it has written."""
    new, out = device.empty(32, np.uint32), device.array(np.arange(32, dtype=np.uint32))
    copy = warpsim.load(COPY)["k"]
    copy(1, 8, (out, new), device=device, checks="none")

    assert copy(1, 8, (new, out), device=device, on_finding="collect").findings == ()
    assert [f.rule for f in copy(1, 9, (new, out), device=device, on_finding="collect").findings] == ["uninitialised"]


@pytest.mark.parametrize("type", ["u32", "u64"])
@pytest.mark.parametrize("writes", [False, True])
def test_atomics_of_any_width(device, type, writes):
    """An atomic that adds to bytes of shared memory which nobody wrote gives an undefined old value, whatever its width."""
    text = (
        HEAD
        + f"""
.visible .entry k(.param .u64 a)
{{
    .reg .b64 %rd<3>; .reg .{type} %v<3>; .shared .align 8 .b64 s[2];
    ld.param.u64 %rd1, [a]; mov.{type} %v1, 1;
    {f"st.shared.{type} [s], %v1;" if writes else ""}
    atom.shared.add.{type} %v2, [s], %v1;
    st.global.{type} [%rd1], %v2;
    ret;
}}
"""
    )
    result = warpsim.load(text)["k"](1, 1, (np.zeros(2, np.uint64),), device=device, on_finding="collect")

    assert [f.rule for f in result.findings] == ([] if writes else ["uninitialised"])


def test_undefined_bits_go_through_the_cluster(device):
    """st.async takes undefined bits along as a store to shared memory does."""
    text = (
        HEAD
        + """
.visible .entry k(.param .u64 a) .reqnctapercluster 1, 1, 1
{
    .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p<2>; .shared .align 8 .b64 bar; .shared .align 16 .b32 s[8];
    ld.param.u64 %rd1, [a];
    mapa.shared::cluster.u32 %r1, s, 0; mapa.shared::cluster.u32 %r2, bar, 0;
    mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 4;
    ld.shared.u32 %r3, [s+16];
    st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r3, [%r2];
wait:
    mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
    @!%p1 bra wait;
    ld.shared.u32 %r4, [s];
    st.global.u32 [%rd1], %r4;
    ret;
}
"""
    )
    text = text.replace(".version 8.0", ".version 8.1")
    result = warpsim.load(text)["k"](1, 1, (np.zeros(2, np.uint32),), device=device, on_finding="collect")

    (found,) = result.findings
    assert (found.rule, found.other.instruction) == ("uninitialised", "ld.shared.u32")


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize(("values", "found"), [("%r1, %r4", [19]), ("%r3, %r4", [18, 19]), ("%r1, %r3", [])])
def test_what_st_async_leaves_undefined(device, values, found, effects):
    """What is computed from undefined values is no padding beside a defined word; padding stays padding."""
    text = (
        HEAD.replace(".version 8.0", ".version 8.1")
        + f"""
.visible .entry k(.param .u64 a) .reqnctapercluster 1, 1, 1
{{
    .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p<2>; .shared .align 8 .b64 bar; .shared .align 16 .b32 s[8];
    ld.param.u64 %rd1, [a]; mov.u32 %r1, 1;
    st.shared.u32 [s+16], %r1; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 8;
    ld.shared.v2.u32 {{%r1, %r3}}, [s+16];
    add.u32 %r4, %r5, 1; mov.u32 %r7, s; mov.u32 %r8, bar;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r7], {{{values}}}, [%r8];
wait:
    mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
    @!%p1 bra wait;
    ld.shared.v2.u32 {{%r1, %r3}}, [s];
    st.global.u32 [%rd1], %r1;
    st.global.u32 [%rd1+4], %r3;
    ret;
}}
"""
    )
    how = {"on_finding": "collect", "async_effects": effects}
    result = warpsim.load(text)["k"](1, 1, (np.zeros(2, np.uint32),), device=device, **how)

    assert [(f.rule, f.line) for f in result.findings] == [("uninitialised", line) for line in found]


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_padding_that_is_copied_there(device, effects):
    """Padding is that, too, where a store has left something undefined before."""
    text = (
        HEAD
        + """
.visible .entry k(.param .u64 a, .param .u64 b)
{
    .reg .b32 %r<9>; .reg .b64 %rd<3>; .shared .align 16 .b32 s[8];
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b];
    st.global.u32 [%rd2], 5; mov.u32 %r7, s; add.u32 %r4, %r5, 1; st.shared.v2.u32 [s], {5, %r4};
    cp.async.ca.shared.global [%r7], [%rd2], 8; cp.async.wait_all;
    ld.shared.v2.u32 {%r1, %r3}, [s];
    st.global.v2.u32 [%rd1], {%r1, %r3};
    ret;
}
"""
    )
    arrays = np.zeros(2, np.uint32), device.empty(2, np.uint32)
    result = warpsim.load(text)["k"](1, 1, arrays, device=device, on_finding="collect", async_effects=effects)

    assert result.findings == ()


def test_memory_that_grows():
    """What is new is unwritten, also where all that there was has been written."""
    bits = WrittenBits(16, 2)
    columns = np.array([0, 1])
    bits.mark(0, columns, 16, None, rows=True)
    assert not bits.lacks(0, columns, 16, None, rows=True)
    bits.grow(32)

    assert bits.lacks(16, columns, 4, None, rows=True)
    assert not bits.lacks(0, columns, 16, None, rows=True)


def test_what_is_moved_may_be_unwritten():
    """A copy of bytes that nobody wrote leaves none behind that were written."""
    bits = WrittenBits(64, 1)
    column = np.array([0])
    bits.mark(0, column, 32, None, rows=True)
    bits.move(32, 16, 16, column)

    assert not bits.lacks(0, column, 16, None, rows=True)
    assert all(bits.lacks(at, column, 4, None, rows=True) for at in range(16, 32, 4))


def test_what_some_ctas_exchange(device):
    """An atomic writes in the CTAs that execute it, and in no other of their batch."""
    text = (
        HEAD
        + """
.visible .entry k(.param .u64 a)
{
    .reg .b64 %rd<3>; .reg .b32 %r<4>; .reg .pred %p; .shared .align 4 .b8 s[16];
    ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 2; mov.u32 %r2, s; add.u32 %r1, %r1, %r2; mov.u32 %r2, %ctaid.x; setp.eq.u32 %p, %r2, 0; @%p bra other;
    atom.shared.exch.b32 %r2, [%r1], 5; mov.u32 %r3, 5;
other:
    bar.sync 0;
    LOAD
    ret;
}
"""
    )
    first = "@!%p ld.shared.u32 %r3, [%r1]; @!%p st.global.u32 [%rd1], %r3;"
    for load, rules in ((first, []), ("ld.shared.u32 %r3, [%r1]; st.global.u32 [%rd1], %r3;", ["uninitialised"])):
        kernel = warpsim.load(text.replace("LOAD", load))["k"]
        found = kernel(3, 4, (np.zeros(2, np.uint32),), device=device, on_finding="collect").findings
        assert [f.rule for f in found] == rules


def test_an_atomic_of_what_is_known_and_what_is_not(device):
    """One thread of each CTA compares 64 bits that nobody wrote, and would then store what it has found."""
    text = (
        HEAD
        + """
.visible .entry k(.param .u64 a)
{
    .reg .b32 %r<4>; .reg .b64 %rd<6>; .shared .align 8 .b64 s; .reg .pred %p;
    ld.param.u64 %rd1, [a]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd2, %r1, 8; add.u64 %rd1, %rd1, %rd2; cvt.u64.u32 %rd2, %r1; mov.u64 %rd3, 7;
    mov.u32 %r2, s; cvt.u64.u32 %rd4, %r2; cvta.shared.u64 %rd4, %rd4;
    atom.cas.b64 %rd5, [%rd4], %rd2, %rd3; atom.cas.b64 %rd5, [%rd4], %rd2, %rd5;
    st.global.u64 [%rd1], %rd5;
    ret;
}
"""
    )
    found = warpsim.load(text)["k"](2, 1, (np.zeros(2, np.uint64),), device=device, on_finding="collect").findings
    assert [f.rule for f in found] == ["uninitialised"]


@pytest.mark.parametrize("seed", range(20))
def test_the_bits_are_made_when_they_are_needed(seed):
    """Rows that all columns have written are known without the bits; made later, the bits say the same."""
    generator = np.random.default_rng(seed)
    lazy, eager = WrittenBits(64, 3), WrittenBits(64, 3)
    assert eager.words.shape == (16, 3)
    columns = np.arange(3)[None, :]
    for _ in range(16):
        nbytes = int(generator.choice([4, 8]))
        place = generator.integers(0, 56 // nbytes, (2, 1)) * nbytes
        what = generator.choice(["row", "row", "row", "asked", "lanes", "forget", "move", "reopen", "grow"])
        for bits in (lazy, eager):
            if what == "row":
                bits.mark(np.concatenate([place, (place + 24) % 56]), columns, nbytes, None, rows=True)
            elif what == "lanes":
                bits.mark(place, columns[:, :2], nbytes, None, rows=False)
            elif what == "forget":
                bits.forget(8, 12, np.array([1]))
            elif what == "move":
                bits.move(0, 32, 8, np.array([0, 2]))
            elif what == "reopen":
                bits.words[2, 1] = 0
                bits.reopen()
            elif what == "grow":
                bits.grow(80)
        for at in (place, np.array([[8], [12]]), np.array([[32], [36]])):
            asked = [bits.lacks(at, columns, 4, None, rows=True) for bits in (lazy, eager)]
            assert asked[0] == asked[1] == (eager.words[at.ravel() // 4] == 0).any()
        assert lazy.settled == eager.settled or what == "reopen"
    assert np.array_equal(lazy.words, eager.words)


def test_whole_rows_need_no_bits():
    """A kernel that stores only whole rows of shared memory takes no memory for what is written."""
    bits = WrittenBits(64, 3)
    bits.mark(np.arange(0, 64, 4)[:, None], np.arange(3), 4, None, rows=True)
    assert bits.settled
    assert not bits.lacks(8, np.arange(3), 8, None, rows=True)
    assert not bits.made
