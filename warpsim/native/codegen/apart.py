"""Code that shows, while a launch runs, that no two threads have accessed the same bytes between two barriers where one of them wrote.

Shared memory: tables hold, for each few bytes, which thread has loaded them since the last barrier of its CTA, which has stored
there, and which has changed them by an atomic. Global memory: the extents of accesses are compared among warps and CTAs
(`warpsim.native.codegen.interference`), here those of a warp's own accesses; the caller compares what was stored with itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from warpsim.graph.nodes import LANES
from warpsim.native.runtime.context import MET

if TYPE_CHECKING:
    from collections.abc import Callable

    from warpsim.native.codegen.builder import RegionBuilder
    from warpsim.native.codegen.interference import Interference, Name, Segment
    from warpsim.native.lowering.values import Val
    from warpsim.native.regions.forms import Effect

KINDS = {"load": 0, "store": 1, "atomic": 2}
"""The tables of threads."""
ROWS = 3
"""A load of matrix rows, each by its whole warp."""
PHASE = 1 << 11
"""An entry is the number of the interval between barriers, and below this the thread, the highest for several."""
LAST = 0xFFFFFFFF - PHASE
MOST_PAIRS = 64
"""Above so many pairs, a load of global memory is compared with all stores as one."""


class Place(NamedTuple):
    """Where the lanes of a warp go: ``first`` is the address of the first, if the others follow side by side; else ``several`` may go
    to one place, of which it was stored to once."""

    first: str | None = None
    several: bool = False


class Apart:
    """Shows it for one region."""

    def __init__(self, builder: RegionBuilder, interference: Interference) -> None:
        self.builder, self.interference, self.effects = builder, interference, interference.effects
        self.stamped: set[Name] = set()
        self.pairs: set[tuple[Name, Name]] = set()
        """Writes of global memory, and what else a warp may access there between the same barriers."""
        self.single: set[Name] = set()
        """The accesses of global memory to which a warp comes once at most between two barriers."""
        self.origins: dict[Name, str] = {}
        """Of these, where the lanes of a warp go side by side: the address of the first."""
        for part in interference.between_barriers():
            self._meet(part)
        self.granule = min((self._nbytes(name) for name in self.stamped), default=1)

    def _meet(self, part: set[Segment]) -> None:
        again = {
            name: self.interference.again(segment)
            for segment in part
            for name in self.effects
            if name[0] == segment.block and segment.first <= name[1] < segment.last
        }
        spaces = {name: self.effects[name].space for name in again}
        single = {n for n, more in again.items() if spaces[n] == "global" and not more and not self._collective(n)}
        self.single |= single
        for one in again:
            for other in again:
                a, b = self.effects[one], self.effects[other]
                if a.kind == "load" or a.kind == b.kind == "atomic" or a.space != b.space:
                    continue
                if a.space == "shared":
                    self.stamped |= {one, other}
                elif a.space == "global" and (one < other or a.kind != b.kind):
                    self.pairs.add((one, other))
                    self.origins |= dict.fromkeys(single & {one, other}, "")

    def _nbytes(self, name: Name) -> int:
        effect = self.effects[name]
        return effect.type.bytes * effect.count

    def _collective(self, name: Name) -> bool:
        return self.builder.traced(self.builder.instruction(name)).collective

    @property
    def hopeless(self) -> bool:
        """Whether nothing can be shown: the region ends before the threads do; something is stored by generic addresses, or as rows;
        atomics may race with others or, in global memory, lie near stores."""
        region, effects = self.builder.region, self.effects
        writes = {n: e for n, e in effects.items() if e.kind != "load" and e.space != "local"}
        atomics = {n: e for n, e in writes.items() if e.kind == "atomic"}
        sizes = {(e.space, e.type.bytes, e.type.name[-2:] in ("x2", "x4")) for e in atomics.values()}
        return (
            not any(region.ends(exit) for exit in range(len(region.exits)))
            or (bool(writes) and any(e.space == "generic" for e in effects.values()))
            or len(sizes) > len({space for space, _, _ in sizes})
            or not all(map(self._reaches, atomics))
            or len({e.kind for e in writes.values() if e.space == "global"}) > 1
            or any(e.kind == "store" and self._collective(n) for n, e in writes.items())
            or (bool(self.stamped) and not self.builder.variant.private)
        )

    def _reaches(self, name: Name) -> bool:
        """Whether an atomic does not race with another one by a thread that can come to its place."""
        order = self.builder.instruction(name).traits.order
        return order.strong and (self.effects[name].space == "shared" or order.scope not in ("cta", "cluster"))

    # ---- the code ---------------------------------------------------------------------------------

    def enter(self) -> None:
        """Once per call."""
        code = self.builder.code
        self.origins = {name: code.slot("i64") for name in sorted(self.origins)}
        self.now = code.slot("i32")
        code.store("i32", PHASE, self.now)

    def phase(self) -> None:
        """All warps of a CTA start, or resume behind a barrier."""
        if self.stamped:
            code = self.builder.code
            now = code.load("i32", self.now)
            self.builder.fail_unless(code.make(f"icmp ult i32 {now}, {LAST}"), MET)
            code.store("i32", code.make(f"add i32 {now}, {PHASE}"), self.now)

    def warp(self) -> None:
        """A warp starts, or resumes behind a barrier."""
        for number, place in enumerate(self.origins.values()):
            self.builder.code.store("i64", -1 - number, place)

    def done(self) -> None:
        """A warp exits or waits: compare the extents of its own accesses."""
        now = self.interference.now
        code, bad, near = self.builder.code, "false", "false"
        few = len(self.pairs) <= MOST_PAIRS
        for other in sorted({b for _, b in self.pairs}):
            stores = self.effects[other].kind == "store"
            writes = [a for a, b in sorted(self.pairs) if b == other]
            for some in [[a] for a in writes] if few else [writes]:
                (low, high), (first, last) = self._extent(some, now), self._extent([other], now)
                left, right = code.make(f"icmp slt i64 {low}, {last}"), code.make(f"icmp slt i64 {first}, {high}")
                over = code.make(f"and i1 {left}, {right}")
                if few and {some[0], other} <= self.origins.keys() and self._nbytes(some[0]) == self._nbytes(other):
                    one, two = (code.load("i64", self.origins[n]) for n in (some[0], other))
                    over = code.make(f"and i1 {over}, {code.make(f'icmp ne i64 {one}, {two}')}")
                if stores:
                    near = code.make(f"or i1 {near}, {over}")
                else:
                    bad = code.make(f"or i1 {bad}, {over}")
        if near != "false":
            self._compare_stores(near)
        if bad != "false":
            self.builder.fail_unless(code.make(f"xor i1 {bad}, true"), MET)

    def _extent(self, names: list[Name], now: list[str]) -> tuple[str, str]:
        code, places = self.builder.code, [now[self.interference.numbers[n]] for n in names]
        lows, highs = [code.load("i64", p) for p in places], [code.load("i64", code.at(p, "i64", 1)) for p in places]
        return self.interference.most("smin", lows), self.interference.most("smax", highs)

    def accessed(
        self, name: Name, effect: Effect, address: Val, mask: Val, place: Place, where: Callable[[Val], str]
    ) -> None:
        """Lanes have accessed memory: note what has to be looked at, and fail where two threads have met. ``where`` spills addresses."""
        code = self.builder.code
        if name in self.stamped:
            self._stamp(name, effect, address, mask.text, place.first, where)
        elif name in self.origins and place.first is not None:
            code.store("i64", place.first, self.origins[name])
        if effect.space == "global" and effect.kind == "store":
            if name not in self.single or place.first is None:
                self._compare_stores("true")
            if place.several:  # one of them has stored
                others = code.make(f"and i32 {mask.text}, {code.make(f'sub i32 {mask.text}, 1')}")
                self.builder.fail_unless(code.make(f"icmp eq i32 {others}, 0"), MET)

    def _stamp(
        self, name: Name, effect: Effect, address: Val, here: str, row: str | None, where: Callable[[Val], str]
    ) -> None:
        """Enter the threads into the tables of shared memory."""
        builder, code = self.builder, self.builder.code
        kind = ROWS if self._collective(name) else KINDS[effect.kind]
        what = f"{self._nbytes(name)}_{self.granule.bit_length() - 1}_{kind}"
        now = code.load("i32", self.now)
        if not builder.region.barriers:  # CTAs come one after the other
            now = code.make(f"add i32 {now}, {code.make(f'mul i32 {builder.cta}, {PHASE}')}")
        me = "ptr %ctx", f"i32 {now}", f"i32 {code.make(f'shl i32 {builder.row}, 5')}"
        if row is not None and kind != ROWS:
            whole, part, done = (code.fresh(x) for x in ("whole", "part", "done"))
            code.branch(code.make(f"icmp eq i32 {here}, -1"), whole, part)
            code.label(whole)
            self._check(code.call(f"ws_meet_row_{what}", "i32", *me, f"i32 {row}"))
            code.line(f"br label %{done}")
            code.label(part)
            self._check(code.call(f"ws_meet_{what}", "i32", *me, f"ptr {where(address)}", f"i32 {here}"))
            code.fall(done)
            return
        if effect.lanes < LANES:
            here = code.make(f"and i32 {here}, {(1 << effect.lanes) - 1}")
        if address.uniform:  # two threads stand for all
            first = code.make(f"and i32 {here}, {code.make(f'sub i32 0, {here}')}")
            rest = code.make(f"xor i32 {here}, {first}")
            here = code.make(f"or i32 {first}, {code.make(f'and i32 {rest}, ' + code.make(f'sub i32 0, {rest}'))}")
        self._check(code.call(f"ws_meet_{what}", "i32", *me, f"ptr {where(address)}", f"i32 {here}"))

    def _compare_stores(self, condition: str) -> None:
        """Where it holds, the caller looks for bytes of global memory that are stored twice."""
        code, near = self.builder.code, self.interference.near
        code.store("i1", code.make(f"or i1 {code.load('i1', near)}, {condition}"), near)

    def _check(self, status: str) -> None:
        self.builder.fail_unless(self.builder.code.make(f"icmp eq i32 {status}, 0"), MET)
