"""Loads, stores and cache hints (PTX ISA: Data Movement and Conversion Instructions: ld, ldu, st, prefetch ...)."""

from __future__ import annotations

import functools

import numpy as np

from warpsim.isa.ports import Address, Elements, Lanes, MemoryPort, Registers, ReportPort, constant_of, first_of
from warpsim.isa.spec import Op, instruction, oversized, vector_size
from warpsim.isa.traits import Access, Traits
from warpsim.numerics import convert
from warpsim.types import TYPES

_access = functools.partial(instruction, chapter="data-movement-and-conversion-instructions")


NARROW = """
    .type = { .b8, .b16, .b32, .b64, .b128, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 };
    .vec = { .v2, .v4, .v8 };
"""
WIDE = """
    .type = { .b32, .b64, .u32, .u64, .s32, .s64, .f32, .f64 };
    .vec = { .v4, .v8 };
"""
_COMMON = """
    .evict = { .L1::evict_normal, .L1::evict_unchanged, .L1::evict_first, .L1::evict_last, .L1::no_allocate };
    .evict2 = { .L2::evict_normal, .L2::evict_first, .L2::evict_last };
    .hint = { .L2::cache_hint };
    .prefetch = { .L2::64B, .L2::128B, .L2::256B };
    .scope = { .cta, .cluster, .gpu, .sys };
"""
LOADS = f"""
    ld{{.weak}}{{.space}}{{.cop}}{{.evict}}{{.evict2}}{{.prefetch}}{{.vec}}.type        d, [a];
    ld{{.weak}}{{.space}}{{.cop}}{{.evict}}{{.evict2}}.hint{{.prefetch}}{{.vec}}.type   d, [a], cache_policy;
    ld.volatile{{.space}}{{.evict2}}{{.prefetch}}{{.vec}}.type                          d, [a];
    ld.sem.scope{{.space}}{{.evict}}{{.evict2}}{{.prefetch}}{{.vec}}.type               d, [a];
    ld.sem.scope{{.space}}{{.evict}}{{.evict2}}.hint{{.prefetch}}{{.vec}}.type          d, [a], cache_policy;
    ld.nc.global{{.nc_cop}}{{.evict}}{{.evict2}}{{.prefetch}}{{.vec}}.type              d, [a];
    ld.nc.global{{.nc_cop}}{{.evict}}{{.evict2}}.hint{{.prefetch}}{{.vec}}.type         d, [a], cache_policy;
    .space = {{ .const, .global, .local, .param, .param::entry, .param::func,
               .shared, .shared::cta, .shared::cluster }};
    .sem = {{ .relaxed, .acquire }};
    .cop = {{ .ca, .cg, .cs, .lu, .cv }};
    .nc_cop = {{ .ca, .cg, .cs }};
    {_COMMON}
"""
STORES = f"""
    st{{.weak}}{{.space}}{{.cop}}{{.evict}}{{.evict2}}{{.vec}}.type          [a], b;
    st{{.weak}}{{.space}}{{.cop}}{{.evict}}{{.evict2}}.hint{{.vec}}.type     [a], b, cache_policy;
    st.volatile{{.space}}{{.evict2}}{{.vec}}.type                            [a], b;
    st.sem.scope{{.space}}{{.evict}}{{.evict2}}{{.vec}}.type                 [a], b;
    st.sem.scope{{.space}}{{.evict}}{{.evict2}}.hint{{.vec}}.type            [a], b, cache_policy;
    .space = {{ .global, .local, .param, .param::func, .shared, .shared::cta, .shared::cluster }};
    .sem = {{ .relaxed, .release }};
    .cop = {{ .wb, .cg, .cs, .wt }};
    {_COMMON}
"""
GATES = {
    "weak": (70, (6, 0)),
    "relaxed": (70, (6, 0)),
    "acquire": (70, (6, 0)),
    "release": (70, (6, 0)),
    "cluster": (90, (7, 8)),
    "shared::cta": (0, (7, 8)),
    "shared::cluster": (90, (7, 8)),
    "param::entry": (0, (8, 3)),
    "param::func": (0, (8, 3)),
    "nc": (32, (3, 1)),
    "b128": (70, (8, 3)),
    "L2::cache_hint": (80, (7, 4)),
    "L2::64B": (75, (7, 4)),
    "L2::128B": (75, (7, 4)),
    "L2::256B": (80, (7, 4)),
    **{
        f"L1::{word}": (70, (7, 4))
        for word in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
    },
}
"""Minimum target and PTX version of modifiers."""


