"""Data movement: mov, ld, st, cvta and their relatives (PTX ISA: Data Movement and Conversion Instructions)."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.isa.spec import Op, instruction
from warpsim.types import TYPES, ScalarType

Lanes = Any
SHARED_WINDOW = 0x7E00_0000_0000
LOCAL_WINDOW = 0x7D00_0000_0000
CONST_WINDOW = 0x7C00_0000_0000
WINDOW = 1 << 32
_SCALARS = "{ .b8, .b16, .b32, .b64, .b128, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f16, .bf16, .f32, .f64 }"
_SPACE = ".space = { .const, .global, .local, .param, .param::entry, .param::func, .shared, .shared::cta, .shared::cluster };"
_CACHE = """
    .cop = { .ca, .cg, .cs, .lu, .cv, .wb, .wt };
    .evict = { .L1::evict_normal, .L1::evict_unchanged, .L1::evict_first, .L1::evict_last, .L1::no_allocate };
    .evict2 = { .L2::evict_normal, .L2::evict_first, .L2::evict_last };
    .hint = { .L2::cache_hint };
    .prefetch = { .L2::64B, .L2::128B, .L2::256B };
    .sem = { .relaxed, .acquire, .release };
    .scope = { .cta, .cluster, .gpu, .sys };
    .vec = { .v2, .v4, .v8 };
