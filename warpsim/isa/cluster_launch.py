"""Cancelling launches of clusters (PTX ISA: clusterlaunchcontrol)."""

from __future__ import annotations

import functools

import numpy as np

from warpsim.isa.ports import Address, ClusterLaunchesPort, Lanes, ReportPort
from warpsim.isa.spec import Op, instruction
from warpsim.isa.traits import Asynchronous, Family, Traits

RULE = "cluster-launch"
_ANCHOR = "parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-"
_cancel = functools.partial(instruction, needs=(100, (8, 6)))


@_cancel(
    """
    clusterlaunchcontrol.try_cancel.async{.space}.mbarrier::complete_tx::bytes{.multicast::cluster::all}.b128 [address], [bar];
    .space = { .shared::cta };
    """,
    anchor=_ANCHOR + "try-cancel",
    spaces={"address": {"shared"}, "bar": {"shared"}},
    gates={"multicast::cluster::all": (("100f", "110f", "120f"), (8, 6))},
    legal=lambda op: None if op.modifiers[1] == "async" else ".async comes before the other words",
    traits=Traits(asynchronous=Asynchronous(Family.CANCEL)),
)
def try_cancel(op: Op, address: Address, bar: Address, *, cluster_launches: ClusterLaunchesPort) -> None:
    """Cancel the launch of a cluster that has not begun, and write an answer."""
    cluster_launches.cancel(address, bar, everywhere="multicast::cluster::all" in op.modifiers)


@_cancel(
    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, response;",
    anchor=_ANCHOR + "query-cancel",
    types={"p": ".pred", "response": ".b128"},
)
def is_canceled(op: Op, response: Lanes) -> Lanes:
    """Whether a launch was cancelled."""
    return response["lo"] & np.uint64(1) != 0


_first = functools.partial(
    _cancel,
    anchor=_ANCHOR + "query-cancel",
    types={"d": ".b32", "response": ".b128"},
    vectors={"d": "vec"},
    sinks=("d",),
)


@_first(
    """
    clusterlaunchcontrol.query_cancel.dim.b32.b128 d, response;
    .dim = { .get_first_ctaid::x, .get_first_ctaid::y, .get_first_ctaid::z };
    """,
    vectors={},
)
def first_ctaid(op: Op, response: Lanes, *, active: Lanes, report: ReportPort) -> Lanes:
    """A coordinate of the first CTA of the cancelled cluster."""
    return _coordinates(response, active, report)["xyz".index(op.dim[-1])]


@_first("clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 d, response;", vectors={"d": 4})
def first_ctaids(op: Op, response: Lanes, *, active: Lanes, report: ReportPort) -> tuple[Lanes, ...]:
    """The coordinates of the first CTA of the cancelled cluster; the fourth element is unspecified, and 0 here."""
    x, y, z = _coordinates(response, active, report)
    return x, y, z, np.zeros_like(x)


def _coordinates(response: Lanes, active: Lanes, report: ReportPort) -> tuple[Lanes, Lanes, Lanes]:
    """x, y and z in an answer; those of a failure are reported."""
    failed = (response["lo"] & np.uint64(1) == 0) & active
    if failed.any():
        report(
            RULE, "the first CTA of a cluster whose launch was not cancelled", failed, advice="ask is_canceled first"
        )
    low, high, half = response["lo"], response["hi"], np.uint64(32)
    return (low >> half).astype(np.uint32), high.astype(np.uint32), (high >> half).astype(np.uint32)
