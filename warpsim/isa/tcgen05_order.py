"""The order of tcgen05 operations (PTX ISA: TensorCore 5th Generation: tcgen05.commit, tcgen05.fence)."""

from __future__ import annotations

from warpsim.isa.ports import Address, Lanes, TensorCorePort
from warpsim.isa.spec import Op, instruction
from warpsim.isa.traits import Asynchronous, Family, Order, Stage, Traits

_NEEDS = (("100f", "110f"), (8, 6))


@instruction(
    """
    tcgen05.commit.cta_group.mbarrier::arrive::one{.space}.b64 [mbar];
    tcgen05.commit.cta_group.mbarrier::arrive::one{.space}.multicast::cluster.b64 [mbar], mask;
    .cta_group = { .cta_group::1, .cta_group::2 }; .space = { .shared::cluster };
    """,
    anchor="tcgen05-instructions-tcgen05-commit",
    types={"mask": ".u16"},
    spaces={"mbar": {"shared"}},
    needs=_NEEDS,
    traits=Traits(asynchronous=Asynchronous(Family.TCGEN05, Stage.COMMIT), order=Order(strong=True, release=True)),
)
def commit(op: Op, mbar: Address, mask: Lanes | None = None, *, tensor_core: TensorCorePort) -> None:
    """Arrive at an mbarrier, or at those of several CTAs, once the thread's earlier mma, cp and shift are complete."""
    tensor_core.commit(int(op.cta_group[-1]), mbar, mask)


@instruction(
    "tcgen05.fence; .fence = { .fence::before_thread_sync, .fence::after_thread_sync };",
    anchor="tcgen05-special-sync-operations-fence",
    needs=_NEEDS,
    traits=Traits(asynchronous=Asynchronous(Family.TCGEN05, Stage.FENCE)),
)
def fence(op: Op, *, tensor_core: TensorCorePort) -> None:
    """Order the thread's earlier or later tcgen05 operations with its synchronisation with other threads."""
    tensor_core.fence(before="before_thread_sync" in op.fence)