def space_of(op: Op) -> str:
    """The state space of an instruction, or "" for generic."""
    return op.get("space") or ("global" if op.get("global") else "")


def _illegal(op: Op) -> str | None:
    """Why the assembler rejects this combination of modifiers, for accesses of up to 128 bits."""
    if op.get("evict2") is not None:
        return f".{op.evict2} needs an access of 256 bits: .v8 of 32-bit or .v4 of 64-bit elements"
    if op.type.bits * vector_size(op) > 128:
        return "a vector of more than 128 bits is not supported for this type, state space or target"
    return _conflict(op)


def _illegal_wide(op: Op) -> str | None:
    """The same for 256-bit accesses."""
    if op.type.bits * vector_size(op) != 256:
        return "a wide access has 256 bits: .v8 of 32-bit or .v4 of 64-bit elements"
    if space_of(op) not in ("", "global"):
        return "an access of 256 bits must be to .global"
    return _conflict(op)


def _conflict(op: Op) -> str | None:
    space = space_of(op)
    evict = op.get("evict")
    cop = op.get("cop") or op.get("nc_cop")
    if evict and cop:
        return f".{evict} does not go with .{cop}"
    if space not in ("", "global"):
        for hint in (evict, op.get("hint"), op.get("prefetch")):
            if hint:
                return f".{hint} does not apply to .{space}"
    ordered = "volatile" if op.get("volatile") else op.get("sem")
    if ordered and space.split("::")[0] not in ("", "global", "shared", *(("local",) if ordered == "volatile" else ())):
        return f".{ordered} does not apply to .{space}"
    return None


def _ldu_illegal(op: Op) -> str | None:
    if op.vec == "v8":
        return "a vector has at most 4 elements"
    return oversized(op, op.type)


def _loads(op: Op) -> Traits:
    strong = not {"volatile", "relaxed", "acquire", "mmio"}.isdisjoint(op.modifiers)
    return Traits(access=Access.LOAD, polls=strong)


_options = functools.partial(
    _access,
    relaxed=True,
    types={"cache_policy": ".u64"},
    gates=GATES,
    gate=lambda op: (None, (9, 1)) if op.get("volatile") and space_of(op) == "local" else None,
)


_READONLY = functools.partial(_access, relaxed=True, gates=GATES, traits=_loads)


@_READONLY("ld.proxy::readonly{.global}.vec.type d, [a];" + WIDE, needs=(100, (9, 4)), legal=_illegal_wide)
@_READONLY("ld.proxy::readonly{.global}{.vec}.type d, [a];" + NARROW, needs=(90, (9, 4)), legal=_illegal)
@_access("ld.mmio.relaxed.sys{.global}.type d, [a];" + NARROW, needs=(70, (8, 2)), relaxed=True, traits=_loads)
@_access(
    "ldu{.global}{.vec}.type d, [a];" + NARROW,
    needs=(20, (2, 0)),
    relaxed=True,
    gates={"b128": (70, (8, 3))},
    legal=_ldu_illegal,
    traits=Traits(access=Access.LOAD, constant=True),
)
@_options(LOADS.replace("{.vec}", ".vec") + WIDE, needs=(100, (8, 8)), legal=_illegal_wide, traits=_loads)
@_options(LOADS + NARROW, legal=_illegal, traits=_loads)
def ld(op: Op, a: Address, cache_policy: Lanes | None = None, *, memory: MemoryPort) -> Elements:
    """d = the value at a; caches, hints and memory order change no value. With .mmio, accesses are never merged with others; with
    .proxy::readonly, nothing writes there while the kernel runs; the address of ldu is the same in all threads of the warp."""
    count = vector_size(op)
    values = memory.load(space_of(op), a, op.type, count)
    return values if count > 1 else values[0]


_STORES = Traits(access=Access.STORE)


