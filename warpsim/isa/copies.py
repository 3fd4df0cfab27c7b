"""Asynchronous copies (PTX ISA: cp.async, cp.async.bulk, cp.reduce.async.bulk, st.async, red.async), made at once by the ports."""

from __future__ import annotations

import functools

import numpy as np

from warpsim.isa.atomics import Reduction, illegal_type, unflushed
from warpsim.isa.ports import Address, AsyncGroupsPort, BulkPort, Elements, Lanes, ObjectsPort, constant_of
from warpsim.isa.spec import Gate, LowBits, Op, PerOp, TypeRule, instruction, vector_size
from warpsim.isa.traits import Access, Asynchronous, Family, Order, Stage, Traits
from warpsim.layout import mbarriers
from warpsim.layout.tensor_map import GATHER4, SCATTER4, WIDE

_BULK = "data-movement-and-conversion-instructions-cp-async-bulk"
_DIM = ".dim = { .1d, .2d, .3d, .4d, .5d };"
_MODE = ".mode = { .tile, .tile::gather4, .im2col, .im2col::w, .im2col::w::128 };"
_TYPES: dict[str, TypeRule] = {
    **{"mask": ".u16", "cache_policy": ".u64", "size": ".u32", "offsets": ".u16", "bytes": ".u16"},
    **dict.fromkeys(("left", "right"), ".u32"),
}
_STORED = ".mode = { .tile, .tile::scatter4, .im2col_no_offs };"
_bulk = functools.partial(instruction, types=_TYPES, needs=(90, (8, 0)))
_SIZES = LowBits(range(0, 1 << 31, 16))
_SCOPES = ".scope = { .cta, .cluster, .gpu, .sys };"
ORDERED: dict[str, Gate] = dict.fromkeys(("weak", "relaxed", "b128"), (90, (9, 3)))
"""What the order of copies requires, which changes no value here."""
_BYTES = "mbarrier::complete_tx::bytes"
_HINTS = {"multicast::cluster", "L2::cache_hint"}
_BARE: dict[str, PerOp[str | None]] = {"bar": lambda op: None if _HINTS & set(op.modifiers) else "value"}
"""With neither mask nor cache policy after it, ptxas 13.0 accepts the mbarrier's address without brackets."""


def _illegal_mode(op: Op) -> str | None:
    """Check the im2col mode, which needs one to three dimensions between the innermost and the outermost, and the multicast."""
    if op.get("dst") == "shared::cta" and "multicast::cluster" in op.modifiers:
        return ".multicast::cluster needs .shared::cluster"
    if str(op.mode or "").startswith("im2col") and op.dim in ("1d", "2d"):
        return f".{op.mode} needs 3 to 5 dimensions"
    if op.mode in (GATHER4, SCATTER4) and op.dim != "2d":
        return f".{op.mode} needs 2 dimensions"
    return None


_PAIRS: Gate = (("100f", "110f"), (8, 6))


def _of_mode(op: Op) -> Gate | None:
    """What the mode of a copy requires; loads of rows, and along W, to the own CTA need no family of GPUs."""
    alone = op.get("dst") == "shared::cta" and op.get("cta_group") is None
    if op.mode in (GATHER4, "im2col::w"):
        return (100, (8, 6)) if alone else _PAIRS
    return _PAIRS if op.mode in (SCATTER4, "im2col::w::128") else None


def _offsets(op: Op) -> int:
    """How many offsets an im2col mode has: one for each dimension of pixels, or a halo and an offset along W."""
    return 2 if op.mode in WIDE else max(int(op.dim[0]) - 2, 1)


