"""Sums of products that the assembler contracts: `mul` and `add` or `sub` without a rounding modifier, rounded once."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from warpsim.isa import floating, half
from warpsim.isa.ports import Lanes
from warpsim.isa.spec import Op
from warpsim.numerics.floating import fma

_SIGN = {"f16": 0x8000, "bf16": 0x8000, "f16x2": 0x80008000, "bf16x2": 0x80008000, "f32": 1 << 31, "f64": 1 << 63}
TYPES = frozenset(_SIGN)
Factors = Callable[..., tuple[Lanes, Lanes]] | None


def branches(root: str, op: Op) -> bool:
    """Whether the assembler makes code with a branch of an instruction, for operands that a short sequence cannot take:
    no product is fused with a sum behind it."""
    if root in ("div", "rem") and op.modifiers[-1] in ("u64", "s64"):
        return True
    return root in ("div", "rcp", "sqrt") and not {"rn", "rz", "rm", "rp"}.isdisjoint(op.modifiers)


@functools.lru_cache(maxsize=1024)
def fused(type: str, factors: Factors = None, *, negative_product: bool, negative_sum: bool) -> Callable[..., Lanes]:
    """``±(a * b) ± c`` as the meaning of an add or sub of this type, whose op says how to flush and saturate.
    ``factors`` computes a and b from the product's sources, if they differ."""
    return functools.partial(_fused, type, factors, negative_product=negative_product, negative_sum=negative_sum)


def _fused(type: str, factors: Factors, op: Op, *sources: Lanes, negative_product: bool, negative_sum: bool) -> Lanes:
    *given, c = sources
    a, b = given if factors is None else factors(*given)
    a = _negated(a, type) if negative_product else a
    c = _negated(c, type) if negative_sum else c
    if type == "f32":
        return floating.fused_f32(op, a, b, c)
    return fma(a, b, c, "rn") if type == "f64" else half.fma(op, a, b, c)


def _negated(x: Lanes, type: str) -> Lanes:
    """-x; an f64 NaN is unchanged (NaNs of other types lose their bits anyway)."""
    raw = x.view(f"u{x.dtype.itemsize}")
    flipped = (raw ^ raw.dtype.type(_SIGN[type])).view(x.dtype)
    return np.where(np.isnan(x), x, flipped) if type == "f64" else flipped
