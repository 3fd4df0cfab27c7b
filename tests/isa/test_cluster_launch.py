"""clusterlaunchcontrol: kernels that take over clusters which have not begun (PTX ISA 9.7.13.17, the example)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpsim
from warpsim.machine.values import Array

KERNEL = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<9>; .reg .b128 %answer;
.shared .align 16 .b8 response[16];
.shared .align 8 .b64 bar;
mov.u32 %r1, response; mov.u32 %r2, bar; mov.u32 %r20, %nctaid.x; mov.u32 %r21, %nctaid.y; ld.param.u64 %rd1, [out];
mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; mov.u32 %r5, %ctaid.z; mov.u32 %r19, %ctaid.x;
mov.u32 %r6, %cluster_ctaid.x; mov.u32 %r7, %cluster_ctaid.y; mov.u32 %r8, %cluster_ctarank; mov.u32 %r9, %tid.x;
setp.eq.u32 %p1, %r9, 0; setp.eq.and.u32 %p2, %r8, 0, %p1;
@%p1 mbarrier.init.shared.b64 [%r2], 1;
@%p1 fence.mbarrier_init.release.cluster;
mov.b32 %r10, 0; mov.b32 %r12, 0;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
tile:
@%p1 mbarrier.arrive.expect_tx.relaxed.cluster.shared::cta.b64 _, [%r2], 16;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
@GUARD clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytesMULTICAST.b128 [%r1], [%r2];
mad.lo.u32 %r11, %r5, %r21, %r4; mad.lo.u32 %r11, %r11, %r20, %r3; mul.wide.u32 %rd2, %r11, 8; add.u64 %rd2, %rd1, %rd2;
@%p1 red.global.add.u32 [%rd2], 1;
@%p1 st.global.u32 [%rd2+4], %r19;
wait: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r2], %r10; @!%p3 bra wait;
xor.b32 %r10, %r10, 1;
ld.shared.b128 %answer, [%r1];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p4, %answer;
ENDS
FIRST
add.u32 %r3, %r3, %r6; add.u32 %r4, %r4, %r7;
fence.proxy.async.shared::cta;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
bra tile;
done:
ret;
}
"""
VECTOR = "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r3, %r4, %r5, _}, %answer;"
ONE_BY_ONE = "".join(
    f"clusterlaunchcontrol.query_cancel.get_first_ctaid::{axis}.b32.b128 %r{number}, %answer;"
    for number, axis in enumerate("xyz", 3)
)
COUNTED = "add.u32 %r12, %r12, 1; setp.gt.u32 %p5, %r12, 2; @%p5 bra done;"
"""Leaves after three tiles, whatever the answer."""
MODES: dict[str, dict[str, Any]] = {
    "eager": {},
    "at_wait": {"async_effects": "at_wait"},
    "random": {"async_effects": "at_wait", "schedule": 3},
}


def run(
    grid: tuple[int, ...],
    *,
    cluster: tuple[int, ...] = (1,),
    first: str = VECTOR,
    ends: str = "@!%p4 bra done;",
    **options: Any,
) -> tuple[Array, Any]:
    """How often each CTA's tile was visited, and by a CTA of which x; and the result."""
    several = bool(np.prod(cluster) > 1)
    text = KERNEL.replace("GUARD", "%p2" if several else "%p1").replace("FIRST", first).replace("ENDS", ends)
    text = text.replace("MULTICAST", ".multicast::cluster::all" if several else "")
    out = np.zeros((int(np.prod(grid)), 2), np.uint32)
    result = warpsim.load(text)["k"](grid, (32,), (out,), cluster=cluster, checks="all", **options)
    return out, result


@pytest.mark.parametrize(
    ("grid", "cluster", "mode"),
    [
        pytest.param(*launch, mode, marks=[pytest.mark.long] * ((k + n) % len(MODES) > 0))
        for k, launch in enumerate(
            [((1,), (1,)), ((13,), (1,)), ((12,), (4,)), ((3, 4, 2), (1,)), ((6, 4), (2, 2)), ((2, 2, 4), (1, 1, 2))]
        )
        for n, mode in enumerate(MODES)
    ],
)
def test_each_tile_once(grid: tuple[int, ...], cluster: tuple[int, ...], mode: str) -> None:
    """Whoever takes it, each tile is done by its own cluster or by one that has cancelled it."""
    out, _ = run(grid, cluster=cluster, **MODES[mode])

    assert (out[:, 0] == 1).all()


def test_a_quarter_begins() -> None:
    """Of 16 CTAs four begin, and take the others in turn; the coordinates come one by one, too."""
    out, result = run((16,), first=ONE_BY_ONE)

    assert out.tolist() == [[1, k % 4] for k in range(16)]
    assert result.findings == ()


def test_again_after_a_failure() -> None:
    """Who has seen a failure and asks again breaks the rule, and so does who takes the failure for a CTA."""
    _, result = run((2,), ends=COUNTED, on_finding="collect")
    found = {(f.rule, "try_cancel" in f.text) for f in result.findings if f.severity == "error"}

    assert found == {("cluster-launch", True), ("cluster-launch", False)}
