"""Whole functions of matrix cores: a step of many warps, or of many warpgroups, from registers to registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from warpsim.layout.fragment import Fragment, gather, scatter
from warpsim.native.matrix.operands import CTAS, Read, Source, fetch, from_lines
from warpsim.native.matrix.products import ROWS, Product, Tiles, emit_operands, load_half, round_half, store_half
from warpsim.native.matrix.text import WIDE, Text, same
from warpsim.numerics.arrays import Array, DType
from warpsim.records import frozen

LANES = 32


@frozen(eq=False)
class Moved:
    """The registers of an operand of one warp: ``places`` ``[registers, lanes, parts]`` are where their parts stand, of ``bits``
    each, among ``size`` in memory; what comes a second time stands behind the end."""

    places: Array
    bits: int
    size: int

    @property
    def registers(self) -> int:
        """How many there are."""
        return len(self.places)

    @property
    def parts(self) -> int:
        """Parts of a register."""
        return int(self.places.shape[2])

    @property
    def register_bits(self) -> int:
        """Bits of a register."""
        return max(self.bits, 32)


def gathered(fragment: Fragment, count: int, *, row_major: bool) -> Moved:
    """What `gather` does with ``count`` registers."""
    bits, per = fragment.bits, fragment.per_register
    ids = np.arange(count * LANES * per, dtype=np.int64).reshape(count, LANES, per)  # an element of 16 bits holds each
    words = (ids << bits * np.arange(per)).sum(axis=2) if per > 1 else ids[:, :, 0]
    dtype = np.dtype(np.uint64 if bits == 64 else np.uint32)
    held = tuple(word.astype(dtype).reshape(1, LANES, 1) for word in words)
    found = gather(fragment, held, 1, 1, row_major=row_major).astype(np.int64)
    places = np.full(ids.size, found.size, np.int32)
    places[found.reshape(-1)] = np.arange(found.size)
    return Moved(places.reshape(count, LANES, per), bits, found.size)


def scattered(fragment: Fragment, *, row_major: bool) -> Moved:
    """What `scatter` does."""
    bits, size = fragment.bits, fragment.rows * fragment.columns
    ids = np.arange(size, dtype=f"u{bits // 8}")
    shape = (fragment.rows, fragment.columns) if row_major else (fragment.columns, fragment.rows)
    words = np.stack(scatter(fragment, ids.reshape(*shape, 1), 1, 1, row_major=row_major))
    parts = np.ascontiguousarray(words.reshape(len(words), LANES, 1)).view(ids.dtype)
    return Moved(parts.astype(np.int32), bits, size)


def as_they_are(count: int) -> Moved:
    """Registers one after the other, ``[registers, lanes]``."""
    places = np.arange(count * LANES, dtype=np.int32).reshape(count, LANES, 1)
    return Moved(places, 32, count * LANES)


class Mover:
    """Emits the moves of one function. Registers are described in ``args`` from a word on: address, and the strides of
    warps, lanes and CTAs in bytes."""

    def __init__(self, text: Text, warp: str, cta: str) -> None:
        self.text = text
        self.warp, self.cta = warp, cta
        self.tables: list[str] = []

    def _table(self, places: Array) -> str:
        name = f"@places{len(self.tables)}"
        flat = places.reshape(-1)
        values = ", ".join(f"i32 {int(v)}" for v in flat)
        self.tables.append(f"{name} = private unnamed_addr constant [{len(flat)} x i32] [{values}], align 64")
        return name

    def _lanes(self, first: int, register: str) -> tuple[str, str]:
        """The address of lane 0 of a register, and the step between lanes."""
        text = self.text
        word = text.index((register, 4), (first, 1))
        base, warps, lanes, ctas = (
            text.load("i64", text.at("%args", "i64", text.index((word, 1), (k, 1))), 8) for k in range(4)
        )
        for stride, number in ((warps, self.warp), (ctas, self.cta)):
            base = text.make(f"add i64 {base}, {text.make(f'mul i64 {stride}, {number}')}")
        return base, lanes

    @contextmanager
    def _lane(self, operand: Moved, first: int) -> Iterator[tuple[str, Callable[[int], str]]]:
        """For each lane of each register: where its word stands, and the places of its parts in memory."""
        text, table = self.text, self._table(operand.places)
        with text.loop(operand.registers) as register:
            base, step = self._lanes(first, register)
            with text.loop(LANES) as lane:
                yield text.pointer(base, step, lane), lambda k: self._place(table, register, lane, operand.parts, k)

    def gather(self, operand: Moved, first: int, target: str) -> None:
        """Registers into memory."""
        text, bits, whole = self.text, operand.bits, f"i{operand.register_bits}"
        with self._lane(operand, first) as (at, place):
            word = text.load(whole, at, operand.register_bits // 8)
            for part in range(operand.parts):
                value = word
                if operand.parts > 1:
                    value = text.make(f"lshr {whole} {word}, {part * bits}") if part else word
                    value = text.make(f"trunc {whole} {value} to i{bits}")
                text.store(f"i{bits}", value, text.at(target, f"i{bits}", place(part)), bits // 8)

    def scatter(self, operand: Moved, first: int, source: str) -> None:
        """Memory into registers."""
        text, bits, whole = self.text, operand.bits, f"i{operand.register_bits}"
        with self._lane(operand, first) as (at, place):
            word = ""
            for part in range(operand.parts):
                value = text.load(f"i{bits}", text.at(source, f"i{bits}", place(part)), bits // 8)
                if operand.parts > 1:
                    value = text.make(f"zext i{bits} {value} to {whole}")
                    value = text.make(f"shl {whole} {value}, {part * bits}") if part else value
                word = value if not word else text.make(f"or {whole} {word}, {value}")
            text.store(whole, word, at, operand.register_bits // 8)

    def _place(self, table: str, register: str, lane: str, parts: int, part: int) -> str:
        text = self.text
        place = text.index((register, LANES * parts), (lane, parts), (part, 1))
        return text.make(f"sext i32 {text.load('i32', text.at(table, 'i32', place))} to i64")


Load = Callable[[str, str], list[str]]
Store = Callable[[str, str, list[str]], None]
Positions = Callable[[int], str]
"""Emits the address of a warp's table of positions, of so many bytes."""