@_bulk(
    f"""
    cp.async.bulk.tensor.dim.dst.global{{.mode}}.{_BYTES}{{.multicast::cluster}}{{.cta_group}}{{.L2::cache_hint}} [dst], [map, coordinates], [bar]{{, offsets}}{{, mask}}{{, cache_policy}};
    .dst = {{ .shared::cluster, .shared::cta }}; .cta_group = {{ .cta_group::1, .cta_group::2 }}; {_DIM} {_MODE}
    """,
    anchor=_BULK + "-tensor",
    legal=_illegal_mode,
    vectors={"offsets": _offsets},
    spaces={"dst": {"shared"}, "bar": {"shared"}, "map": {"global"}},
    bare={"bar": "address"},
    gates={"shared::cta": (90, (8, 6)), "cta_group::1": _PAIRS, "cta_group::2": _PAIRS},
    gate=_of_mode,
    traits=Traits(asynchronous=Asynchronous(Family.BULK, tensor=True)),
)
def tensor_load(
    op: Op,
    dst: Address,
    map: Address,
    bar: Address,
    offsets: tuple[Lanes, ...] | None = None,
    mask: Lanes | None = None,
    cache_policy: Lanes | None = None,
    *,
    bulk: BulkPort,
) -> None:
    """Copy a box of a tensor to shared memory."""
    group, own = int(op.cta_group[-1]) if op.cta_group else 0, op.dst == "shared::cta"
    bulk.tensor_load(dst, map, bar, offsets, mask, op.mode or "tile", group, own=own)


@_bulk(
    f"""
    cp.async.bulk.tensor.dim.global.shared::cta{{.mode}}.bulk_group{{.L2::cache_hint}} [map, coordinates], [src]{{, cache_policy}};
    {_DIM} {_STORED}
    """,
    anchor=_BULK + "-tensor",
    legal=_illegal_mode,
    gate=_of_mode,
    spaces={"src": {"shared"}, "map": {"global"}},
    traits=Traits(asynchronous=Asynchronous(Family.BULK, grouped=True, tensor=True)),
)
def tensor_store(op: Op, map: Address, src: Address, cache_policy: Lanes | None = None, *, bulk: BulkPort) -> None:
    """Copy a box from shared memory to a tensor."""
    bulk.tensor_store(map, src, None, op.mode or "tile")


@_bulk(
    f"""
    cp.reduce.async.bulk.tensor.dim.global.shared::cta.redOp{{.mode}}.bulk_group{{.L2::cache_hint}} [map, coordinates], [src]{{, cache_policy}};
    {_DIM} {_STORED} .redOp = {{ .add, .min, .max, .inc, .dec, .and, .or, .xor }};
    """,
    anchor="data-movement-and-conversion-instructions-cp-reduce-async-bulk-tensor",
    legal=_illegal_mode,
    gate=_of_mode,
    spaces={"src": {"shared"}, "map": {"global"}},
    traits=Traits(asynchronous=Asynchronous(Family.BULK, grouped=True, tensor=True)),
)
def tensor_reduce(op: Op, map: Address, src: Address, cache_policy: Lanes | None = None, *, bulk: BulkPort) -> None:
    """Reduce a box from shared memory into a tensor."""
    bulk.tensor_store(map, src, Reduction(op.redOp, _OF_MAPS[op.redOp]), op.mode or "tile")


_BITS, _ORDERED = "u32 s32 u64", "u32 s32 u64 s64 f16 bf16"
_OF_MAPS = {
    operation: frozenset(types.split())
    for operation, types in {
        **{"add": "u32 s32 u64 f16 bf16 f32 f64", "min": _ORDERED, "max": _ORDERED},
        **{"inc": "u32", "dec": "u32", "and": _BITS, "or": _BITS, "xor": _BITS},
    }.items()
}
"""Map element types that an H200 reduces; it faults on others."""


@_bulk(
    f"""
    cp.async.bulk.prefetch.tensor.dim.L2.global{{.mode}}{{.L2::cache_hint}} [map, coordinates]{{, offsets}}{{, cache_policy}};
    {_DIM} {_MODE}
    """,
    anchor=_BULK + "-prefetch-tensor",
    legal=_illegal_mode,
    vectors={"offsets": _offsets},
    spaces={"map": {"global"}},
    gate=_of_mode,
    traits=Traits(asynchronous=Asynchronous(Family.BULK, Stage.PREFETCH, tensor=True)),
)
def tensor_prefetch(
    op: Op, map: Address, offsets: tuple[Lanes, ...] | None = None, cache_policy: Lanes | None = None
) -> None:
    """No effect: caches change no value."""


