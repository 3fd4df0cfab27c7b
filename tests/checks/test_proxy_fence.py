"""proxy-fence: generic accesses and the async proxy, by moving and removing the fence of correct programs."""

import numpy as np
import pytest

import warpsim
from warpsim.debug import Session, timeline

HEAD = (
    ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b)\n{\n"
    ".reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .pred %p<9>; .reg .f32 %f<8>;\n"
    ".shared .align 128 .b32 s[1024]; .shared .align 8 .b64 m;\n"
    "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 4; mov.u32 %r3, s;\n"
    "add.u32 %r3, %r3, %r2; cvt.u64.u32 %rd3, %r2; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;\n"
    "mov.u32 %r9, 7; mov.u32 %r8, s; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 32; mov.u32 %r6, m;\n"
)
FIRST = HEAD.count("\n") + 1
WRITE = "st.shared.v4.u32 [%r3], {%r9, %r9, %r9, %r9};"
STORE = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r8], 2048;"
DONE = "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;"
START = "@%p1 mbarrier.init.shared.b64 [%r6], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;"
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r6], 2048;"
LOAD = "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%rd2], 2048, [%r6];"
WAIT = "again: mbarrier.try_wait.parity.shared.b64 %p3, [%r6], 0; @!%p3 bra again;"
FENCE = "fence.proxy.async;"
BARRIER = "bar.sync 0;"


def findings(*lines, checks="proxy-fence", block=128):
    """(severity, line, line of the other party) of each finding of these lines, counted from 0."""
    data, more = np.zeros(4096, np.uint32), np.zeros(4096, np.uint32)
    result = warpsim.load(HEAD + "\n".join(lines) + "\nret;\n}\n")["k"](
        1, block, (data, more), checks=checks, on_finding="collect"
    )
    found = [f for f in result.findings if f.rule == "proxy-fence"]
    return [(f.severity, f.line - FIRST, f.other.line - FIRST) for f in found]


BETWEEN = [
    ((BARRIER, ""), [("error", 3, 0)]),
    ((FENCE, BARRIER), []),
    ((BARRIER, FENCE), []),  # the issuing thread fences after the barrier
    ((BARRIER, f"@%p1 {FENCE}"), []),
    ((f"@%p1 {FENCE}", BARRIER), [("error", 3, 0)]),  # one thread fences before the others have arrived
    ((BARRIER, f"@%p2 {FENCE} bar.sync 0;"), []),  # another thread, which the barrier ordered behind the writes
    (("fence.proxy.async.shared::cta;", BARRIER), []),
    (("fence.proxy.async.global;", BARRIER), [("error", 3, 0)]),
    (("membar.gl;", BARRIER), [("error", 3, 0)]),  # no other fence serves
    (("fence.mbarrier_init.release.cluster;", BARRIER), [("error", 3, 0)]),
]
"""What stands between the writes of shared memory and the bulk store."""


@pytest.mark.parametrize(("between", "expected"), BETWEEN)
def test_bulk_store_of_written_shared_memory(between, expected):
    """The epilogue of a kernel: write, fence, barrier, bulk store."""
    assert findings(WRITE, *between, STORE, DONE) == expected


def test_a_fence_before_the_write_does_not_count():
    """The fence must stand behind the write, round after round."""
    body = (FENCE, WRITE, BARRIER, STORE, DONE)

    assert findings(*body) == [("error", 3, 1)]
    assert findings(WRITE, FENCE, BARRIER, STORE, DONE, BARRIER, WRITE, BARRIER, STORE) == [("error", 8, 6)]


def test_only_what_the_copy_reads():
    """Memory beside the source of a copy needs no fence."""
    aside = "add.u32 %r3, %r3, 2048; st.shared.v4.u32 [%r3], {%r9, %r9, %r9, %r9};"

    assert findings(WRITE, FENCE, aside, BARRIER, STORE, DONE) == []