@frozen(eq=False)
class Warp:
    """A product of floats by a warp. ``operands`` A and B come into the order of `Product`; C and D, of ``halves`` or f32, as the
    rows and columns of the result stand where they are ``dense``, else they are the accumulators of mma."""

    product: Product
    rows: int
    columns: int
    operands: tuple[Moved, Moved, Moved, Moved]
    halves: tuple[bool, bool]
    dense: bool

    @property
    def dtype(self) -> DType:
        """The type of D's registers."""
        return np.dtype(np.uint32 if self.halves[1] else np.float32)

    def emit(self, text: Text, buffers: list[str], positions: Positions, failed: str) -> None:
        """Emit it on operands in memory."""
        product = self.product
        where = positions(self.rows * product.a.words * product.a.per * 4) if product.sparse else "%args"
        left, right = (
            from_lines(text, s, pointer, str(s.rows * (32 if s.packed else s.slot) // 8))
            for s, pointer in zip((product.a, product.b), buffers, strict=False)
        )
        tiles = emit_operands(text, product, left, right, where)
        load, store = (
            _dense(text, buffer, self.columns, half=half)
            if self.dense
            else _accumulators(text, buffer, "0", str(LANES), half=half)
            for buffer, half in zip(buffers[2:], self.halves, strict=True)
        )
        multiply(text, tiles, self.rows, self.columns, load[0], store[1], narrows=self.halves[1] and not product.half)


@frozen(eq=False)
class Plain:
    """A product by a warp that needs no model of a tensor core, as `warpsim.numerics.plain_matrix` has it. ``how`` is f64, sum (of
    integers of ``signs`` and ``bits``), and, or xor; ``lines`` of K: of elements of f64, else of words."""

    how: str
    rows: int
    columns: int
    lines: int
    operands: tuple[Moved, Moved, Moved, Moved]
    bits: int = 32
    signs: tuple[bool, bool] = (False, False)
    saturates: bool = False

    @property
    def dtype(self) -> DType:
        """The type of D's registers."""
        return np.dtype(np.float64 if self.how == "f64" else np.int32)

    def emit(self, text: Text, buffers: list[str], positions: Positions, failed: str) -> None:
        """Emit it on operands in memory; ``failed`` where a result is a NaN, whose bits only the body knows."""
        a, b, c, d = buffers
        if self.how == "f64":
            _chains(text, self, buffers, failed)
            return
        if self.how == "sum":
            a, b = (_spread(text, self, *x) for x in ((a, self.rows, 0), (b, self.columns, 1)))
        _sums(text, self, a, b, c, d)


HEADER = 3
"""Words of the arguments before the registers: warps, CTAs side by side, and the places of sparse A's elements."""


def warp_kernel(kernel: Warp | Plain, name: str) -> str:
    """``i32 name(ptr args)``: args are i64: warps, CTAs, the table of positions ``[n, m, stored K, rows]`` (i32), then for each
    register of A, B, C and D its address and the strides of warps, lanes and CTAs. Not 0 where the body has to be asked."""
    text = Text()
    n, m, table = (text.load("i64", text.at("%args", "i64", k), 8) for k in range(HEADER))
    failed = text.buffer("i32", 1)
    text.store("i32", "0", failed)
    with text.loop(n) as warp, text.loop(m) as cta:
        mover = Mover(text, warp, cta)
        buffers, firsts = list[str](), [HEADER]
        for operand in kernel.operands:
            buffers.append(text.buffer(f"i{operand.bits}", operand.size + 1))
            firsts.append(firsts[-1] + 4 * operand.registers)
        for operand, first, buffer in zip(kernel.operands[:3], firsts, buffers, strict=False):
            mover.gather(operand, first, buffer)

        def positions(size: int) -> str:
            return text.pointer(table, text.make(f"add i64 {text.make(f'mul i64 {warp}, {m}')}, {cta}"), str(size))

        kernel.emit(text, buffers, positions, failed)
        mover.scatter(kernel.operands[3], firsts[3], buffers[3])
    return module(text, name, mover.tables, text.load("i32", failed))


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


# ---- integers, bits and f64 ------------------------------------------------------------------------


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


# ---- warpgroups -----------------------------------------------------------------------------------


WARPGROUPS = 3
"""Words of the arguments before those of products: warpgroups, CTAs side by side, products."""
PRODUCT = 16
"""Words of a product's arguments."""


def warpgroup_kernel(product: Product, columns: int, name: str, *, half: bool, shared: tuple[bool, bool]) -> str:
    """``i32 name(ptr args)``: products one after the other. args are i64: warpgroups, CTAs side by side, products; for each product
    the positions of sparse A ``[warpgroups, stored K, 64]`` (i32), a byte for each warpgroup that tells whether C counts; of C's and
    D's registers the address, and the strides of registers, warpgroups and CTAs in words (threads stand side by side); of A and of B
    where they are ``shared`` what `fetch` takes, else their address and the strides of warpgroups and of lines in bytes."""
    text = Text()
    n, m, count = (text.load("i64", text.at("%args", "i64", k), 8) for k in range(WARPGROUPS))
    sources = product.a, product.b
    rooms = [text.buffer("i32", CTAS * s.words * s.rows * (32 if s.packed else s.slot) // 32) for s in sources]
    blocks = text.make(f"lshr i64 {text.make(f'add i64 {m}, {CTAS - 1}')}, {CTAS.bit_length() - 1}")
    with text.loop(n) as warpgroup, text.loop(blocks) as block, text.loop(count) as turn:
        given = text.at("%args", "i64", text.index((turn, PRODUCT), (WARPGROUPS, 1)))
        table, keep, *rest = (text.load("i64", text.at(given, "i64", k), 8) for k in range(PRODUCT))
        c, d, a, b = rest[:4], rest[4:8], rest[8:11], rest[11:]
        begin = text.make(f"mul i64 {block}, {CTAS}")
        some = text.make(f"sub i64 {m}, {begin}")
        some = text.call("llvm.umin.i64", "i64", f"i64 {some}", f"i64 {CTAS}")
        start = text.make(f"add i64 {text.make(f'mul i64 {warpgroup}, {m}')}, {begin}")
        fetched: list[Callable[[str], Read]] = []
        for source, words, room, gathered in zip(sources, (a, b), rooms, shared, strict=True):
            fetched.append(
                fetch(text, source, words, start, some, room) if gathered else partial(_at, text, source, words, start)
            )
        with text.loop(some) as one:
            cta, group = (text.make(f"add i64 {x}, {one}") for x in (begin, start))

            def registers(words: list[str], cta: str = cta) -> tuple[Load, Store]:
                across = (
                    text.make(f"mul i64 {x}, {stride}") for x, stride in zip((warpgroup, cta), words[2:], strict=True)
                )
                first = text.make(f"add i64 {next(across)}, {next(across)}")
                return _accumulators(text, text.make(f"inttoptr i64 {words[0]} to ptr"), first, words[1], half=half)

            positions = text.pointer(table, group, str(64 * product.a.words * product.a.per * 4))
            left, right = (read(one) for read in fetched)
            tiles = emit_operands(text, product, left, right, positions)
            (load, _), (_, store) = registers(c), registers(d)
            counts = text.make(f"icmp ne i8 {text.load('i8', text.pointer(keep, group, '1'), 1)}, 0")

            def kept(four: str, column: str) -> list[str]:
                vector = f"<{WIDE} x float>"
                return [
                    text.make(f"select i1 {counts}, {vector} {x}, {vector} zeroinitializer") for x in load(four, column)
                ]

            multiply(text, tiles, 64, columns, kept, store, narrows=False)
    return module(text, name, [])


def _at(text: Text, source: Source, words: list[str], group: str, one: str) -> Read:
    """Lines in memory of a warpgroup from ``group`` on."""
    return from_lines(text, source, text.pointer(words[0], text.index((group, 1), (one, 1)), words[1]), words[2])
