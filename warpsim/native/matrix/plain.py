"""Products of warps that need no model of a tensor core: integers, bits and f64, as `warpsim.numerics.plain_matrix` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.isa import mma
from warpsim.layout import fragments
from warpsim.layout import wmma_fragments as wmma_layout
from warpsim.layout.fragment import Fragment
from warpsim.native.matrix.fragments import Moved, Mover, gathered, scattered
from warpsim.native.matrix.kernels import HEADER, module
from warpsim.native.matrix.text import WIDE, Text, same

if TYPE_CHECKING:
    from warpsim.isa.spec import Op


@attrs.frozen(eq=False)
class Plain:
    """``how`` is f64, sum (of integers of ``signs`` and ``bits``), and, or xor; ``lines`` of K: of elements of f64, else of
    words."""

    how: str
    rows: int
    columns: int
    lines: int
    operands: tuple[Moved, Moved, Moved, Moved]
    bits: int = 32
    signs: tuple[bool, bool] = (False, False)
    saturates: bool = False

    @property
    def results(self) -> int:
        """Registers of D."""
        return self.operands[3].registers


def plain_kernel(kernel: Plain, name: str) -> str:
    """``i32 name(ptr args)`` with the arguments of `warp_kernel`; not 0 where a result is a NaN, whose bits only the body knows."""
    text = Text()
    n, m = (text.load("i64", text.at("%args", "i64", k), 8) for k in range(2))
    lost = text.buffer("i32", 1)
    text.store("i32", "0", lost)
    with text.loop(n) as warp, text.loop(m) as cta:
        mover = Mover(text, warp, cta)
        buffers, first = [], HEADER
        for number, operand in enumerate(kernel.operands):
            buffer = text.buffer(f"i{operand.bits}", operand.size + 1)
            if number < 3:
                mover.gather(operand, first, buffer)
            buffers.append(buffer)
            last, first = first, first + 4 * operand.registers
        a, b, c, d = buffers
        if kernel.how == "f64":
            _chains(text, kernel, buffers, lost)
        else:
            if kernel.how == "sum":
                a, b = (_spread(text, kernel, *x) for x in ((a, kernel.rows, 0), (b, kernel.columns, 1)))
            _sums(text, kernel, a, b, c, d)
        mover.scatter(kernel.operands[3], last, d)
    return module(text, name, mover.tables, text.load("i32", lost))


def _chains(text: Text, kernel: Plain, buffers: list[str], lost: str) -> None:
    """fmas in ascending k."""
    vector = f"<{WIDE} x double>"
    a, b, c, d = buffers
    with text.loop(kernel.rows) as row, text.loop(kernel.columns // WIDE) as eight:
        at = text.index((row, kernel.columns), (eight, WIDE))
        total = text.load(vector, text.at(c, "double", at), 8)
        for k in range(kernel.lines):
            left = text.splat(
                "double", text.load("double", text.at(a, "double", text.index((row, 1), (k * kernel.rows, 1))), 8)
            )
            right = text.load(vector, text.at(b, "double", text.index((eight, WIDE), (k * kernel.columns, 1))), 8)
            total = text.call(
                f"llvm.fma.v{WIDE}f64", vector, f"{vector} {left}", f"{vector} {right}", f"{vector} {total}"
            )
        bad = text.make(f"zext i1 {text.any(text.op('fcmp uno', 'double', total, total))} to i32")
        text.store("i32", text.make(f"or i32 {bad}, {text.load('i32', lost)}"), lost)
        text.store(vector, total, text.at(d, "double", at), 8)


def _spread(text: Text, kernel: Plain, buffer: str, rows: int, which: int) -> str:
    """Integers of words as f32, ``[K, rows]``."""
    per = 32 // kernel.bits
    out = text.buffer("float", kernel.lines * per * rows)
    with text.loop(kernel.lines) as line, text.loop(rows // WIDE) as eight:
        first = text.index((eight, WIDE))
        words = text.load(f"<{WIDE} x i32>", text.at(buffer, "i32", text.index((line, rows), (first, 1))))
        for part in range(per):
            top = text.op("shl", "i32", words, same("i32", 32 - kernel.bits * (part + 1)))
            value = text.op("ashr" if kernel.signs[which] else "lshr", "i32", top, same("i32", 32 - kernel.bits))
            place = text.index((line, rows * per), (part * rows, 1), (first, 1))
            text.store(f"<{WIDE} x float>", text.to("sitofp", "i32", value, "float"), text.at(out, "float", place))
    return out


def _sums(text: Text, kernel: Plain, a: str, b: str, c: str, d: str) -> None:
    """Products of integers, whose sums f32 holds, or counts of bits; added to C."""
    vector, whole = f"<{WIDE} x i32>", kernel.how == "sum"
    type = "float" if whole else "i32"
    count = kernel.lines * (32 // kernel.bits if whole else 1)
    with text.loop(kernel.rows) as row, text.loop(kernel.columns // WIDE) as eight:
        at = text.index((row, kernel.columns), (eight, WIDE))
        total = ""
        for k in range(count):
            left = text.splat(type, text.load(type, text.at(a, type, text.index((row, 1), (k * kernel.rows, 1)))))
            place = text.index((eight, WIDE), (k * kernel.columns, 1))
            right = text.load(f"<{WIDE} x {type}>", text.at(b, type, place))
            if whole:
                term = text.op("fmul", "float", left, right)
                total = term if not total else text.op("fadd", "float", total, term)
            else:
                both = text.op(kernel.how, "i32", left, right)
                term = text.call(f"llvm.ctpop.v{WIDE}i32", vector, f"{vector} {both}")
                total = term if not total else text.op("add", "i32", total, term)
        if whole:
            total = text.to("fptosi", "float", total, "i32")
        old = text.load(vector, text.at(c, "i32", at))
        if kernel.saturates:
            found = text.call(f"llvm.sadd.sat.v{WIDE}i32", vector, f"{vector} {old}", f"{vector} {total}")
        else:
            found = text.op("add", "i32", old, total)
        text.store(vector, found, text.at(d, "i32", at))


# ---- which instructions ---------------------------------------------------------------------------


def _made(
    op: Op,
    how: str,
    a: Fragment,
    b: Fragment,
    c: Fragment,
    *,
    bits: int = 32,
    signs: tuple[bool, bool] = (False, False),
) -> Plain | None:
    if any(f.lanes is not None or f.threads != 32 for f in (a, b, c)):
        return None
    left, right = (gathered(f, f.registers, row_major=False) for f in (a, b))
    operands = left, right, gathered(c, c.registers, row_major=True), scattered(c, row_major=True)
    return Plain(how, a.rows, b.rows, a.columns, operands, bits, signs, bool(op.get("satfinite")))


def _words_of(fragment: Fragment) -> Fragment | None:
    """A fragment whose registers hold consecutive k, with the registers as its elements."""
    per = fragment.per_register
    rows, columns = (np.asarray(x).reshape(32, -1, per) for x in fragment.table())
    if (
        (rows != rows[..., :1]).any()
        or (columns != columns[..., :1] + np.arange(per)).any()
        or (columns[..., 0] % per).any()
    ):
        return None
    whole = fragments.multiplicand(fragment.rows, fragment.columns // per, 32)
    places = [np.asarray(x) for x in whole.table()]
    if whole.registers != rows.shape[1]:
        return None
    alike = (places[0] == rows[..., 0]).all() and (places[1] == columns[..., 0] // per).all()
    return whole if alike else None


def plain_plan(op: Op, sm: int) -> Plain | None:
    """Integers, bits and f64 of mma, rounded to nearest."""
    m, _, k = mma.extents(op)
    kind = op.atype.name
    c = fragments.accumulator(m, 8, 64 if kind == "f64" else 32)
    if kind == "f64":
        a, b = (fragments.multiplicand(rows, k, 64) for rows in (m, 8))
        return None if op.rnd not in (None, "rn") else _made(op, "f64", a, b, c)
    bits = mma.BITS[kind]
    a, b = (fragments.multiplicand(rows, k * bits // 32, 32) for rows in (m, 8))
    if kind == "b1":
        return _made(op, op.bitop, a, b, c)
    signs = op.atype.name[0] == "s", op.btype.name[0] == "s"
    return _made(op, "sum", a, b, c, bits=bits, signs=signs)


def wmma_plain_plan(op: Op, sm: int) -> Plain | None:
    """The same of wmma."""
    kind = "b1" if op.get("atype") is None else op.atype.name
    along = op.get("alayout") in (None, "row"), op.get("blayout") in (None, "col")
    c = wmma_layout.accumulator(op.shape, "f64" if kind == "f64" else "s32", sm)
    if kind == "b1":
        a, b = (wmma_layout.words(operand, op.shape) for operand in "ab")
        return _made(op, op.op, a, b, c)
    held = [wmma_layout.multiplicand(o, op.shape, kind, sm, along_k=k) for o, k in zip("ab", along, strict=True)]
    if kind == "f64":
        return None if op.rnd not in (None, "rn") else _made(op, "f64", held[0], held[1], c)
    left, right = (_words_of(f) for f in held)
    if left is None or right is None:
        return None
    signs = op.atype.name[0] == "s", op.btype.name[0] == "s"
    return _made(op, "sum", left, right, c, bits=wmma_layout.BITS[kind], signs=signs)
