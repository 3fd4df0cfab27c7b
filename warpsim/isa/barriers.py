"""Barriers, which the machine executes, and fences (PTX ISA: Parallel Synchronization and Communication)."""

from __future__ import annotations

import functools

from warpsim.isa.memory_access import elsewhere
from warpsim.isa.ports import Address, Lanes, MapFencesPort, MemoryPort, ObjectsPort, ReportPort
from warpsim.isa.spec import LowBits, Op, Scope, instruction
from warpsim.isa.traits import Barrier, Fence, Order, Traits
from warpsim.types import TYPES

_B32 = {"a": ".u32", "b": ".u32"}


class _Counts(LowBits):
    """The constant thread counts of a barrier where threads only arrive: there must be one."""

    def __contains__(self, value: object) -> bool:
        return value != 0 and super().__contains__(value)


def _counts(op: Op) -> LowBits:
    """The constant thread counts that a barrier accepts."""
    return (_Counts if op.get("arrive") else LowBits)(range(0, 1 << 32, 32))


def _cta_barrier(op: Op) -> Traits:
    """``bar`` is always aligned, ``barrier`` only with .aligned."""
    words = op.text.split(".")
    reduction = next((word for word in words if word in ("popc", "and", "or")), None)
    waits = "arrive" not in words
    return Traits(
        barrier=Barrier("cta", waits=waits, reduction=reduction),
        aligned=words[0] == "bar",
        uniform="cta" if reduction else None,
    )


_cta = functools.partial(
    instruction,
    anchor="parallel-synchronization-and-communication-instructions-bar",
    scope=Scope.SYNC,
    limits={"a": LowBits(range(16)), "b": _counts},
    gates={"cta": (None, (7, 8))},
    gate=lambda op: (None, (6, 0)) if op.text.startswith("barrier") else None,
    traits=_cta_barrier,
)


@_cta(
    """
    barrier{.cta}.sync{.aligned} a{, b};  barrier{.cta}.arrive{.aligned} a, b;
    bar{.cta}.sync a{, b};                bar{.cta}.arrive a, b;
    """,
    types=_B32,
)
def bar(op: Op, a: Lanes, b: Lanes | None = None) -> None:
    """Wait for the CTA's threads at barrier a, or arrive without waiting."""


@_cta(
    "barrier{.cta}.red.popc{.aligned}.u32 d, a{, b}, {!}c;  bar{.cta}.red.popc.u32 d, a{, b}, {!}c;",
    types={"d": TYPES["u32"], "c": ".pred", **_B32},
)
def bar_popc(op: Op, a: Lanes, b: Lanes, c: Lanes) -> None:
    """Wait, and count the threads whose predicate is true."""


@_cta(
    """
    barrier{.cta}.red.op{.aligned}.pred d, a, b, {!}c;  bar{.cta}.red.op.pred d, a, b, {!}c;
    barrier{.cta}.red.op{.aligned}.pred d, a, {!}c;     bar{.cta}.red.op.pred d, a, {!}c;
    .op = { .and, .or };
    """,
    types={"d": ".pred", "c": ".pred", **_B32},
)
def bar_red(op: Op, a: Lanes, b: Lanes, c: Lanes) -> None:
    """Wait, and combine the predicates."""


@instruction(
    "bar.warp.sync membermask;",
    anchor="parallel-synchronization-and-communication-instructions-bar-warp-sync",
    scope=Scope.SYNC,
    types={"membermask": ".b32"},
    checked_as={"membermask": ".u32"},
    needs=(30, (6, 0)),
    traits=Traits(barrier=Barrier("warp")),
)
def bar_warp_sync(op: Op, membermask: Lanes) -> None:
    """Wait for the lanes of the mask."""


@instruction(
    """
    barrier.cluster.arrive{.sem}{.aligned};
    barrier.cluster.wait{.acquire}{.aligned};
    .sem = { .release, .relaxed };
    """,
    anchor="parallel-synchronization-and-communication-instructions-barrier-cluster",
    scope=Scope.SYNC,
    needs=(90, (7, 8)),
    gates={"release": (90, (8, 0)), "relaxed": (90, (8, 0)), "acquire": (90, (8, 0))},
    traits=lambda op: Traits(
        barrier=Barrier("cluster", arrives=op.arrive, waits=op.wait),
        order=Order(strong=True, release=op.arrive and op.sem != "relaxed", acquire=op.wait),
    ),
)
def barrier_cluster(op: Op) -> None:
    """Arrive at the cluster barrier, or wait at it."""


