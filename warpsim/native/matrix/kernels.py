"""Whole functions of matrix cores: a step of many warps, or of many warpgroups, from registers to registers."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from warpsim.native.matrix.fragments import LANES, Moved, Mover, as_they_are
from warpsim.native.matrix.operands import Read, Source, from_lines, from_words
from warpsim.native.matrix.products import ROWS, Product, Tiles, emit_operands, load_half, round_half, store_half
from warpsim.native.matrix.text import WIDE, Text

Load = Callable[[str, str], list[str]]
Store = Callable[[str, str, list[str]], None]


@attrs.frozen(eq=False)
class Warp:
    """An instruction of a warp on floats. ``a`` and ``b`` bring bits into the order of `Product`; ``c`` and ``d`` are as the
    rows and columns of the result stand; None where they are the accumulators of mma. Types of C and D are f16 or f32."""

    product: Product
    rows: int
    columns: int
    a: Moved
    b: Moved
    c: Moved | None
    d: Moved | None
    c_half: bool
    d_half: bool

    results: int = attrs.field(init=False)
    """Registers of D."""

    @results.default
    def _results(self) -> int:
        return self.operands[3].registers

    @property
    def operands(self) -> list[Moved]:
        """What is described in the arguments: A, B, C and D."""
        return [self.a, self.b, self._held(self.c, half=self.c_half), self._held(self.d, half=self.d_half)]

    def _held(self, given: Moved | None, *, half: bool) -> Moved:
        return as_they_are(self.rows * self.columns // LANES // (2 if half else 1)) if given is None else given


HEADER = 3
"""Words of the arguments before the registers: warps, CTAs side by side, and the places of sparse A's elements."""


