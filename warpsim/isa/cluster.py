"""Stores to other CTAs of a cluster, and register counts (PTX ISA: st.async, setmaxnreg)."""

from __future__ import annotations

from typing import Any

from warpsim.isa.spec import Op, Scope, instruction

Lanes = Any


@instruction(
    """
    st.async{.weak}{.shared::cluster}.mbarrier::complete_tx::bytes{.vec}.type [address], b, [bar];
    .vec = { .v2, .v4 }; .type = { .b32, .b64, .u32, .u64, .s32, .s64, .f32, .f64 };
    """,
    anchor="data-movement-and-conversion-instructions-st-async",
    spaces={"address": {"shared"}, "bar": {"shared"}},
    version=(8, 1),
    target=90,
)
def st_async(op: Op, address: Any, b: Any, bar: Any, *, memory: Any, bulk: Any) -> None:
    """Store in shared memory of the cluster and count the bytes at an mbarrier."""
    values = b if isinstance(b, tuple) else (b,)
    bulk.remote(
        address,
        bar,
        op.type.bytes * len(values),
        lambda: memory.store("shared::cluster", address, op.type, values),
    )


@instruction(
    "setmaxnreg.action.sync.aligned.u32 n; .action = { .inc, .dec };",
    anchor="miscellaneous-instructions-setmaxnreg",
    scope=Scope.WARPGROUP,
    types={"n": ".u32"},
    constants={"n": range(24, 257, 8)},
    version=(8, 0),
    arch="90a",
)
def setmaxnreg(op: Op, n: Lanes) -> None:
    """Registers are not limited here."""
