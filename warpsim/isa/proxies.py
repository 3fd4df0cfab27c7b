"""Proxy fences (PTX ISA: membar / fence). All memory here is coherent at once: fences change no value."""

from __future__ import annotations

from typing import Any

from warpsim.isa.spec import Op, instruction


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
)
def fence_proxy(op: Op, *, objects: Any) -> None:
    """Order accesses through different proxies."""
    objects.fence()


@instruction(
    "fence.mbarrier_init.release.cluster;",
    anchor="parallel-synchronization-and-communication-instructions-membar-fence",
    version=(8, 0),
    target=90,
)
def fence_mbarrier_init(op: Op, *, objects: Any) -> None:
    """Make initialised mbarriers visible to the cluster."""
    objects.fence()
