"""atom and red (PTX ISA: Parallel Synchronization and Communication)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpsim.isa.spec import Op, instruction
from warpsim.numerics import floating

Lanes = Any
_MODIFIERS = """
    .sem = { .relaxed, .acquire, .release, .acq_rel };
    .scope = { .cta, .cluster, .gpu, .sys };
    .space = { .global, .shared, .shared::cta, .shared::cluster };
    .hint = { .L2::cache_hint };
    .type = { .b32, .b64, .b128, .u32, .u64, .s32, .s64, .f32, .f64 };
    .op = { .and, .or, .xor, .add, .inc, .dec, .min, .max, .exch };
"""


def _increment(old: Lanes, b: Lanes) -> Lanes:
    return np.where(old >= b, np.uint32(0), old + np.uint32(1))


def _decrement(old: Lanes, b: Lanes) -> Lanes:
    return np.where((old == 0) | (old > b), b, old - np.uint32(1))


def _add(old: Lanes, b: Lanes) -> Lanes:
    return old + b if old.dtype.kind in "iu" else floating.add(old, b)


UPDATES: dict[str, Callable[[Lanes, Lanes], Lanes]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": _add,
    "inc": _increment,
    "dec": _decrement,
    "min": np.minimum,
    "max": np.maximum,
    "exch": lambda old, b: b,
}


def _legal(op: Op) -> str | None:
    kind, bits = op.type.kind, op.type.bits
    allowed = {
        "and": kind == "b" and bits < 128,
        "or": kind == "b" and bits < 128,
        "xor": kind == "b" and bits < 128,
        "exch": kind == "b",
        "add": kind in "usf" and op.type.name != "s64",
        "inc": op.type.name == "u32",
        "dec": op.type.name == "u32",
        "min": kind in "us",
        "max": kind in "us",
    }
    return None if allowed[op.op] else f".{op.op} does not take .{op.type.name}"


@instruction(
    f"atom{{.sem}}{{.scope}}{{.space}}.op{{.hint}}.type d, [a], b{{, cache_policy}}; {_MODIFIERS}",
    anchor="parallel-synchronization-and-communication-instructions-atom",
    types={"cache_policy": ".b64"},
    legal=_legal,
)
def atom(op: Op, a: Any, b: Lanes, cache_policy: Any = None, *, memory: Any) -> Lanes:
    """d = old value; memory = old op b."""
    return memory.atomic(op.space or "", a, op.type, UPDATES[op.op], (b,), returns=True, kind=op.op)


@instruction(
    f"atom{{.sem}}{{.scope}}{{.space}}.cas{{.hint}}.ctype d, [a], b, c{{, cache_policy}}; .ctype = {{ .b16, .b32, .b64, .b128, .u32, .u64, .s32, .s64 }}; {_MODIFIERS}",
    anchor="parallel-synchronization-and-communication-instructions-atom",
    types={**{n: "ctype" for n in "dbc"}, "cache_policy": ".b64"},
)
def atom_cas(op: Op, a: Any, b: Lanes, c: Lanes, cache_policy: Any = None, *, memory: Any) -> Lanes:
    """d = old value; memory = c where it was b."""
    return memory.atomic(op.space or "", a, op.ctype, lambda old, x, y: np.where(old == x, y, old), (b, c), returns=True, kind="cas")


@instruction(
    f"red{{.sem}}{{.scope}}{{.space}}.op{{.hint}}.type [a], b{{, cache_policy}}; {_MODIFIERS}",
    anchor="parallel-synchronization-and-communication-instructions-red",
    types={"cache_policy": ".b64"},
    legal=_legal,
)
def red(op: Op, a: Any, b: Lanes, cache_policy: Any = None, *, memory: Any) -> None:
    """memory = old op b."""
    memory.atomic(op.space or "", a, op.type, UPDATES[op.op], (b,), returns=False, kind=op.op)


def _half_add(half: Any) -> Callable[[Lanes, Lanes], Lanes]:
    from warpsim.numerics.convert import to_half

    def one(x: Lanes, y: Lanes) -> Lanes:
        wide = floating.odd_sum(x.view(half).astype(np.float32).astype(np.float64), y.view(half).astype(np.float32).astype(np.float64))
        return to_half(wide, np.dtype(half), "rn").view(np.uint16)

    def update(old: Lanes, b: Lanes) -> Lanes:
        if old.dtype.itemsize == 2:
            return one(old, b)
        parts = [one((old >> np.uint32(s)).astype(np.uint16), (b >> np.uint32(s)).astype(np.uint16)).astype(np.uint32) for s in (0, 16)]
        return parts[0] | (parts[1] << np.uint32(16))

    return update


@instruction(
    f"atom{{.sem}}{{.scope}}{{.space}}.add.noftz{{.hint}}.htype d, [a], b{{, cache_policy}}; .htype = {{ .f16, .f16x2, .bf16, .bf16x2 }}; {_MODIFIERS}",
    anchor="parallel-synchronization-and-communication-instructions-atom",
    types={"d": "htype", "b": "htype", "cache_policy": ".b64"},
    version=(6, 2),
    target=60,
)
def atom_half(op: Op, a: Any, b: Lanes, cache_policy: Any = None, *, memory: Any) -> Lanes:
    """Add halves, each atomically."""
    return memory.atomic(op.space or "", a, op.htype, _half_add(_half_of(op)), (b,), returns=True, kind="")


@instruction(
    f"red{{.sem}}{{.scope}}{{.space}}.add.noftz{{.hint}}.htype [a], b{{, cache_policy}}; .htype = {{ .f16, .f16x2, .bf16, .bf16x2 }}; {_MODIFIERS}",
    anchor="parallel-synchronization-and-communication-instructions-red",
    types={"b": "htype", "cache_policy": ".b64"},
    version=(6, 2),
    target=60,
)
def red_half(op: Op, a: Any, b: Lanes, cache_policy: Any = None, *, memory: Any) -> None:
    """Add halves, each atomically."""
    memory.atomic(op.space or "", a, op.htype, _half_add(_half_of(op)), (b,), returns=False, kind="")


def _half_of(op: Op) -> Any:
    from warpsim.types import TYPES

    return TYPES["bf16" if op.htype.name.startswith("bf16") else "f16"].dtype
