"""The memories that a region accesses: their addresses for a call, a CTA and a warp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.native.lowering.values import Val

if TYPE_CHECKING:
    from warpsim.native.codegen.builder import RegionBuilder
    from warpsim.native.codegen.interference import Name


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

    @property
    def private(self) -> bool:
        """Whether the CTA has a private copy of shared memory."""
        return self.builder.variant.private and "shared" in self.spaces

    def enter(self) -> None:
        """Once per call."""
        builder, code = self.builder, self.builder.code
        self.columns, self.positions = code.slot("[32 x i64]"), code.slot("[32 x i64]")
        if self.private:
            self.clean = code.slot("i64")
            self.bytes, self.stride = builder.word("private_bytes"), builder.word("private_stride")
            self.size = builder.word("shared_size")
            self.tracked = builder.word("private_tracked")
            code.line(f"store <32 x i64> zeroinitializer, ptr {self.columns}, align 64")

    def cta(self) -> None:
        """Once per CTA."""
        builder, code = self.builder, self.builder.code
        if self.private:
            offset = code.make(f"mul i64 {builder.cta64}, {self.stride}")
            self.shared = code.make(f"getelementptr i8, ptr {builder.words['private']}, i64 {offset}")
            half = code.make(f"lshr i64 {self.bytes}, 1")
            marks = code.make(f"getelementptr i8, ptr {self.shared}, i64 {half}")
            some = code.make(f"icmp ne i64 {self.tracked}, 0")
            self.marks = code.make(f"select i1 {some}, ptr {marks}, ptr null")
            if builder.region.barriers:
                self._clear(code.make(f"select i1 {some}, i64 {self.bytes}, i64 {half}"))
            builder.put_word("shared_words", self.shared, "ptr")
            builder.put_word("shared_columns", "1")
            builder.put_word("shared_written", self.marks, "ptr")
            place = code.make(f"getelementptr i64, ptr {builder.words['cleans']}, i64 {builder.cta64}")
            code.line(f"store i64 {code.make(f'load i64, ptr {place}')}, ptr {self.clean}")
        elif "shared" in self.spaces:
            column = Val("i64", builder.column, uniform=True)
            code.line(f"store {code.of(code.splat(column))}, ptr {self.columns}, align 64")

    def _clear(self, size: str) -> None:
        """Zero a copy that CTAs share one after the other."""
        code = self.builder.code
        anew, on = code.fresh("anew"), code.fresh("on")
        code.line(f"br i1 {code.make(f'icmp eq i64 {self.stride}, 0')}, label %{anew}, label %{on}")
        code.label(anew)
        name = code.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
        code.line(f"call void @{name}(ptr align 64 {self.shared}, i8 0, i64 {size}, i1 false)")
        code.line(f"br label %{on}")
        code.label(on)

    def warp(self) -> None:
        """Once per warp: where its threads' local memory is."""
        builder, code = self.builder, self.builder.code
        if "local" in self.spaces:
            first = code.make(f"shl i64 {builder.row64}, 5")
            threads = code.make(f"getelementptr i32, ptr {builder.words['threads']}, i64 {first}")
            narrow = Val("i32", code.make(f"load <32 x i32>, ptr {threads}, align 4"), uniform=False)
            wide = code.convert("zext", narrow, "i64")
            total = Val("i64", builder.word("batch_columns"), uniform=True)
            position = code.op("add", code.op("mul", wide, total), Val("i64", builder.column, uniform=True))
            code.line(f"store {code.of(position)}, ptr {self.positions}, align 64")

    def barrier_passed(self) -> None:
        """Behind a barrier: how much of shared memory is written, from its start on."""
        builder, code = self.builder, self.builder.code
        if not self.private:
            return
        look, on = code.fresh("look"), code.fresh("on")
        place = code.make(f"getelementptr i64, ptr {builder.words['cleans']}, i64 {builder.cta64}")
        clean = code.make(f"load i64, ptr {place}")
        code.line(f"br i1 {code.make(f'icmp ult i64 {clean}, {self.size}')}, label %{look}, label %{on}")
        code.label(look)
        name = code.declare("ws_clean", "i64", "ptr, i64, i64")
        more = code.make(f"call i64 @{name}(ptr {self.marks}, i64 {clean}, i64 {self.size})")
        code.line(f"store i64 {more}, ptr {place}")
        code.line(f"store i64 {more}, ptr {self.clean}")
        code.line(f"br label %{on}")
        code.label(on)