"""


def vector_size(op: Op) -> int:
    """Elements of the .vec modifier."""
    return int(op.vec[1:]) if op.vec else 1


@instruction(
    "mov.type d, a; .type = { .pred, .b16, .b32, .b64, .b128, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64 };",
    anchor="data-movement-and-conversion-instructions-mov",
    linear=True,
)
def mov(op: Op, a: Lanes) -> Lanes:
    """d = a."""
    return a


@instruction(
    "mov.type d, a; .type = { .b16, .b32, .b64, .b128 };", anchor="data-movement-and-conversion-instructions-mov-2", vectors={"a": lambda op: 0}
)
def mov_pack(op: Op, a: tuple[Lanes, ...]) -> Lanes:
    """One wide register of several, the first lowest."""
    part = op.type.bits // len(a)
    if op.type.bits == 128:
        words = [x.view(f"u{part // 8}").astype(np.uint64) for x in a]
        half = len(words) // 2
        low = _combine(words[:half], part)
        high = _combine(words[half:], part)
        out = np.zeros(np.broadcast_shapes(low.shape, high.shape), op.type.dtype)
        out["lo"], out["hi"] = low, high
        return out
    wide = op.type.dtype
    return _combine([x.view(f"u{part // 8}").astype(wide) for x in a], part)


def _combine(words: list[Lanes], part: int) -> Lanes:
    total = words[0]
    for k, word in enumerate(words[1:], 1):
        total = total | (word << word.dtype.type(part * k))
    return total


@instruction(
    "mov.type d, a; .type = { .b16, .b32, .b64, .b128 };", anchor="data-movement-and-conversion-instructions-mov-2", vectors={"d": lambda op: 0}
)
def mov_unpack(op: Op, a: Lanes) -> tuple[Lanes, ...]:
    """Several registers of a wide one, the lowest first; the machine takes as many as the vector has."""
    if op.type.bits == 128:
        return (a["lo"].copy(), a["hi"].copy())
    return Unpacked(a)


class Unpacked(tuple):  # type: ignore[type-arg]
    """A register to be cut into the parts of a destination vector."""

    def __new__(cls, value: Lanes) -> Unpacked:
        made = super().__new__(cls, (value,))
        return made

    def parts(self, count: int) -> tuple[Lanes, ...]:
        """``count`` equal parts, the lowest first."""
        value = self[0]
        size = value.dtype.itemsize // count
        return tuple([(value >> value.dtype.type(8 * size * k)).astype(f"u{size}") for k in range(count)])


_LOAD_TYPES = {"d": "type"}


@instruction(
    f"""
    ld{{.weak}}{{.space}}{{.cop}}{{.evict}}{{.evict2}}{{.hint}}{{.prefetch}}{{.vec}}.type d, [a]{{, cache_policy}};
    ld.volatile{{.space}}{{.prefetch}}{{.vec}}.type d, [a];
    ld.sem.scope{{.space}}{{.evict}}{{.evict2}}{{.hint}}{{.prefetch}}{{.vec}}.type d, [a]{{, cache_policy}};
    ld.mmio.relaxed.sys{{.global}}.type d, [a];
    ld{{.global}}{{.cop}}.nc{{.evict}}{{.evict2}}{{.hint}}{{.prefetch}}{{.vec}}.type d, [a]{{, cache_policy}};
    ldu{{.space}}{{.vec}}.type d, [a];
    .type = {_SCALARS};
    {_SPACE}
    {_CACHE}
    """,
    anchor="data-movement-and-conversion-instructions-ld",
    types={**_LOAD_TYPES, "cache_policy": ".b64"},
    vectors={"d": lambda op: vector_size(op) if "vec" in op.__dict__ else 1},
    relaxed=True,
)
def ld(op: Op, a: Any, cache_policy: Any = None, *, memory: Any) -> Any:
    """Load from a state space; caches and hints change no value."""
    count = vector_size(op) if "vec" in op.__dict__ else 1
    space = op.__dict__.get("space") or ("global" if op.__dict__.get("global") else "")
    values = memory.load(space, a, op.type, count)
    return values if count > 1 else values[0]


@instruction(
    f"""
    st{{.weak}}{{.space}}{{.cop}}{{.evict}}{{.evict2}}{{.hint}}{{.vec}}.type [a], b{{, cache_policy}};
    st.volatile{{.space}}{{.vec}}.type [a], b;
    st.sem.scope{{.space}}{{.evict}}{{.evict2}}{{.hint}}{{.vec}}.type [a], b{{, cache_policy}};
    st.mmio.relaxed.sys{{.global}}.type [a], b;
    .type = {_SCALARS};
    {_SPACE}
    {_CACHE}
    """,
    anchor="data-movement-and-conversion-instructions-st",
    types={"b": "type", "cache_policy": ".b64"},
    vectors={"b": lambda op: vector_size(op) if "vec" in op.__dict__ else 1},
    relaxed=True,
)
def st(op: Op, a: Any, b: Any, cache_policy: Any = None, *, memory: Any) -> None:
    """Store to a state space."""
    space = op.__dict__.get("space") or ("global" if op.__dict__.get("global") else "")
    memory.store(space, a, op.type, b if isinstance(b, tuple) else (b,))


@instruction(
    "cvta.space.size p, a; .space = { .const, .global, .local, .shared, .shared::cta, .shared::cluster, .param, .param::entry }; .size = { .u32, .u64 };",
    anchor="data-movement-and-conversion-instructions-cvta",
    types={"p": lambda op: TYPES[op.size], "a": lambda op: TYPES[op.size]},
    linear=True,
)
def cvta(op: Op, a: Lanes) -> Lanes:
    """The generic address of an address in a state space."""
    if op.space.startswith("shared"):
        return a + SHARED_WINDOW
    return a + LOCAL_WINDOW if op.space == "local" else a


@instruction(
    "cvta.to.space.size p, a; .space = { .const, .global, .local, .shared, .shared::cta, .shared::cluster, .param, .param::entry }; .size = { .u32, .u64 };",
    anchor="data-movement-and-conversion-instructions-cvta",
    types={"p": lambda op: TYPES[op.size], "a": lambda op: TYPES[op.size]},
    linear=True,
)
def cvta_to(op: Op, a: Lanes) -> Lanes:
    """The address in a state space of a generic address."""
    if op.space.startswith("shared"):
        return a - SHARED_WINDOW
    return a - LOCAL_WINDOW if op.space == "local" else a


@instruction(
    "isspacep.space p, a; .space = { .const, .global, .local, .shared, .shared::cta, .shared::cluster, .param, .param::entry };",
    anchor="data-movement-and-conversion-instructions-isspacep",
    types={"p": ".pred", "a": ".u64"},
)
def isspacep(op: Op, a: Lanes) -> Lanes:
    """Whether a generic address lies in a state space."""
    shared = (a >= SHARED_WINDOW) & (a < SHARED_WINDOW + WINDOW)
    local = (a >= LOCAL_WINDOW) & (a < LOCAL_WINDOW + WINDOW)
    if op.space.startswith("shared"):
        return shared
    if op.space == "local":
        return local
    const = (a >= CONST_WINDOW) & (a < LOCAL_WINDOW)
    if op.space == "const":
        return const
    return ~(shared | local | const) if op.space == "global" else np.zeros(a.shape, np.bool_)


@instruction(
    """
    prefetch{.space}.level [a];  prefetchu.L1 [a];
    prefetch.global.level2 [a];
    .space = { .global, .local };  .level = { .L1, .L2 };  .level2 = { .L2::evict_last, .L2::evict_normal };
    """,
    anchor="data-movement-and-conversion-instructions-prefetch-prefetchu",
)
def prefetch(op: Op, a: Any) -> None:
    """Caches change no value."""


@instruction(
    "discard{.global}.L2 [a], size; applypriority{.global}.L2::evict_normal [a], size;",
    anchor="data-movement-and-conversion-instructions-discard",
    types={"size": ".u32"},
    version=(7, 4),
    target=80,
)
def discard(op: Op, a: Any, size: Any) -> None:
    """Caches change no value."""


def _any64(op: Op) -> ScalarType:
    return TYPES["b64"]


@instruction(
    """
    createpolicy.fractional.primary{.secondary}.b64 d{, fraction};
    .primary = { .L2::evict_last, .L2::evict_normal, .L2::evict_first, .L2::evict_unchanged };
    .secondary = { .L2::evict_first, .L2::evict_unchanged };
    """,
    anchor="data-movement-and-conversion-instructions-createpolicy",
    types={"d": _any64, "fraction": ".f32"},
    version=(7, 4),
    target=80,
)
def createpolicy(op: Op, fraction: Any = None) -> Lanes:
    """An opaque cache policy."""
    return np.zeros(1, np.uint64)