@_options(
    STORES.replace("{.vec}", ".vec") + WIDE, needs=(100, (8, 8)), legal=_illegal_wide, sinks=("b",), traits=_STORES
)
def st_wide(
    op: Op,
    a: Address,
    b: Registers,
    cache_policy: Lanes | None = None,
    *,
    memory: MemoryPort,
    active: Lanes,
    report: ReportPort,
) -> None:
    """The value at a = b, but for elements that are ``_``: nothing is stored there."""
    if not op.get("missing"):
        memory.store(space_of(op), a, op.type, b)
        return
    past = memory.residue(a, 32)
    wrong = (past != 0) & active
    if wrong.any():
        report(
            "misaligned", f"the address is {first_of(past, wrong)} bytes past a multiple of the 32 bytes stored", wrong
        )
    for n, value in enumerate(b):
        if n not in op.missing:
            memory.store(space_of(op), memory.advance(a, n * op.type.bytes), op.type, (value,))


@_access("st.mmio.relaxed.sys{.global}.type [a], b;" + NARROW, needs=(70, (8, 2)), relaxed=True, traits=_STORES)
@_access(
    """
    st.async{.mmio}.release.scope{.global}.type [a], b;
    .scope = { .gpu, .sys };
    .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 };
    """,
    anchor="st-async",
    needs=(100, (8, 7)),
    traits=_STORES,
)
@_options(STORES + NARROW, legal=_illegal, traits=_STORES)
def st(op: Op, a: Address, b: Elements, cache_policy: Lanes | None = None, *, memory: MemoryPort) -> None:
    """The value at a = b. With .mmio, it is never merged with other accesses; with .async, it is stored at a moment that nothing
    tells: at once here."""
    memory.store(space_of(op), a, op.type, b if isinstance(b, tuple) else (b,))


# ---- hints: what follows changes no value -------------------------------------------------------


@_access(
    """
    prefetch{.space}.level      [a];
    prefetch{.global}.priority  [a];
    prefetch{.global}.L1::32B.valid_addr  [a];
    .space = { .global, .local };  .level = { .L1, .L2 };  .priority = { .L2::evict_last, .L2::evict_normal };
    """,
    anchor="prefetch-prefetchu",
    needs=(20, (2, 0)),
    gates={"L2::evict_last": (80, (7, 4)), "L2::evict_normal": (80, (7, 4)), "valid_addr": (90, (9, 4))},
)
@_access("prefetchu.L1 [a];", anchor="prefetch-prefetchu", spaces={"a": {"global"}}, needs=(20, (2, 0)))
def prefetch(op: Op, a: Address) -> None:
    """Prefetch a line into a cache."""


@_access(
    "applypriority{.global}.L2::evict_normal [a], size;",
    types={"size": ".u32"},
    constants={"size": {128}},
    needs=(80, (7, 4)),
)
def applypriority(op: Op, a: Address, size: Lanes, *, memory: MemoryPort, active: Lanes, report: ReportPort) -> None:
    """Change the eviction priority of a line."""
    _line(memory, a, size, active, report)


def elsewhere(memory: MemoryPort, a: Address, active: Lanes, report: ReportPort) -> None:
    """Report addresses that are not in global memory."""
    wrong = memory.outside("global", a) & active
    if wrong.any():
        report("out-of-bounds", "the address is not in global memory", wrong)


def _line(memory: MemoryPort, a: Address, size: Lanes, active: Lanes, report: ReportPort) -> None:
    """Report addresses at which no line of global memory begins."""
    nbytes = constant_of(size)
    elsewhere(memory, a, active, report)
    past = memory.residue(a, nbytes)
    wrong = (past != 0) & active
    if wrong.any():
        report(
            "misaligned", f"the line starts {first_of(past, wrong)} bytes past a multiple of its {nbytes} bytes", wrong
        )


@_access("discard{.global}.L2 [a], size;", types={"size": ".u32"}, constants={"size": {128}}, needs=(80, (7, 4)))
def discard(op: Op, a: Address, size: Lanes, *, memory: MemoryPort, active: Lanes, report: ReportPort) -> None:
    """Drop a line without writing it back: its content is undefined afterwards, and unchanged here."""
    _line(memory, a, size, active, report)


_PRIORITIES = ("L2::evict_unchanged", "L2::evict_first", "L2::evict_last", "L2::evict_normal")


