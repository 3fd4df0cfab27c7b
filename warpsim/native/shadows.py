"""Machine code for shadows in higher precision: what the results of an operation lack of their shadows, in one pass over its lanes.

`warpsim.observe.accuracy` does the same by NumPy, in a dozen passes; a launch gives it `passes`.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Sequence
from ctypes import addressof, c_char
from functools import lru_cache, partial

import numpy as np

from warpsim.cache import digest
from warpsim.isa.exact import LEAST_NORMAL, SMALL, TERMS
from warpsim.native.addresses import address_of
from warpsim.native.compiling.compiler import compiled_function, kept_function
from warpsim.native.compiling.images import function_at
from warpsim.native.compiling.queue import compile_queue
from warpsim.native.matrix.text import WIDE, Text, real
from warpsim.native.tiering.cost import FIRST
from warpsim.numerics.arrays import F32, Array
from warpsim.records import frozen

Emit = Callable[[Text, int, Sequence[str]], str]


def _binary(name: str, first: int = 0, second: int = 1) -> Emit:
    return lambda text, n, s: text.op(name, "double", s[first], s[second], n=n)


def _chosen(how: str) -> Emit:
    def emit(text: Text, n: int, s: Sequence[str]) -> str:
        first = text.op(f"fcmp {how}", "double", s[0], s[1], n=n)
        alone = text.op("fcmp uno", "double", s[1], s[1], n=n)
        either = text.make(f"or <{n} x i1> {first}, {alone}")
        return text.select(either, "double", s[0], s[1], n=n)

    return emit


def _fma(text: Text, n: int, s: Sequence[str]) -> str:
    return text.op("fadd", "double", text.op("fmul", "double", s[0], s[1], n=n), s[2], n=n)


def _one_over(text: Text, n: int, s: Sequence[str]) -> str:
    return text.op("fdiv", "double", real(1.0, "double"), s[0], n=n)


def _root(text: Text, n: int, s: Sequence[str]) -> str:
    return _function(text, "sqrt", "double", s[0], n)


WHOLE: dict[str, tuple[int, Emit]] = {
    "add": (2, _binary("fadd")), "sub": (2, _binary("fsub")), "exchanged": (2, _binary("fsub", 1, 0)),
    "mul": (2, _binary("fmul")), "div": (2, _binary("fdiv")), "fma": (3, _fma), "mad": (3, _fma), "rcp": (1, _one_over),
    "sqrt": (1, _root), "rsqrt": (1, lambda text, n, s: _one_over(text, n, [_root(text, n, s)])),
    "min": (2, _chosen("ole")), "max": (2, _chosen("oge")), "pos": (1, lambda text, n, s: s[0]),
    "neg": (1, lambda text, n, s: text.make(f"fneg <{n} x double> {s[0]}")),
    "abs": (1, lambda text, n, s: _function(text, "fabs", "double", s[0], n)),
}  # fmt: skip
"""How many sources an operation has, and what makes shadows of theirs."""
TINY = 5e-324
RESULTS = struct.Struct("<ddqqqq")
"""What a pass leaves in its first words: the sum of the relative errors, the largest finite one, where that is, where the first
infinite one is (or -1), how many sums equal a term, and bits: an error is not zero (1), something is not finite (2)."""


def _function(text: Text, name: str, type: str, value: str, n: int) -> str:
    vector, short = f"<{n} x {type}>", {"float": "f32", "double": "f64"}[type]
    return text.call(f"llvm.{name}.v{n}{short}", vector, f"{vector} {value}")


class _Lanes:
    """An argument of which each row has elements side by side, or one for all its lanes."""

    def __init__(self, text: Text, type: str, words: Sequence[str]) -> None:
        self.text, self.type = text, type
        address, self.step, table = words
        self.whole, self.table = (text.make(f"inttoptr i64 {a} to ptr") for a in (address, table))
        self.alone = text.make(f"icmp eq i64 {self.step}, 0")
        self.size = {"double": 8, "float": 4, "i8": 1}[type]
        self.room = text.slot(f"<{WIDE} x {type}>")
        self.pointer = ""

    def begin(self, row: str) -> None:
        """Begin a row."""
        text, vector = self.text, f"<{WIDE} x {self.type}>"
        first = text.load("i64", text.at(self.table, "i64", row), 8)
        pointer = text.at(self.whole, self.type, first)
        text.store(vector, text.splat(self.type, text.load(self.type, pointer, self.size)), self.room, 64)
        self.pointer = text.make(f"select i1 {self.alone}, ptr {self.room}, ptr {pointer}")

    def place(self, lane: str) -> str:
        """Where a lane's element is."""
        return self.text.at(self.pointer, self.type, self.text.make(f"mul i64 {lane}, {self.step}"))

    def load(self, lane: str, n: int) -> str:
        """Those of ``n`` lanes."""
        return self.text.load(f"<{n} x {self.type}>", self.place(lane), self.size)


