"""multimem: accesses to memory of which several GPUs hold copies (PTX ISA: multimem).

One GPU is simulated, so every address is that of a multicast object with one device: a reduction over its copies is the
value itself, and a broadcast goes to the single copy.
"""

from __future__ import annotations

import functools

from warpsim.isa import copies
from warpsim.isa.atomics import Reduction, atomic, illegal_type, unflushed
from warpsim.isa.ports import Address, BulkPort, Elements, Lanes, MemoryPort
from warpsim.isa.spec import LowBits, Op, instruction, vector_size
from warpsim.isa.traits import Access, Asynchronous, Family, Traits
from warpsim.types import ScalarType

_ANCHOR = "data-movement-and-conversion-instructions-multimem"
_SCOPE = ".scope = { .cta, .cluster, .gpu, .sys };"
_HALVES = ".htype = { .f16, .bf16, .f16x2, .bf16x2 }; .vec = { .v2, .v4, .v8 };"
_BYTES = (
    ".htype = { .e4m3, .e4m3x2, .e4m3x4, .e5m2, .e5m2x2, .e5m2x4 }; .vec = { .v2, .v4, .v8 };"
    " .op = { .add, .min, .max };"
)
_INTEGERS = ".type = { .b32, .b64, .u32, .u64, .s32, .s64 };"
_FP8 = (("100f", "110f", "120a", "121a"), (8, 6))
_OF_INTEGERS = {
    "add": ("u32", "s32", "u64"),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64")),
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64")),
}


def _checked_as(op: Op) -> str | None:
    """Values of bf16 are loaded into and stored from any registers of their size."""
    return {"bf16": ".b16", "bf16x2": ".b32"}.get(op.htype.name)


def _type(op: Op) -> ScalarType:
    found: ScalarType = op.type or op.htype or op.ftype
    return found


def _legal(op: Op) -> str | None:
    type, name = _type(op), op.get("op")
    if type.kind in "us" or type.name in ("b32", "b64"):
        allowed = _OF_INTEGERS.get(name, ()) if name else ("b32", "b64", "u32", "u64", "s32", "s64")
        return illegal_type(name, type, allowed)
    if type.bits * vector_size(op) > 128 or (type.bits == 64 and op.vec):
        return "a vector has at most 128 bits"
    if not op.vec and type.bits < 32:
        return f"a single .{type.name} is too small: .{type.name}x2, or a vector"
    if type.bits * vector_size(op) < 32:
        return "a vector has at least 32 bits"
    if "acc::f16" in op.modifiers and name != "add":
        return ".acc::f16 goes with .add"
    if "red" in op.modifiers and not op.vec and type.bits == 32 and type.kind == "b" and name != "add":
        return f".{name} of packed halves needs a vector"
    return None


_options = functools.partial(instruction, anchor=_ANCHOR, needs=(90, (8, 1)), legal=_legal)
_loading = functools.partial(_options, traits=lambda op: Traits(polls=bool(op.get("sem"))))
_LOADS = """
    multimem.ld_reduce{.weak}{.global}.op.WHAT         d, [a];
    multimem.ld_reduce.sem.scope{.global}.op.WHAT      d, [a];
    .sem = { .relaxed, .acquire };
"""


@_loading(f"{_LOADS.replace('.WHAT', '.type')} {_INTEGERS} .op = {{ .add, .min, .max, .and, .or, .xor }}; {_SCOPE}")
@_loading(
    f"{_LOADS.replace('.WHAT', '{.acc::f32}{.vec}.htype')} {_HALVES} .op = {{ .add }}; {_SCOPE}",
    checked_as={"d": _checked_as},
    gates={"acc::f32": (90, (8, 2))},
)
@_loading(
    f"{_LOADS.replace('.WHAT', '{.vec}.htype')} {_HALVES} .op = {{ .min, .max }}; {_SCOPE}",
    checked_as={"d": _checked_as},
)
@_loading(
    f"{_LOADS.replace('.WHAT', '{.vec}.ftype')} .ftype = {{ .f32, .f64 }}; .vec = {{ .v2, .v4 }}; .op = {{ .add }}; {_SCOPE}"
)
@_loading(
    f"{_LOADS.replace('.WHAT', '{.acc::f16}{.vec}.htype')} {_BYTES} {_SCOPE}",
    needs=_FP8,
)
def multimem_ld_reduce(op: Op, a: Address, *, memory: MemoryPort) -> Elements:
    """d = the reduction over all copies of the value at a."""
    count = vector_size(op)
    values = memory.load("global", a, _type(op), count)
    return values if count > 1 else values[0]


_STORES = """
    multimem.st{.weak}{.global}.WHAT     [a], b;
    multimem.st.sem.scope{.global}.WHAT  [a], b;
    .sem = { .relaxed, .release };
"""