# ---- order in memory ----------------------------------------------------------------------------

_fence = functools.partial(instruction, anchor="parallel-synchronization-and-communication-instructions-membar-fence")


@_fence("membar.proxy.alias;", needs=(60, (7, 5)), traits=Traits(fence=Fence(proxy="alias")))
@_fence("membar.level;  .level = { .cta, .gl, .sys };", traits=Traits(fence=Fence()))
def membar(op: Op) -> None:
    """Every access takes effect at once here: order in memory changes no value."""


@_fence(
    """
    fence{.sem}.scope;
    .sem = { .sc, .acq_rel, .acquire, .release };
    .scope = { .cta, .cluster, .gpu, .sys };
    """,
    needs=(70, (6, 0)),
    gates={"cluster": (90, (7, 8))},
    traits=Traits(fence=Fence()),
)
def fence(op: Op) -> None:
    """Every access takes effect at once here: order in memory changes no value."""


@_fence(
    """
    fence.acquire.sync_restrict::shared::cluster.cluster;
    fence.release.sync_restrict::shared::cta.cluster;
    """,
    needs=(90, (8, 6)),
    traits=Traits(fence=Fence()),
)
def fence_restricted(op: Op) -> None:
    """The same, restricted to mbarriers."""


@instruction(
    "griddepcontrol.action;  .action = { .launch_dependents, .wait };",
    anchor="parallel-synchronization-and-communication-instructions-griddepcontrol",
    needs=(90, (7, 8)),
)
def griddepcontrol(op: Op) -> None:
    """Grids run one after another here, so the grids that this one depends on are complete."""


@_fence(
    """
    fence.proxy.async;
    fence.proxy.async.space;
    fence.proxy.alias;
    fence.proxy.alias.sem.sys;
    .space = { .global, .shared::cta, .shared::cluster }; .sem = { .acquire, .release };
    """,
    needs=(70, (7, 5)),
    gates={"async": (90, (8, 0)), "sys": (90, (9, 4))},
    traits=lambda op: Traits(fence=Fence(proxy="alias" if op.alias else "async")),
)
def fence_proxy(op: Op, *, objects: ObjectsPort) -> None:
    """Order accesses through different proxies."""
    objects.fence()


@_fence(
    "fence.mbarrier_init.release.cluster;",
    needs=(90, (8, 0)),
    traits=Traits(fence=Fence(mbarrier_init=True)),
)
def fence_mbarrier_init(op: Op, *, objects: ObjectsPort) -> None:
    """Make initialised mbarriers visible to the cluster."""
    objects.fence()


@_fence(
    """
    fence.proxy.tensormap::generic.release{.space}.scope;  // the manual has no space here, ptxas takes one
    fence.proxy.tensormap::generic.acquire.scope [address], size;
    .space = { .global, .shared::cta, .shared::cluster };
    .scope = { .cta, .cluster, .gpu, .sys };
    """,
    types={"size": ".u32"},
    constants={"size": LowBits({128})},
    spaces={"address": {"global"}},
    needs=(90, (8, 3)),
    traits=Traits(fence=Fence(proxy="tensormap::generic")),
)
def fence_tensormap(
    op: Op,
    address: Address | None = None,
    size: Lanes | None = None,
    *,
    maps: MapFencesPort,
    memory: MemoryPort,
    active: Lanes,
    report: ReportPort,
) -> None:
    """Order accesses to a tensor map through the tensormap proxy."""
    if address is None:
        maps.release()
        return
    elsewhere(memory, address, active, report)
    maps.acquire(address)


@_fence(
    """
    fence.proxy.async::generic.acquire{.space}.sync_restrict::shared::cluster.cluster;
    fence.proxy.async::generic.release{.space}.sync_restrict::shared::cta.cluster;
    .space = { .global, .shared::cta, .shared::cluster };  // the manual has none here, ptxas takes one
    """,
    needs=(90, (8, 6)),
    traits=Traits(fence=Fence(proxy="async::generic")),
)
def fence_proxy_restricted(op: Op, *, objects: ObjectsPort) -> None:
    """Order accesses through different proxies, restricted to mbarriers."""
    objects.fence()
