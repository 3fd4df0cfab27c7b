"""Memory accesses by rows of lanes, as vectors: where a row lies within one allocation, or within shared memory that is
known to be written. All else goes to library functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from warpsim.graph.nodes import LANES
from warpsim.native.lowering.affine import add, first_of, times
from warpsim.native.lowering.values import Val
from warpsim.native.regions.forms import Effect
from warpsim.native.runtime.context import LOG_FULL

if TYPE_CHECKING:
    from warpsim.native.codegen.builder import RegionBuilder
    from warpsim.native.codegen.interference import Interference, Name
    from warpsim.native.codegen.lane_access import LaneAccess
    from warpsim.native.codegen.memory import Memory

MOST_ROWS = 4


@attrs.frozen
class Rows:
    """Where the lanes of a warp go: from each of ``firsts`` on ``lanes`` lanes side by side; the pattern is repeated until
    all lanes have a place. One lane: all of its row go to the same place."""

    firsts: list[Val]
    lanes: int


def rows_of(code: Any, address: Val, step: int) -> Rows | None:
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
                code.line(f"store {code.of(value)}, ptr {result}")
        else:
            self._store_rows(effect, rows, pointers, given)
        code.line(f"br label %{done}")
        code.label(slow)
        self.lanes.make(name, effect, address, lanes, given)
        for k, result in enumerate(results):
            code.line(f"store {code.of(self.lanes.raw(effect, k, one=one))}, ptr {result}")
        code.line(f"br label %{done}")
        code.label(done)
        found = []
        for result in results:
            type = f"i{n}" if one else f"<32 x i{n}>"
            found.append(self.lanes.typed(effect, Val(f"i{n}", code.make(f"load {type}, ptr {result}"), one)))
        return found

    def _ends(self, rows: Rows, bytes: int) -> tuple[str, str]:
        code = self.builder.code
        firsts = [code.convert("zext", f, "i64") if f.type == "i32" else f for f in rows.firsts]
        low = high = firsts[0]
        for other in firsts[1:]:
            low, high = code.intrinsic("smin", low, other), code.intrinsic("smax", high, other)
        return low.text, code.op("add", high, code.number(bytes, "i64")).text

    def _shared_places(self, effect: Effect, rows: Rows, whole: str, fast: str, slow: str) -> list[str]:
        """Pointers to the rows; goes to ``fast`` where they are inside, aligned and (for a load) written, else to ``slow``."""
        code = self.builder.code
        step, load = effect.type.bytes * effect.count, effect.kind == "load"
        clean = code.make(f"load i64, ptr {self.memory.clean}")
        pointers, places, good, old = [], [], whole, "true"
        for first in rows.firsts:
            at = code.convert("zext", first, "i64")
            end = code.op("add", at, code.number(step * rows.lanes, "i64")).text
            inside, written = (
                code.make(f"icmp ule i64 {end}, {self.memory.size}"),
                code.make(f"icmp ule i64 {end}, {clean}"),
            )
            if step > 1:
                odd = code.op("and", at, code.number(step - 1, "i64"))
                even = code.make(f"icmp eq i64 {odd.text}, 0")
                inside, written = (code.make(f"and i1 {v}, {even}") for v in (inside, written))
            good = inside if good == "true" else code.make(f"and i1 {good}, {inside}")
            old = written if old == "true" else code.make(f"and i1 {old}, {written}")
            places.append(at)
            pointers.append(code.make(f"getelementptr i8, ptr {self.memory.shared}, i64 {at.text}"))
        look, new = code.fresh("look"), code.fresh("new")
        if whole != "true":
            old = code.make(f"and i1 {old}, {whole}")
        code.line(f"br i1 {old}, label %{fast}, label %{look}")
        code.label(look)
        some = code.make(f"icmp ne ptr {self.memory.marks}, null")
        code.line(f"br i1 {code.make(f'and i1 {good}, {some}')}, label %{new}, label %{slow}")
        code.label(new)
        wide = f"i{step * rows.lanes * 8}"
        every = "true"
        for at in places:
            mark = code.make(f"getelementptr i8, ptr {self.memory.marks}, i64 {at.text}")
            if load:
                one = code.make(f"icmp eq {wide} {code.make(f'load {wide}, ptr {mark}, align 1')}, -1")
                every = one if every == "true" else code.make(f"and i1 {every}, {one}")
            else:
                code.line(f"store {wide} -1, ptr {mark}, align 1")
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
        code.line(f"store i1 true, ptr {again}")
        if whole != "true":
            code.line(f"br i1 {whole}, label %{look}, label %{slow}")
        else:
            code.line(f"br label %{look}")
        code.label(look)
        start, limit, delta = (
            code.make(f"load i64, ptr {code.make(f'getelementptr i64, ptr {memo}, i64 {k}') if k else memo}")
            for k in range(3)
        )
        rotate = code.declare("llvm.fshr.i64", "i64", "i64, i64, i64")
        good, pointers = "", []
        for first in rows.firsts:
            place = code.make(f"sub i64 {first.text}, {start}")
            number = code.make(f"call i64 @{rotate}(i64 {place}, i64 {place}, i64 {shift})") if shift else place
            inside = code.make(f"icmp ult i64 {number}, {limit}")
            good = inside if not good else code.make(f"and i1 {good}, {inside}")
            pointers.append(code.make(f"inttoptr i64 {code.make(f'add i64 {first.text}, {delta}')} to ptr"))
        code.line(f"br i1 {good}, label %{fast}, label %{miss}")
        code.label(miss)
        first_time = code.make(f"load i1, ptr {again}")
        find = code.fresh("find")
        code.line(f"br i1 {first_time}, label %{find}, label %{slow}")
        code.label(find)
        code.line(f"store i1 false, ptr {again}")
        helper = code.declare("ws_memo", "void", "ptr, ptr, i64, i64, i64, i64")
        store = int(effect.kind != "load")
        code.line(
            f"call void @{helper}(ptr %ctx, ptr {memo}, i64 {rows.firsts[0].text}, i64 {step * rows.lanes}, i64 {shift}, "
            f"i64 {store})"
        )
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
                    place = code.make(f"getelementptr i8, ptr {pointer}, i64 {k * size}") if k else pointer
                    ones.append(Val(type, code.make(f"load {type}, ptr {place}, align {size}"), uniform=True))
                found.append(ones[0] if len(ones) == 1 else self._each_row(ones))
            return found
        parts = [
            code.make(f"load <{rows.lanes * count} x {type}>, ptr {pointer}, align {size}") for pointer in pointers
        ]
        for k in range(count):
            pieces = parts
            if count > 1:
                whole = f"<{rows.lanes * count} x {type}>"
                lanes = ", ".join(f"i32 {i * count + k}" for i in range(rows.lanes))
                pieces = [
                    code.make(f"shufflevector {whole} {p}, {whole} poison, <{rows.lanes} x i32> <{lanes}>")
                    for p in parts
                ]
            found.append(Val(type, self._joined(pieces, rows.lanes, type), uniform=False))
        return found

    def _each_row(self, ones: list[Val]) -> Val:
        """Every row's value in its lanes."""
        code, type = self.builder.code, ones[0].type
        few = f"<{len(ones)} x {type}>"
        vector = "poison"
        for k, one in enumerate(ones):
            vector = code.make(f"insertelement {few} {vector}, {type} {one.text}, i32 {k}")
        lanes = ", ".join(f"i32 {i // code.row}" for i in range(LANES))
        return Val(type, code.make(f"shufflevector {few} {vector}, {few} poison, <32 x i32> <{lanes}>"), uniform=False)

    def _joined(self, pieces: list[str], lanes: int, type: str) -> str:
        """Rows as the lanes of a warp; one alone is repeated."""
        code = self.builder.code
        if len(pieces) == 1 and lanes < LANES:
            index = ", ".join(f"i32 {i % lanes}" for i in range(LANES))
            whole = f"<{lanes} x {type}>"
            return code.make(f"shufflevector {whole} {pieces[0]}, {whole} poison, <32 x i32> <{index}>")
        while len(pieces) > 1:
            whole, index = f"<{lanes} x {type}>", ", ".join(f"i32 {i}" for i in range(2 * lanes))
            pieces = [
                code.make(f"shufflevector {whole} {a}, {whole} {b}, <{2 * lanes} x i32> <{index}>")
                for a, b in zip(pieces[::2], pieces[1::2], strict=True)
            ]
            lanes *= 2
        return pieces[0]

    def _store_rows(self, effect: Effect, rows: Rows, pointers: list[str], given: list[Val]) -> None:
        builder, code, size, count = self.builder, self.builder.code, effect.type.bytes, effect.count
        type = f"i{size * 8}"
        values = [code.splat(v) for v in given]
        if effect.space == "global":
            name = code.declare("ws_log", "i32", "ptr, i64, i64")
            for pointer in pointers:
                at = code.make(f"ptrtoint ptr {pointer} to i64")
                status = code.make(f"call i32 @{name}(ptr %ctx, i64 {at}, i64 {rows.lanes * size * count})")
                builder.fail_unless(code.make(f"icmp eq i32 {status}, 0"), LOG_FULL)
        each = LANES // len(pointers)
        for number, pointer in enumerate(pointers):
            last = (number + 1) * each  # of lanes with the same place the last one's value stays
            parts = []
            for value in values:
                lanes = ", ".join(f"i32 {i}" for i in range(last - rows.lanes, last))
                whole = f"<32 x {type}>"
                parts.append(
                    value.text
                    if rows.lanes == LANES
                    else code.make(
                        f"shufflevector {whole} {value.text}, {whole} poison, <{rows.lanes} x i32> <{lanes}>"
                    )
                )
            lanes_, width_ = parts, rows.lanes
            if count > 1:
                lanes_ = [self._woven(parts, rows.lanes, type)]
                width_ = rows.lanes * count
            code.line(f"store <{width_} x {type}> {lanes_[0]}, ptr {pointer}, align {size}")

    def _woven(self, parts: list[str], lanes: int, type: str) -> str:
        """Elements of several vectors in turns."""
        code, total = self.builder.code, lanes
        while len(parts) > 1:  # first with the one that is half the number away
            half = len(parts) // 2
            index = ", ".join(f"i32 {k // 2 + (k % 2) * total}" for k in range(2 * total))
            whole = f"<{total} x {type}>"
            parts = [
                code.make(f"shufflevector {whole} {a}, {whole} {b}, <{2 * total} x i32> <{index}>")
                for a, b in zip(parts[:half], parts[half:], strict=True)
            ]
            total *= 2
        return parts[0]
