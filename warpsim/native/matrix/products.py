"""The tensor cores' sum as machine code: what `warpsim.numerics.matrix` computes, step by step, for one product of matrices.

This is the one meaning that is written twice. Names and cases are those of ``matrix._rounded``, ``_narrow``, ``_wide`` and
``_in_f64``; the tests hold the two together bit by bit.
"""

from __future__ import annotations

import functools

from warpsim.native.matrix.operands import Decoded, Read, Source, emit_decoding
from warpsim.native.matrix.text import WIDE, Text, real, same
from warpsim.numerics.matrix import ABSENT, LEAST_SUM, RAISED, ZERO, Unit
from warpsim.records import frozen

ROWS = 4
"""Rows of a tile of the result, which has eight columns."""
NAN32 = 0x7FFFFFFF


@frozen
class Product:
    """D = A * B + C. ``blocks`` are the stored elements of K that each step of the tensor core takes; ``half`` tells that the
    sum is rounded to f16; ``added`` that C joins at the end by an ordinary addition; ``sparse`` that the rows of B for
    each element of A come in a table."""

    a: Source
    b: Source
    unit: Unit
    blocks: tuple[tuple[int, ...], ...]
    half: bool
    added: bool = False
    sparse: bool = False

    @property
    def narrow(self) -> bool:
        """Whether no product leaves the range of f32."""
        return self.a.exponent == "i8"