@pytest.mark.parametrize(("step", "store"), [(1, "u8"), (4, "u32")])
@pytest.mark.parametrize("leaving", ["", "setp.lt.u32 %p3, %r1, 1; @%p3 bra out;"])
def test_threads_that_write_one_chunk(step, store, leaving):
    """Of the threads that write 16 bytes together the first does not fence, and issues the copy of these bytes."""
    write = f"mad.lo.u32 %r4, %r1, {step}, %r8; st.shared.{store} [%r4], %r9;"
    found = findings(write, f"{leaving} {FENCE} out:", BARRIER, STORE, DONE, block=32)

    assert found == ([("error", 3, 0)] if leaving else [])


def collected(lines, grid):
    """Everything about the findings of these lines."""
    data, more = np.zeros(1024, np.uint32), np.zeros(1024, np.uint32)
    result = warpsim.load(HEAD + "\n".join(lines) + "\nret;\n}\n")["k"](
        grid, 128, (data, more), checks="proxy-fence", on_finding="collect"
    )
    return result.findings


@pytest.mark.parametrize("seed", range(12))
def test_blocks_and_single_accesses_give_the_same_findings(seed, monkeypatch):
    """A copy compared as a block of cells, as where all CTAs copy alike, is judged like byte after byte."""
    rng = np.random.default_rng(seed)
    some = "setp.lt.u32 %p4, %r1, {0}; @%p4 st.shared.v2.u32 [%r3], {{%r9, %r9}};"
    one_cta = "mov.u32 %r20, %ctaid.x; setp.eq.u32 %p5, %r20, 1; @%p5 st.shared.u32 [%r3], %r9;"
    load = "@%p1 mbarrier.expect_tx.shared.b64 [%r6], 2048; " + LOAD
    parts = [WRITE, some.format(64), one_cta, "ld.shared.u32 %r5, [%r3];", load, STORE + DONE, STORE + DONE]
    parts += [FENCE, FENCE, f"@%p1 {FENCE}", f"@%p2 {FENCE}", BARRIER, BARRIER, "add.u32 %r3, %r3, 16;"]
    lines = [START, *[parts[k] for k in rng.integers(0, len(parts), 14)]]
    blocks = collected(lines, 3)

    monkeypatch.setattr("warpsim.checks.proxies.FEW", 0)

    assert blocks == collected(lines, 3)


ONE, EIGHT = "st.shared.u32 [%r8], %r9;", "st.shared.v2.u32 [%r8], {%r9, %r9};"
BEGIN, ARRIVE = "@%p1 mbarrier.init.shared.b64 [%r6], 128; bar.sync 0;", "mbarrier.arrive.shared.b64 _, [%r6];"
ASK = "setp.ge.u32 %p4, %r1, 32; @%p4 bra past; mbarrier.test_wait.parity.shared.b64 %p3, [%r6], 0; past:"
ONE_PLACE = [
    ((ONE, BARRIER, STORE, DONE), [("error", 2, 0)]),
    ((EIGHT, ONE, FENCE, BARRIER, STORE, DONE), []),
    ((ONE, EIGHT, FENCE, ONE, BARRIER, STORE, DONE), [("error", 5, 3)]),  # the first is not what is remembered
    ((ONE, FENCE, EIGHT, BARRIER, STORE, DONE), [("error", 4, 2)]),
    ((BEGIN, f"@%p2 {ONE}", ARRIVE, WAIT, f"@%p1 {FENCE}", STORE), []),  # who fences has waited for who writes
    ((BEGIN, f"@%p2 {ONE}", f"@%p1 {FENCE}", ARRIVE, WAIT, STORE), [("error", 5, 1)]),
    (
        (
            BEGIN,
            ARRIVE,
            WAIT,
            ASK,
            f"@%p2 {ONE}",
            ARRIVE,
            WAIT.replace("again", "more").replace("0;", "1;"),
            f"@%p1 {FENCE}",
            STORE,
        ),
        [],  # and that wait was its last, not the one before
    ),
]
"""Accesses of all threads to one place, and waits."""


