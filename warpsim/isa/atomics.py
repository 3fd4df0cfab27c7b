"""atom and red (PTX ISA: Parallel Synchronization and Communication Instructions), and their updates of memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection

import numpy as np

from warpsim.isa.ports import Address, Atomic, Elements, Lanes, MemoryPort
from warpsim.isa.spec import Gate, Op, instruction, oversized
from warpsim.isa.traits import Access, Traits
from warpsim.numerics import floating
from warpsim.numerics.arrays import halves, join
from warpsim.numerics.convert import to_half
from warpsim.records import frozen
from warpsim.types import TYPES, ScalarType

Update = Callable[..., Lanes]
_ATOMIC = Traits(access=Access.ATOMIC, polls=True)
_COUNTER = Traits(access=Access.ATOMIC, polls=True, counts=True)
_COUNTING = frozenset({"add", "inc", "dec"})
_REDUCTION = Traits(access=Access.ATOMIC)
_ATOM = "parallel-synchronization-and-communication-instructions-atom"
_RED = "parallel-synchronization-and-communication-instructions-red"
_COMMON = """
    .scope = { .cta, .cluster, .gpu, .sys };
    .space = { .global, .shared, .shared::cta, .shared::cluster };
    .hint = { .L2::cache_hint };
"""
_ATOM_SEM = _COMMON + ".sem = { .relaxed, .acquire, .release, .acq_rel };"
_RED_SEM = _COMMON + ".sem = { .relaxed, .release };"
_GATES = {
    **dict.fromkeys(("relaxed", "acquire", "release", "acq_rel"), (70, (6, 0))),
    **dict.fromkeys(("cta", "gpu", "sys", "f64"), (60, (5, 0))),
    "cluster": (90, (7, 8)),
    "shared::cta": (0, (7, 8)),
    "shared::cluster": (90, (7, 8)),
    "L2::cache_hint": (80, (7, 4)),
    "b16": (70, (6, 3)),
    "b128": (90, (8, 3)),
    "f16x2": (60, (6, 2)),
    "f16": (70, (6, 3)),
    "bf16": (90, (7, 8)),
    "bf16x2": (90, (7, 8)),
}


def atomic(
    op: Op, a: Address, b: Elements, memory: MemoryPort, *, returns: bool
) -> Elements | tuple[Lanes | None, ...] | None:
    """Do one read-modify-write per element of a scalar or vector operand."""
    space = op.get("space") or ("global" if op.get("global") else "")
    type, halves = op.type, op.type.name.removesuffix("x2") in ("f16", "bf16")
    update, kind = (half_update(op), "") if halves else (update_of(op), op.op)
    if not isinstance(b, tuple):
        return memory.atomic(space, a, type, Atomic(update, (b,), kind, shared_update(op)), returns=returns)
    memory = memory.multiples(a, len(b) * type.bytes)
    places = [memory.advance(a, k * type.bytes) for k in range(len(b))]
    return tuple(
        [
            memory.atomic(space, at, type, Atomic(update, (x,), kind), returns=returns)
            for at, x in zip(places, b, strict=True)
        ]
    )


_SCALAR = """
    .op = { .and, .or, .xor, .add, .inc, .dec, .min, .max };
    .type = { .b32, .b64, .u32, .u64, .s32, .s64, .f32, .f64 };
