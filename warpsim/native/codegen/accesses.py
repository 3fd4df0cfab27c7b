"""Memory accesses: as vectors where lanes are contiguous, else lane by lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.graph.nodes import LANES
from warpsim.machine.state.global_memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW
from warpsim.native.codegen.apart import Apart, Place
from warpsim.native.codegen.costs import Costs
from warpsim.native.codegen.interference import FIRST, LAST, Interference, Name
from warpsim.native.codegen.trail import Trail
from warpsim.native.lowering.affine import add, first_of, times
from warpsim.native.lowering.graphs import Lowering
from warpsim.native.lowering.values import IRBuilder, Val, element, scalar
from warpsim.native.regions.forms import Effect
from warpsim.native.runtime.context import BAD_ACCESS, CONTEXT, LOG_FULL
from warpsim.records import define, frozen

if TYPE_CHECKING:
    from warpsim.machine.memory.addresses import Extent
    from warpsim.native.codegen.builder import RegionBuilder


MOST_ROWS = 4


@frozen
class Rows:
    """Where the lanes of a warp go: from each of ``firsts`` on ``lanes`` lanes side by side; the pattern is repeated until
    all lanes have a place. One lane: all of its row go to the same place."""

    firsts: list[Val]
    lanes: int


def rows_of(code: IRBuilder, address: Val, step: int) -> Rows | None:
    """How accesses of so many bytes lie, None where they do not lie in rows."""
    if address.uniform:
        return Rows([address], 1)
    if address.strides is None:
        return None
    x, y = address.strides
    first, count = first_of(address), LANES // code.row
    if x.known == step:
        if count == 1 or y.known == step * code.row:
            return Rows([first], LANES)
        if y.known == 0:
            return Rows([first], code.row)
        lanes = code.row
    elif x.known == 0:
        lanes = 1
    else:
        return None
    if count > MOST_ROWS:
        return None
    places = [times(code, y, code.number(k, y.type)) for k in range(count)]
    return Rows([add(code, "add", first, p) for p in places], lanes)


class RowAccess:
    """Emits accesses in rows."""

    def __init__(self, builder: RegionBuilder, memory: Memory, interference: Interference, lanes: LaneAccess) -> None:
        self.builder, self.memory, self.interference, self.lanes = builder, memory, interference, lanes

    def make(self, name: Name, effect: Effect, address: Val, rows: Rows, lanes: Val, given: list[Val]) -> list[Val]:
        """An access by vectors, with library functions as the slow path; what it loads."""
        builder, code = self.builder, self.builder.code
        load, n = effect.kind == "load", effect.type.bytes * 8
        one = rows.lanes == 1 and len(rows.firsts) == 1
        fast, slow, done = (code.fresh(x) for x in ("fast", "slow", "done"))
        results = [code.slot(f"i{n}" if one else f"<32 x i{n}>") for _ in range(effect.count)] if load else []
        if load and one:
            whole = code.make(f"icmp ne i32 {lanes.text}, 0")
        elif load:
            whole = "true" if lanes.text == builder.mask else code.make(f"icmp eq i32 {lanes.text}, {builder.mask}")
        else:
            whole = code.make(f"icmp eq i32 {lanes.text}, -1")
        if effect.within is not None and effect.space == "global":
            inside = self._within(effect.within, rows, effect.type.bytes * effect.count)
            whole = inside if whole == "true" else code.make(f"and i1 {whole}, {inside}")
        if effect.space == "shared":
            pointers = self._shared_places(effect, rows, whole, fast, slow)
        else:
            pointers = self._global_places(name, effect, rows, whole, fast, slow)
        code.label(fast)
        bytes = rows.lanes * effect.type.bytes * effect.count
        ends = self._ends(rows, bytes)
        self.interference.note(name, *ends)
        if load:
            for result, value in zip(results, self._load_rows(effect, rows, pointers), strict=True):
                code.put(value, result)
        else:
            self._store_rows(effect, rows, pointers, given)
        code.line(f"br label %{done}")
        code.label(slow)
        self.lanes.make(name, effect, address, lanes, given)
        for k, result in enumerate(results):
            code.put(self.lanes.raw(effect, k, one=one), result)
        code.fall(done)
        found = []
        for result in results:
            type = f"i{n}" if one else f"<32 x i{n}>"
            found.append(self.lanes.typed(effect, Val(f"i{n}", code.load(type, result), one)))
        return found

    def _within(self, within: Extent, rows: Rows, step: int) -> str:
        """Whether all rows are inside the variable that their addresses are made from."""
        code, room = self.builder.code, within.high - within.low - step * rows.lanes
        if room < 0:
            return "false"
        good = "true"
        for first in rows.firsts:
            above = code.op("sub", code.wide(first), code.number(within.low, "i64"))
            one = code.op("icmp ule", above, code.number(room, "i64"), type="i1").text
            good = one if good == "true" else code.make(f"and i1 {good}, {one}")
        return good

    def _ends(self, rows: Rows, bytes: int) -> tuple[str, str]:
        code = self.builder.code
        low, *others = map(code.wide, rows.firsts)
        high = low
        for other in others:
            low, high = code.intrinsic("smin", low, other), code.intrinsic("smax", high, other)
        return low.text, code.op("add", high, code.number(bytes, "i64")).text

    def _shared_places(self, effect: Effect, rows: Rows, whole: str, fast: str, slow: str) -> list[str]:
        """Pointers to the rows; goes to ``fast`` where they are inside, aligned and (for a load) written, else to ``slow``."""
        code = self.builder.code
        step, load = effect.type.bytes * effect.count, effect.kind == "load"
        part = self.memory.part(effect.within)
        clean = code.load("i64", part.clean)
        pointers, places, good, old = [], [], whole, "true"
        for first in rows.firsts:
            at = code.convert("zext", add(code, "sub", first, code.number(part.low, "i32")), "i64")
            end = code.op("add", at, code.number(step * rows.lanes, "i64")).text
            inside, written = (
                code.make(f"icmp ule i64 {end}, {part.size}"),
                code.make(f"icmp ule i64 {end}, {clean}"),
            )
            if step > 1:
                odd = code.op("and", code.convert("zext", first, "i64"), code.number(step - 1, "i64"))
                even = code.make(f"icmp eq i64 {odd.text}, 0")
                inside, written = (code.make(f"and i1 {v}, {even}") for v in (inside, written))
            good = inside if good == "true" else code.make(f"and i1 {good}, {inside}")
            old = written if old == "true" else code.make(f"and i1 {old}, {written}")
            places.append(at)
            pointers.append(code.at(part.shared, "i8", at.text))
        look, new = code.fresh("look"), code.fresh("new")
        if whole != "true":
            old = code.make(f"and i1 {old}, {whole}")
        code.branch(old, fast, look)
        code.label(look)
        some = code.make(f"icmp ne ptr {self.memory.marks}, null")
        code.branch(code.make(f"and i1 {good}, {some}"), new, slow)
        code.label(new)
        wide = f"i{step * rows.lanes * 8}"
        every = "true"
        for at in places:
            mark = code.at(part.marks, "i8", at.text)
            if load:
                one = code.make(f"icmp eq {wide} {code.make(f'load {wide}, ptr {mark}, align 1')}, -1")
                every = one if every == "true" else code.make(f"and i1 {every}, {one}")
            else:
                code.store(wide, "-1", mark, 1)
        code.line(f"br i1 {every}, label %{fast}, label %{slow}" if load else f"br label %{fast}")
        return pointers

    def _global_places(self, name: Name, effect: Effect, rows: Rows, whole: str, fast: str, slow: str) -> list[str]:
        """Pointers to the rows; goes to ``fast`` where all lie in one allocation and are aligned, else to ``slow``."""
        code, step = self.builder.code, effect.type.bytes * effect.count
        key = rows.lanes, name
        memo = self.memory.memos.get(key)
        if memo is None:
            memo = self.memory.memos[key] = code.slot("[4 x i64]")
            code.entry.append(f"  store <4 x i64> zeroinitializer, ptr {memo}, align 64")
        shift = step.bit_length() - 1
        miss, look = code.fresh("miss"), code.fresh("look")
        again = code.slot("i1")
        code.store("i1", "true", again)
        if whole != "true":
            code.branch(whole, look, slow)
        else:
            code.line(f"br label %{look}")
        code.label(look)
        start, limit, delta = (code.load("i64", code.at(memo, "i64", k) if k else memo) for k in range(3))
        good, pointers = "", []
        for first in rows.firsts:
            place = code.make(f"sub i64 {first.text}, {start}")
            twice = f"i64 {place}", f"i64 {place}"
            number = code.call("llvm.fshr.i64", "i64", *twice, f"i64 {shift}") if shift else place
            inside = code.make(f"icmp ult i64 {number}, {limit}")
            good = inside if not good else code.make(f"and i1 {good}, {inside}")
            pointers.append(code.make(f"inttoptr i64 {code.make(f'add i64 {first.text}, {delta}')} to ptr"))
        code.branch(good, fast, miss)
        code.label(miss)
        first_time = code.load("i1", again)
        find = code.fresh("find")
        code.branch(first_time, find, slow)
        code.label(find)
        code.store("i1", "false", again)
        row = f"i64 {rows.firsts[0].text}", f"i64 {step * rows.lanes}", f"i64 {shift}"
        code.call("ws_memo", "void", "ptr %ctx", f"ptr {memo}", *row, f"i64 {int(effect.kind != 'load')}")
        code.line(f"br label %{look}")
        return pointers

    def _load_rows(self, effect: Effect, rows: Rows, pointers: list[str]) -> list[Val]:
        code, size, count = self.builder.code, effect.type.bytes, effect.count
        type = f"i{size * 8}"
        found = []
        if rows.lanes == 1:
            for k in range(count):
                ones = []
                for pointer in pointers:
                    place = code.at(pointer, "i8", k * size) if k else pointer
                    ones.append(scalar(type, code.load(type, place, size)))
                found.append(ones[0] if len(ones) == 1 else self._each_row(ones))
            return found
        parts = [code.load(f"<{rows.lanes * count} x {type}>", pointer, size) for pointer in pointers]
        for k in range(count):
            vectors, n = parts, rows.lanes * count
            if count > 1:
                vectors = [code.pick(type, n, part, range(k, n, count)) for part in parts]
            found.append(Val(type, self._joined(vectors, rows.lanes, type), uniform=False))
        return found

    def _each_row(self, ones: list[Val]) -> Val:
        """Every row's value in its lanes."""
        code, type = self.builder.code, ones[0].type
        few = f"<{len(ones)} x {type}>"
        vector = "poison"
        for k, one in enumerate(ones):
            vector = code.make(f"insertelement {few} {vector}, {type} {one.text}, i32 {k}")
        rows = [i // code.row for i in range(LANES)]
        return Val(type, code.pick(type, len(ones), vector, rows), uniform=False)

    def _joined(self, vectors: list[str], lanes: int, type: str) -> str:
        """Rows as the lanes of a warp; one alone is repeated."""
        code = self.builder.code
        if len(vectors) == 1 and lanes < LANES:
            return code.pick(type, lanes, vectors[0], [i % lanes for i in range(LANES)])
        while len(vectors) > 1:
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [code.pick(type, lanes, a, range(2 * lanes), b) for a, b in pairs]
            lanes *= 2
        return vectors[0]

    def _store_rows(self, effect: Effect, rows: Rows, pointers: list[str], given: list[Val]) -> None:
        builder, code, size, count = self.builder, self.builder.code, effect.type.bytes, effect.count
        type = f"i{size * 8}"
        values = [code.splat(v) for v in given]
        if effect.space == "global":
            for pointer in pointers:
                at = code.make(f"ptrtoint ptr {pointer} to i64")
                status = code.call("ws_log", "i32", "ptr %ctx", f"i64 {at}", f"i64 {rows.lanes * size * count}")
                builder.fail_unless(code.make(f"icmp eq i32 {status}, 0"), LOG_FULL)
        each = LANES // len(pointers)
        for number, pointer in enumerate(pointers):
            last = (number + 1) * each  # of lanes with the same place the last one's value stays
            parts = [value.text for value in values]
            if rows.lanes < LANES:
                parts = [code.pick(type, LANES, part, range(last - rows.lanes, last)) for part in parts]
            code.store(f"<{rows.lanes * count} x {type}>", self._woven(parts, rows.lanes, type), pointer, size)

    def _woven(self, parts: list[str], lanes: int, type: str) -> str:
        """Elements of several vectors in turns."""
        code, total = self.builder.code, lanes
        while len(parts) > 1:  # first with the one that is half the number away
            half, order = len(parts) // 2, [k // 2 + (k % 2) * total for k in range(2 * total)]
            pairs = zip(parts[:half], parts[half:], strict=True)
            parts = [code.pick(type, total, a, order, b) for a, b in pairs]
            total *= 2
        return parts[0]


@define
class Part:
    """A CTA's own copy of shared memory from ``low`` on, all of it or a variable: where it and its ``marks`` begin, its ``size``,
    and how much of it is known to be written, from its start on (``clean``, a slot)."""

    low: int = 0
    shared: str = ""
    marks: str = ""
    size: str = ""
    clean: str = ""


class Memory:
    """``columns``: the column of each lane's CTA in shared memory, and in ``positions`` its own in local memory. Of a CTA that has
    its own copy of shared memory: ``shared``, its ``marks``, its ``size``, and how far it is known to be written (``clean``)."""

    columns: str
    positions: str
    shared: str
    marks: str
    size: str
    clean: str

    def __init__(self, builder: RegionBuilder) -> None:
        self.builder = builder
        traced = [builder.traced(i) for p in builder.region.all() for i in builder.instructions(p)]
        self.spaces = {e.space for made in traced for e in made.effects}
        if "generic" in self.spaces:
            self.spaces |= {"shared", "local", "global"}
        self.memos: dict[tuple[int, Name], str] = {}
        """For each access a memo of its last allocation."""
        within = [e.within for made in traced for e in made.effects if e.within is not None]
        self.noted = dict.fromkeys(within, "")
        """For each variable that addresses are made from, the extent of accesses by the library."""
        self.parts = {v: Part(v.low) for v in within if v.kind == "shared"}

    @property
    def private(self) -> bool:
        """Whether the CTA has a private copy of shared memory."""
        return self.builder.variant.private and "shared" in self.spaces

    def enter(self) -> None:
        """Once per call."""
        builder, code = self.builder, self.builder.code
        self.columns, self.positions = code.slot("[32 x i64]"), code.slot("[32 x i64]")
        for within in self.noted:
            self.noted[within] = own = code.slot("[2 x i64]")
            code.store("i64", FIRST, own)
            code.store("i64", LAST, code.at(own, "i64", 1))
        if self.private:
            self.clean = code.slot("i64")
            for part in self.parts.values():
                part.clean = code.slot("i64")
            self.bytes, self.stride = builder.word("private_bytes"), builder.word("private_stride")
            self.size = builder.word("shared_size")
            self.tracked = builder.word("private_tracked")
            code.store("<32 x i64>", "zeroinitializer", self.columns, 64)

    def cta(self) -> None:
        """Once per CTA."""
        builder, code = self.builder, self.builder.code
        if self.private:
            offset = code.make(f"mul i64 {builder.cta64}, {self.stride}")
            self.shared = code.at(builder.words["private"], "i8", offset)
            half = code.make(f"lshr i64 {self.bytes}, 1")
            marks = code.at(self.shared, "i8", half)
            some = code.make(f"icmp ne i64 {self.tracked}, 0")
            self.marks = code.make(f"select i1 {some}, ptr {marks}, ptr null")
            if builder.region.barriers:
                self._clear(code.make(f"select i1 {some}, i64 {self.bytes}, i64 {half}"))
            builder.put_word("shared_words", self.shared, "ptr")
            builder.put_word("shared_columns", "1")
            builder.put_word("shared_written", self.marks, "ptr")
            place = code.at(builder.words["cleans"], "i64", builder.cta64)
            for within, part in self.parts.items():
                part.shared, part.marks = (code.at(p, "i8", part.low) for p in (self.shared, self.marks))
                part.size = self._of_part(within, self.size)
            self._known(code.load("i64", place))
        elif "shared" in self.spaces:
            column = scalar("i64", builder.column)
            code.put(code.splat(column), self.columns, 64)

    def part(self, within: Extent | None) -> Part:
        """A variable, or all of the copy."""
        return self.parts[within] if within in self.parts else Part(0, self.shared, self.marks, self.size, self.clean)

    def _of_part(self, within: Extent, end: str) -> str:
        """How much of a variable lies before the end of so many bytes of shared memory."""
        code = self.builder.code
        least = code.call("llvm.umin.i64", "i64", f"i64 {end}", f"i64 {within.high}")
        return code.call("llvm.usub.sat.i64", "i64", f"i64 {least}", f"i64 {within.low}")

    def _known(self, clean: str) -> None:
        """So much is known to be written."""
        code = self.builder.code
        code.store("i64", clean, self.clean)
        for within, part in self.parts.items():
            code.store("i64", self._of_part(within, clean), part.clean)

    def finish(self) -> None:
        """Leave accesses that were not inside the variable that their address is made from to the interpreter."""
        code = self.builder.code
        for within, own in self.noted.items():
            low, high = code.load("i64", own), code.load("i64", code.at(own, "i64", 1))
            good = code.make(f"icmp sge i64 {low}, {within.low}"), code.make(f"icmp sle i64 {high}, {within.high}")
            self.builder.fail_unless(code.make(f"and i1 {good[0]}, {good[1]}"), BAD_ACCESS)

    def _clear(self, size: str) -> None:
        """Zero a copy that CTAs share one after the other."""
        code = self.builder.code
        with code.when(code.make(f"icmp eq i64 {self.stride}, 0")):
            code.call("llvm.memset.p0.i64", "void", f"ptr align 64 {self.shared}", "i8 0", f"i64 {size}", "i1 false")

    def warp(self) -> None:
        """Once per warp: where its threads' local memory is."""
        builder, code = self.builder, self.builder.code
        if "local" in self.spaces:
            first = code.make(f"shl i64 {builder.row64}, 5")
            threads = code.at(builder.words["threads"], "i32", first)
            narrow = Val("i32", code.load("<32 x i32>", threads, 4), uniform=False)
            wide = code.convert("zext", narrow, "i64")
            total = scalar("i64", builder.word("batch_columns"))
            position = code.op("add", code.op("mul", wide, total), scalar("i64", builder.column))
            code.put(position, self.positions, 64)

    def barrier_passed(self) -> None:
        """Behind a barrier: how much of shared memory is written, from its start on."""
        builder, code = self.builder, self.builder.code
        if not self.private:
            return
        place = code.at(builder.words["cleans"], "i64", builder.cta64)
        clean = code.load("i64", place)
        with code.when(code.make(f"icmp ult i64 {clean}, {self.size}")):
            more = code.call("ws_clean", "i64", f"ptr {self.marks}", f"i64 {clean}", f"i64 {self.size}")
            code.store("i64", more, place)
            self._known(more)


class LaneAccess:
    """Emits calls of library functions."""

    def __init__(self, builder: RegionBuilder, memory: Memory, interference: Interference) -> None:
        self.builder, self.memory, self.interference = builder, memory, interference
        self.costs = Costs(builder, self.addresses)

    def typed(self, effect: Effect, value: Val) -> Val:
        """Loaded bits in the type of the access."""
        type = element(effect.type.dtype)
        return self.builder.code.convert("bitcast", value, type) if type[0] != "i" else value

    def addresses(self, address: Val, *, one: bool = False) -> str:
        """The addresses of all lanes, spilled."""
        code = self.builder.code
        where = code.slot("[32 x i64]")
        if one:
            code.store("i64", code.wide(address).text, where, 64)
            return where
        if address.strides is not None:
            x, y = address.strides
            parts = [first_of(address), x, y]
            if address.type == "i32":
                parts = [
                    code.convert("zext", p, "i64") if p.known is None else code.number(p.known, "i64") for p in parts
                ]
            cut = -1 if address.type == "i64" else (1 << 32) - 1
            arguments = [f"i64 {p.text}" for p in parts]
            code.call("ws_spread", "void", f"ptr {where}", *arguments, f"i64 {code.row}", f"i64 {cut}")
            return where
        code.put(code.wide(code.splat(address)), where, 64)
        return where

    def make(self, name: Name, effect: Effect, address: Val, mask: Val, given: list[Val]) -> None:
        """Call a library function; what it loads is in ``_buffer``."""
        code, size = self.builder.code, effect.type.bytes
        one = effect.kind == "load" and address.uniform and effect.space in ("global", "shared")
        where = self.addresses(address, one=one)
        lanes = mask.text
        if one:
            some = code.make(f"icmp ne i32 {mask.text}, 0")
            lanes = code.make(f"zext i1 {some} to i32")
        buffer = self._buffer = code.slot(f"[{effect.count * 32} x i{size * 8}]")
        self._one = one
        for k in range(effect.count):
            place = self._element(effect, k)
            if effect.kind == "store":
                code.put(code.splat(given[k]), place, 64)
            elif one:
                code.store(f"i{size * 8}", "0", place, 64)
            else:
                code.store(f"<32 x i{size * 8}>", "zeroinitializer", place, 64)
        what = f"{size}_{effect.count}"
        if effect.space == "generic":
            self._generic(name, effect, what, where, lanes, buffer)
            return
        range_ = self.range(name, effect, effect.space)
        self.check(self.call(effect.kind, effect.space, what, where, lanes, buffer, range_))
        self.checked(name, effect, effect.space)

    def range(self, name: Name, effect: Effect, space: str) -> str:
        """Where the library notes the extent of an access."""
        followed = self.interference.range(name)
        if followed == "null" and effect.within is not None and effect.within.kind == space:
            return self.memory.noted[effect.within]
        return followed

    def checked(self, name: Name, effect: Effect, space: str) -> None:
        """Note the extent of an access for its variable, too, where it was noted to find interference."""
        within, code = effect.within, self.builder.code
        if within is not None and within.kind == space and (followed := self.interference.range(name)) != "null":
            low, high = code.load("i64", followed), code.load("i64", code.at(followed, "i64", 1))
            some = code.make(f"icmp sge i64 {high}, {low}")
            good = code.make(f"icmp sge i64 {low}, {within.low}"), code.make(f"icmp sle i64 {high}, {within.high}")
            inside = code.make(f"and i1 {good[0]}, {good[1]}")
            self.builder.fail_unless(code.make(f"select i1 {some}, i1 {inside}, i1 true"), BAD_ACCESS)

    def _element(self, effect: Effect, k: int) -> str:
        return self.builder.code.at(self._buffer, f"i{effect.type.bytes * 8}", k * 32)

    def raw(self, effect: Effect, k: int, *, one: bool) -> Val:
        """Loaded bits: the ``k``-th element of each lane, or of ``one`` for all."""
        code, type = self.builder.code, f"i{effect.type.bytes * 8}"
        place = self._element(effect, k)
        if one:
            return scalar(type, code.load(type, place))
        return code.filled(place, type)

    def loaded(self, effect: Effect, k: int) -> Val:
        """What the last load has loaded."""
        return self.typed(effect, self.raw(effect, k, one=self._one))

    def call(self, kind: str, space: str, what: str, where: str, lanes: str, buffer: str, range_: str) -> str:
        """The status of a library function for a space."""
        code = self.builder.code
        first, last = (f"ptr {where}", f"i32 {lanes}"), (f"ptr {buffer}", f"ptr {range_}")
        if space == "global":
            return code.call(f"ws_{kind}_{what}", "i32", "ptr %ctx", *first, *last)
        if space == "shared" and self.memory.private and kind != "cells":
            return code.call(f"ws_own_{kind}_{what}", "i32", "ptr %ctx", *first, *last)
        place = code.at("%ctx", "i64", CONTEXT[space + "_words"])
        columns = self.memory.columns if space == "shared" else self.memory.positions
        return code.call(f"ws_{kind}_words_{what}", "i32", "ptr %ctx", f"ptr {place}", *first, f"ptr {columns}", *last)

    def check(self, status: str) -> None:
        """Return a status other than 0."""
        code = self.builder.code
        with code.when(code.make(f"icmp ne i32 {status}, 0"), leaves=True):
            code.line(f"ret i32 {status}")

    def _generic(self, name: Name, effect: Effect, what: str, where: str, lanes: str, buffer: str) -> None:
        """A generic access to one space by all lanes; rolled back where lanes go to several."""
        code = self.builder.code
        all = Val("i64", code.load("<32 x i64>", where, 64), uniform=False)
        result, done, beyond = code.slot("i32"), code.fresh("done"), code.fresh("beyond")
        code.store("i32", "0", result)
        there = code.fresh("there")
        code.branch(code.make(f"icmp eq i32 {lanes}, 0"), done, there)
        code.label(there)
        windows = "0"
        for space, first in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
            moved = code.op("sub", all, code.number(first, "i64"))
            inside = code.op("icmp ult", moved, code.number(WINDOW, "i64"), type="i1")
            here = self._among(inside, lanes)
            words, next = code.fresh("words"), code.fresh("next")
            code.branch(code.make(f"icmp eq i32 {here}, {lanes}"), words, next)
            code.label(words)
            code.put(moved, where, 64)
            self._reach(name, effect, what, space, where, lanes, buffer, result)
            code.line(f"br label %{done}")
            code.label(next)
            windows = code.make(f"or i32 {windows}, {here}")
        plain = code.fresh("plain")
        code.branch(code.make(f"icmp eq i32 {windows}, 0"), plain, beyond)
        code.label(plain)
        self._reach(name, effect, what, "global", where, lanes, buffer, result)
        code.line(f"br label %{done}")
        code.label(beyond)
        code.line(f"ret i32 {BAD_ACCESS}")
        code.label(done)
        self.check(code.load("i32", result))

    def _among(self, condition: Val, lanes: str) -> str:
        code = self.builder.code
        return code.make(f"and i32 {code.make(f'bitcast {code.of(condition)} to i32')}, {lanes}")

    def _reach(
        self, name: Name, effect: Effect, what: str, space: str, where: str, lanes: str, buffer: str, result: str
    ) -> None:
        """A generic access that goes to one space; what is stored there may be seen by others, or not."""
        code = self.builder.code
        range_ = "null" if space == "local" else self.range(name, effect, space)
        self.costs.lanes(name, effect, space, where, lanes)
        code.store("i32", self.call(effect.kind, space, what, where, lanes, buffer, range_), result)
        if range_ != "null":
            self.checked(name, effect, space)
        if effect.kind == "store":
            self.builder.changes(space)


class Atomics:
    """Emits atomics."""

    def __init__(self, builder: RegionBuilder, memory: Memory, interference: Interference, lanes: LaneAccess) -> None:
        self.builder, self.memory, self.interference, self.lanes = builder, memory, interference, lanes

    def make(self, name: Name, effect: Effect, address: Val, mask: Val, values: list[Val]) -> Val:
        """A loop over the lanes, in order."""
        builder, code, size = self.builder, self.builder.code, effect.type.bytes
        type = element(effect.type.dtype)
        cells = code.slot("[32 x i64]")
        lanes = mask.text
        if effect.space == "shared" and self.memory.private:
            self._own_cells(name, effect, address, mask, cells)
        else:
            self._cells(name, effect, address, lanes, cells)
        given = [code.spill(v) for v in values]
        olds = code.slot(f"[32 x {type}]")
        code.store(f"<32 x {type}>", "zeroinitializer", olds, 64)
        speculate, code.speculate = code.speculate, None
        with code.loop(LANES) as i:
            bit = code.make(f"lshr i32 {lanes}, {code.make(f'trunc i64 {i} to i32')}")
            with code.when(code.make(f"trunc i32 {bit} to i1")):
                cell = code.make(f"inttoptr i64 {builder.element(cells, i, 'i64')} to ptr")
                old = scalar(type, code.load(type, cell, size))
                own = [scalar(v.type, builder.element(p, i, v.type)) for v, p in zip(values, given, strict=True)]
                assert effect.update is not None
                new = Lowering(code, [old, *own])(effect.update)
                code.put(new, cell, size)
                builder.changes(effect.space, code.op("icmp ne", code.bits(old), code.bits(new), type="i1").text)
                code.put(old, code.at(olds, type, i))
        code.speculate = speculate
        return code.filled(olds, type)

    def _cells(self, name: Name, effect: Effect, address: Val, lanes: str, cells: str) -> None:
        """The address of each lane's element, by a library function."""
        where, range_ = self.lanes.addresses(address), self.lanes.range(name, effect, effect.space)
        self.lanes.check(self.lanes.call("cells", effect.space, f"{effect.type.bytes}", where, lanes, cells, range_))
        self.lanes.checked(name, effect, effect.space)

    def _own_cells(self, name: Name, effect: Effect, address: Val, mask: Val, cells: str) -> None:
        """The same in the CTA's private copy of shared memory: inline where it is known to be written."""
        code, size = self.builder.code, effect.type.bytes
        fast, slow, done = (code.fresh(x) for x in ("fast", "slow", "done"))
        here = Val("i1", code.make(f"bitcast i32 {mask.text} to <32 x i1>"), uniform=False)
        lanes = code.select(here, code.splat(address), code.number(0, "i32"))
        high, odd = (code.call(f"llvm.vector.reduce.{how}.v32i32", "i32", code.of(lanes)) for how in ("umax", "or"))
        end = code.make(f"add i64 {code.make(f'zext i32 {high} to i64')}, {size}")
        good = code.make(f"icmp ule i64 {end}, {code.load('i64', self.memory.clean)}")
        good = code.make(
            f"and i1 {good}, {code.make('icmp eq i32 ' + code.make(f'and i32 {odd}, {size - 1}') + ', 0')}"
        )
        low, followed, within = "", name in self.interference.numbers, effect.within
        if followed or within is not None:
            shown = code.select(here, code.splat(address), code.number(-1, "i32"))
            least = code.call("llvm.vector.reduce.umin.v32i32", "i32", code.of(shown))
            low = code.make(f"zext i32 {least} to i64")
        if within is not None:
            for inside in (f"icmp uge i64 {low}, {within.low}", f"icmp ule i64 {end}, {within.high}"):
                good = code.make(f"and i1 {good}, {code.make(inside)}")
        code.branch(good, fast, slow)
        code.label(fast)
        if followed:
            some = code.make(f"icmp ne i32 {mask.text}, 0")
            none = (1 << 63) - 1
            self.interference.note(
                name,
                code.make(f"select i1 {some}, i64 {low}, i64 {none}"),
                code.make(f"select i1 {some}, i64 {end}, i64 {-none - 1}"),
            )
        base = scalar("i64", code.make(f"ptrtoint ptr {self.memory.shared} to i64"))
        places = code.op("add", code.convert("zext", lanes, "i64"), base)
        code.put(places, cells, 64)
        code.line(f"br label %{done}")
        code.label(slow)
        self._cells(name, effect, address, mask.text, cells)
        code.fall(done)


class Accesses:
    """Emits accesses."""

    def __init__(
        self,
        builder: RegionBuilder,
        memory: Memory,
        interference: Interference,
        apart: Apart | None,
        trail: Trail,
    ) -> None:
        self.builder, self.memory, self.apart, self.trail = builder, memory, apart, trail
        self.lanes = LaneAccess(builder, memory, interference)
        self.rows = RowAccess(builder, memory, interference, self.lanes)
        self.atomics = Atomics(builder, memory, interference, self.lanes)

    def make(
        self, name: Name, effect: Effect, lower: Lowering, lanes: Val, given: list[Val], *, together: bool
    ) -> list[Val]:
        """An access by ``lanes`` (a mask); ``together``: the warp is converged."""
        code = self.builder.code
        address = self._address(effect, lower)
        self.lanes.costs.access(name, effect, address, lanes.text)
        if together:
            self.trail.access(name, effect, address, lanes.text)
        if effect.kind == "atomic":
            olds = self.atomics.make(name, effect, address, lanes, given)
            self._noted(name, effect, address, lanes)
            return [olds]
        rows = None
        if effect.space == "global" or (effect.space == "shared" and self.memory.private):
            rows = rows_of(code, address, effect.type.bytes * effect.count)
        if rows is not None and (together or (effect.kind == "load" and rows.lanes == 1 and len(rows.firsts) == 1)):
            found = self.rows.make(name, effect, address, rows, lanes, given)
            self._stored(effect, lanes)
            self._noted(name, effect, address, lanes, rows)
            return found
        self.lanes.make(name, effect, address, lanes, given)
        self._stored(effect, lanes)
        found = [] if effect.kind == "store" else [self.lanes.loaded(effect, k) for k in range(effect.count)]
        self._noted(name, effect, address, lanes)
        return found

    def _noted(self, name: Name, effect: Effect, address: Val, lanes: Val, rows: Rows | None = None) -> None:
        """Tell of an access where it has to be shown that threads keep apart."""
        if self.apart is not None:
            place = Place()
            if rows is not None:
                first = rows.firsts[0].text if rows.lanes == LANES else None
                place = Place(first, rows.lanes * len(rows.firsts) < LANES)
            self.apart.accessed(name, effect, address, lanes, place, self.lanes.addresses)

    def _stored(self, effect: Effect, lanes: Val) -> None:
        """Memory changes where any lane stores; where generic addresses lead to is known later."""
        builder, code = self.builder, self.builder.code
        if effect.kind == "store" and effect.space != "generic":
            some = "true" if lanes.text == builder.mask else code.make(f"icmp ne i32 {lanes.text}, 0")
            builder.changes(effect.space, some)

    def _address(self, effect: Effect, lower: Lowering) -> Val:
        """The address: 64 bits, in shared and local memory 32."""
        node = effect.address
        if effect.space in ("shared", "local"):
            if node.op == "cast" and node.args[0].dtype.itemsize == 4:
                return lower(node.args[0])
            return self.builder.code.convert("trunc", lower(node), "i32")
        return lower(node)
