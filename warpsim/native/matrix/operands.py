"""Operands of the float cores, decoded as `warpsim.numerics.matrix` does: values (f32) and exponents, eight at a time."""

from __future__ import annotations

from collections.abc import Callable

from warpsim.native.matrix.text import WIDE, Text, real, same
from warpsim.numerics.matrix import FORMATS, NARROW, RAISED, WHOLE, ZERO
from warpsim.records import frozen

CTAS = WIDE
"""How many CTAs' words of shared memory, which stand side by side, are fetched together."""
SPECIAL = frozenset(("f16", "bf16", "tf32", "e5m2", "e4m3"))
"""Types that have NaN."""


@frozen
class Source:
    """Where bits of A or B stand: ``[K / per, rows]``, words of ``per`` elements (the lowest first) or elements of ``bits``."""

    kind: str
    rows: int
    words: int
    """How many of ``[K / per]``."""
    packed: bool
    unpacked: bool = False
    """fp8 with the exponents that it has as f16."""

    @property
    def per(self) -> int:
        """Elements of a word."""
        return 32 // self.slot if self.packed else 1

    @property
    def slot(self) -> int:
        """Bits that an element takes."""
        return 32 if self.kind == "tf32" else 8 if self.kind in NARROW else 16

    @property
    def exponent(self) -> str:
        """The type of exponents: raised to be positive in eight bits, or as they are in sixteen."""
        return "i16" if FORMATS[self.kind][0] == 8 else "i8"


def decoded(text: Text, raw: str, source: Source, part: int) -> tuple[str, str, str]:
    """Values, exponents and which are Inf or NaN, of eight words (or elements) as i32."""
    kind = source.kind
    exponent, fraction = FORMATS[kind]
    width = 32 if kind == "tf32" else 1 + exponent + fraction
    if source.packed and kind != "tf32":
        width = source.slot * part + WHOLE.get(kind, source.slot)
    if width < 32:
        raw = text.op("shl", "i32", raw, same("i32", 32 - width))
    if exponent < 8:
        raw = text.op("ashr", "i32", raw, same("i32", 8 - exponent))
    mask = -(1 << 31) | ((1 << exponent + fraction) - 1) << 23 - fraction
    raw = text.op("and", "i32", raw, same("i32", mask))
    size = text.op("and", "i32", raw, same("i32", 0x7FFFFFFF))
    zero = text.op("icmp eq", "i32", size, same("i32", 0))
    field = text.op("lshr", "i32", size, same("i32", 23))
    bias, most = (1 << exponent - 1) - 1, (1 << exponent) - 1
    special = "zeroinitializer"
    if kind == "e4m3":
        special = text.op("icmp eq", "i32", size, same("i32", 0x7F << 20))
    elif kind in SPECIAL:
        special = text.op("icmp eq", "i32", field, same("i32", most))
    value = text.to("bitcast", "i32", raw, "float")
    if exponent < 8:
        value = text.op("fmul", "float", value, real(2.0 ** (127 - bias)))
        if kind in SPECIAL:
            endless = text.to("bitcast", "i32", text.op("or", "i32", raw, same("i32", 0x7F800000)), "float")
            value = text.select(special, "float", endless, value)
    if source.unpacked and kind == "e4m3":
        bits = text.op("and", "i32", text.to("bitcast", "float", value, "i32"), same("i32", 0x7FFFFFFF))
        field = text.extreme("umin", "i32", text.op("lshr", "i32", bits, same("i32", 23)), same("i32", 127 + 16))
        shift = RAISED - 127
    else:
        field = text.extreme("umax", "i32", field, same("i32", 1))
        shift = -127 if exponent == 8 else RAISED - bias
    field = text.op("add", "i32", field, same("i32", shift))
    field = text.select(zero, "i32", same("i32", ZERO if exponent == 8 else 0), field)
    return value, text.to("trunc", "i32", field, source.exponent), special


@frozen
class Decoded:
    """Operands in memory: values ``[K, rows]``; exponents ``[rows / group, K, 32]``: of A four rows, each eight times over,
    of B eight columns four times over."""

    source: Source
    values: str
    exponents: str
    group: int

    @property
    def count(self) -> int:
        """K."""
        return self.source.words * self.source.per


Read = Callable[[str, str], str]
"""Emits the reading of eight words (or elements) of a line as i32: a counter of lines, and one of eights."""


