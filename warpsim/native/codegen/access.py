"""Accesses of memory by a warp: in rows where its lanes lie so, else lane by lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.native.codegen.atomics import Atomics
from warpsim.native.codegen.interference import Name
from warpsim.native.codegen.row_access import ByRows, rows_of
from warpsim.native.lowering.graphs import Lowering
from warpsim.native.lowering.values import Val
from warpsim.native.regions.forms import Effect

if TYPE_CHECKING:
    from warpsim.native.codegen.base import RegionEmitter


class Access(ByRows, Atomics):
    """Writes accesses. ``ordered`` and ``once`` are those that `Interference` follows."""

    def __init__(self, emitter: RegionEmitter) -> None:
        self.emitter = emitter
        self.effects = [
            e for p in emitter.region.all() for i in emitter.instructions(p) for e in emitter.traced(i).effects
        ]
        followed = emitter.interference.ordered() if emitter.interference.numbers else []
        self.ordered, self.once = [e for e, _ in followed], [o for _, o in followed]
        self.spaces = {e.space for e in self.effects}
        if "generic" in self.spaces:
            self.spaces |= {"shared", "local", "global"}
        self.memos: dict[tuple[int, Name], str] = {}

    @property
    def private(self) -> bool:
        """Whether shared memory is a copy that the CTA has alone."""
        return self.emitter.variant.private and "shared" in self.spaces

    # ---- once, and for each warp ------------------------------------------------------------------

    def enter(self) -> None:
        """Once."""
        emitter, code = self.emitter, self.emitter.code
        self.columns, self.positions = code.slot("[32 x i64]"), code.slot("[32 x i64]")
        if self.private:
            self.clean = code.slot("i64")
            self.bytes, self.stride = emitter.word("private_bytes"), emitter.word("private_stride")
            self.size = emitter.word("shared_size")
            self.tracked = emitter.word("private_tracked")
            code.line(f"store <32 x i64> zeroinitializer, ptr {self.columns}, align 64")

    def cta(self) -> None:
        """The warps of a CTA come: its memory."""
        emitter, code = self.emitter, self.emitter.code
        if self.private:
            offset = code.make(f"mul i64 {emitter.cta64}, {self.stride}")
            self.shared = code.make(f"getelementptr i8, ptr {emitter.words['private']}, i64 {offset}")
            half = code.make(f"lshr i64 {self.bytes}, 1")
            marks = code.make(f"getelementptr i8, ptr {self.shared}, i64 {half}")
            some = code.make(f"icmp ne i64 {self.tracked}, 0")
            self.marks = code.make(f"select i1 {some}, ptr {marks}, ptr null")
            if emitter.region.barriers:
                self._clear(code.make(f"select i1 {some}, i64 {self.bytes}, i64 {half}"))
            emitter.put_word("shared_words", self.shared, "ptr")
            emitter.put_word("shared_columns", "1")
            emitter.put_word("shared_written", self.marks, "ptr")
            place = code.make(f"getelementptr i64, ptr {emitter.words['cleans']}, i64 {emitter.cta64}")
            code.line(f"store i64 {code.make(f'load i64, ptr {place}')}, ptr {self.clean}")
        elif "shared" in self.spaces:
            column = Val("i64", emitter.column, uniform=True)
            code.line(f"store {code.of(code.splat(column))}, ptr {self.columns}, align 64")

    def _clear(self, size: str) -> None:
        """Where all CTAs have the same memory one after the other, it begins anew."""
        code = self.emitter.code
        anew, on = code.fresh("anew"), code.fresh("on")
        code.line(f"br i1 {code.make(f'icmp eq i64 {self.stride}, 0')}, label %{anew}, label %{on}")
        code.label(anew)
        name = code.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
        code.line(f"call void @{name}(ptr align 64 {self.shared}, i8 0, i64 {size}, i1 false)")
        code.line(f"br label %{on}")
        code.label(on)

    def warp(self) -> None:
        """A warp comes: its threads' memory."""
        emitter, code = self.emitter, self.emitter.code
        if "local" in self.spaces:
            first = code.make(f"shl i64 {emitter.row64}, 5")
            threads = code.make(f"getelementptr i32, ptr {emitter.words['threads']}, i64 {first}")
            narrow = Val("i32", code.make(f"load <32 x i32>, ptr {threads}, align 4"), uniform=False)
            wide = code.convert("zext", narrow, "i64")
            total = Val("i64", emitter.word("batch_columns"), uniform=True)
            position = code.op("add", code.op("mul", wide, total), Val("i64", emitter.column, uniform=True))
            code.line(f"store {code.of(position)}, ptr {self.positions}, align 64")

    def met(self) -> None:
        """The warps of a CTA have met: how much of its memory is written from the beginning on."""
        emitter, code = self.emitter, self.emitter.code
        if not self.private:
            return
        look, on = code.fresh("look"), code.fresh("on")
        place = code.make(f"getelementptr i64, ptr {emitter.words['cleans']}, i64 {emitter.cta64}")
        clean = code.make(f"load i64, ptr {place}")
        code.line(f"br i1 {code.make(f'icmp ult i64 {clean}, {self.size}')}, label %{look}, label %{on}")
        code.label(look)
        name = code.declare("ws_clean", "i64", "ptr, i64, i64")
        more = code.make(f"call i64 @{name}(ptr {self.marks}, i64 {clean}, i64 {self.size})")
        code.line(f"store i64 {more}, ptr {place}")
        code.line(f"store i64 {more}, ptr {self.clean}")
        code.line(f"br label %{on}")
        code.label(on)

    # ---- an access --------------------------------------------------------------------------------

    def make(
        self, name: Name, effect: Effect, lower: Lowering, lanes: Val, given: list[Val], *, together: bool
    ) -> list[Val]:
        """An access by ``lanes`` (bits of 32); ``together``: the lanes of the warp stand at one place."""
        code = self.emitter.code
        address = self._address(effect, lower)
        if effect.kind == "atomic":
            return [self._atomic(name, effect, address, lanes, given)]
        rows = None
        if effect.space == "global" or (effect.space == "shared" and self.private):
            rows = rows_of(code, address, effect.type.bytes * effect.count)
        if rows is not None and (together or (effect.kind == "load" and rows.lanes == 1 and len(rows.firsts) == 1)):
            found = self._by_rows(name, effect, address, rows, lanes, given)
            self._stored(effect, lanes)
            return found
        self._by_lanes(name, effect, address, lanes, given)
        self._stored(effect, lanes)
        if effect.kind == "store":
            return []
        return [self._found(effect, k) for k in range(effect.count)]

    def _stored(self, effect: Effect, lanes: Val) -> None:
        """Memory changes where any lane stores; where generic addresses lead to is known later."""
        emitter, code = self.emitter, self.emitter.code
        if effect.kind == "store" and effect.space != "generic":
            some = "true" if lanes.text == emitter.mask else code.make(f"icmp ne i32 {lanes.text}, 0")
            emitter.changes(effect.space, some)

    def _address(self, effect: Effect, lower: Lowering) -> Val:
        """64 bits; in shared and local memory 32."""
        node = effect.address
        if effect.space in ("shared", "local"):
            if node.op == "cast" and node.args[0].dtype.itemsize == 4:
                return lower(node.args[0])
            return self.emitter.code.convert("trunc", lower(node), "i32")
        return lower(node)
