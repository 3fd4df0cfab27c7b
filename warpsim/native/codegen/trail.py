"""Code that writes down the way of warps that are shown from near: which steps they take, and where in shared memory these go.

Each of these warps has a row of the trail. It leaves there, behind one another, the pieces of blocks that it has come through: the
number of the piece (`warpsim.native.runtime.trail.Piece`) and a word or some for each access, or below zero the exit by which it left.
A warp that diverges, or whose row is full, ends the region."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.graph.nodes import LANES
from warpsim.native.lowering.affine import first_of
from warpsim.native.lowering.values import Val
from warpsim.native.runtime.context import MET
from warpsim.native.runtime.trail import LANES_WORDS, MATRIX, ROW, Piece, Trace

if TYPE_CHECKING:
    from warpsim.native.codegen.builder import RegionBuilder
    from warpsim.native.regions.forms import Effect


class Trail:
    """Emits it for one region, where that is ``used``."""

    shown: str
    """Whether the warp is shown."""

    def __init__(self, builder: RegionBuilder, *, used: bool) -> None:
        self.builder, self.used = builder, used
        self.pieces: list[Piece] = []
        self._begun = 0, 0
        self._traces: list[Trace] = []
        self._firsts: list[tuple[int, str]] = []
        """Places in the piece, and what goes there at its end."""
        self._words = 1

    def warp(self) -> None:
        """A warp begins."""
        if self.used:
            self.shown = self.builder.code.make(f"icmp sge i64 {self._at()}, 0")

    def _at(self) -> str:
        """Where the warp's next piece begins."""
        builder = self.builder
        return builder.element(builder.words["trail_ends"], builder.now, "i64")

    def begin(self, block: int, first: int) -> None:
        """A converged warp comes to a step."""
        self._begun, self._traces, self._firsts, self._words = (block, first), [], [], 1

    def access(self, name: tuple[int, int, int], effect: Effect, address: Val, mask: str) -> None:
        """A converged warp accesses memory with the lanes ``mask``."""
        if not self.used or effect.space not in ("shared", "generic"):
            return
        if effect.space == "generic" or name[2]:  # where it leads is known later; all at one step count as one
            self.leave_off()
            return
        code, collective = self.builder.code, self.builder.traced(self.builder.instruction(name)).collective
        what = name[1], effect.kind != "load", self._words, MATRIX if collective else LANES
        if effect.lanes < LANES:
            mask = code.make(f"and i32 {mask}, {(1 << effect.lanes) - 1}")
        x = y = 0 if address.uniform else None
        if address.strides is not None:
            x, y = (stride.known for stride in address.strides)
        y = 0 if code.row == LANES else y
        if x is None or y is None:
            trace = Trace(*what)
            with code.when(self.shown):
                base = self._base(self._words + 1 + LANES_WORDS)
                code.store("i64", code.make(f"zext i32 {mask} to i64"), code.at(base, "i64", self._words))
                code.put(code.splat(address), code.at(base, "i64", self._words + 1), 8)
            self._words += 1 + LANES_WORDS
        else:
            trace = Trace(*what, (x, y, code.row))
            first = address if address.uniform else first_of(address)
            high = code.make(f"shl i64 {code.make(f'zext i32 {mask} to i64')}, 32")
            self._firsts.append(
                (self._words, code.make(f"or i64 {high}, {code.make(f'zext i32 {first.text} to i64')}"))
            )
            self._words += 1
        self._traces.append(trace)

    def end(self, last: int) -> None:
        """The warp has executed all steps before another one of the block."""
        if self.used:
            block, first = self._begun
            self._firsts.append((0, str(len(self.pieces))))
            self.pieces.append(Piece(block, first, last, self._words, self._traces))
            self._put(self._firsts, self._words)

    def leave(self, exit: int) -> None:
        """The warp leaves by an exit."""
        if self.used:
            self._put([(0, str(-1 - exit))], 1)

    def leave_off(self) -> None:
        """What comes now cannot be shown."""
        if self.used:
            self.builder.fail_unless(self.builder.code.make(f"xor i1 {self.shown}, true"), MET)

    def _base(self, words: int) -> str:
        """A pointer to so many words at the end of the warp's row."""
        code, at = self.builder.code, self._at()
        end = code.make(f"add i64 {code.make(f'and i64 {at}, {ROW - 1}')}, {words}")
        self.builder.fail_unless(code.make(f"icmp ult i64 {end}, {ROW}"), MET)
        return code.at(self.builder.words["trail"], "i64", at)

    def _put(self, values: list[tuple[int, str]], words: int) -> None:
        builder, code = self.builder, self.builder.code
        with code.when(self.shown):
            base = self._base(words)
            for place, value in values:
                code.store("i64", value, code.at(base, "i64", place))
            end = code.at(builder.words["trail_ends"], "i64", builder.now)
            code.store("i64", code.make(f"add i64 {self._at()}, {words}"), end)