@_bulk(
    f"""
    cp.async.bulk{{.weak}}.shared::cluster.global.{_BYTES}{{.multicast::cluster}}{{.L2::cache_hint}} [dst], [src], size, [bar]{{, mask}}{{, cache_policy}};
    cp.async.bulk{{.weak}}.shared::cta.global.{_BYTES}{{.L2::cache_hint}} [dst], [src], size, [bar]{{, cache_policy}};
    cp.async.bulk{{.relaxed.scope}}.shared::cta.global.{_BYTES}{{.L2::cache_hint}}.b128 [dst], [src], size, [bar]{{, cache_policy}};
    cp.async.bulk{{.weak}}.shared::cta.global.{_BYTES}.ignore_oob{{.L2::cache_hint}} [dst], [src], size, left, right, [bar]{{, cache_policy}};
    {_SCOPES}
    """,
    anchor=_BULK,
    limits={"size": _SIZES, "left": (0, 15), "right": (0, 15)},
    spaces={"dst": {"shared"}, "bar": {"shared"}, "src": {"global"}},
    bare=_BARE,
    gates={"shared::cta": (90, (8, 6)), "ignore_oob": (90, (9, 2)), **ORDERED},
    traits=Traits(asynchronous=Asynchronous(Family.BULK)),
)
def bulk_load(
    op: Op,
    dst: Address,
    src: Address,
    size: Lanes,
    bar: Address,
    left: Lanes | None = None,
    right: Lanes | None = None,
    mask: Lanes | None = None,
    cache_policy: Lanes | None = None,
    *,
    bulk: BulkPort,
) -> None:
    """Copy global memory to shared memory; with .ignore_oob, the first ``left`` and last ``right`` bytes may be outside."""
    ignored = None if left is None or right is None else (left, right)
    space = "shared" if "shared::cta" in op.modifiers else "shared::cluster"
    bulk.copy((space, dst), ("global", src), size, bar, mask, ignored=ignored)


@_bulk(
    f"""
    cp.async.bulk{{.weak}}.shared::cluster.shared::cta.{_BYTES} [dst], [src], size, [bar];
    cp.async.bulk{{.relaxed.scope}}.shared::cluster.shared::cta.{_BYTES}.b128 [dst], [src], size, [bar];
    {_SCOPES}
    """,
    anchor=_BULK,
    limits={"size": _SIZES},
    spaces={"dst": {"shared"}, "bar": {"shared"}, "src": {"shared"}},
    bare=_BARE,
    gates=ORDERED,
    traits=Traits(asynchronous=Asynchronous(Family.BULK)),
)
def bulk_send(op: Op, dst: Address, src: Address, size: Lanes, bar: Address, *, bulk: BulkPort) -> None:
    """Copy shared memory to that of another CTA."""
    bulk.copy(("shared::cluster", dst), ("shared", src), size, bar)


@_bulk(
    f"""
    cp.async.bulk{{.weak}}.global.shared::cta.bulk_group{{.L2::cache_hint}} [dst], [src], size{{, cache_policy}};
    cp.async.bulk{{.weak}}.global.shared::cta.bulk_group{{.L2::cache_hint}}.cp_mask [dst], [src], size{{, cache_policy}}, bytes;
    cp.async.bulk{{.relaxed.scope}}.global.shared::cta.bulk_group{{.L2::cache_hint}}.b128 [dst], [src], size{{, cache_policy}};
    cp.async.bulk{{.relaxed.scope}}.global.shared::cta.bulk_group{{.L2::cache_hint}}.cp_mask.b128 [dst], [src], size{{, cache_policy}}, bytes;
    {_SCOPES}
    """,
    anchor=_BULK,
    limits={"size": _SIZES},
    spaces={"dst": {"global"}, "src": {"shared"}},
    gates={"cp_mask": (100, (8, 6)), **ORDERED},
    traits=Traits(asynchronous=Asynchronous(Family.BULK, grouped=True)),
)
def bulk_store(
    op: Op,
    dst: Address,
    src: Address,
    size: Lanes,
    cache_policy: Lanes | None = None,
    bytes: Lanes | None = None,
    *,
    bulk: BulkPort,
) -> None:
    """Copy shared memory to global memory; with .cp_mask, only the bytes of every 16 whose bit is set."""
    bulk.copy(("global", dst), ("shared", src), size, bytes=bytes)


