"""Barriers of CTAs alone: who arrives, who waits, whom the last one lets go, and threads that end meanwhile."""

import numpy as np
import pytest

import warpsim
from warpsim.machine import barriers
from warpsim.machine.state.batch import ClusterBarrier


def test_the_last_thread_lets_all_go(stage):
    """Threads wait until all of their CTA have come; whoever comes last waits no longer than the others."""
    s = stage(64, 2)

    assert barriers.arrive(s.machine, s.group(*range(32)), 0, 0, waits=True)
    assert s.runnable() == []
    assert barriers.arrive(s.machine, s.group(*range(32, 64), cta=1), 0, 0, waits=True)
    assert s.runnable() == [(1, t) for t in range(64)]
    assert barriers.arrive(s.machine, s.group(*range(32, 64), cta=0), 0, 0, waits=True)
    assert s.runnable() == [(0, t) for t in range(64)]
    assert not s.machine.waits()
    assert s.batch.barriers[0].arrived.tolist() == [0, 0]


def test_all_at_once(stage):
    """Where all threads of the batch come together nobody waits."""
    s = stage(64, 2)

    assert not barriers.arrive(s.machine, s.group(), 0, 0, waits=True)
    assert not s.machine.waits()


def test_groups_go_on_behind_the_barrier(stage):
    """Each stands at the instruction behind the one where it arrived."""
    s = stage(64)
    first, second = s.group(*range(32)), s.group(*range(32, 64))
    barriers.arrive(s.machine, first, 0, 0, waits=True)
    barriers.arrive(s.machine, second, 0, 0, waits=True)

    assert (first.at, second.at) == (1, 1)


def test_named_barriers_with_counts(stage):
    """A barrier of 64 threads is complete with one warp that only arrives and one that waits; another number is another
    barrier."""
    s = stage(128)

    assert barriers.arrive(s.machine, s.group(*range(32)), 1, 64, waits=True)
    assert not barriers.arrive(s.machine, s.group(*range(32, 64)), 2, 64, waits=False)
    assert s.runnable() == []
    assert not barriers.arrive(s.machine, s.group(*range(64, 96)), 1, 64, waits=False)
    assert s.runnable() == [(0, t) for t in range(32)]
    assert s.batch.barriers[2].arrived.tolist() == [32]


def test_ends_are_not_waited_for(stage):
    """When the last threads that a barrier lacked end, the others go on, CTA by CTA."""
    s = stage(64, 2)
    barriers.arrive(s.machine, s.group(*range(48)), 0, 0, waits=True)
    barriers.leave(s.machine, s.group(*range(48, 60)))

    assert s.runnable() == []
    assert s.batch.alive.tolist() == [52, 52]
    barriers.leave(s.machine, s.group(*range(60, 64), cta=1))
    assert s.runnable() == [(1, t) for t in range(48)]
    barriers.leave(s.machine, s.group(*range(60, 64), cta=0))
    assert s.runnable() == [(0, t) for t in range(48)]
    passed = s.batch.barriers_passed.tolist()
    barriers.leave(s.machine, s.group(*range(48), cta=1))
    assert s.batch.barriers_passed.tolist() == passed == [1, 1]


@pytest.mark.parametrize(
    ("operation", "destination", "below", "results"),
    [
        ("popc.u32", "r0", (3, 37, 0), [3 + 5, 3]),
        ("and.pred", "p0", (32, 64, 63), [True, False]),
        ("or.pred", "p0", (0, 33, 0), [True, False]),
    ],
)
def test_votes(stage, operation, destination, below, results):
    """Threads of one CTA learn how many of it voted, whether all or any did; a CTA that is not complete keeps its votes."""
    s = stage(64, 2, body=f"bar.red.{operation} {destination}, 0, p1;")
    low, high = s.group(*range(32)), [s.group(*range(32, 64), cta=c) for c in (0, 1)]
    index = next(o.register.index for o in low.instruction.operands if o.register.name == destination)
    votes = [group.selection.threads < limit for group, limit in zip((low, *high), below, strict=True)]

    assert barriers.arrive(s.machine, low, 0, 0, waits=True, vote=votes[0])
    assert barriers.arrive(s.machine, high[0], 0, 0, waits=True, vote=votes[1])
    groups = list(s.batch.runnable)
    assert s.runnable() == [(0, t) for t in range(64)]
    assert {v for g in groups for v in np.unique(g.read(index)).tolist()} == {results[0]}
    assert barriers.arrive(s.machine, high[1], 0, 0, waits=True, vote=votes[2])
    assert {v for g in s.batch.runnable for v in np.unique(g.read(index)).tolist()} == {results[1]}


