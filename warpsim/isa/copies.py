"""cp.async (PTX ISA: Asynchronous copy operations, non-bulk)."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.isa.ports import AsyncGroupsPort, ObjectsPort, constant_of
from warpsim.isa.registry import instruction
from warpsim.isa.spec import Op
from warpsim.isa.traits import Asynchronous, Family, Order, Stage, Traits
from warpsim.layout import mbarriers

Lanes = Any
_OPTIONS = """
    .cop = { .ca, .cg };
    .state = { .shared, .shared::cta };
    .hint = { .L2::cache_hint };
    .prefetch = { .L2::64B, .L2::128B, .L2::256B };
"""
_GATES = {
    "L2::cache_hint": (80, (7, 4)),
    "L2::64B": (80, (7, 4)),
    "L2::128B": (80, (7, 4)),
    "L2::256B": (80, (7, 4)),
}
_ANCHOR = "data-movement-and-conversion-instructions-cp-async"


def _sizes(op: Op) -> set[int]:
    return {16} if op.cop == "cg" else {4, 8, 16}


@instruction(
    f"""
    cp.async.cop.state.global{{.prefetch}}       [dst], [src], size{{, src_size}};
    cp.async.cop.state.global.hint{{.prefetch}}  [dst], [src], size, cache_policy;
    cp.async.cop.state.global.hint{{.prefetch}}  [dst], [src], size, src_size, cache_policy;
    {_OPTIONS}
    """,
    anchor=_ANCHOR,
    types={"size": ".u32", "src_size": ".u32", "cache_policy": ".u64"},
    constants={"size": _sizes},
    limits={"src_size": (0, 16)},
    spaces={"dst": {"shared"}, "src": {"global"}},
    version=(7, 0),
    target=80,
    gates=_GATES,
    traits=Traits(asynchronous=Asynchronous(Family.CP_ASYNC)),
)
def cp_async(
    op: Op,
    dst: Any,
    src: Any,
    size: Lanes,
    src_size: Lanes = None,
    cache_policy: Any = None,
    *,
    async_groups: AsyncGroupsPort,
) -> None:
    """Copy 4, 8 or 16 bytes to shared memory; bytes past src_size are zero."""
    n = constant_of(size)
    if (
        src_size is not None and src_size.dtype != np.uint32
    ):  # the form without src_size: a cache policy is in its place
        src_size = None
    async_groups.copy(dst, src, n, src_size)


@instruction(
    f"""
    cp.async.cop.state.global{{.prefetch}}       [dst], [src], size, {{!}}ignore_src;
    cp.async.cop.state.global.hint{{.prefetch}}  [dst], [src], size, {{!}}ignore_src, cache_policy;
    {_OPTIONS}
    """,
    anchor=_ANCHOR,
    types={"size": ".u32", "ignore_src": ".pred", "cache_policy": ".u64"},
    constants={"size": _sizes},
    registers=("ignore_src",),
    spaces={"dst": {"shared"}, "src": {"global"}},
    version=(7, 5),
    target=80,
    gates=_GATES,
    traits=Traits(asynchronous=Asynchronous(Family.CP_ASYNC)),
)
def cp_async_ignore(
    op: Op,
    dst: Any,
    src: Any,
    size: Lanes,
    ignore_src: Lanes,
    cache_policy: Any = None,
    *,
    async_groups: AsyncGroupsPort,
) -> None:
    """The same; where ignore_src is true, zeros are written and nothing is read."""
    n = constant_of(size)
    take = np.where(ignore_src, np.uint32(0), np.uint32(n))
    async_groups.copy(dst, src, n, take)


@instruction(
    "cp.async.commit_group;",
    anchor="data-movement-and-conversion-instructions-cp-async-commit-group",
    version=(7, 0),
    target=80,
    traits=Traits(asynchronous=Asynchronous(Family.CP_ASYNC, Stage.COMMIT)),
)
def commit_group(op: Op, *, async_groups: AsyncGroupsPort) -> None:
    """Commit the group of copies."""
    async_groups.commit()


@instruction(
    "cp.async.wait_group n;",
    anchor="data-movement-and-conversion-instructions-cp-async-wait-group",
    types={"n": ".u32"},
    constants={"n": None},
    version=(7, 0),
    target=80,
    traits=Traits(asynchronous=Asynchronous(Family.CP_ASYNC, Stage.WAIT)),
)
def wait_group(op: Op, n: Lanes, *, async_groups: AsyncGroupsPort) -> None:
    """Wait for all but the n newest groups."""
    async_groups.wait(constant_of(n))


@instruction(
    "cp.async.wait_all;",
    anchor="data-movement-and-conversion-instructions-cp-async-wait-group",
    version=(7, 0),
    target=80,
    traits=Traits(asynchronous=Asynchronous(Family.CP_ASYNC, Stage.WAIT_ALL)),
)
def wait_all(op: Op, *, async_groups: AsyncGroupsPort) -> None:
    """Wait for all copies."""
    async_groups.wait(0, everything=True)


@instruction(
    """
    cp.async.mbarrier.arrive{.noinc}{.space}.b64 [address];
    .space = { .shared, .shared::cta };
    """,
    anchor="parallel-synchronization-and-communication-instructions-cp-async-mbarrier-arrive",
    spaces={"address": {"shared"}},
    version=(7, 0),
    target=80,
    gates={"shared::cta": (80, (7, 8))},
    traits=Traits(asynchronous=Asynchronous(Family.CP_ASYNC, Stage.ARRIVE), order=Order(strong=True, release=True)),
)
def mbarrier_arrive(op: Op, address: Any, *, async_groups: AsyncGroupsPort, objects: ObjectsPort) -> None:
    """Arrive when the thread's copies complete; without noinc, the phase expects one more arrival."""
    space = op.space or ""
    if not op.noinc:
        objects.update(space, address, mbarriers.one_more, returns=False)
    async_groups.arrive(*objects.places(space, address))
