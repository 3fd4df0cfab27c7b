"""Bulk copies (PTX ISA: cp.async.bulk, cp.reduce.async.bulk, cp.async.bulk.tensor). Copies are made at once by the ``bulk`` port."""

from __future__ import annotations

from typing import Any

from warpsim.isa.atomic_updates import Reduction
from warpsim.isa.ports import BulkPort, constant_of
from warpsim.isa.registry import instruction
from warpsim.isa.spec import LowBits, Op
from warpsim.isa.traits import Asynchronous, Family, Stage, Traits

Lanes = Any
_ANCHOR = "data-movement-and-conversion-instructions-cp-async-bulk"
_DIM = ".dim = { .1d, .2d, .3d, .4d, .5d };"
_MODE = ".mode = { .tile, .im2col };"
_COMMON: dict[str, Any] = {"version": (8, 0), "target": 90}
_TYPES = {"mask": ".u16", "cache_policy": ".u64", "size": ".u32", "offsets": ".u16"}
_SIZES = LowBits(range(0, 1 << 31, 16))
_BYTES = "mbarrier::complete_tx::bytes"
_HINTS = {"multicast::cluster", "L2::cache_hint"}
_BARE: dict[str, Any] = {"bar": lambda op: None if _HINTS & set(op.modifiers) else "value"}
"""With neither mask nor cache policy after it, ptxas 13.0 accepts the mbarrier's address without brackets."""


def _illegal_mode(op: Op) -> str | None:
    """Check the im2col mode, which needs one to three dimensions between the innermost and the outermost, and the multicast."""
    if op.get("dst") == "shared::cta" and "multicast::cluster" in op.modifiers:
        return ".multicast::cluster needs .shared::cluster"
    if str(op.mode or "").startswith("im2col") and op.dim in ("1d", "2d"):
        return ".im2col needs 3 to 5 dimensions"
    return None


@instruction(
    f"""
    cp.async.bulk.tensor.dim.dst.global{{.mode}}.{_BYTES}{{.multicast::cluster}}{{.L2::cache_hint}} [dst], [map, coordinates], [bar]{{, offsets}}{{, mask}}{{, cache_policy}};
    .dst = {{ .shared::cluster, .shared::cta }}; {_DIM} {_MODE}
    """,
    anchor=_ANCHOR + "-tensor",
    types=_TYPES,
    legal=_illegal_mode,
    vectors={"offsets": lambda op: max(int(op.dim[0]) - 2, 1)},
    spaces={"dst": {"shared"}, "bar": {"shared"}, "map": {"global"}},
    bare={"bar": "address"},
    gates={"shared::cta": (90, (8, 6))},
    **_COMMON,
    traits=Traits(asynchronous=Asynchronous(Family.BULK, tensor=True)),
)
def tensor_load(
    op: Op,
    dst: Any,
    map: Any,
    bar: Any,
    offsets: Any = None,
    mask: Any = None,
    cache_policy: Any = None,
    *,
    bulk: BulkPort,
) -> None:
    """Copy a box of a tensor to shared memory."""
    bulk.tensor_load(dst, map, bar, offsets, mask)


@instruction(
    f"""
    cp.async.bulk.tensor.dim.global.shared::cta{{.mode}}.bulk_group{{.L2::cache_hint}} [map, coordinates], [src]{{, cache_policy}};
    {_DIM} .mode = {{ .tile, .im2col_no_offs }};
    """,
    anchor=_ANCHOR + "-tensor",
    types=_TYPES,
    legal=_illegal_mode,
    spaces={"src": {"shared"}, "map": {"global"}},
    **_COMMON,
    traits=Traits(asynchronous=Asynchronous(Family.BULK, grouped=True, tensor=True)),
)
def tensor_store(op: Op, map: Any, src: Any, cache_policy: Any = None, *, bulk: BulkPort) -> None:
    """Copy a box from shared memory to a tensor."""
    bulk.tensor_store(map, src, None)


@instruction(
    f"""
    cp.reduce.async.bulk.tensor.dim.global.shared::cta.redOp{{.mode}}.bulk_group{{.L2::cache_hint}} [map, coordinates], [src]{{, cache_policy}};
    {_DIM} .mode = {{ .tile, .im2col_no_offs }}; .redOp = {{ .add, .min, .max, .inc, .dec, .and, .or, .xor }};
    """,
    anchor="data-movement-and-conversion-instructions-cp-reduce-async-bulk-tensor",
    types=_TYPES,
    legal=_illegal_mode,
    spaces={"src": {"shared"}, "map": {"global"}},
    **_COMMON,
    traits=Traits(asynchronous=Asynchronous(Family.BULK, grouped=True, tensor=True)),
)
def tensor_reduce(op: Op, map: Any, src: Any, cache_policy: Any = None, *, bulk: BulkPort) -> None:
    """Reduce a box from shared memory into a tensor."""
    bulk.tensor_store(map, src, Reduction(op.redOp, _OF_MAPS[op.redOp]))