_REDUCE = "data-movement-and-conversion-instructions-cp-reduce-async-bulk"
_BITWISE, _COUNTING = ("and", "or", "xor"), ("inc", "dec")


def illegal_in_global(op: Op) -> str | None:
    """Why a reduction of global memory does not take a type."""
    kind, name = op.type.kind, op.type.name
    if op.noftz:
        good = op.redOp == "add" and kind == "f" and name != "f64"
    elif op.redOp in _BITWISE:
        good = kind == "b"
    elif op.redOp in _COUNTING:
        good = name == "u32"
    else:
        good = kind in "us" and (op.redOp != "add" or name != "s64")
        good |= kind == "f" and (op.type.bits > 16 if op.redOp == "add" else op.type.bits == 16)
    return None if good else f".{op.redOp}{'.noftz' if op.noftz else ''} does not take .{name}"


def _illegal_in_shared(op: Op) -> str | None:
    allowed = {"add": ("u32", "s32", "u64"), "min": ("u32", "s32"), "max": ("u32", "s32")}
    types = ("b32",) if op.redOp in _BITWISE else ("u32",) if op.redOp in _COUNTING else allowed[op.redOp]
    return None if op.type.name in types else f".{op.redOp} does not take .{op.type.name} in shared memory"


@_bulk(
    f"""
    cp.reduce.async.bulk{{.relaxed.scope}}.global.shared::cta.bulk_group{{.L2::cache_hint}}.redOp{{.noftz}}.type [dst], [src], size{{, cache_policy}};
    .redOp = {{ .add, .min, .max, .inc, .dec, .and, .or, .xor }}; {_SCOPES}
    .type = {{ .b32, .b64, .u32, .u64, .s32, .s64, .f16, .bf16, .f32, .f64 }};
    """,
    anchor=_REDUCE,
    limits={"size": _SIZES},
    spaces={"dst": {"global"}, "src": {"shared"}},
    gates=ORDERED,
    gate=unflushed,
    legal=illegal_in_global,
    traits=Traits(asynchronous=Asynchronous(Family.BULK, grouped=True)),
)
def reduce_global(
    op: Op, dst: Address, src: Address, size: Lanes, cache_policy: Lanes | None = None, *, bulk: BulkPort
) -> None:
    """Reduce elements of shared memory into global memory."""
    bulk.copy(("global", dst), ("shared", src), size, reduction=Reduction(op.redOp), type=op.type)


@_bulk(
    f"""
    cp.reduce.async.bulk{{.relaxed.cluster}}.shared::cluster.shared::cta.{_BYTES}.redOp.type [dst], [src], size, [bar];
    .redOp = {{ .add, .min, .max, .inc, .dec, .and, .or, .xor }}; .type = {{ .b32, .u32, .s32, .u64 }};
    """,
    anchor=_REDUCE,
    limits={"size": _SIZES},
    spaces={"dst": {"shared"}, "bar": {"shared"}, "src": {"shared"}},
    bare=_BARE,
    gates=ORDERED,
    legal=_illegal_in_shared,
    traits=Traits(asynchronous=Asynchronous(Family.BULK)),
)
def reduce_shared(op: Op, dst: Address, src: Address, size: Lanes, bar: Address, *, bulk: BulkPort) -> None:
    """Reduce elements of shared memory into the shared memory of another CTA."""
    choose = Reduction(op.redOp)
    bulk.copy(("shared::cluster", dst), ("shared", src), size, bar, reduction=choose, type=op.type)


