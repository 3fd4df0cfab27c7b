"""The kinds of a region's live-ins, by which its code is chosen: uniform, one per CTA, affine, or varying."""

from __future__ import annotations

from typing import Any, NamedTuple

from warpsim.graph.nodes import LANES
from warpsim.machine.values import FLAT, Affine

SMALL = 64
"""Strides up to this size are constants in the code."""


class InputKind(NamedTuple):
    """How a live-in is passed: "uniform" (one value), "per_cta" (the address of one for each CTA), "affine" (a base and
    strides, None where they are known only at run time) or "varying" (the address of lanes)."""

    how: str
    strides: tuple[int | None, int | None] = (0, 0)


_UNIFORM, _VARYING, _PER_CTA = InputKind("uniform"), InputKind("varying"), InputKind("per_cta")


def input_kind(value: Any, row: int) -> InputKind:
    """The kind of a group's value."""
    if type(value) is int:
        return _UNIFORM
    if type(value) is Affine:
        if value.strides == FLAT:
            return _UNIFORM
        s1, s0 = value.strides[:2]
        if not row and (s1 or s0):
            return _VARYING
        return InputKind("affine", (_known(s0), _known(s1) if row < LANES else 0))
    if value.size == 1:
        return _UNIFORM
    return _PER_CTA if value.ndim == 4 and value.shape[0] == value.shape[1] == 1 else _VARYING


def layout_of(value: Any) -> Any:
    """What decides a value's kind, cheap to compare."""
    if type(value) is int:
        return 0
    return value.strides if type(value) is Affine else (None, *value.shape)


def _known(stride: int) -> int | None:
    return stride if -SMALL <= stride <= SMALL else None


def row_of(selection: Any) -> int:
    """How many lanes of a warp lie in a row of the threads of a selection, 0 where they do not lie in rows."""
    if not hasattr(selection, "axes") or not selection.warp_range:
        return 0
    wide = selection.batch_shape.extents[1]
    n1, n0 = selection.shape[:2]
    if n1 == 1 or wide % LANES == 0:
        return LANES
    return wide if n0 == wide and LANES % wide == 0 else 0