def from_lines(text: Text, source: Source, pointer: str, step: str) -> Read:
    """Lines of ``rows`` words or elements that stand ``step`` bytes apart."""
    element = 32 if source.packed else source.slot

    def read(line: str, eight: str) -> str:
        first = text.at(pointer, "i8", text.make(f"mul i64 {line}, {step}"))
        place = text.at(first, f"i{element}", text.index((eight, WIDE)))
        raw = text.load(f"<{WIDE} x i{element}>", place, element // 8)
        return text.to("zext", f"i{element}", raw, "i32") if element < 32 else raw

    return read


def fetch(text: Text, source: Source, words: list[str], group: str, count: str, target: str) -> Callable[[str], Read]:
    """Fetch words of shared memory of ``count`` warpgroups from ``group`` on, at most `CTAS`, into ``target``; gives what reads those of
    the one whose number it is told. ``words`` are the addresses of shared memory, where a word of all CTAs stands side by side; of the
    numbers of the warpgroups' CTAs; and of their tables' addresses, of places in bytes ``[lines, words of a line]`` for CTA 0 (i64)."""
    memory, columns, tables = words
    row, width = f"<{CTAS} x i64>", WIDE * (32 if source.packed else source.slot) // 32
    across, number = source.rows * width // WIDE, text.fresh("")

    def places(table: str, line: str, eight: str) -> list[str]:
        at = [text.index((line, across), (eight, width), (k, 1)) for k in range(width)]
        return [text.load("i64", text.at(table, "i64", k), 8) for k in at]

    def kept(one: str, line: str, eight: str) -> str:
        return text.at(target, "i32", text.index((one, source.words * across), (line, across), (eight, width)))

    def owned(one: str) -> tuple[str, str]:
        at = text.make(f"add i64 {group}, {one}")
        column, table = (text.load("i64", text.pointer(w, at, "8"), 8) for w in (columns, tables))
        return text.pointer(memory, column, "4"), text.make(f"inttoptr i64 {table} to ptr")

    text.branch(text.make(f"icmp eq i64 {count}, {CTAS}"), f"look{number}", f"each{number}")
    text.label(f"look{number}")
    other = "false"
    for which, step in (columns, 1), (tables, 0):
        found = text.load(row, text.pointer(which, group, "8"), 8)
        first = text.pick("i64", CTAS, found, [0] * CTAS)
        steps = ", ".join(f"i64 {k * step}" for k in range(CTAS))
        expected = text.make(f"add {row} {first}, <{steps}>")
        other = text.make(f"or i1 {other}, {text.any(text.op('icmp ne', 'i64', found, expected))}")
    text.branch(other, f"each{number}", f"together{number}")
    text.label(f"together{number}")
    base, table = owned("0")
    with text.loop(source.words) as line, text.loop(source.rows // WIDE) as eight:
        rows = [text.load(f"<{CTAS} x i32>", text.at(base, "i8", place)) for place in places(table, line, eight)]
        for cta, part in enumerate(text.turned("i32", rows)):
            text.store(f"<{width} x i32>", part, kept(str(cta), line, eight))
    text.line(f"br label %fetched{number}")
    text.label(f"each{number}")
    with text.loop(count) as one:
        base, table = owned(one)
        with text.loop(source.words) as line, text.loop(source.rows // WIDE) as eight:
            raw = "poison"
            for k, place in enumerate(places(table, line, eight)):
                word = text.load("i32", text.at(base, "i8", place))
                raw = text.make(f"insertelement <{width} x i32> {raw}, i32 {word}, i32 {k}")
            text.store(f"<{width} x i32>", raw, kept(one, line, eight))
    text.fall(f"fetched{number}")
    return lambda one: from_lines(text, source, kept(one, "0", "0"), str(4 * across))


def emit_decoding(text: Text, source: Source, read: Read, group: int, flags: str) -> Decoded:
    """Decode an operand; ``flags`` collects Inf and NaN."""
    k = source.words * source.per
    out = Decoded(
        source,
        text.buffer("float", k * source.rows),
        text.buffer(source.exponent, 32 * k * source.rows // group),
        group,
    )
    with text.loop(source.words) as word, text.loop(source.rows // WIDE) as eight:
        raw, first = read(word, eight), text.index((eight, WIDE))
        for part in range(source.per):
            value, exponent, special = decoded(text, raw, source, part)
            at = text.index((word, source.per), (part, 1)) if source.per > 1 else word
            text.store(
                f"<{WIDE} x float>", value, text.at(out.values, "float", text.index((at, source.rows), (first, 1)))
            )
            if special != "zeroinitializer":
                seen = text.load(f"<{WIDE} x i8>", flags, 8)
                found = text.to("zext", "i1", special, "i8")
                text.store(f"<{WIDE} x i8>", text.op("or", "i8", seen, found), flags, 8)
            for half in range(WIDE // group):
                order = [half * 4 + i // 8 for i in range(32)] if group == 4 else [i % 8 for i in range(32)]
                wide = text.pick(source.exponent, WIDE, exponent, order)
                place = text.index((eight, 32 * k * (WIDE // group)), (half, 32 * k), (at, 32))
                text.store(f"<32 x {source.exponent}>", wide, text.at(out.exponents, source.exponent, place), 32)
    return out