@_bulk(
    "cp.async.bulk.prefetch.L2.global{.L2::cache_hint} [src], size{, cache_policy};",
    anchor=_BULK + "-prefetch",
    limits={"size": range(0, 1 << 31, 16)},
    spaces={"src": {"global"}},
    traits=Traits(asynchronous=Asynchronous(Family.BULK, Stage.PREFETCH)),
)
def bulk_prefetch(op: Op, src: Address, size: Lanes, cache_policy: Lanes | None = None) -> None:
    """No effect: caches change no value."""


@_bulk(
    "cp.async.bulk.commit_group;",
    anchor=_BULK + "-commit-group",
    traits=Traits(asynchronous=Asynchronous(Family.BULK, Stage.COMMIT)),
)
def commit_bulk_group(op: Op, *, bulk: BulkPort) -> None:
    """Commit a group of copies."""
    bulk.commit()


@_bulk(
    "cp.async.bulk.wait_group{.read} n;",
    anchor=_BULK + "-wait-group",
    types={"n": ".u32"},
    constants={"n": None},
    traits=Traits(asynchronous=Asynchronous(Family.BULK, Stage.WAIT)),
)
def wait_bulk_group(op: Op, n: Lanes, *, bulk: BulkPort) -> None:
    """Wait for groups of copies; with .read, only until they have read their sources."""
    bulk.wait(constant_of(n), read_only=bool(op.read))


@_bulk(
    "prefetch{.space}.tensormap [address]; .space = { .param, .const };",
    anchor="data-movement-and-conversion-instructions-prefetch-prefetchu",
)
def prefetch_tensormap(op: Op, address: Address) -> None:
    """No effect: caches change no value."""


# ---- cp.async, not bulk ---------------------------------------------------------------------------

_OPTIONS = """
    .cop = { .ca, .cg };
    .state = { .shared, .shared::cta };
    .hint = { .L2::cache_hint };
    .prefetch = { .L2::64B, .L2::128B, .L2::256B };
"""
_GATES = {f"L2::{word}": (80, (7, 4)) for word in ("cache_hint", "64B", "128B", "256B")}
_ANCHOR = "data-movement-and-conversion-instructions-cp-async"


def _sizes(op: Op) -> set[int]:
    return {16} if op.cop == "cg" else {4, 8, 16}


_cp_async = functools.partial(
    instruction,
    anchor=_ANCHOR,
    constants={"size": _sizes},
    spaces={"dst": {"shared"}, "src": {"global"}},
    gates=_GATES,
    traits=Traits(asynchronous=Asynchronous(Family.CP_ASYNC)),
)


@_cp_async(
    f"""
    cp.async.cop.state.global{{.prefetch}}       [dst], [src], size, {{!}}ignore_src;
    cp.async.cop.state.global.hint{{.prefetch}}  [dst], [src], size, {{!}}ignore_src, cache_policy;
    {_OPTIONS}
    """,
    types={"size": ".u32", "ignore_src": ".pred", "cache_policy": ".u64"},
    registers=("ignore_src",),
    needs=(80, (7, 5)),
)
@_cp_async(
    f"""
    cp.async.cop.state.global{{.prefetch}}       [dst], [src], size{{, src_size}};
    cp.async.cop.state.global.hint{{.prefetch}}  [dst], [src], size, cache_policy;
    cp.async.cop.state.global.hint{{.prefetch}}  [dst], [src], size, src_size, cache_policy;
    {_OPTIONS}
    """,
    types={"size": ".u32", "src_size": ".u32", "cache_policy": ".u64"},
    limits={"src_size": (0, 16)},
    needs=(80, (7, 0)),
)
def cp_async(
    op: Op,
    dst: Address,
    src: Address,
    size: Lanes,
    src_size: Lanes | None = None,
    ignore_src: Lanes | None = None,
    cache_policy: Lanes | None = None,
    *,
    async_groups: AsyncGroupsPort,
) -> None:
    """Copy 4, 8 or 16 bytes to shared memory; bytes past src_size are zero, all of them where ignore_src is true."""
    n = constant_of(size)
    if ignore_src is not None:
        src_size = np.where(ignore_src, np.uint32(0), np.uint32(n))
    async_groups.copy(dst, src, n, src_size)


