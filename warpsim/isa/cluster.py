"""Stores and reductions to other CTAs of a cluster, and register counts (PTX ISA: st.async, red.async, setmaxnreg)."""

from __future__ import annotations

from typing import Any

from warpsim.isa.ports import BulkPort
from warpsim.isa.registry import instruction
from warpsim.isa.spec import Op, Scope
from warpsim.isa.traits import Access, Asynchronous, Family, Traits

Lanes = Any


@instruction(
    """
    st.async{.weak}{.shared::cluster}.mbarrier::complete_tx::bytes{.vec}.type [address], b, [bar];
    .vec = { .v2, .v4 }; .type = { .b32, .b64, .u32, .u64, .s32, .s64, .f32, .f64 };
    """,
    anchor="data-movement-and-conversion-instructions-st-async",
    spaces={"address": {"shared"}, "bar": {"shared"}},
    legal=lambda op: "vectors have at most 128 bits" if op.vec == "v4" and op.type.bits == 64 else None,
    version=(8, 1),
    target=90,
    traits=Traits(access=Access.STORE, asynchronous=Asynchronous(Family.REMOTE)),
)
def st_async(op: Op, address: Any, b: Any, bar: Any, *, bulk: BulkPort) -> None:
    """Store to shared memory of the cluster, and count the bytes at an mbarrier."""
    bulk.remote(address, bar, op.type, b if isinstance(b, tuple) else (b,))


def _illegal(op: Op) -> str | None:
    types = {"add": ("u32", "s32", "u64", "s64"), "min": ("u32", "s32"), "max": ("u32", "s32")}
    allowed = types.get(op.op, ("u32",) if op.op in ("inc", "dec") else ("b32",))
    return None if op.type.name in allowed else f".{op.op} takes {', '.join('.' + t for t in allowed)}"


@instruction(
    """
    red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.op.type [address], b, [bar];
    .op = { .add, .min, .max, .inc, .dec, .and, .or, .xor };
    .type = { .b32, .u32, .s32, .u64, .s64 };
    """,
    anchor="parallel-synchronization-and-communication-instructions-red-async",
    spaces={"address": {"shared"}, "bar": {"shared"}},
    legal=_illegal,
    version=(8, 1),
    target=90,
    traits=Traits(access=Access.ATOMIC, asynchronous=Asynchronous(Family.REMOTE)),
)
def red_async(op: Op, address: Any, b: Any, bar: Any, *, bulk: BulkPort) -> None:
    """Reduce into shared memory of the cluster, and count the bytes at an mbarrier."""
    bulk.remote(address, bar, op.type, (b,), op.op)


@instruction(
    "setmaxnreg.action.sync.aligned.u32 n; .action = { .inc, .dec };",
    anchor="miscellaneous-instructions-setmaxnreg",
    scope=Scope.SYNC,
    types={"n": ".u32"},
    constants={"n": range(24, 257, 8)},
    version=(8, 0),
    target=("90a", "100f", "110f", "120f"),
    traits=Traits(register_count=True),
)
def setmaxnreg(op: Op, n: Lanes) -> None:
    """Return registers to the CTA, or wait until it has enough."""