class _Pass:
    """The text of a pass. ``args`` are `RESULTS`, the numbers of rows and of lanes in a row, then for each array its address, the step
    between lanes (0: one element for all of a row), and the address of a table of where rows begin: results, of each source the
    values and the errors, and where errors go."""

    def __init__(self, root: str, small: float, least: float) -> None:
        self.root, self.small, self.least = root, small, least
        self.text = text = Text()
        self.at = RESULTS.size // 8
        rows, self.count = self._word(), self._word()
        self.got = self._given("float")
        self.sources = [(self._given("float"), self._given("double")) for _ in range(WHOLE[root][0])]
        self.out = self._given("double")
        self.first, self.absorbed, self.flags = (self._kept("i64", v) for v in ("-1", "0", "0"))
        whole = text.make(f"and i64 {self.count}, {-WIDE}")
        rest = text.make(f"sub i64 {self.count}, {whole}")
        vectors = text.make(f"lshr i64 {whole}, {WIDE.bit_length() - 1}")
        self.best, self.place = self._kept("double", "-1.0"), self._kept("i64", "0")
        found = [(n, self._kept(f"<{n} x double>", "zeroinitializer")) for n in (WIDE, 1)]
        arrays = [self.got, self.out, *(a for pair in self.sources for a in pair)]
        with text.loop(rows) as row:
            for array in arrays:
                array.begin(row)
            self.begins = text.make(f"mul i64 {row}, {self.count}")
            for rooms, count in zip(found, (vectors, rest), strict=True):
                with text.when(text.make(f"icmp ne i64 {count}, 0")), text.loop(count) as k:
                    wide = rooms[0] == WIDE
                    self._lanes(text.make(f"mul i64 {k}, {WIDE}" if wide else f"add i64 {k}, {whole}"), *rooms)
        self._results(found)

    def _word(self) -> str:
        self.at += 1
        return self.text.load("i64", self.text.at("%args", "i64", self.at - 1), 8)

    def _given(self, type: str) -> _Lanes:
        return _Lanes(self.text, type, [self._word() for _ in range(3)])

    def _kept(self, type: str, value: str) -> str:
        room = self.text.slot(type)
        self.text.store(type, value, room, 8)
        return room

    def _lanes(self, lane: str, n: int, total: str) -> None:
        """The work of ``n`` lanes."""
        text = self.text
        vector, flags = f"<{n} x double>", f"<{n} x i1>"
        got = self.got.load(lane, n)
        wide = self._wide(got, n)
        whole, error = self._errors(lane, n, got, wide)
        size = _function(text, "fabs", "float", got, n)
        short = text.to("fptrunc", "double", error, "float", n=n)
        ratio = self._wide(_function(text, "fabs", "float", text.op("fdiv", "float", short, size, n=n), n), n)
        large = text.op("fcmp oge", "float", size, real(self.small, "float"), n=n)
        finite = text.op("fcmp olt", "float", size, real(math.inf, "float"), n=n)
        bounded = text.op("fcmp olt", "double", ratio, real(math.inf, "double"), n=n)
        usual = text.make(f"and {flags} {large}, {bounded}")
        usual = text.make(f"and {flags} {usual}, {finite}")
        unusual = text.make(f"xor {flags} {usual}, splat (i1 true)")
        relative, errors = text.slot(vector), text.slot(vector)
        text.store(vector, ratio, relative, 8)
        text.store(vector, error, errors, 8)
        with text.when(text.any(unusual, n)):
            self._rare(lane, n, unusual, (large, finite), wide, whole, error, relative, errors)
        ratio, error = (text.load(vector, a, 8) for a in (relative, errors))
        text.store(vector, error, self.out.place(lane), 8)
        text.store(vector, text.op("fadd", "double", text.load(vector, total, 8), ratio, n=n), total, 8)
        more = text.op("fcmp ogt", "double", ratio, text.splat("double", text.load("double", self.best, 8), n), n=n)
        with text.when(text.any(more, n)):
            for k in range(n):
                one = text.make(f"extractelement {vector} {ratio}, i32 {k}")
                held = text.load("double", self.best, 8)
                larger = text.make(f"fcmp ogt double {one}, {held}")
                number = text.make(f"add i64 {text.make(f'add i64 {self.begins}, {lane}')}, {k}")
                number = text.make(f"select i1 {larger}, i64 {number}, i64 {text.load('i64', self.place, 8)}")
                text.store("i64", number, self.place, 8)
                text.store("double", text.make(f"select i1 {larger}, double {one}, double {held}"), self.best, 8)
        wrong = text.op("fcmp une", "double", error, "zeroinitializer", n=n)
        self._flag(text.make(f"zext i1 {text.any(wrong, n)} to i64"))

    def _wide(self, value: str, n: int) -> str:
        return self.text.to("fpext", "float", value, "double", n=n)

    def _flag(self, bits: str) -> None:
        text = self.text
        text.store("i64", text.make(f"or i64 {text.load('i64', self.flags, 8)}, {bits}"), self.flags, 8)

    def _errors(self, lane: str, n: int, got: str, wide: str) -> tuple[str, str]:
        """The shadows and the errors of lanes."""
        text = self.text
        values, shadows = [], []
        for value, error in self.sources:
            v, e = value.load(lane, n), error.load(lane, n)
            values.append(v)
            ends = text.op("fcmp uge", "float", _function(text, "fabs", "float", v, n), real(math.inf, "float"), n=n)
            wrong = text.op("fcmp une", "double", e, "zeroinitializer", n=n)
            alone = text.make(f"and <{n} x i1> {ends}, {wrong}")  # the error of what is not finite is the shadow
            shadows.append(text.select(alone, "double", e, text.op("fadd", "double", self._wide(v, n), e, n=n), n=n))
        for term, minus, others in TERMS.get(self.root, ()):
            self._absorbs(n, got, values, term, others, minus=minus)
        whole = WHOLE[self.root][1](text, n, shadows)
        return whole, text.op("fsub", "double", whole, wide, n=n)

    def _absorbs(self, n: int, got: str, values: list[str], term: int, others: tuple[int, ...], *, minus: bool) -> None:
        """Count sums that equal a term although the other is not zero."""
        text = self.text
        one = text.make(f"fneg <{n} x float> {values[term]}") if minus else values[term]
        same_ = text.op("fcmp oeq", "float", got, one, n=n)
        with text.when(text.any(same_, n)):
            size = _function(text, "fabs", "float", got, n)
            terms = [text.op("fcmp olt", "float", size, real(math.inf, "float"), n=n)]
            factors = (got, *(values[k] for k in others))
            terms += [text.op("fcmp une", "float", v, "zeroinitializer", n=n) for v in factors]
            for each in terms:
                same_ = text.make(f"and <{n} x i1> {same_}, {each}")
            bits = text.make(f"zext i{n} {text.make(f'bitcast <{n} x i1> {same_} to i{n}')} to i64")
            number = text.call("llvm.ctpop.i64", "i64", f"i64 {bits}")
            text.store("i64", text.make(f"add i64 {text.load('i64', self.absorbed, 8)}, {number}"), self.absorbed, 8)

    def _rare(
        self,
        lane: str,
        n: int,
        unusual: str,
        known: tuple[str, str],
        wide: str,
        whole: str,
        error: str,
        relative: str,
        errors: str,
    ) -> None:
        """Lanes whose results are small or not finite, or whose errors are not: as `accuracy._relative` and `accuracy._mend`."""
        text, vector = self.text, f"<{n} x double>"
        large, finite = known
        least, endless = real(self.least, "double"), real(math.inf, "double")
        size = _function(text, "fabs", "double", wide, n)
        size = text.select(text.op("fcmp ogt", "double", size, least, n=n), "double", size, least, n=n)
        nan = text.op("fcmp uno", "double", error, error, n=n)
        lost = text.select(nan, "double", "zeroinitializer", error, n=n)
        ratio = _function(text, "fabs", "double", text.op("fdiv", "double", lost, size, n=n), n)
        short = self._wide(text.to("fptrunc", "double", ratio, "float", n=n), n)
        ratio = text.select(large, "double", short, ratio, n=n)
        kept = text.op("fcmp olt", "double", _function(text, "fabs", "double", whole, n), endless, n=n)
        zero = text.op("fcmp oeq", "double", whole, "zeroinitializer", n=n)
        other = text.select(zero, "double", real(TINY, "double"), whole, n=n)
        other = text.select(kept, "double", other, "zeroinitializer", n=n)
        lost = text.select(finite, "double", lost, other, n=n)
        off = text.op("fcmp une", "double", lost, "zeroinitializer", n=n)
        ends = text.select(off, "double", endless, "zeroinitializer", n=n)
        ratio = text.select(finite, "double", ratio, ends, n=n)
        over = text.op("fcmp oeq", "double", ratio, endless, n=n)
        over = text.make(f"and <{n} x i1> {over}, {unusual}")
        ratio = text.select(over, "double", "zeroinitializer", ratio, n=n)
        for room, new in ((relative, ratio), (errors, lost)):
            text.store(vector, text.select(unusual, "double", new, text.load(vector, room, 8), n=n), room, 8)
        odd = text.make(f"xor <{n} x i1> {finite}, splat (i1 true)")
        for each in (nan, over):
            odd = text.make(f"or <{n} x i1> {odd}, {each}")
        odd = text.make(f"and <{n} x i1> {odd}, {unusual}")
        self._flag(text.make(f"select i1 {text.any(odd, n)}, i64 2, i64 0"))
        none = text.make(f"icmp slt i64 {text.load('i64', self.first, 8)}, 0")
        with text.when(text.make(f"and i1 {none}, {text.any(over, n)}")):
            bits = text.make(f"zext i{n} {text.make(f'bitcast <{n} x i1> {over} to i{n}')} to i64")
            number = text.call("llvm.cttz.i64", "i64", f"i64 {bits}", "i1 false")
            text.store(
                "i64", text.make(f"add i64 {text.make(f'add i64 {self.begins}, {lane}')}, {number}"), self.first, 8
            )

    def _results(self, found: list[tuple[int, str]]) -> None:
        text, total = self.text, "0.0"
        for n, room in found:
            sums = text.load(f"<{n} x double>", room, 8)
            for k in range(n):
                total = text.make(f"fadd double {total}, {text.make(f'extractelement <{n} x double> {sums}, i32 {k}')}")
        best, place = text.load("double", self.best, 8), text.load("i64", self.place, 8)
        kept = (text.load("i64", room, 8) for room in (self.first, self.absorbed, self.flags))
        for k, (type, value) in enumerate((("double", total), ("double", best), *(("i64", v) for v in (place, *kept)))):
            text.store(type, value, text.at("%args", "i64", k), 8)

    def module(self, name: str) -> str:
        """A module of the function ``i32 name(ptr args)``."""
        text = self.text
        head = [*text.declared.values(), f"define i32 @{name}(ptr %args) {{", "entry:", *text.entry]
        return "\n".join([*head, *text.lines, "  ret i32 0", "}", ""])


