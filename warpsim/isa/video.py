"""Video instructions (PTX ISA: Video Instructions, and SIMD Video Instructions).

Operands may name a byte or half (``a.b1``), and a destination the part that is written (the rest comes from c). In SIMD
instructions, a selector lists the elements of b:a that take part. ``op.selectors`` has them by operand.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np

from warpsim.isa.compare import INTEGER
from warpsim.isa.ports import Lanes
from warpsim.isa.spec import Op, instruction
from warpsim.isa.traits import Traits
from warpsim.numerics import integer
from warpsim.types import TYPES

_SCALAR_PARTS = ".asel, .bsel, .dsel = { .b0, .b1, .b2, .b3, .h0, .h1 };"
_TYPES = ".dtype = { .u32, .s32 }; .atype = { .u32, .s32 }; .btype = { .u32, .s32 };"
_RULES = {"d": "dtype", "a": "atype", "b": "btype", "c": "dtype"}


def _operation(name: str, a: Lanes, b: Lanes) -> Lanes:
    if name == "vadd":
        return a + b
    if name == "vsub":
        return a - b
    if name == "vabsdiff":
        return np.abs(a - b)
    if name == "vavrg":
        total = a + b
        return (total + (total >= 0)) >> np.int64(1)
    return np.minimum(a, b) if name == "vmin" else np.maximum(a, b)


def _secondary(op: Op, value: Lanes, c: Lanes, *, signed: bool) -> Lanes:
    """The sum with c, or the minimum or maximum of both, as an H100 compares them (the assembler expands these).

    Signed: sums wrap to 32 bits, other values are unchanged. Unsigned: what is below zero is greater than any c; sums and
    saturated shifts count as greater than c if both have their top bits set.
    """
    if op.op2 == "add":
        return value + c
    name = op.text.split(".")[0]
    wrapped, other = value.astype(np.uint32), c.view(np.uint32)
    sums = name in ("vadd", "vsub")
    if signed:
        not_less = (wrapped.view(np.int32) if sums else value) >= other.view(np.int32)
    elif sums or (name in ("vshl", "vshr") and op.sat):
        not_less = (wrapped >= other) | ((wrapped & other) >> np.uint32(31) != 0)
    else:
        not_less = value.view(np.uint64) >= other
    return np.where(not_less == (op.op2 == "max"), wrapped, other)


def _finish(op: Op, value: Lanes, c: Lanes | None, *, signed: bool, saturate: bool) -> Lanes:
    """Saturate, then apply the secondary operation or merge with c."""
    part = op.selectors.get("d")
    if saturate and part is None:  # unsigned words lose what is above them: an H100 clamps only values below zero
        value = integer.clamp(value, 32, signed=True) if signed else np.maximum(value, 0)
    elif saturate:
        value = integer.clamp_part(value, 8 if part[0] == "b" else 16, signed=signed)
    if c is None or (part is None and not op.op2):
        return value.astype(np.uint32)
    if part is not None:
        return integer.merge(c, value, part)
    return _secondary(op, value, c, signed=signed).astype(np.uint32)


_SCALAR = f"""
    vop.dtype.atype.btype{{.sat}}       d, a{{.asel}}, b{{.bsel}};
    vop.dtype.atype.btype{{.sat}}.op2   d, a{{.asel}}, b{{.bsel}}, c;
    vop.dtype.atype.btype{{.sat}}       d{{.dsel}}, a{{.asel}}, b{{.bsel}}, c;
    {_TYPES} {_SCALAR_PARTS} .op2 = {{ .add, .min, .max }};
    """


def _scalar(op: Op, a: Lanes, b: Lanes, c: Lanes | None = None) -> Lanes:
    """An operation on bytes, halves or words, saturated, and combined with c or merged into it."""
    ta = integer.select(a, op.selectors.get("a"), signed=op.atype.signed)
    tb = integer.select(b, op.selectors.get("b"), signed=op.btype.signed)
    return _finish(op, _operation(op.text.split(".")[0], ta, tb), c, signed=op.dtype.signed, saturate=op.sat)


for _name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
    instruction(
        _SCALAR.replace("vop", _name),
        anchor=f"scalar-video-instructions-{_name}",
        types=_RULES,
        needs=(20, (2, 0)),
    )(_scalar)


@instruction(
    f"""
    vshl.dtype.atype.u32{{.sat}}.mode       d, a{{.asel}}, b{{.bsel}};
    vshl.dtype.atype.u32{{.sat}}.mode.op2   d, a{{.asel}}, b{{.bsel}}, c;
    vshl.dtype.atype.u32{{.sat}}.mode       d{{.dsel}}, a{{.asel}}, b{{.bsel}}, c;
    vshr.dtype.atype.u32{{.sat}}.mode       d, a{{.asel}}, b{{.bsel}};
    vshr.dtype.atype.u32{{.sat}}.mode.op2   d, a{{.asel}}, b{{.bsel}}, c;
    vshr.dtype.atype.u32{{.sat}}.mode       d{{.dsel}}, a{{.asel}}, b{{.bsel}}, c;
    {_SCALAR_PARTS} .dtype = {{ .u32, .s32 }}; .atype = {{ .u32, .s32 }};
    .mode = {{ .clamp, .wrap }}; .op2 = {{ .add, .min, .max }};
    """,
    anchor="scalar-video-instructions-vshl-vshr",
    types={**_RULES, "b": TYPES["u32"]},
    needs=(20, (2, 0)),
)
def vshift(op: Op, a: Lanes, b: Lanes, c: Lanes | None = None) -> Lanes:
    """Shift left or right by b, clamped to 32 or modulo 32."""
    ta = integer.select(a, op.selectors.get("a"), signed=op.atype.signed)
    tb = integer.select(b, op.selectors.get("b"), signed=False)
    by = tb & 31 if op.mode == "wrap" else np.minimum(tb, 32)
    top = np.int64(30)  # with .sat, a left shift keeps 34 bits, the top one a sign
    if op.text.startswith("vshr"):
        value = ta >> by
    elif op.sat:
        value = ((ta << top) << by) >> top
    else:
        value = ta << by
    if op.sat:
        value = integer.clamp(value, 32, signed=op.dtype.signed)
    return _finish(op, value, c, signed=op.dtype.signed, saturate=False)


@instruction(
    f"""
    vmad.dtype.atype.btype{{.sat}}{{.scale}}      d, {{-}}a{{.asel}}, {{-}}b{{.bsel}}, c;
    vmad.dtype.atype.btype{{.sat}}{{.scale}}      d, a{{.asel}}, b{{.bsel}}, -c;
    vmad.dtype.atype.btype{{.sat}}{{.scale}}      d, -a{{.asel}}, -b{{.bsel}}, -c;
    vmad.dtype.atype.btype.po{{.sat}}{{.scale}}   d, a{{.asel}}, b{{.bsel}}, c;
    vmad.dtype.atype.btype.po{{.sat}}{{.scale}}   d, -a{{.asel}}, -b{{.bsel}}, c;
    {_TYPES} {_SCALAR_PARTS} .scale = {{ .shr7, .shr15 }};
    """,
    anchor="scalar-video-instructions-vmad",
    types=_RULES,
    needs=(20, (2, 0)),
)
def vmad(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a * b + c (+ 1 with .po), shifted right by the scale and saturated; the product or c may be negated.

    The H100 reads c and whole words as signed, whatever their types.
    """
    ta = integer.select(a, op.selectors.get("a"), signed=op.atype.signed or "a" not in op.selectors)
    tb = integer.select(b, op.selectors.get("b"), signed=op.btype.signed or "b" not in op.selectors)
    by = int(op.scale[3:]) if op.scale else 0
    product, third = ta * tb, c.view(np.int32).astype(np.int64)
    if len(op.negative & {"a", "b"}) == 1:
        product = -product
    if "c" in op.negative:
        third = -third
    total = product + third + np.int64(bool(op.po))
    if not op.sat:
        return (total >> np.int64(by)).astype(np.uint32)
    minus = len(op.negative & {"a", "b"}) == 1 or "c" in op.negative
    if op.atype.signed or op.btype.signed or minus:
        return integer.clamp(total >> np.int64(by), 32, signed=True).astype(np.uint32)
    if by == 0:
        return integer.clamp(total, 32, signed=False).astype(np.uint32)
    return np.minimum(total.view(np.uint64) >> np.uint64(by), np.uint64(0xFFFFFFFF)).astype(np.uint32)


