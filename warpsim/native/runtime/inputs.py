"""What a region reads: how its live-ins are passed, their values, and the six words that describe each to machine code."""

from __future__ import annotations

import math
from collections.abc import Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from warpsim.graph.nodes import LANES
from warpsim.machine.selection import Rect, Selection
from warpsim.machine.values import FLAT, Affine, Value, retype
from warpsim.native.addresses import address_of
from warpsim.numerics.arrays import DType
from warpsim.types import TYPES

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group
    from warpsim.native.regions.forms import Key
    from warpsim.native.regions.options import Variant


SMALL = 64
"""Strides up to this size are constants in the code."""


class InputKind(NamedTuple):
    """How a live-in is passed: "uniform" (one value), "per_cta" (the address of one for each CTA), "affine" (a base and
    strides, None where they are known only at run time) or "varying" (the address of lanes)."""

    how: str
    strides: tuple[int | None, int | None] = (0, 0)


Signature: TypeAlias = "tuple[tuple[InputKind, ...], Variant]"
"""What code is compiled for."""
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


def layout_of(values: list[Any]) -> list[Hashable]:
    """What decides the kinds of values, cheap to compare."""
    return [
        0 if type(value) is int else value.strides if type(value) is Affine else (None, *value.shape)
        for value in values
    ]


def _known(stride: int) -> int | None:
    return stride if -SMALL <= stride <= SMALL else None


def row_of(selection: Selection) -> int:
    """How many lanes of a warp lie in a row of the threads of a selection, 0 where they do not lie in rows."""
    if not isinstance(selection, Rect) or not selection.warp_range:
        return 0
    wide = selection.batch_shape.extents[1]
    n1, n0 = selection.shape[:2]
    if n1 == 1 or wide % LANES == 0:
        return LANES
    return wide if n0 == wide and LANES % wide == 0 else 0


INTEGERS = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}
"""By their bytes."""
LARGE = 1 << 63


REGISTER, TYPED, PARAM, FRAME, PARAMETERS, WATCHED, NUMBER = range(7)
Source = tuple[int, int, Any]
"""How a key is read: what it is, a place, and the end of a parameter or the type of a register's content (for a plain
register: of one that may never have been written)."""


def source_of(key: Key) -> Source:
    """How a key is read."""
    if isinstance(key, int):
        return REGISTER, key, None
    kind = key[0]
    if isinstance(kind, int):
        return TYPED, kind, TYPES[key[1]].dtype
    if kind == "param":
        return PARAM, key[1], key[1] + TYPES[key[2]].bytes
    return {"frame": FRAME, "parameters": PARAMETERS, "watched": WATCHED}.get(kind, NUMBER), key[1], None


def values_of(machine: Machine, group: Group, sources: list[Source]) -> list[Value | int] | None:
    """What a region reads; None where nothing ever was written to a register."""
    env, params, values = group.env, machine.launch.params, list[Value | int]()
    for kind, at, more in sources:
        value: Any
        if kind == PARAM:
            value = int.from_bytes(params[at:more], "little")
        elif kind == REGISTER:
            value = env[at]
            if value is None:
                value = _of_frame(group, at, more)
                if value is None:
                    return None
        elif kind == TYPED:
            value = env[at]
            if value is None:
                value = group.fetch(at)
            if value.dtype.itemsize != more.itemsize:
                value = retype(value.array() if type(value) is Affine else value, more)
        else:
            value = _number(machine, group, kind, at)
        values.append(value)
    return values


def _number(machine: Machine, group: Group, kind: int, at: int) -> int:
    """What is one number, of no register."""
    if kind == FRAME:
        return group.local_base + at
    if kind == WATCHED:
        return machine.launch.watched[at]
    return machine.launch.param_address + at if kind == PARAMETERS else at


def _of_frame(group: Group, at: int, unwritten: DType | None) -> Value | None:
    """A register that the group has not loaded; where nothing ever was written, zeros of type ``unwritten``, or None."""
    if group.frame.holds(at):
        return group.fetch(at)
    return None if unwritten is None else np.zeros(1, unwritten)


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def describe(words: list[int], values: list[Value | int], hows: list[str], shape: tuple[int, ...]) -> None:
    """The descriptors of values, into the first of ``words``, which are 0."""
    at = 0
    for value, how in zip(values, hows, strict=True):
        if type(value) is int:
            words[at] = value if value < LARGE else _signed(value)
        elif type(value) is Affine:
            words[at] = value.base if -LARGE <= value.base < LARGE else _signed(value.base)
            if value.strides != FLAT:
                words[at + 1 : at + 5] = value.strides
        else:
            words[at : at + 6] = _array(value, how, shape)
        at += 6


def _array(value: Any, how: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The descriptor of an array."""
    if how == "uniform":
        flat = value.reshape(-1)
        return _signed(int(flat.view(INTEGERS[flat.dtype.itemsize])[0])), 0, 0, 0, 0, 0
    return address_of(value), *_steps(value.strides, value.shape, value.dtype.itemsize, shape[:2])


@lru_cache(maxsize=256)
def _steps(strides: tuple[int, ...], extents: tuple[int, ...], size: int, threads: tuple[int, ...]) -> tuple[int, ...]:
    """The descriptor of an array without its address."""
    if math.prod(extents) == 1:
        return 0, 0, 0, 0, 2
    if len(extents) == 1:
        return 0, strides[0], 0, 0, 2
    s1, s0, c1, c0 = [s if e > 1 else 0 for s, e in zip(strides, extents, strict=True)]
    n1, n0 = threads
    row = s0 == size and (n1 == 1 or s1 == n0 * size)
    return s1, s0, c1, c0, 1 if row else 2