@pytest.mark.parametrize(("lines", "expected"), ONE_PLACE)
def test_one_place(lines, expected):
    """The last of several that all threads access is compared, and the last wait counts."""
    assert findings(*lines) == expected


@pytest.mark.parametrize(
    ("access", "meets"),
    [
        ("add.u32 %r10, %r3, 2048; atom.shared.add.u32 %r11, [%r10], 1;", True),
        ("add.u32 %r10, %r3, 2048; ld.volatile.shared.u32 %r11, [%r10];", True),
        ("add.u32 %r10, %r3, 2048; ld.shared.u32 %r11, [%r10];", False),
        ("ld.acquire.gpu.global.u32 %r11, [%rd5];", True),
        ("ld.global.u32 %r11, [%rd5];", False),
        ("st.release.cluster.global.u32 [%rd5], %r9;", True),
        ("st.global.u32 [%rd5], %r9;", False),
    ],
)
def test_many_places(access, meets):
    """Threads synchronise by accesses of a place each, too, if anything waits by such: a fence after that counts."""
    fence = f"@%p1 {FENCE}"

    assert findings(f"@%p2 {ONE}", access, fence, STORE) == [("error", 3, 0)] * (not meets)
    assert findings(f"@%p2 {ONE}", fence, access, STORE) == [("error", 3, 0)]


def test_one_place_that_wgmma_reads():
    """All threads have written it, without a fence or with one."""
    write = "st.shared.v4.u32 [%r8], {%r9, %r9, %r9, %r9};"

    assert findings(write, BARRIER, *MULTIPLY)[0] == ("error", 5, 0)
    assert findings(write, FENCE, BARRIER, *MULTIPLY) == []


def test_bulk_load_over_generic_accesses():
    """A bulk load over what was written or read generically needs a fence."""
    read = "ld.shared.u32 %r5, [%r3];"

    assert findings(START, EXPECT, WRITE, LOAD, WAIT) == [("error", 3, 2)]
    assert findings(START, EXPECT, WRITE, FENCE, BARRIER, LOAD, WAIT) == []
    assert findings(START, EXPECT, read, BARRIER, LOAD, WAIT) == [("warning", 4, 2)]  # as cuda::memcpy_async does
    assert findings(START, EXPECT, read, FENCE, BARRIER, LOAD, WAIT) == []
    assert findings(START, EXPECT, BARRIER, LOAD, WAIT, read) == []  # completion of a copy is a fence by itself


MULTIPLY = (
    "wgmma.fence.sync.aligned;",
    "mov.u64 %rd9, 0x0000001000080000; cvt.u64.u32 %rd10, %r8; shr.u64 %rd10, %rd10, 4; or.b64 %rd9, %rd9, %rd10;"
    " setp.ne.u32 %p4, 0, 0; mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;",
    "wgmma.fence.sync.aligned;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd9, %rd9, %p4, 1, 1, 0, 0;",
    "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
)


def test_a_sanitizer_fills_a_buffer():
    """Poison written before a copy loads over it, a barrier between, as Triton's sanitizer does: a warning, no error."""
    assert findings(START, EXPECT, WRITE, BARRIER, LOAD, WAIT) == [("warning", 4, 2)]


def test_wgmma():
    """wgmma reads shared memory through the async proxy; what cp.async wrote is a note: compilers rely on it."""
    copy = "cp.async.cg.shared.global [%r3], [%rd5], 16; cp.async.wait_all;"
    zero = "st.shared.v4.u32 [%r3+2048], {%r9, %r9, %r9, %r9};"

    assert findings(WRITE, zero, BARRIER, *MULTIPLY)[0] == ("error", 6, 0)
    assert findings(WRITE, zero, FENCE, BARRIER, *MULTIPLY) == []
    assert findings(WRITE, zero, BARRIER, FENCE, *MULTIPLY) == []
    assert findings(copy, BARRIER, *MULTIPLY, checks="all") == [("note", 5, 0)]
    assert findings(copy, BARRIER, *MULTIPLY) == []
    assert findings(copy, FENCE, BARRIER, *MULTIPLY) == []


