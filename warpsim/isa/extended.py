"""Extended-precision integer arithmetic (PTX ISA: Extended-Precision Integer Arithmetic Instructions).

The carry flag ``CC.CF`` is a hidden predicate, ``%cc`` in the blocks below: 1 after a carry out of an addition, 0 after
a borrow out of a subtraction (a - b is a + ~b + 1, which matters when additions and subtractions share the flag).
"""

from __future__ import annotations

import functools

import numpy as np

from warpsim.isa.ports import Lanes
from warpsim.isa.spec import Op, instruction
from warpsim.numerics import integer

_extended = functools.partial(instruction, chapter="extended-precision-arithmetic-instructions")

_NARROW = ".type = { .u16, .s16, .u32, .s32, .u64, .s64 };"
_TYPES = ".type = { .u32, .s32, .u64, .s64 };"
_GATES = {"u64": (20, (4, 3)), "s64": (20, (4, 3))}


@_extended(f"addc.type d, a, b, %cc; addc{{.sat}}.s32 d, a, b, %cc; {_NARROW}", needs=(None, (1, 2)), gates=_GATES)
def addc(op: Op, a: Lanes, b: Lanes, carry: Lanes) -> Lanes:
    """d = a + b + carry; with .sat, clamped to the s32 range."""
    if op.sat:
        return _clamped(a.astype(np.int64) + b + carry)
    return a + b + carry.astype(a.dtype)


@_extended(f"add.cc.type d|%cc, a, b; {_TYPES}", anchor="add-cc", needs=(None, (1, 2)), gates=_GATES)
@_extended(f"addc.cc.type d|%cc, a, b, %cc; {_TYPES}", needs=(None, (1, 2)), gates=_GATES)
def add_cc(op: Op, a: Lanes, b: Lanes, carry: Lanes | None = None) -> tuple[Lanes, Lanes]:
    """d = a + b, plus the carry of addc, and the carry out."""
    return integer.add_carry(a, b, carry)


@_extended(f"subc.type d, a, b, %cc; subc{{.sat}}.s32 d, a, b, %cc; {_NARROW}", needs=(None, (3, 0)), gates=_GATES)
def subc(op: Op, a: Lanes, b: Lanes, carry: Lanes) -> Lanes:
    """d = a - b, minus one if the carry is 0; with .sat, clamped to the s32 range."""
    if op.sat:
        return _clamped(a.astype(np.int64) - b - ~carry)
    return a - b - (~carry).astype(a.dtype)


@_extended(f"sub.cc.type d|%cc, a, b; {_TYPES}", anchor="sub-cc", needs=(None, (1, 2)), gates=_GATES)
@_extended(f"subc.cc.type d|%cc, a, b, %cc; {_TYPES}", needs=(None, (3, 0)), gates=_GATES)
def sub_cc(op: Op, a: Lanes, b: Lanes, carry: Lanes | None = None) -> tuple[Lanes, Lanes]:
    """d = a - b, minus one if the carry of subc is 0, and the carry out: not the borrow."""
    return integer.sub_borrow(a, b, carry)


@_extended(
    f"madc.half.type d, a, b, c, %cc; madc.hi{{.sat}}.s32 d, a, b, c, %cc; .half = {{ .hi, .lo }}; {_NARROW}",
    needs=(20, (3, 0)),
    gates=_GATES,
)
def madc(op: Op, a: Lanes, b: Lanes, c: Lanes, carry: Lanes) -> Lanes:
    """Half of a * b, plus c and the carry. As on an H100, .sat has no effect, and .hi of 16 bits gives bits 32 to 47."""
    if op.half == "hi" and a.dtype.itemsize == 2:
        high = (a.astype(np.int64) * b >> np.int64(32)).astype(a.dtype)
    else:
        high = _half(op, a, b)
    return high + c + carry.astype(a.dtype)


@_extended(
    f"mad.half.cc.type d|%cc, a, b, c; .half = {{ .lo, .hi }}; {_TYPES}",
    anchor="mad-cc",
    needs=(20, (3, 0)),
    gates=_GATES,
)
@_extended(f"madc.half.cc.type d|%cc, a, b, c, %cc; .half = {{ .lo, .hi }}; {_TYPES}", needs=(20, (3, 0)), gates=_GATES)
def mad_cc(op: Op, a: Lanes, b: Lanes, c: Lanes, carry: Lanes | None = None) -> tuple[Lanes, Lanes]:
    """Half of a * b, plus c and the carry of madc, and the carry out of that addition."""
    return integer.add_carry(_half(op, a, b), c, carry)


def _clamped(value: Lanes) -> Lanes:
    return np.clip(value, -(2**31), 2**31 - 1).astype(np.int32)


def _half(op: Op, a: Lanes, b: Lanes) -> Lanes:
    return a * b if op.half == "lo" else integer.mul_high(a, b)  # no .half: madc.hi.sat
