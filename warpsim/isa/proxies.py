"""Proxy fences (PTX ISA: membar / fence). All memory here is coherent at once: fences change no value."""

from __future__ import annotations

from typing import Any

from warpsim.isa.ports import MapFencesPort, ObjectsPort
from warpsim.isa.registry import instruction
from warpsim.isa.spec import LowBits, Op
from warpsim.isa.traits import Fence, Traits


@instruction(
    """
    fence.proxy.async;
    fence.proxy.async.space;
    fence.proxy.alias;
    .space = { .global, .shared::cta, .shared::cluster };
    """,
    anchor="parallel-synchronization-and-communication-instructions-membar-fence",
    version=(7, 5),
    target=70,
    gates={"async": (90, (8, 0))},
    traits=lambda op: Traits(fence=Fence(proxy="alias" if op.alias else "async")),
)
def fence_proxy(op: Op, *, objects: ObjectsPort) -> None:
    """Order accesses through different proxies."""
    objects.fence()


@instruction(
    "fence.mbarrier_init.release.cluster;",
    anchor="parallel-synchronization-and-communication-instructions-membar-fence",
    version=(8, 0),
    target=90,
    traits=Traits(fence=Fence(mbarrier_init=True)),
)
def fence_mbarrier_init(op: Op, *, objects: ObjectsPort) -> None:
    """Make initialised mbarriers visible to the cluster."""
    objects.fence()


@instruction(
    """
    fence.proxy.tensormap::generic.release{.space}.scope;  // the manual has no space here, ptxas takes one
    fence.proxy.tensormap::generic.acquire.scope [address], size;
    .space = { .global, .shared::cta, .shared::cluster };
    .scope = { .cta, .cluster, .gpu, .sys };
    """,
    anchor="parallel-synchronization-and-communication-instructions-membar-fence",
    types={"size": ".u32"},
    constants={"size": LowBits({128})},
    spaces={"address": {"global"}},
    version=(8, 3),
    target=90,
    traits=Traits(fence=Fence(proxy="tensormap::generic")),
)
def fence_tensormap(op: Op, address: Any = None, size: Any = None, *, maps: MapFencesPort) -> None:
    """Order accesses to a tensor map through the tensormap proxy."""
    if address is None:
        maps.release()
    else:
        maps.acquire(address)


@instruction(
    """
    fence.proxy.async::generic.acquire{.space}.sync_restrict::shared::cluster.cluster;
    fence.proxy.async::generic.release{.space}.sync_restrict::shared::cta.cluster;
    .space = { .global, .shared::cta, .shared::cluster };  // the manual has none here, ptxas takes one
    """,
    anchor="parallel-synchronization-and-communication-instructions-membar-fence",
    version=(8, 6),
    target=90,
    traits=Traits(fence=Fence(proxy="async::generic")),
)
def fence_proxy_restricted(op: Op, *, objects: ObjectsPort) -> None:
    """Order accesses through different proxies, restricted to mbarriers."""
    objects.fence()