def test_global_memory():
    """What a kernel has stored to global memory it loads in bulk only behind a fence."""
    write = "st.global.v4.u32 [%rd5], {%r9, %r9, %r9, %r9};"

    assert findings(START, EXPECT, write, BARRIER, LOAD, WAIT) == [("error", 4, 2)]
    assert findings(START, EXPECT, write, FENCE, BARRIER, LOAD, WAIT) == []
    assert findings(START, EXPECT, write, "fence.proxy.async.global;", BARRIER, LOAD, WAIT) == []
    assert findings(START, EXPECT, write, "fence.proxy.async.shared::cta;", BARRIER, LOAD, WAIT) == [("error", 5, 2)]


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("gemm_pingpong", 686, {("error", 699, 559)}),
        pytest.param("gemm_stream_k", 767, {("error", 780, 749)}, marks=pytest.mark.long),
        pytest.param("cluster_ring", 85, {("error", 195, 75), ("error", 221, 75)}, marks=pytest.mark.long),
        ("bulk_stream", 214, {("error", 226, 212), ("warning", 185, 212)}),
        ("gemm_cp_async", 240, {("note", 261, 88), ("note", 278, 88)}),
        # the fence before came before the copies
        pytest.param("gemm_cp_async", 475, {("note", 496, 309), ("note", 513, 309)}, marks=pytest.mark.long),
        ("map_build", 101, {("error", 125, 98)}),  # the acquire of a tensor map that the kernel made
    ],
)
def test_a_fence_taken_out(ablation, name, line, expected):
    """Every proxy fence that recorded kernels need is missed at the copy or wgmma that it served."""
    found = ablation.findings(name, "all-race", removed=[line])

    assert {(severity, at, other) for rule, severity, at, other in found if rule == "proxy-fence"} >= expected


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        # the barrier behind wait_group: others store where the copy reads
        pytest.param("gemm_pingpong", 555, (559, 699), marks=pytest.mark.long),
        pytest.param("gemm_pingpong", 689, (699, 559), marks=pytest.mark.long),
        pytest.param("gemm_stream_k", 57, (123, 50), marks=pytest.mark.long),  # the barrier behind mbarrier.init
        ("bulk_stream", 216, (226, 212)),
        ("gemm_pingpong", 302, (978, 241)),  # wgmma read what the next load overwrites
    ],
)
def test_races_with_copies_and_wgmma(ablation, name, line, expected):
    """Barriers and waits between threads and asynchronous operations."""
    assert expected in {(at, other) for _, _, at, other in ablation.findings(name, "race", removed=[line])}


@pytest.mark.parametrize("name", ["gemm_cp_async", "map_build"])
def test_recorded_kernels_are_silent(ablation, name):
    """Correct programs break no rule; tests/test_programs.py and tests/machine/test_late_effects.py run the others so."""
    assert ablation.findings(name, "all-race") == []


def test_after_going_back(monkeypatch):
    """A launch that goes on from a snapshot finds what one from the start does."""
    for name, value in (("SNAPSHOT_EVERY", 0), ("SNAPSHOT_SHARE", 0), ("STRIDE", 8)):
        monkeypatch.setattr(timeline, name, value)
    text = HEAD + "\n".join(("mov.u32 %r4, 1;", WRITE, BARRIER, STORE, DONE)) + "\nret;\n}\n"
    session = Session(
        warpsim.load(text)["k"], 1, 32, (np.zeros(4096, np.uint32),) * 2, checks="proxy-fence", on_finding="collect"
    )
    session.stop_at_findings = False
    session.break_at(FIRST)
    session.cont()
    before = session.step().step
    session.cont()
    found = session.findings
    session.goto(before)

    assert session.findings == ()
    session.cont()
    assert len(found) == 1
    assert session.findings == found