class Tiles:
    """Emits the product of decoded operands; ``load`` and ``store`` give and take eight columns of a row as f32."""

    def __init__(self, text: Text, product: Product, a: Decoded, b: Decoded, special: str, positions: str) -> None:
        self.text = text
        self.product = product
        self.a, self.b = a, b
        self.special = special
        self.positions = positions

    def tile(self, rows: str, columns: str, c: list[str]) -> list[str]:
        """Four rows of D: ``rows`` and ``columns`` count fours and eights."""
        given = c
        if self.product.added:
            c = [real(0.0)] * ROWS
        for block in self.product.blocks:
            c = self._block(rows, columns, block, c)
        return [self._joined(x, d) for x, d in zip(given, c, strict=True)] if self.product.added else c

    # ---- one step of the tensor core --------------------------------------------------------------

    def _block(self, rows: str, columns: str, block: tuple[int, ...], c: list[str]) -> list[str]:
        text, product = self.text, self.product
        lines = {j: self._lines(rows, columns, j) for j in block}
        tops = self._largest(rows, columns, block)
        work = self._narrow if product.narrow else self._wide
        found = work(rows, lines, block, tops, c)
        lost = [text.op("fcmp ueq", "float", self._size(x), real(float("inf"))) for x in c]
        bad = text.any(text.op("or", "i1", text.op("or", "i1", *lost[:2]), text.op("or", "i1", *lost[2:])))
        flag, number = text.make(f"or i1 {bad}, {self.special}"), text.fresh("")
        least = "umin" if product.narrow else "smin"
        smallest = functools.reduce(lambda x, y: text.extreme(least, self.a.source.exponent, x, y), tops)
        rare = text.make(f"or i1 {flag}, {text.any(self._none(smallest))}")
        text.fall(f"plain{number}")
        text.branch(rare, f"rare{number}", f"done{number}")
        text.label(f"rare{number}")
        kept = [
            text.select(self._none(top), "float", self._alone(x), d) for top, x, d in zip(tops, c, found, strict=True)
        ]
        text.branch(flag, f"special{number}", f"done{number}")
        text.label(f"special{number}")
        sums = self._specials(rows, columns, block, c, kept)
        text.fall(f"left{number}")
        text.fall(f"done{number}")
        return [
            text.make(f"phi <{WIDE} x float> [ {x}, %plain{number} ], [ {y}, %rare{number} ], [ {z}, %left{number} ]")
            for x, y, z in zip(found, kept, sums, strict=True)
        ]

    def _none(self, top: str) -> str:
        """Where no product is left, by the largest exponent."""
        below, least = ("ult", LEAST_SUM) if self.product.narrow else ("slt", ZERO // 2)
        type = self.a.source.exponent
        return self.text.op(f"icmp {below}", type, top, same(type, least))

    def _size(self, value: str) -> str:
        bits = self.text.op("and", "i32", self.text.to("bitcast", "float", value, "i32"), same("i32", 0x7FFFFFFF))
        return self.text.to("bitcast", "i32", bits, "float")

    def _lines(self, rows: str, columns: str, j: int | str) -> list[str]:
        """The address of eight elements of B for an element of A, in each row."""
        text, n = self.text, self.b.source.rows
        if not self.product.sparse:
            return [text.at(self.b.values, "float", text.index((columns, WIDE), (j, n)))] * ROWS
        found = []
        for i in range(ROWS):
            k = self._position(rows, i, j)
            found.append(text.at(self.b.values, "float", text.index((columns, WIDE), (k, n))))
        return found

    def _position(self, rows: str, i: int, j: int | str) -> str:
        text = self.text
        place = text.index((rows, ROWS), (j, self.a.source.rows), (i, 1))
        return text.make(f"sext i32 {text.load('i32', text.at(self.positions, 'i32', place))} to i64")

    def _largest(self, rows: str, columns: str, block: tuple[int, ...]) -> list[str]:
        """The largest exponents of products, of four rows."""
        text, type = self.text, self.a.source.exponent
        name = "umax" if type == "i8" else "smax"
        a = text.at(self.a.exponents, type, text.index((rows, 32 * self.a.count)))
        b = text.at(self.b.exponents, type, text.index((columns, 32 * self.b.count)))
        if self.product.sparse:
            tops = []
            for i in range(ROWS):
                top = ""
                for j in block:
                    k = self._position(rows, i, j)
                    x = text.load(f"<{WIDE} x {type}>", text.at(a, type, 32 * j + WIDE * i), 8)
                    y = text.load(f"<{WIDE} x {type}>", text.at(b, type, text.index((k, 32))), 8)
                    total = text.op("add", type, x, y)
                    top = total if not top else text.extreme(name, type, top, total)
                tops.append(top)
            return tops
        top = ""
        for j in block:
            x, y = (text.load(f"<32 x {type}>", text.at(p, type, 32 * j), 32) for p in (a, b))
            total = text.op("add", type, x, y, n=32)
            top = total if not top else text.extreme(name, type, top, total, n=32)
        return [text.pick(type, 32, top, range(WIDE * i, WIDE * i + WIDE)) for i in range(ROWS)]

    def _narrow(
        self, rows: str, lines: dict[int, list[str]], block: tuple[int, ...], tops: list[str], c: list[str]
    ) -> list[str]:
        text, unit = self.text, self.product.unit
        emax = []
        for i in range(ROWS):
            top = text.to("zext", "i8", tops[i], "i32")
            top = text.op("add", "i32", top, same("i32", 127 - 2 * RAISED))
            top = text.extreme("smax", "i32", top, self._exponent(c[i]))
            if self.product.half:
                top = text.extreme("smax", "i32", top, same("i32", 127 + unit.floor16))
            emax.append(top)
        return self._rounded(rows, lines, block, emax, c)

    def _wide(
        self, rows: str, lines: dict[int, list[str]], block: tuple[int, ...], tops: list[str], c: list[str]
    ) -> list[str]:
        text, unit = self.text, self.product.unit
        none, emax, outside, wide = [], [], "", []
        for i in range(ROWS):
            top = text.to("sext", "i16", tops[i], "i32")
            wide.append(top)
            some = text.op("icmp sge", "i32", top, same("i32", ZERO // 2))
            none.append(text.op("xor", "i1", some, same("i1", "true")))
            low = text.op("and", "i1", some, text.op("icmp slt", "i32", top, same("i32", -100)))
            off = text.op("or", "i1", low, text.op("icmp sgt", "i32", top, same("i32", 125)))
            outside = off if not outside else text.op("or", "i1", outside, off)
            top = text.op("add", "i32", top, same("i32", 127))
            top = text.extreme("smax", "i32", top, self._exponent(c[i]))
            emax.append(text.extreme("smax", "i32", top, same("i32", unit.fraction)))
        number = text.fresh("")
        text.branch(text.any(outside), f"double{number}", f"single{number}")
        text.label(f"double{number}")
        double = [self._in_f64(rows, lines, block, i, wide[i], none[i], c[i]) for i in range(ROWS)]
        text.fall(f"doubled{number}")
        text.line(f"br label %both{number}")
        text.label(f"single{number}")
        single = self._rounded(rows, lines, block, emax, c)
        text.fall(f"singled{number}")
        text.fall(f"both{number}")
        return [
            text.make(f"phi <{WIDE} x float> [ {x}, %doubled{number} ], [ {y}, %singled{number} ]")
            for x, y in zip(double, single, strict=True)
        ]

    def _exponent(self, c: str) -> str:
        """C's exponent field; of a zero none."""
        text = self.text
        bits = text.op("and", "i32", text.to("bitcast", "float", c, "i32"), same("i32", 0x7FFFFFFF))
        field = text.op("lshr", "i32", bits, same("i32", 23))
        least = -14 if self.product.half else self.product.unit.least_c
        if least == -126:
            return field
        zero = text.op("icmp eq", "i32", bits, same("i32", 0))
        field = text.extreme("smax", "i32", field, same("i32", 127 + least))
        return text.select(zero, "i32", same("i32", 0), field)

    def _rounded(
        self, rows: str, lines: dict[int, list[str]], block: tuple[int, ...], emax: list[str], c: list[str]
    ) -> list[str]:
        """The sum, aligned to exponents ``emax`` (plus 127)."""
        text, unit = self.text, self.product.unit
        bits = [
            text.op("shl", "i32", text.op("sub", "i32", same("i32", 254 + unit.fraction), top), same("i32", 23))
            for top in emax
        ]
        scales = [text.to("bitcast", "i32", b, "float") for b in bits]
        at_once = 1 << (29 - unit.fraction)
        totals: list[str] = []
        for first in range(0, len(block), at_once):
            sums = self._sums(rows, lines, block[first : first + at_once], scales)
            parts = [text.to("sitofp", "i32", s, "double") for s in sums]
            totals = (
                parts if not totals else [text.op("fadd", "double", x, y) for x, y in zip(totals, parts, strict=True)]
            )
        out = []
        for i in range(ROWS):
            kept = text.trunc("float", text.op("fmul", "float", c[i], scales[i]))
            total = text.op("fadd", "double", totals[i], text.to("fpext", "float", kept, "double"))
            back = text.op("sub", "i32", same("i32", 254 << 23), bits[i])
            scale = text.to("bitcast", "i32", back, "float")
            if self.product.half:
                d = self.to_half(text.op("fmul", "double", total, text.to("fpext", "float", scale, "double")))
            else:
                d = text.op("fmul", "float", text.to("fptrunc", "double", self._cut(total), "float"), scale)
            out.append(d)
        return out

    def _sums(self, rows: str, lines: dict[int, list[str]], block: tuple[int, ...], scales: list[str]) -> list[str]:
        """Products, scaled, truncated and added."""
        text = self.text
        sums = [""] * ROWS
        for j in block:
            b = ""
            for i in range(ROWS):
                if i == 0 or self.product.sparse:
                    b = text.load(f"<{WIDE} x float>", lines[j][i])
                p = text.op("fmul", "float", self._element(rows, i, j), b)
                whole = text.to("fptosi", "float", text.op("fmul", "float", p, scales[i]), "i32")
                sums[i] = whole if not sums[i] else text.op("add", "i32", sums[i], whole)
        return sums

    def _element(self, rows: str, i: int, j: int | str) -> str:
        """An element of A, eight times."""
        text = self.text
        place = text.index((rows, ROWS), (j, self.a.source.rows), (i, 1))
        return text.splat("float", text.load("float", text.at(self.a.values, "float", place)))

    def _cut(self, total: str) -> str:
        """Toward zero."""
        text = self.text
        mask = text.op(
            "and", "i64", text.to("bitcast", "double", total, "i64"), same("i64", -(1 << 52 - self.product.unit.kept))
        )
        return text.to("bitcast", "i64", mask, "double")

    def _alone(self, c: str) -> str:
        """C where no product is left."""
        text, kept = self.text, self.product.unit.kept
        if not self.product.half and kept < 23:
            bits = text.op("and", "i32", text.to("bitcast", "float", c, "i32"), same("i32", -(1 << 23 - kept)))
            c = text.to("bitcast", "i32", bits, "float")
        return text.op("fadd", "float", c, real(0.0))

    def to_half(self, value: str) -> str:
        """f64 to the nearest f16, as f32; a zero is positive."""
        text = self.text
        bits = text.to("bitcast", "double", value, "i64")
        field = text.op("and", "i64", text.op("lshr", "i64", bits, same("i64", 52)), same("i64", 0x7FF))
        field = text.extreme("umax", "i64", field, same("i64", 1023 - 14))
        field = text.op("shl", "i64", text.op("add", "i64", field, same("i64", 42)), same("i64", 52))
        half = text.to("bitcast", "i64", text.op("or", "i64", field, same("i64", 1 << 51)), "double")
        value = text.op("fsub", "double", text.op("fadd", "double", value, half), half)
        single = text.to("fptrunc", "double", value, "float")
        raw = text.to("bitcast", "float", single, "i32")
        large = text.op("fcmp oge", "float", self._size(single), real(65536.0))
        sign = text.op("and", "i32", raw, same("i32", -(1 << 31)))
        raw = text.select(large, "i32", text.op("or", "i32", sign, same("i32", 0x7F800000)), raw)
        return text.to("bitcast", "i32", raw, "float")

    # ---- the rare cases ---------------------------------------------------------------------------

    def _in_f64(
        self, rows: str, lines: dict[int, list[str]], block: tuple[int, ...], i: int, top: str, none: str, c: str
    ) -> str:
        """Exponents of any size."""
        text, unit = self.text, self.product.unit
        bits = text.op("and", "i32", text.to("bitcast", "float", c, "i32"), same("i32", 0x7FFFFFFF))
        field = text.op("sub", "i32", text.op("lshr", "i32", bits, same("i32", 23)), same("i32", 127))
        field = text.extreme("smax", "i32", field, same("i32", unit.least_c))
        field = text.select(text.op("icmp eq", "i32", bits, same("i32", 0)), "i32", same("i32", ABSENT), field)
        top = text.select(none, "i32", same("i32", ABSENT), top)
        top = text.extreme("smax", "i32", text.extreme("smax", "i32", top, field), same("i32", unit.floor32))
        shift = text.op("sub", "i32", same("i32", unit.fraction), top)
        scale, back = self._power(shift), self._power(text.op("sub", "i32", same("i32", 0), shift))
        total = ""
        for j in block:
            a = text.to("fpext", "float", self._element(rows, i, j), "double")
            b = text.to("fpext", "float", text.load(f"<{WIDE} x float>", lines[j][i]), "double")
            term = text.trunc("double", text.op("fmul", "double", text.op("fmul", "double", a, b), scale))
            total = term if not total else text.op("fadd", "double", total, term)
        wide = text.to("fpext", "float", c, "double")
        total = text.op("fadd", "double", total, text.trunc("double", text.op("fmul", "double", wide, scale)))
        value = text.op("fmul", "double", self._cut(total), back)
        tiny = text.op(
            "fcmp olt",
            "double",
            text.call(f"llvm.fabs.v{WIDE}f64", f"<{WIDE} x double>", f"<{WIDE} x double> {value}"),
            real(2.0**-126, "double"),
        )
        steps = text.trunc("double", text.op("fmul", "double", value, real(2.0**149, "double")))
        value = text.select(tiny, "double", text.op("fmul", "double", steps, real(2.0**-149, "double")), value)
        return text.op("fadd", "float", text.to("fptrunc", "double", value, "float"), real(0.0))

    def _power(self, exponent: str) -> str:
        text = self.text
        wide = text.to("sext", "i32", text.op("add", "i32", exponent, same("i32", 1023)), "i64")
        return text.to("bitcast", "i64", text.op("shl", "i64", wide, same("i64", 52)), "double")

    def _specials(self, rows: str, columns: str, block: tuple[int, ...], c: list[str], d: list[str]) -> list[str]:
        """Where a term is Inf or NaN: Inf of its sign, or the canonical NaN. In a loop: unrolled, it would share the values of the
        common case, which then stand on the stack."""
        text, double = self.text, f"<{WIDE} x double>"
        totals = [text.buffer("double", WIDE) for _ in c]
        for value, total in zip(c, totals, strict=True):
            text.store(double, text.to("fpext", "float", value, "double"), total, 64)
        with text.loop(len(block)) as number:
            j = self._stored(block, number)
            lines = self._lines(rows, columns, j)
            for i, (line, total) in enumerate(zip(lines, totals, strict=True)):
                a = text.to("fpext", "float", self._element(rows, i, j), "double")
                b = text.to("fpext", "float", text.load(f"<{WIDE} x float>", line), "double")
                term = text.op("fmul", "double", a, b)
                text.store(double, text.op("fadd", "double", text.load(double, total, 64), term), total, 64)
        return [self._special(text.load(double, total, 64), x) for total, x in zip(totals, d, strict=True)]

    def _stored(self, block: tuple[int, ...], number: str) -> str:
        """The ``number``-th element of a block: one of a run, or of pairs of which every second belongs to it."""
        if block == tuple(range(block[0], block[0] + len(block))):
            return self.text.make(f"add i64 {number}, {block[0]}")
        assert block == tuple(block[0] + 4 * (n // 2) + n % 2 for n in range(len(block)))
        odd = self.text.make(f"and i64 {number}, 1")
        return self.text.make(f"sub i64 {self.text.index((number, 2), (block[0], 1))}, {odd}")

    def _special(self, total: str, d: str) -> str:
        text = self.text
        bits = text.to("bitcast", "double", total, "i64")
        size = text.op("and", "i64", bits, same("i64", (1 << 63) - 1))
        sign = text.op(
            "shl", "i32", text.to("trunc", "i64", text.op("lshr", "i64", bits, same("i64", 63)), "i32"), same("i32", 31)
        )
        endless = text.op("icmp eq", "i64", size, same("i64", 0x7FF << 52))
        nan = text.op("icmp ugt", "i64", size, same("i64", 0x7FF << 52))
        raw = text.to("bitcast", "float", d, "i32")
        raw = text.select(endless, "i32", text.op("or", "i32", sign, same("i32", 0x7F800000)), raw)
        return text.to("bitcast", "i32", text.select(nan, "i32", same("i32", NAN32), raw), "float")

    def _joined(self, c: str, total: str) -> str:
        """C and what two steps have given, added as threads do."""
        text = self.text
        d = text.op("fadd", "float", c, total)
        nan = text.op("fcmp uno", "float", d, d)
        if self.product.half:
            d = self.to_half(text.to("fpext", "float", d, "double"))
        raw = text.select(nan, "i32", same("i32", NAN32), text.to("bitcast", "float", d, "i32"))
        return text.to("bitcast", "i32", raw, "float")


# ---- accumulators ---------------------------------------------------------------------------------


def load_half(text: Text, bits: str) -> str:
    """f16 (as i16) to f32."""
    raw = text.op("shl", "i32", text.to("zext", "i16", bits, "i32"), same("i32", 16))
    raw = text.op("and", "i32", text.op("ashr", "i32", raw, same("i32", 3)), same("i32", -(1 << 31) | 0x0FFFE000))
    field = text.op("and", "i32", raw, same("i32", 0x0F800000))
    value = text.op("fmul", "float", text.to("bitcast", "i32", raw, "float"), real(2.0**112))
    endless = text.to("bitcast", "i32", text.op("or", "i32", raw, same("i32", 0x7F800000)), "float")
    return text.select(text.op("icmp eq", "i32", field, same("i32", 0x0F800000)), "float", endless, value)


def store_half(text: Text, value: str) -> str:
    """What is an f16, from f32 to i16."""
    raw = text.to("bitcast", "float", value, "i32")
    size = text.op("and", "i32", raw, same("i32", 0x7FFFFFFF))
    small = text.op("fmul", "float", text.to("bitcast", "i32", size, "float"), real(2.0**-112))
    found = text.op("lshr", "i32", text.to("bitcast", "float", small, "i32"), same("i32", 13))
    found = text.extreme("umin", "i32", found, same("i32", 0x7C00))
    sign = text.op("and", "i32", text.op("lshr", "i32", raw, same("i32", 16)), same("i32", 0x8000))
    found = text.op("or", "i32", found, sign)
    nan = text.op("icmp ugt", "i32", size, same("i32", 0x7F800000))
    return text.to("trunc", "i32", text.select(nan, "i32", same("i32", 0x7FFF), found), "i16")


def round_half(tiles: Tiles, value: str) -> str:
    """f32 to the nearest f16, with the sign of a zero, and the canonical NaN; as f32."""
    text = tiles.text
    nan = text.op("fcmp uno", "float", value, value)
    raw = text.to("bitcast", "float", tiles.to_half(text.to("fpext", "float", value, "double")), "i32")
    sign = text.op("and", "i32", text.to("bitcast", "float", value, "i32"), same("i32", -(1 << 31)))
    raw = text.select(nan, "i32", same("i32", NAN32), text.op("or", "i32", raw, sign))
    return text.to("bitcast", "i32", raw, "float")


def emit_operands(text: Text, product: Product, a: Read, b: Read, positions: str) -> Tiles:
    """Decode A and B; gives what multiplies them."""
    flags = text.buffer("i8", WIDE)
    text.store(f"<{WIDE} x i8>", "zeroinitializer", flags, 8)
    left = emit_decoding(text, product.a, a, ROWS, flags)
    right = emit_decoding(text, product.b, b, WIDE, flags)
    seen = text.make(f"icmp ne i64 {text.load('i64', flags, 8)}, 0")
    return Tiles(text, product, left, right, seen, positions)