@_access(
    """
    createpolicy.fractional.primary{.secondary}.b64  d{, fraction};
    .primary = { .L2::evict_last, .L2::evict_normal, .L2::evict_first, .L2::evict_unchanged };
    .secondary = { .L2::evict_first, .L2::evict_unchanged };
    """,
    types={"d": ".u64", "fraction": ".f32"},
    needs=(80, (7, 4)),
)
def createpolicy(op: Op, fraction: Lanes | None = None) -> Lanes:
    """A cache policy, opaque in the text, with the bits of an H200: the priorities, and the fraction in four bits."""
    kinds = _PRIORITIES.index(op.primary) << 1 | (op.secondary == "L2::evict_first")
    bits = np.full(1, (0x10 | kinds) << 56, np.uint64)
    if fraction is None:
        return bits | np.uint64(15 << 52)
    sixteenths = convert.to_integer(fraction * np.float32(15.99), np.dtype(np.uint32), "rzi")
    return bits | (sixteenths.astype(np.uint64) & np.uint64(15)) << np.uint64(52)


@_access(
    """
    createpolicy.range{.global}.primary{.secondary}.b64  d, [a], primary_size, total_size;
    .primary = { .L2::evict_last, .L2::evict_normal, .L2::evict_first, .L2::evict_unchanged };
    .secondary = { .L2::evict_first, .L2::evict_unchanged };
    """,
    types={"d": ".u64", "primary_size": ".u32", "total_size": ".u32"},
    needs=(80, (7, 4)),
)
def createpolicy_range(
    op: Op, a: Address, primary_size: Lanes, total_size: Lanes, *, memory: MemoryPort, active: Lanes, report: ReportPort
) -> Lanes:
    """An opaque cache policy for a range of addresses."""
    elsewhere(memory, a, active, report)
    primary, total = primary_size.view(np.uint32), total_size.view(np.uint32)
    wrong = (primary > total) & active
    if wrong.any():
        sizes = [first_of(size, wrong) for size in (primary, total)]
        report("out-of-bounds", f"primary-size is {sizes[0]} in a range of total-size {sizes[1]}", wrong)
    return np.zeros(1, TYPES["b64"].dtype)


@_access(
    "createpolicy.cvt.L2.b64 d, access_property;", types={"d": ".u64", "access_property": ".u64"}, needs=(80, (7, 4))
)
def createpolicy_cvt(op: Op, access_property: Lanes) -> Lanes:
    """An opaque cache policy from a CUDA access property."""
    return access_property


# ---- zeros ---------------------------------------------------------------------------------------------------


_zeros = functools.partial(
    instruction,
    "st.bulk{.weak}{.space} [a], size, initval;  .space = { .shared::cta };",
    anchor="data-movement-and-conversion-instructions-st-bulk",
    constants={"initval": {0}},
    limits={"size": range(0, (1 << 24) + 1, 8)},
    spaces={"a": {"shared"}},
    traits=Traits(access=Access.STORE),
)
MOST_SHARED = 1 << 18
"""More bytes than a CTA has of shared memory."""


@_zeros(types={"size": ".u64", "initval": ".u64"}, needs=(100, (8, 6)))
@_zeros(types={"size": ".u32", "initval": ".u32"}, needs=(100, (9, 0)))
def st_bulk(
    op: Op, a: Address, size: Lanes, initval: Lanes, *, memory: MemoryPort, active: Lanes, report: ReportPort
) -> None:
    """Set bytes of shared memory to zero."""
    odd = (size % 8 != 0) & active
    if odd.any():
        report("misaligned", f"st.bulk of {first_of(size, odd)} bytes; the size must be a multiple of 8", odd)
    elsewhere = memory.outside("shared", a, generic=not op.space) & active
    if elsewhere.any():
        report(
            "out-of-bounds",
            "st.bulk sets memory that is not shared",
            elsewhere,
            advice="pass an address in shared memory",
        )
        return
    for at in range(0, min(int(size.max()), MOST_SHARED), 8):
        some = memory.among((size > at) & active)
        some.store(op.space or "", memory.advance(a, at), TYPES["u64"], (np.zeros(1, np.uint64),))