Sources = Sequence[tuple[Array, Array | None]]


@frozen(eq=False)
class Pass:
    """A compiled pass over results of an operation."""

    call: Callable[[int], int]
    layout: struct.Struct

    def __call__(
        self, got: Array, sources: Sources, out: Array, shape: tuple[int, ...]
    ) -> tuple[float, float, int, int, int, int]:
        """Store the errors of results to ``out``, f64 in a row; ``sources`` are values with errors. The shapes broadcast to
        ``shape``. Gives `RESULTS`."""
        size = out.size
        arrays = [got if got.dtype is F32 else got.astype(F32)]
        for value, error in sources:
            arrays.append(value if value.dtype is F32 else value.astype(F32))
            arrays.append(NONE if error is None else error)
        arrays.append(out)
        words = [1, size]
        for k, array in enumerate(arrays):
            count = array.size
            if count == 1 and array is not out:
                words += address_of(array), 0, ORIGIN
            elif count == size and array.flags.c_contiguous:
                words += address_of(array), 1, ORIGIN
            elif count == size:
                arrays[k] = array = np.ascontiguousarray(array)
                words += address_of(array), 1, ORIGIN
            else:
                words = _by_rows(arrays, shape)
                break
        room = bytearray(self.layout.size)
        self.layout.pack_into(room, 0, 0.0, 0.0, 0, 0, 0, 0, *words)
        self.call(addressof(c_char.from_buffer(room)))
        return RESULTS.unpack_from(room)


