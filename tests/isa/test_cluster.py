"""Clusters: ranks and special registers, shared memory of other CTAs, barriers, and stores that count at an mbarrier."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cluster_addresses as recorded
import warpsim
from warpsim.driver.results import of_finding

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .pred %p<6>; .reg .b32 %r<30>; .reg .b64 %rd<20>;
.shared .align 16 .b32 box[64];
.shared .align 8 .b64 bar;
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %ctaid.x;
mad.lo.u32 %r4, %r3, 32, %r1; mul.wide.u32 %rd2, %r4, 4; add.u64 %rd3, %rd1, %rd2;
setp.eq.u32 %p1, %r1, 0;
mov.u32 %r5, box; shl.b32 %r6, %r1, 2; add.u32 %r7, %r5, %r6;
"""
TAIL = "\nst.global.b32 [%rd3], %r20;\nret;\n}\n"
SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
LINES = (Path(__file__).with_name("cluster_addresses_h200.txt")).read_text(encoding="utf-8").splitlines()
LOADS = [line.split() for line in LINES if line.startswith("load")]
REACHES = [line.split() for line in LINES if line.startswith("reach")]


def run(body: str, *, grid: int = 4, cluster: int | tuple[int, ...] = 4, threads: int = 32) -> list[list[int]]:
    """What each thread (32 a row) left in %r20."""
    out = np.zeros((grid, 32), np.uint32)
    warpsim.load(HEAD + body + TAIL)["k"]((grid,), (threads,), (out,), cluster=cluster, checks="all")
    rows: list[list[int]] = out.tolist()
    return rows