"""
_UNFLUSHED = ".type = { .f16, .bf16, .f16x2, .bf16x2, .f32 };  .op = { .add };"
_F32 = ".type = { .f32 };  .vec = { .v2, .v4 };  .op = { .add };"
_HALVES = ".type = { .f16, .bf16, .f16x2, .bf16x2 };  .vec = { .v2, .v4, .v8 };  .op = { .add, .min, .max };"


def _hint_illegal(op: Op) -> str | None:
    shared = (op.get("space") or "").startswith("shared")
    return ".L2::cache_hint does not apply to .shared" if shared and op.get("hint") else None


def _illegal(op: Op) -> str | None:
    if _hint_illegal(op):
        return _hint_illegal(op)
    kind, name = op.type.kind, op.type.name
    if op.op in ("and", "or", "xor"):
        return None if kind == "b" else f".{op.op} takes .b32 or .b64, not .{name}"
    if op.op in ("inc", "dec"):
        return None if name == "u32" else f".{op.op} takes .u32, not .{name}"
    if op.op in ("min", "max"):
        return None if kind in "us" else f".{op.op} takes .u32, .s32, .u64, .s64 (and vectors of halves), not .{name}"
    return (
        None if kind in "usf" and name != "s64" else f".add takes .u32, .s32, .u64, .f32, .f64 and halves, not .{name}"
    )


def illegal_type(operation: str, type: ScalarType, allowed: Collection[str]) -> str | None:
    """Why a reduction that takes only some types does not take this one."""
    return None if type.name in allowed else f".{operation} takes {', '.join(f'.{name}' for name in allowed)}"


def unflushed(op: Op) -> Gate | None:
    """What f32 additions that keep subnormals require."""
    return (90, (9, 4)) if op.get("noftz") and op.type.name == "f32" else None


_options = functools.partial(instruction, types={"cache_policy": ".u64"}, gates=_GATES, gate=unflushed)
_atom = functools.partial(_options, anchor=_ATOM, sinks=("d",), traits=_ATOMIC)
_red = functools.partial(_options, anchor=_RED, traits=_REDUCTION)
_atom_vector, _red_vector = (
    functools.partial(declare, needs=(90, (8, 1)), legal=lambda op: oversized(op, op.type)) for declare in (_atom, _red)
)


@_atom_vector(
    f"""
    atom{{.sem}}{{.scope}}{{.global}}.op.noftz.vec.type       d, [a], b;
    atom{{.sem}}{{.scope}}{{.global}}.op.noftz.hint.vec.type  d, [a], b, cache_policy;
    {_HALVES}{_ATOM_SEM}
    """,
)
@_atom_vector(
    f"""
    atom{{.sem}}{{.scope}}{{.global}}.op{{.noftz}}.vec.type       d, [a], b;
    atom{{.sem}}{{.scope}}{{.global}}.op{{.noftz}}.hint.vec.type  d, [a], b, cache_policy;
    {_F32}{_ATOM_SEM}
    """,
)
@_atom(
    f"""
    atom{{.sem}}{{.scope}}{{.space}}.op.noftz.type       d, [a], b;
    atom{{.sem}}{{.scope}}{{.space}}.op.noftz.hint.type  d, [a], b, cache_policy;
    {_UNFLUSHED}{_ATOM_SEM}
    """,
    legal=_hint_illegal,
)
@_atom(
    f"""
    atom{{.sem}}{{.scope}}{{.space}}.op.type       d, [a], b;
    atom{{.sem}}{{.scope}}{{.space}}.op.hint.type  d, [a], b, cache_policy;
    {_SCALAR}{_ATOM_SEM}
    """,
    legal=_illegal,
    traits=lambda op: _COUNTER if op.op in _COUNTING else _ATOMIC,
)
def atom(
    op: Op, a: Address, b: Elements, cache_policy: Lanes | None = None, *, memory: MemoryPort
) -> Elements | tuple[Lanes | None, ...] | None:
    """d = the value at a; the value at a = d op b. Of vectors, each element atomically; of packed halves, each half."""
    return atomic(op, a, b, memory, returns=True)


@_red_vector(
    f"""
    red{{.sem}}{{.scope}}{{.global}}.op.noftz.vec.type       [a], b;
    red{{.sem}}{{.scope}}{{.global}}.op.noftz.hint.vec.type  [a], b, cache_policy;
    {_HALVES}{_RED_SEM}
    """,
)
@_red_vector(
    f"""
    red{{.sem}}{{.scope}}{{.global}}.op{{.noftz}}.vec.type       [a], b;
    red{{.sem}}{{.scope}}{{.global}}.op{{.noftz}}.hint.vec.type  [a], b, cache_policy;
    {_F32}{_RED_SEM}
    """,
)
@_red(
    f"""
    red{{.sem}}{{.scope}}{{.space}}.op.noftz.type       [a], b;
    red{{.sem}}{{.scope}}{{.space}}.op.noftz.hint.type  [a], b, cache_policy;
    {_UNFLUSHED}{_RED_SEM}
    """,
    legal=_hint_illegal,
)
@_red(
    f"""
    red{{.sem}}{{.scope}}{{.space}}.op.type       [a], b;
    red{{.sem}}{{.scope}}{{.space}}.op.hint.type  [a], b, cache_policy;
    {_SCALAR}{_RED_SEM}
    """,
    legal=_illegal,
)
def red(op: Op, a: Address, b: Elements, cache_policy: Lanes | None = None, *, memory: MemoryPort) -> None:
    """The value at a = the value at a op b."""
    atomic(op, a, b, memory, returns=False)


def _asynchronous_illegal(op: Op) -> str | None:
    if op.op in ("min", "max") and op.type.bits == 64:
        return f".{op.op} takes .u32, .s32, not .{op.type.name}"
    if op.op in ("and", "or", "xor") and op.type.bits == 64:
        return f".{op.op} takes .b32, not .{op.type.name}"
    return None if op.type.name == "s64" and op.op == "add" else _illegal(op)


@_red(
    """
    red.async{.mmio}.release.scope{.global}.op.type [a], b;
    .scope = { .gpu, .sys };
    .op = { .add, .min, .max, .inc, .dec, .and, .or, .xor };  // the text has add alone; the assembler takes all
    .type = { .b32, .u32, .s32, .u64, .s64 };
    """,
    needs=(100, (8, 7)),
    legal=_asynchronous_illegal,
)
def red_async_release(op: Op, a: Address, b: Elements, *, memory: MemoryPort) -> None:
    """The value at a = the value at a op b, at a moment that nothing tells: at once here."""
    atomic(op, a, b, memory, returns=False)


@_atom(
    f"""
    atom{{.sem}}{{.scope}}{{.space}}.exch.type       d, [a], b;
    atom{{.sem}}{{.scope}}{{.space}}.exch.hint.type  d, [a], b, cache_policy;
    .type = {{ .b32, .b64, .b128 }};
    {_ATOM_SEM}
    """,
    legal=_hint_illegal,
)
def atom_exch(
    op: Op, a: Address, b: Lanes, cache_policy: Lanes | None = None, *, memory: MemoryPort
) -> Elements | None:
    """d = the value at a; the value at a = b."""
    return memory.atomic(op.space or "", a, op.type, Atomic(UPDATES["exch"], (b,), "exch"), returns=True)


@_atom(f"atom{{.sem}}{{.scope}}{{.space}}.cas.type d, [a], b, c;  .type = {{ .b16, .b32, .b64, .b128 }}; {_ATOM_SEM}")
def atom_cas(
    op: Op, a: Address, b: Lanes, c: Lanes, *, memory: MemoryPort
) -> Elements | tuple[Lanes | None, ...] | None:
    """d = the value at a; where that is b, the value at a = c."""
    return memory.atomic(op.space or "", a, op.type, Atomic(cas, (b, c), "cas"), returns=True)


# ---- updates: the new value of an element, from the old value and the operands ------------------------


def _add_unquieted(old: Lanes, b: Lanes) -> Lanes:
    """f64 add in global memory, as on an H100: a NaN is kept unchanged, the operand's before the old value's."""
    total = floating.add(old, b).view(np.uint64)
    for value in (old, b):
        total = np.where(np.isnan(value), value.view(np.uint64), total)
    return total.view(np.float64)


def _add(old: Lanes, b: Lanes) -> Lanes:
    if old.dtype.kind in "iu":
        return old + b
    return floating.add(old, b) if old.dtype.itemsize < 8 else _add_unquieted(old, b)


def add_flushed(old: Lanes, b: Lanes) -> Lanes:
    """f32 add in global memory: subnormal operands and results are flushed to zeros of the same sign."""
    return floating.flush(floating.add(floating.flush(old), floating.flush(b)))


UPDATES: dict[str, Update] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": _add,
    "inc": lambda old, b: np.where(old >= b, np.uint32(0), old + np.uint32(1)),
    "dec": lambda old, b: np.where((old == 0) | (old > b), b, old - np.uint32(1)),
    "min": np.minimum,
    "max": np.maximum,
    "exch": lambda old, b: b,
}


JOINED: dict[str, Update] = {
    "add": lambda old, one, other: one + (other - old),
    "xor": lambda old, one, other: one ^ old ^ other,
    "and": lambda old, one, other: one & other,
    "or": lambda old, one, other: one | other,
    "min": lambda old, one, other: np.minimum(one, other),
    "max": lambda old, one, other: np.maximum(one, other),
}
"""How to combine the results of some threads with those of others, each reduced from the old value, for integer
reductions."""


def cas(old: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """c where the old value is b."""
    return np.where(old == b, c, old)


def update_of(op: Op) -> Update:
    """The update of an integer, f32 or f64 operation."""
    flushed = op.op == "add" and op.type.name == "f32" and "noftz" not in op.modifiers
    return add_flushed if flushed else UPDATES[op.op]


@frozen
class Reduction:
    """A reduction through the async proxy, on elements of ``types`` (None: of any type)."""

    operation: str
    types: frozenset[str] | None = None

    def __call__(self, type: ScalarType, *, flush: bool) -> Update | None:
        """The update on arrays of ``type.dtype``; f32 subnormals are kept unless ``flush``."""
        if self.types is not None and type.name not in self.types:
            return None
        if type.name not in ("f16", "bf16"):
            return add_flushed if flush and self.operation == "add" else UPDATES[self.operation]
        return functools.partial(_combine_halves, _HALF_UPDATES[self.operation])


def shared_update(op: Op) -> Update | None:
    """The update in shared memory, if it differs, as on an H100: f32 keeps subnormals, and of two f64 NaNs the old
    value's stays."""
    if op.get("op") != "add" or op.type.kind != "f" or op.type.bits < 32:
        return None
    return _add if op.type.bits == 32 else lambda old, b: floating.add(b, old)


def half_update(op: Op) -> Update:
    """The update of .f16 and .bf16, single or packed; subnormals are kept."""
    half = TYPES[op.type.name.removesuffix("x2")].dtype
    one = functools.partial(_combine_halves, _HALF_UPDATES[op.op])

    def update(old: Lanes, b: Lanes) -> Lanes:
        if old.dtype.itemsize == 2:
            return one(old.view(half), b.view(half)).view(np.uint16)
        return join(*map(one, halves(old, half), halves(b, half)))

    return update


def _combine_halves(combine: Update, old: Lanes, b: Lanes) -> Lanes:
    return to_half(combine(old.astype(np.float32), b.astype(np.float32)), old.dtype, "rn")


_HALF_UPDATES: dict[str, Update] = {
    "add": lambda x, y: floating.odd_sum(x.astype(np.float64), y.astype(np.float64)),
    "min": functools.partial(floating.extreme, is_least=True),
    "max": functools.partial(floating.extreme, is_least=False),
}
"""On halves widened to f32."""