def _by_rows(arrays: list[Array], shape: tuple[int, ...]) -> list[int]:
    """The words of arrays some of which repeat elements; arrays that have to be made take the place of others."""
    arrays[-1] = arrays[-1].reshape(shape)
    shapes = tuple([a.shape if a.size > 1 else () for a in arrays])
    length = _row_length(shape, shapes)
    if length < SHORT:
        arrays[:] = [np.ascontiguousarray(np.broadcast_to(a, shape)) if a.size > 1 else a for a in arrays]
        length, shapes = math.prod(shape), tuple([shape if a.size > 1 else () for a in arrays])
    words = [math.prod(shape) // length, length]
    for k, (array, own) in enumerate(zip(arrays, shapes, strict=True)):
        if not array.flags.c_contiguous:
            arrays[k] = array = np.ascontiguousarray(array)
        table, step = _rows(shape, own, length)
        words += address_of(array), step, address_of(table)
    return words


@lru_cache(maxsize=1024)
def _row_length(shape: tuple[int, ...], shapes: tuple[tuple[int, ...], ...]) -> int:
    """How many elements along the last axes each of these arrays has all of, or only one."""
    length, kept = 1, list[bool | None]([None] * len(shapes))
    for axis in range(1, len(shape) + 1):
        extent = shape[-axis]
        if extent == 1:
            continue
        for k, own in enumerate(shapes):
            whole = len(own) >= axis and own[-axis] == extent
            if kept[k] not in (None, whole):
                return length
            kept[k] = whole
        length *= extent
    return length


@lru_cache(maxsize=1024)
def _rows(shape: tuple[int, ...], own: tuple[int, ...], length: int) -> tuple[Array, int]:
    """Where the rows of such a length begin in an array of a shape of its own, and the step between lanes."""
    places = np.broadcast_to(np.arange(math.prod(own), dtype=np.int64).reshape(own), shape).reshape(-1, length)
    return np.ascontiguousarray(places[:, 0]), int(length > 1 and places[0, 1] != places[0, 0])


SHORT = 64
"""Rows shorter than that cost more than copies of the arrays."""
FIRST_ROW = np.zeros(1, np.int64)
ORIGIN = address_of(FIRST_ROW)
"""The table of an array that is one row."""
NONE = np.array([-0.0])
"""What changes no number, not even a zero."""
COMPILING = 0.05
"""Seconds that a pass takes to compile, about."""
CALL, LANE = 2e-5, 6e-9
"""Seconds that it spares, and that it spares for each lane, about."""


class Passes:
    """The passes of a process."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Pass | None] = {}
        self._spared: dict[tuple[str, str], float] = {}
        """Seconds that passes would have spared."""
        self._queued: set[tuple[str, str]] = set()

    def of(self, root: str, kind: str, lanes: int) -> Pass | None:
        """The pass of an operation on elements of a type; None while there is none. What is worth it is compiled behind launches."""
        key = root, kind
        if key not in self._found:
            known = root in WHOLE and kind != "f64"
            kept = kept_function(f"shadow {key}") if known else None
            self._found[key] = None if kept is None else self._bound(key, kept)
            self._spared[key] = 0.0 if known else -math.inf
        found = self._found[key]
        if found is None:
            self._spared[key] += CALL + LANE * lanes
            if self._spared[key] > COMPILING and key not in self._queued and self._pays():
                self._queued.add(key)
                compile_queue().submit(partial(self.compile, *key))
        return found

    def _pays(self) -> bool:
        """Whether LLVM is there, or worth its import."""
        return bool(self._queued) or "llvmlite" in sys.modules or sum(s for s in self._spared.values() if s > 0) > FIRST

    def _bound(self, key: tuple[str, str], address: int) -> Pass:
        arrays = 2 + 2 * WHOLE[key[0]][0]
        return Pass(function_at(address), struct.Struct(f"{RESULTS.format}{2 + 3 * arrays}q"))

    def compile(self, root: str, kind: str) -> None:
        """Make a pass, which is kept for later processes."""
        key = root, kind
        text = text_of(*key)
        name = "shadow_" + digest(text)[:24]
        self._found[key] = self._bound(
            key, compiled_function(f"shadow {key}", text.replace(f"@{NAME}(", f"@{name}("), name)
        )


NAME = "shadow"


def text_of(root: str, kind: str) -> str:
    """The module of a pass."""
    return _Pass(root, SMALL[kind], LEAST_NORMAL[kind]).module(NAME)


@lru_cache(maxsize=1)
def passes() -> Passes:
    """The process-wide instance."""
    return Passes()