_BITS, _ORDERED = "u32 s32 u64", "u32 s32 u64 s64 f16 bf16"
_OF_MAPS = {
    operation: frozenset(types.split())
    for operation, types in {
        **{"add": "u32 s32 u64 f16 bf16 f32 f64", "min": _ORDERED, "max": _ORDERED},
        **{"inc": "u32", "dec": "u32", "and": _BITS, "or": _BITS, "xor": _BITS},
    }.items()
}
"""Map element types that an H200 reduces; it faults on others."""


@instruction(
    f"""
    cp.async.bulk.prefetch.tensor.dim.L2.global{{.mode}}{{.L2::cache_hint}} [map, coordinates]{{, offsets}}{{, cache_policy}};
    {_DIM} {_MODE}
    """,
    anchor=_ANCHOR + "-prefetch-tensor",
    types=_TYPES,
    legal=_illegal_mode,
    vectors={"offsets": lambda op: max(int(op.dim[0]) - 2, 1)},
    spaces={"map": {"global"}},
    **_COMMON,
    traits=Traits(asynchronous=Asynchronous(Family.BULK, Stage.PREFETCH, tensor=True)),
)
def tensor_prefetch(op: Op, map: Any, offsets: Any = None, cache_policy: Any = None) -> None:
    """No effect: caches change no value."""


@instruction(
    f"""
    cp.async.bulk.shared::cluster.global.{_BYTES}{{.multicast::cluster}}{{.L2::cache_hint}} [dst], [src], size, [bar]{{, mask}}{{, cache_policy}};
    cp.async.bulk.shared::cta.global.{_BYTES}{{.L2::cache_hint}} [dst], [src], size, [bar]{{, cache_policy}};
    """,
    anchor=_ANCHOR,
    types=_TYPES,
    limits={"size": _SIZES},
    spaces={"dst": {"shared"}, "bar": {"shared"}, "src": {"global"}},
    bare=_BARE,
    gates={"shared::cta": (90, (8, 6))},
    **_COMMON,
    traits=Traits(asynchronous=Asynchronous(Family.BULK)),
)
def load(
    op: Op, dst: Any, src: Any, size: Lanes, bar: Any, mask: Lanes = None, cache_policy: Lanes = None, *, bulk: BulkPort
) -> None:
    """Copy global memory to shared memory."""
    bulk.copy(("shared::cluster", dst), ("global", src), size, bar, mask)


@instruction(
    f"cp.async.bulk.shared::cluster.shared::cta.{_BYTES} [dst], [src], size, [bar];",
    anchor=_ANCHOR,
    types=_TYPES,
    limits={"size": _SIZES},
    spaces={"dst": {"shared"}, "bar": {"shared"}, "src": {"shared"}},
    bare=_BARE,
    **_COMMON,
    traits=Traits(asynchronous=Asynchronous(Family.BULK)),
)
def send(op: Op, dst: Any, src: Any, size: Lanes, bar: Any, *, bulk: BulkPort) -> None:
    """Copy shared memory to that of another CTA."""
    bulk.copy(("shared::cluster", dst), ("shared", src), size, bar)


@instruction(
    "cp.async.bulk.global.shared::cta.bulk_group{.L2::cache_hint} [dst], [src], size{, cache_policy};",
    anchor=_ANCHOR,
    types=_TYPES,
    limits={"size": _SIZES},
    spaces={"dst": {"global"}, "src": {"shared"}},
    **_COMMON,
    traits=Traits(asynchronous=Asynchronous(Family.BULK, grouped=True)),
)
def store(op: Op, dst: Any, src: Any, size: Lanes, cache_policy: Lanes = None, *, bulk: BulkPort) -> None:
    """Copy shared memory to global memory."""
    bulk.copy(("global", dst), ("shared", src), size)


_REDUCE = "data-movement-and-conversion-instructions-cp-reduce-async-bulk"
_BITWISE, _COUNTING = ("and", "or", "xor"), ("inc", "dec")


def _illegal_in_global(op: Op) -> str | None:
    kind, name = op.type.kind, op.type.name
    if op.redOp in _BITWISE:
        good = kind == "b"
    elif op.redOp in _COUNTING:
        good = name == "u32"
    else:
        good = kind in "us" and (op.redOp != "add" or name != "s64")
        good |= kind == "f" and (op.type.bits > 16 if op.redOp == "add" else op.type.bits == 16)
    return None if good else f".{op.redOp} does not take .{name}"


def _illegal_in_shared(op: Op) -> str | None:
    allowed = {"add": ("u32", "s32", "u64"), "min": ("u32", "s32"), "max": ("u32", "s32")}
    types = ("b32",) if op.redOp in _BITWISE else ("u32",) if op.redOp in _COUNTING else allowed[op.redOp]
    return None if op.type.name in types else f".{op.redOp} does not take .{op.type.name} in shared memory"