@instruction(
    f"""
    vset.atype.btype.cmp       d, a{{.asel}}, b{{.bsel}};
    vset.atype.btype.cmp.op2   d, a{{.asel}}, b{{.bsel}}, c;
    vset.atype.btype.cmp       d{{.dsel}}, a{{.asel}}, b{{.bsel}}, c;
    {_SCALAR_PARTS} .atype = {{ .u32, .s32 }}; .btype = {{ .u32, .s32 }};
    .cmp = {{ .eq, .ne, .lt, .le, .gt, .ge }}; .op2 = {{ .add, .min, .max }};
    """,
    anchor="scalar-video-instructions-vset",
    types={**_RULES, "d": ".u32", "c": ".u32"},
    needs=(20, (2, 0)),
)
def vset(op: Op, a: Lanes, b: Lanes, c: Lanes | None = None) -> Lanes:
    """1 where the comparison is true, else 0; combined with c or merged into it."""
    ta = integer.select(a, op.selectors.get("a"), signed=op.atype.signed)
    tb = integer.select(b, op.selectors.get("b"), signed=op.btype.signed)
    return _finish(op, INTEGER[op.cmp](ta, tb).astype(np.int64), c, signed=op.atype.signed, saturate=False)


# ---- SIMD ---------------------------------------------------------------------------------------