def test_special_registers() -> None:
    """Rank, place and extent of clusters of two in a grid of six."""
    body = """
    mov.u32 %r8, %clusterid.x; mov.u32 %r9, %nclusterid.x; mov.u32 %r10, %cluster_ctaid.x; mov.u32 %r11, %cluster_nctaid.x;
    mov.u32 %r12, %cluster_nctarank;
    shl.b32 %r20, %r8, 16; shl.b32 %r9, %r9, 12; or.b32 %r20, %r20, %r9; shl.b32 %r10, %r10, 8; or.b32 %r20, %r20, %r10;
    shl.b32 %r11, %r11, 4; or.b32 %r20, %r20, %r11; or.b32 %r20, %r20, %r12;
    """

    assert [row[0] for row in run(body, grid=6, cluster=2)] == [
        (c // 2) << 16 | 3 << 12 | (c % 2) << 8 | 2 << 4 | 2 for c in range(6)
    ]


def test_loads_and_stores_of_other_ctas() -> None:
    """Each CTA writes to the next one and reads from the one after."""
    body = f"""
    mad.lo.u32 %r8, %r2, 100, %r1;
    add.u32 %r9, %r2, 1; and.b32 %r9, %r9, 3;
    mapa.shared::cluster.u32 %r10, %r7, %r9; st.shared::cluster.b32 [%r10], %r8;
    {SYNC}
    add.u32 %r9, %r2, 2; and.b32 %r9, %r9, 3;
    mapa.shared::cluster.u32 %r10, %r7, %r9; ld.shared::cluster.b32 %r20, [%r10];
    {SYNC}
    """

    assert run(body) == [[100 * ((rank + 1) % 4) + t for t in range(32)] for rank in range(4)]


def test_generic_addresses() -> None:
    """mapa of a generic address; getctarank says whose an address is."""
    body = f"""
    st.shared.b32 [%r7], %r2;
    {SYNC}
    cvt.u64.u32 %rd4, %r7; cvta.shared.u64 %rd4, %rd4;
    xor.b32 %r9, %r2, 3; mapa.u64 %rd5, %rd4, %r9; ld.b32 %r20, [%rd5];
    getctarank.u64 %r10, %rd5; mad.lo.u32 %r20, %r10, 10, %r20;
    {SYNC}
    """

    assert run(body) == [[11 * (3 - rank)] * 32 for rank in range(4)]


def test_atomics_of_other_ctas() -> None:
    """All CTAs add to one word of CTA 0."""
    body = f"""
    st.shared.b32 [%r7], 0;
    {SYNC}
    mov.u32 %r9, 0; mapa.shared::cluster.u32 %r10, %r5, %r9;
    atom.shared::cluster.add.u32 %r11, [%r10], 1;
    red.shared::cluster.add.u32 [%r10+4], %r2;
    {SYNC}
    ld.shared::cluster.v2.b32 {{%r12, %r13}}, [%r10]; mad.lo.u32 %r20, %r13, 1000, %r12;
    {SYNC}
    """

    assert run(body) == [[(0 + 1 + 2 + 3) * 32 * 1000 + 128] * 32] * 4


def test_barrier_without_exited_threads() -> None:
    """Threads that have exited are not waited for."""
    body = "setp.gt.u32 %p2, %r1, 7; @%p2 ret; barrier.cluster.arrive; barrier.cluster.wait; add.u32 %r20, %r2, 1;"

    assert run(body) == [[rank + 1] * 8 + [0] * 24 for rank in range(4)]


def test_arrive_and_wait_apart() -> None:
    """What was written before the arrival is there after the wait; work in between goes on. A relaxed arrival waits as well."""
    body = f"""
    st.shared.b32 [%r7], %r2;
    barrier.cluster.arrive.release.aligned;
    add.u32 %r9, %r2, 1; and.b32 %r9, %r9, 3; mapa.shared::cluster.u32 %r10, %r7, %r9;
    barrier.cluster.wait.acquire.aligned;
    ld.shared::cluster.b32 %r20, [%r10];
    barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;
    {SYNC}
    """

    assert run(body) == [[(rank + 1) % 4] * 32 for rank in range(4)]


@pytest.mark.parametrize("scope", ["", ".cluster"])
def test_stores_that_count_at_an_mbarrier(scope: str) -> None:
    """st.async and red.async complete bytes at the mbarrier of the CTA that they write to."""
    body = f"""
    st.shared.b32 [%r7], %r1; st.shared.b32 [%r7+128], 0;
    mov.u32 %r8, bar;
    @%p1 mbarrier.init.shared.b64 [%r8], 1; @%p1 fence.mbarrier_init.release.cluster;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r8], 256;
    fence.proxy.async;
    {SYNC}
    xor.b32 %r9, %r2, 1; mapa.shared::cluster.u32 %r10, %r7, %r9; mapa.shared::cluster.u32 %r11, %r8, %r9;
    mad.lo.u32 %r12, %r2, 100, %r1;
    st.async{scope}.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r10+128], %r12, [%r11];
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r10], %r12, [%r11];
    WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r8], 0; @!%p2 bra WAIT;
    ld.shared.b32 %r13, [%r7]; ld.shared.b32 %r14, [%r7+128]; mad.lo.u32 %r20, %r13, 1000, %r14;
    {SYNC}
    """

    peers = [1, 0, 3, 2]
    assert run(body) == [[1000 * (t + 100 * p + t) + 100 * p + t for t in range(32)] for p in peers]


def test_grid_dependencies() -> None:
    """Grids run one after the other: griddepcontrol changes nothing."""
    assert run("griddepcontrol.wait; mov.u32 %r20, 7; griddepcontrol.launch_dependents;", cluster=1) == [[7] * 32] * 4


@pytest.mark.parametrize("cluster", [0, 1, 2, 4])
def test_addresses(cluster: int) -> None:
    """mapa, getctarank and isspacep against an H200 (tools/recordings/cluster_addresses.py). In clusters, addresses in other CTAs have
    other upper bits here."""
    lines = (line.split() for line in LINES if line[0] == str(cluster))
    known = np.array([[int(word, 16) for word in words] for words in lines], np.uint64)
    out = np.zeros((len(known), 10), np.uint64)
    grid, n = max(cluster, 1), len(recorded.PAIRS)
    pairs = np.array(recorded.PAIRS, np.uint32)
    warpsim.load(recorded.TEXT)["table"](grid, n, (pairs, out), cluster=cluster or None)
    known, out = known[:, 5:], out[:, :9]
    if cluster > 1:
        there = np.tile(pairs[:, 1] & 0xFF < 0xFF, grid)  # no rank
        known, out = known[there], out[there]
        known[:, :4] &= np.uint64(0xFFFFFF)
        out[:, :4] &= np.uint64(0xFFFFFF)

    assert (out == known).all()


@pytest.mark.parametrize("line", LOADS, ids=" ".join)
def test_loads_without_a_cluster(line: list[str]) -> None:
    """The CTA is rank 0, which is the last byte of a rank; there is no other."""
    _, space, rank, _, status, _, value = line
    out = np.zeros(2, np.uint32)
    result = warpsim.load(recorded.TEXT)["load"](1, 1, (0, out, int(rank), space == "generic"), on_finding="collect")

    assert [f.rule for f in result.findings] == ["out-of-bounds"] * (status != "0")
    assert status != "0" or out[0] == int(value)


@pytest.mark.parametrize("how", recorded.HOWS)
def test_ctas_within_reach_and_beyond(how: str) -> None:
    """What an H200 returns. But here a cluster of one is none, and so is no cluster, whose asynchronous copies reach the own CTA; and 255
    is a rank like others."""
    kernel = warpsim.load(recorded.REACH.replace("HOW", recorded.HOWS[how]))["reach"]
    for cluster, rank, status, value in ((int(w[2]), int(w[3]), int(w[5]), int(w[7])) for w in REACHES if w[1] == how):
        out, ctas = np.zeros(2, np.uint32), max(cluster, 1)
        checks = "all-race-proxy-fence"
        result = kernel(ctas, 1, (0, out, rank), cluster=cluster or None, on_finding="collect", checks=checks)
        code = (715 if cluster < 2 else 719) if cluster == 1 or rank == 255 else status if cluster or rank else 0

        assert [int(of_finding(found)) for found in result.findings] == [code] * (code > 0)
        assert status or "atom" in how or out[0] == value


@pytest.mark.parametrize("rank", [4, 255, 0xFFFFFFFF])
def test_ranks_outside_of_the_cluster(rank: int) -> None:
    """Their shared memory cannot be read."""
    with pytest.raises(warpsim.ExecutionError, match="names a CTA that is not in the cluster"):
        run(f"mapa.shared::cluster.u32 %r8, %r7, {rank}; ld.shared::cluster.b32 %r20, [%r8];")