@instruction(
    """
    cp.reduce.async.bulk.global.shared::cta.bulk_group{.L2::cache_hint}.redOp.type [dst], [src], size{, cache_policy};
    .redOp = { .add, .min, .max, .inc, .dec, .and, .or, .xor };
    .type = { .b32, .b64, .u32, .u64, .s32, .s64, .f16, .bf16, .f32, .f64 };
    """,
    anchor=_REDUCE,
    types=_TYPES,
    limits={"size": _SIZES},
    spaces={"dst": {"global"}, "src": {"shared"}},
    legal=_illegal_in_global,
    **_COMMON,
    traits=Traits(asynchronous=Asynchronous(Family.BULK, grouped=True)),
)
def reduce_global(op: Op, dst: Any, src: Any, size: Lanes, cache_policy: Lanes = None, *, bulk: BulkPort) -> None:
    """Reduce elements of shared memory into global memory."""
    bulk.copy(("global", dst), ("shared", src), size, reduction=Reduction(op.redOp), type=op.type)


@instruction(
    """
    cp.reduce.async.bulk.global.shared::cta.bulk_group{.L2::cache_hint}.add.noftz.type [dst], [src], size{, cache_policy};
    .type = { .f16, .bf16 };
    """,
    anchor=_REDUCE,
    types=_TYPES,
    limits={"size": _SIZES},
    spaces={"dst": {"global"}, "src": {"shared"}},
    **_COMMON,
    traits=Traits(asynchronous=Asynchronous(Family.BULK, grouped=True)),
)
def reduce_global_halves(
    op: Op, dst: Any, src: Any, size: Lanes, cache_policy: Lanes = None, *, bulk: BulkPort
) -> None:
    """Add halves of shared memory to global memory."""
    bulk.copy(("global", dst), ("shared", src), size, reduction=Reduction("add"), type=op.type)


@instruction(
    f"""
    cp.reduce.async.bulk.shared::cluster.shared::cta.{_BYTES}.redOp.type [dst], [src], size, [bar];
    .redOp = {{ .add, .min, .max, .inc, .dec, .and, .or, .xor }}; .type = {{ .b32, .u32, .s32, .u64 }};
    """,
    anchor=_REDUCE,
    types=_TYPES,
    limits={"size": _SIZES},
    spaces={"dst": {"shared"}, "bar": {"shared"}, "src": {"shared"}},
    bare=_BARE,
    legal=_illegal_in_shared,
    **_COMMON,
    traits=Traits(asynchronous=Asynchronous(Family.BULK)),
)
def reduce_shared(op: Op, dst: Any, src: Any, size: Lanes, bar: Any, *, bulk: BulkPort) -> None:
    """Reduce elements of shared memory into the shared memory of another CTA."""
    choose = Reduction(op.redOp)
    bulk.copy(("shared::cluster", dst), ("shared", src), size, bar, reduction=choose, type=op.type)


@instruction(
    "cp.async.bulk.prefetch.L2.global{.L2::cache_hint} [src], size{, cache_policy};",
    anchor=_ANCHOR + "-prefetch",
    types=_TYPES,
    limits={"size": range(0, 1 << 31, 16)},
    spaces={"src": {"global"}},
    **_COMMON,
    traits=Traits(asynchronous=Asynchronous(Family.BULK, Stage.PREFETCH)),
)
def prefetch(op: Op, src: Any, size: Lanes, cache_policy: Lanes = None) -> None:
    """No effect: caches change no value."""


@instruction(
    "cp.async.bulk.commit_group;",
    anchor=_ANCHOR + "-commit-group",
    **_COMMON,
    traits=Traits(asynchronous=Asynchronous(Family.BULK, Stage.COMMIT)),
)
def commit_group(op: Op, *, bulk: BulkPort) -> None:
    """Commit a group of copies."""
    bulk.commit()


@instruction(
    "cp.async.bulk.wait_group{.read} n;",
    anchor=_ANCHOR + "-wait-group",
    types={"n": ".u32"},
    constants={"n": None},
    **_COMMON,
    traits=Traits(asynchronous=Asynchronous(Family.BULK, Stage.WAIT)),
)
def wait_group(op: Op, n: Lanes, *, bulk: BulkPort) -> None:
    """Wait for groups of copies; with .read, only until they have read their sources."""
    bulk.wait(constant_of(n), read_only=bool(op.read))


@instruction(
    "prefetch{.space}.tensormap [address]; .space = { .param, .const };",
    anchor="data-movement-and-conversion-instructions-prefetch-prefetchu",
    **_COMMON,
)
def prefetch_tensormap(op: Op, address: Any) -> None:
    """No effect: caches change no value."""