def _elements(op: Op, a: Lanes, b: Lanes) -> tuple[int, list[Lanes], list[Lanes]]:
    """The element width, and the elements of both operands."""
    count = int(op.text.split(".")[0][-1])
    width = 32 // count
    xs = integer.lanes(a, b, width, op.selectors.get("a"), 0, signed=op.atype.signed)
    ys = integer.lanes(a, b, width, op.selectors.get("b"), count, signed=op.btype.signed)
    return width, xs, ys


def _gather(op: Op, parts: list[Lanes], c: Lanes, width: int) -> Lanes:
    """Merge the selected elements into c, or add their sum to it."""
    selector = op.selectors.get("d")
    mask = None if selector is None else {int(digit) for digit in selector[1:]}
    if not op.add:
        return integer.pack(parts, c, width, mask)
    total = c.astype(np.int64)
    for i, part in enumerate(parts):
        if mask is None or i in mask:
            total = total + part
    return total.astype(np.uint32)


_SIMD = f"""
    vop.dtype.atype.btype{{.sat}}   d{{.mask}}, a{{.asel}}, b{{.asel}}, c;
    vop.dtype.atype.btype.add       d{{.mask}}, a{{.asel}}, b{{.asel}}, c;
    {_TYPES}
    """
_of_pairs = functools.partial(
    instruction, registers=("a", "b", "c"), needs=(30, (3, 0)), traits=Traits(register_plus_immediate=False)
)
_CLASSES = {
    "2": {"asel": [f"h{x}{y}" for x in range(4) for y in range(4)], "mask": ["h0", "h1", "h10"]},
    "4": {
        "asel": ["b" + "".join(digits) for digits in itertools.product("01234567", repeat=4)],
        "mask": ["b" + "".join(digits) for n in range(1, 5) for digits in itertools.combinations("3210", n)],
    },
}
"""Selectors of elements of b:a, and masks of the result, by number of elements."""


def _simd(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """An operation on each pair of halves or bytes."""
    width, xs, ys = _elements(op, a, b)
    name = op.text.split(".")[0][:-1]
    parts = [_operation(name, x, y) for x, y in zip(xs, ys, strict=True)]
    if op.sat:
        parts = [integer.clamp(part, width, signed=op.dtype.signed) for part in parts]
    return _gather(op, parts, c, width)


for _name in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"):
    for _count in ("2", "4"):
        _of_pairs(
            _SIMD.replace("vop", _name + _count),
            anchor=f"simd-video-instructions-{_name}{_count}",
            types=_RULES,
            classes=_CLASSES[_count],
        )(_simd)


_SET = """
    vop.atype.btype.cmp{.add}  d{.mask}, a{.asel}, b{.asel}, c;
    .atype = { .u32, .s32 }; .btype = { .u32, .s32 }; .cmp = { .eq, .ne, .lt, .le, .gt, .ge };
    """


def vset_simd(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """1 for each pair where the comparison is true; merged into c, or counted and added to it."""
    width, xs, ys = _elements(op, a, b)
    parts = [INTEGER[op.cmp](x, y).astype(np.int64) for x, y in zip(xs, ys, strict=True)]
    return _gather(op, parts, c, width)


for _count, _selectors in _CLASSES.items():
    _of_pairs(
        _SET.replace("vop", f"vset{_count}"),
        anchor=f"simd-video-instructions-vset{_count}",
        types={**_RULES, "d": ".u32", "c": ".u32"},
        classes=_selectors,
    )(vset_simd)