@instruction(
    "cp.async.commit_group;",
    anchor="data-movement-and-conversion-instructions-cp-async-commit-group",
    needs=(80, (7, 0)),
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
    needs=(80, (7, 0)),
    traits=Traits(asynchronous=Asynchronous(Family.CP_ASYNC, Stage.WAIT)),
)
def wait_group(op: Op, n: Lanes, *, async_groups: AsyncGroupsPort) -> None:
    """Wait for all but the n newest groups."""
    async_groups.wait(constant_of(n))


@instruction(
    "cp.async.wait_all;",
    anchor="data-movement-and-conversion-instructions-cp-async-wait-group",
    needs=(80, (7, 0)),
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
    needs=(80, (7, 0)),
    gates={"shared::cta": (80, (7, 8))},
    traits=Traits(asynchronous=Asynchronous(Family.CP_ASYNC, Stage.ARRIVE), order=Order(strong=True, release=True)),
)
def mbarrier_arrive(op: Op, address: Address, *, async_groups: AsyncGroupsPort, objects: ObjectsPort) -> None:
    """Arrive when the thread's copies complete; without noinc, the phase expects one more arrival."""
    space = op.space or ""
    if not op.noinc:
        objects.update(space, address, mbarriers.one_more, returns=False)
    objects.check_own(space, address)
    async_groups.arrive(*objects.places(space, address))


# ---- stores and reductions to other CTAs of a cluster ------------------------------------------------


@instruction(
    """
    st.async{.weak}{.space}.mbarrier::complete_tx::bytes{.vec}.type [address], b, [bar];
    st.async.cluster{.shared::cluster}.mbarrier::complete_tx::bytes{.vec}.type [address], b, [bar];
    .space = { .shared, .shared::cta, .shared::cluster };
    .vec = { .v2, .v4 }; .type = { .b32, .b64, .b128, .u32, .u64, .s32, .s64, .f32, .f64 };
    """,
    anchor="data-movement-and-conversion-instructions-st-async",
    spaces={"address": {"shared"}, "bar": {"shared"}},
    legal=lambda op: "at most 128 bits are stored" if vector_size(op) * op.type.bits > 128 else None,
    needs=(90, (8, 1)),
    gates={"b128": (90, (9, 2))},
    traits=Traits(access=Access.STORE, asynchronous=Asynchronous(Family.REMOTE)),
)
def st_async(op: Op, address: Address, b: Elements, bar: Address, *, bulk: BulkPort) -> None:
    """Store to shared memory of the cluster, and count the bytes at an mbarrier."""
    bulk.remote(address, bar, op.type, b if isinstance(b, tuple) else (b,))


def _illegal_remote(op: Op) -> str | None:
    types = {"add": ("u32", "s32", "u64", "s64"), "min": ("u32", "s32"), "max": ("u32", "s32")}
    allowed = types.get(op.op, ("u32",) if op.op in ("inc", "dec") else ("b32",))
    return illegal_type(op.op, op.type, allowed)


@instruction(
    """
    red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.op.type [address], b, [bar];
    .op = { .add, .min, .max, .inc, .dec, .and, .or, .xor };
    .type = { .b32, .u32, .s32, .u64, .s64 };
    """,
    anchor="parallel-synchronization-and-communication-instructions-red-async",
    spaces={"address": {"shared"}, "bar": {"shared"}},
    legal=_illegal_remote,
    needs=(90, (8, 1)),
    traits=Traits(access=Access.ATOMIC, asynchronous=Asynchronous(Family.REMOTE)),
)
def red_async(op: Op, address: Address, b: Lanes, bar: Address, *, bulk: BulkPort) -> None:
    """Reduce into shared memory of the cluster, and count the bytes at an mbarrier."""
    bulk.remote(address, bar, op.type, (b,), op.op)