@_options(f"{_STORES.replace('.WHAT', '.type')} {_INTEGERS} {_SCOPE}")
@_options(
    f"{_STORES.replace('.WHAT', '{.vec}.htype')} {_HALVES} {_SCOPE}",
    checked_as={"b": _checked_as},
    bits=("b",),
)
@_options(
    f"{_STORES.replace('.WHAT', '{.vec}.ftype')} .ftype = {{ .f32, .f64 }}; .vec = {{ .v2, .v4 }}; {_SCOPE}",
    bits=("b",),
)
@_options(f"{_STORES.replace('.WHAT', '{.vec}.htype')} {_BYTES} {_SCOPE}", bits=("b",), needs=_FP8)
def multimem_st(op: Op, a: Address, b: Elements, *, memory: MemoryPort) -> None:
    """All copies of the value at a = b."""
    memory.store("global", a, _type(op), b if isinstance(b, tuple) else (b,))


_REDUCTIONS = """
    multimem.red{.global}.op.WHAT            [a], b;
    multimem.red.sem.scope{.global}.op.WHAT  [a], b;
    .sem = { .relaxed, .release };
"""


@_options(
    f"{_REDUCTIONS.replace('.WHAT', '.type')} {_INTEGERS} .op = {{ .add, .min, .max, .and, .or, .xor }}; {_SCOPE}"
)
@_options(f"{_REDUCTIONS.replace('.WHAT', '{.vec}.htype')} {_HALVES} .op = {{ .add, .min, .max }}; {_SCOPE}")
@_options(
    f"{_REDUCTIONS.replace('.WHAT', '{.vec}.ftype')} .ftype = {{ .f32, .f64 }}; .vec = {{ .v2, .v4 }}; .op = {{ .add }}; {_SCOPE}"
)
def multimem_red(op: Op, a: Address, b: Elements, *, memory: MemoryPort) -> None:
    """All copies of the value at a = the value at a op b."""
    whole = Op(op.text, op.modifiers, {**op.given, "type": _type(op), "space": "global"})
    atomic(whole, a, b, memory, returns=False)


# ---- asynchronous ------------------------------------------------------------------------------------

_ASYNC = functools.partial(instruction, relaxed=True, needs=(100, (9, 3)))


@_ASYNC(
    """
    multimem.st.async.release.scope{.global}.type [a], b; .scope = { .gpu, .sys };
    .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 };
    """,
    anchor=_ANCHOR,
    traits=Traits(access=Access.STORE),
)
def multimem_st_async(op: Op, a: Address, b: Lanes, *, memory: MemoryPort) -> None:
    """All copies of the value at a = b, at a moment that nothing tells: at once here."""
    memory.store("global", a, op.type, (b,))


@_ASYNC(
    "multimem.red.async.release.scope{.global}.add.type [a], b; .scope = { .gpu, .sys }; .type = { .u32, .s32, .u64 };",
    anchor=_ANCHOR,
    traits=Traits(access=Access.ATOMIC),
)
def multimem_red_async(op: Op, a: Address, b: Lanes, *, memory: MemoryPort) -> None:
    """All copies of the value at a = the value at a + b, at such a moment."""
    multimem_red(Op(op.text, op.modifiers, {**op.given, "op": "add"}), a, b, memory=memory)


_bulk = functools.partial(
    instruction,
    types={"size": ".u32", "bytes": ".u16"},
    limits={"size": LowBits(range(0, 1 << 31, 16))},
    spaces={"dst": {"global"}, "src": {"shared"}},
    needs=(90, (9, 1)),
    traits=Traits(asynchronous=Asynchronous(Family.BULK, grouped=True)),
)


@_bulk(
    f"""
    multimem.cp.async.bulk{{.weak}}.global.shared::cta.bulk_group [dst], [src], size;
    multimem.cp.async.bulk{{.weak}}.global.shared::cta.bulk_group.cp_mask [dst], [src], size, bytes;
    multimem.cp.async.bulk{{.relaxed.scope}}.global.shared::cta.bulk_group.b128 [dst], [src], size;
    multimem.cp.async.bulk{{.relaxed.scope}}.global.shared::cta.bulk_group.cp_mask.b128 [dst], [src], size, bytes; {_SCOPE}
    """,
    anchor=_ANCHOR + "-cp-async-bulk",
    gates={"cp_mask": (100, (9, 1)), **copies.ORDERED},
)
def multimem_cp(op: Op, dst: Address, src: Address, size: Lanes, bytes: Lanes | None = None, *, bulk: BulkPort) -> None:
    """Copy shared memory to all copies of the memory at dst; with .cp_mask, only the bytes of every 16 whose bit is set."""
    bulk.copy(("global", dst), ("shared", src), size, bytes=bytes)


@_bulk(
    f"""
    multimem.cp.reduce.async.bulk{{.relaxed.scope}}.global.shared::cta.bulk_group.redOp{{.noftz}}.type [dst], [src], size; {_SCOPE}
    .redOp = {{ .add, .min, .max, .inc, .dec, .and, .or, .xor }};
    .type = {{ .b32, .b64, .u32, .u64, .s32, .s64, .f16, .bf16, .f32, .f64 }};
    """,
    anchor=_ANCHOR + "-cp-reduce-async-bulk",
    gates=copies.ORDERED,
    gate=unflushed,
    legal=copies.illegal_in_global,
)
def multimem_cp_reduce(op: Op, dst: Address, src: Address, size: Lanes, *, bulk: BulkPort) -> None:
    """Reduce elements of shared memory into all copies of the memory at dst."""
    bulk.copy(("global", dst), ("shared", src), size, reduction=Reduction(op.redOp), type=op.type)