def test_clusters(stage):
    """Threads may do other things between arrival and wait; who waits goes on when both CTAs of its cluster have arrived."""
    s = stage(32, 4)
    s.batch.cluster_barrier = ClusterBarrier.of(np.array([0, 0, 1, 1]), s.batch.shape.n)
    every = [s.group(cta=c) for c in range(4)]
    barriers.cluster_arrive(s.machine, every[0])
    assert barriers.cluster_wait(s.machine, every[0])
    barriers.cluster_arrive(s.machine, every[2])

    assert s.runnable() == []
    barriers.cluster_arrive(s.machine, every[1])
    assert s.runnable() == [(0, t) for t in range(32)]
    assert not barriers.cluster_wait(s.machine, every[1])
    barriers.leave(s.machine, every[3])
    assert not barriers.cluster_wait(s.machine, every[2])


def test_clusters_that_are_done_and_that_are_not(stage):
    """Of threads that wait together, those whose cluster is complete go on, and the others wait for theirs."""
    s = stage(32, 4)
    s.batch.cluster_barrier = ClusterBarrier.of(np.array([0, 0, 1, 1]), s.batch.shape.n)
    for cta in (0, 1, 2):
        barriers.cluster_arrive(s.machine, s.group(cta=cta))
    first = [s.group(cta=c) for c in (0, 1, 2)]
    together = s.machine.merge(first, None)

    assert barriers.cluster_wait(s.machine, together)
    assert s.runnable() == [(c, t) for c in (0, 1) for t in range(32)]
    barriers.cluster_arrive(s.machine, s.group(cta=3))
    assert s.runnable() == [(2, t) for t in range(32)]


@pytest.mark.parametrize("arriving", ["bar.arrive n, 64;", "barrier.arrive n, 64;"])
def test_warps_that_arrive_at_their_own_barriers(arriving):
    """Two warps arrive each at its own barrier and go on; two others wait there, each for one of them."""
    text = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) {{ .reg .b32 t, n, w, v; .reg .b64 o, a; .reg .pred p; .shared .b32 s[4]; ld.param.u64 o, [out]; mov.u32 t, %tid.x;
shr.u32 w, t, 5; and.b32 n, w, 1; add.u32 n, n, 1; setp.ge.u32 p, w, 2; mul.wide.u32 a, t, 4; add.u64 o, o, a; mov.u32 v, s; shl.b32 w, n, 2; add.u32 w, v, w;
@p bra L; st.shared.u32 [w], n; {arriving} mov.u32 v, 9; bra D; L: bar.sync n, 64; ld.shared.u32 v, [w]; D: st.global.u32 [o], v; ret; }}
"""
    out = np.zeros(128, np.uint32)
    warpsim.load(text)["k"](1, 128, (out,), checks="all")

    assert out.tolist() == [9] * 64 + [1] * 32 + [2] * 32


@pytest.mark.parametrize("warps", [2, 3, 8])
def test_a_barrier_for_each_warp(warps):
    """Numbers from a register: the warps that are left after one has gone are a box of threads again."""
    text = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<4>; .reg .b64 %d<3>;
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; add.u32 %r2, %r2, 1; bar.sync %r2, 32;
ld.param.u64 %d1, [p]; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r2; ret; }"""
    out = np.zeros(32 * warps, np.uint32)

    warpsim.load(text)["k"]((1,), (32 * warps,), (out,))

    assert out.tolist() == [i // 32 + 1 for i in range(32 * warps)]