def warp_kernel(kernel: Warp, name: str) -> str:
    """``i32 name(ptr args)``: args are i64: warps, CTAs, the table of positions ``[n, m, stored K, rows]`` (i32), then for each
    register of A, B, C and D its address and the strides of warps, lanes and CTAs."""
    text = Text()
    n, m, table = (text.load("i64", text.at("%args", "i64", k), 8) for k in range(HEADER))
    with text.loop(n) as warp, text.loop(m) as cta:
        mover = Mover(text, warp, cta)
        buffers, first = [], HEADER
        for operand in kernel.operands:
            buffers.append((text.buffer(f"i{operand.bits}", operand.size + 1), first))
            first += 4 * operand.registers
        for operand, (buffer, at) in list(zip(kernel.operands, buffers, strict=True))[:3]:
            mover.gather(operand, at, buffer)
        (a, _), (b, _), (c, _), (d, d_at) = buffers
        product = kernel.product
        positions = "%args"
        if product.sparse:
            tile = kernel.rows * product.a.words * product.a.per * 4
            number = text.make(f"add i64 {text.make(f'mul i64 {warp}, {m}')}, {cta}")
            where = text.make(f"add i64 {table}, {text.make(f'mul i64 {number}, {tile}')}")
            positions = text.make(f"inttoptr i64 {where} to ptr")
        left, right = (
            from_lines(text, s, pointer, str(s.rows * (32 if s.packed else s.slot) // 8))
            for s, pointer in ((product.a, a), (product.b, b))
        )
        tiles = emit_operands(text, product, left, right, positions)
        load, store = (
            _dense(text, buffer, kernel.columns, half=half)
            if given is not None
            else _accumulators(text, buffer, "0", str(LANES), half=half)
            for given, buffer, half in ((kernel.c, c, kernel.c_half), (kernel.d, d, kernel.d_half))
        )
        multiply(
            text, tiles, kernel.rows, kernel.columns, load[0], store[1], narrows=kernel.d_half and not product.half
        )
        mover.scatter(kernel.operands[3], d_at, d)
    return module(text, name, mover.tables)


def multiply(text: Text, tiles: Tiles, rows: int, columns: int, load: Load, store: Store, *, narrows: bool) -> None:
    """Every tile of the result; ``narrows``: what was computed in f32 is left as f16."""
    with text.loop(columns // WIDE) as column, text.loop(rows // ROWS) as four:
        d = tiles.tile(four, column, load(four, column))
        store(four, column, [round_half(tiles, x) for x in d] if narrows else d)


def module(text: Text, name: str, tables: list[str], result: str = "0") -> str:
    """A module of one function, and what it returns."""
    body = [*tables, *text.declared.values(), f"define i32 @{name}(ptr %args) {{", "entry:", *text.entry]
    return "\n".join([*body, *text.lines, f"  ret i32 {result}", "}", ""])


# ---- accumulators ---------------------------------------------------------------------------------


def _dense(text: Text, buffer: str, columns: int, *, half: bool) -> tuple[Load, Store]:
    """A matrix ``[rows, columns]``."""
    type = "i16" if half else "float"
    vector = f"<{WIDE} x {type}>"

    def at(four: str, column: str, i: int) -> str:
        return text.at(buffer, type, text.index((four, ROWS * columns), (column, WIDE), (i * columns, 1)))

    def load(four: str, column: str) -> list[str]:
        found = [text.load(vector, at(four, column, i), 2 if half else 4) for i in range(ROWS)]
        return [load_half(text, x) for x in found] if half else found

    def store(four: str, column: str, d: list[str]) -> None:
        for i, x in enumerate(d):
            text.store(vector, store_half(text, x) if half else x, at(four, column, i), 2 if half else 4)

    return load, store


def _accumulators(text: Text, buffer: str, first: str, step: str, *, half: bool) -> tuple[Load, Store]:
    """The accumulators of mma and wgmma (`warpsim.layout.fragments.accumulator`): registers ``step`` words apart, of which the
    threads of the warp or warpgroup stand side by side from word ``first`` on. Four rows are sixteen threads."""
    per = 1 if half else 2

    def at(four: str, column: str, h: int) -> str:
        warp = text.make(f"lshr i64 {four}, 2")
        pair = text.make(f"and i64 {text.make(f'lshr i64 {four}, 1')}, 1")
        register = text.index((column, 2 * per), (pair, per), (h, 1))
        thread = text.index((warp, LANES), (text.make(f"and i64 {four}, 1"), 16), (first, 1))
        word = text.make(f"add i64 {thread}, {text.make(f'mul i64 {register}, {step}')}")
        return text.at(buffer, "i32", word)

    def load(four: str, column: str) -> list[str]:
        if half:
            words = text.load("<16 x i32>", at(four, column, 0))
            pairs = text.make(f"bitcast <16 x i32> {words} to <32 x i16>")
            rows = [text.pick("i16", 32, pairs, range(8 * i, 8 * i + 8)) for i in range(ROWS)]
            return [load_half(text, row) for row in rows]
        even, odd = (text.load("<16 x float>", at(four, column, h)) for h in range(2))
        return [
            text.pick("float", 16, even, [4 * i + k // 2 + 16 * (k % 2) for k in range(8)], odd) for i in range(ROWS)
        ]

    def store(four: str, column: str, d: list[str]) -> None:
        if half:
            rows = [store_half(text, x) for x in d]
            pairs = _joined(text, "i16", rows, range(32))
            text.store("<16 x i32>", text.make(f"bitcast <32 x i16> {pairs} to <16 x i32>"), at(four, column, 0))
            return
        for h in range(2):
            text.store("<16 x float>", _joined(text, "float", d, range(h, 32, 2)), at(four, column, h))

    return load, store


def _joined(text: Text, type: str, rows: list[str], order: range) -> str:
    """Elements of four rows in one vector."""
    low, high = (text.pick(type, WIDE, rows[i], range(16), rows[i + 1]) for i in (0, 2))
    return text.pick(type, 16, low, order, high)


# ---- warpgroups -----------------------------------------------------------------------------------


def warpgroup_kernel(product: Product, columns: int, name: str, *, half: bool, shared: tuple[bool, bool]) -> str:
    """``i32 name(ptr args)``: args are i64: warpgroups, CTAs side by side, the positions of sparse A ``[warpgroups, stored K,
    64]`` (i32), a byte for each warpgroup that tells whether C counts; of C's and D's registers the address, and the strides
    of registers, warpgroups and CTAs in words (threads stand side by side); of A and of B where they are ``shared`` the
    address of shared memory, of the number of each warpgroup's CTA, and of the address of its table (see `from_words`), else
    their address and the strides of warpgroups and of lines in bytes."""
    text = Text()
    n, m, table, keep, *rest = (text.load("i64", text.at("%args", "i64", k), 8) for k in range(18))
    c, d, a, b = rest[:4], rest[4:8], rest[8:11], rest[11:]
    with text.loop(n) as warpgroup, text.loop(m) as cta:
        group = text.make(f"add i64 {text.make(f'mul i64 {warpgroup}, {m}')}, {cta}")

        def pointer(base: str, number: str, size: str) -> str:
            place = text.make(f"add i64 {base}, {text.make(f'mul i64 {number}, {size}')}")
            return text.make(f"inttoptr i64 {place} to ptr")

        def reader(source: Source, words: list[str], *, gathered: bool) -> Read:
            if not gathered:
                return from_lines(text, source, pointer(words[0], group, words[1]), words[2])
            column, places = (text.load("i64", pointer(w, group, "8"), 8) for w in words[1:])
            return from_words(text, source, pointer(words[0], column, "4"), text.make(f"inttoptr i64 {places} to ptr"))

        def registers(words: list[str]) -> tuple[Load, Store]:
            across = (
                text.make(f"mul i64 {x}, {stride}") for x, stride in zip((warpgroup, cta), words[2:], strict=True)
            )
            first = text.make(f"add i64 {next(across)}, {next(across)}")
            return _accumulators(text, text.make(f"inttoptr i64 {words[0]} to ptr"), first, words[1], half=half)

        positions = pointer(table, group, str(64 * product.a.words * product.a.per * 4))
        left, right = (
            reader(source, words, gathered=gathered)
            for source, words, gathered in zip((product.a, product.b), (a, b), shared, strict=True)
        )
        tiles = emit_operands(text, product, left, right, positions)
        (load, _), (_, store) = registers(c), registers(d)
        counts = text.make(f"icmp ne i8 {text.load('i8', pointer(keep, group, '1'), 1)}, 0")

        def kept(four: str, column: str) -> list[str]:
            vector = f"<{WIDE} x float>"
            return [
                text.make(f"select i1 {counts}, {vector} {x}, {vector} zeroinitializer") for x in load(four, column)
            ]

        multiply(text, tiles, 64, columns, kept, store, narrows=False)
    return module(text, name, [])
