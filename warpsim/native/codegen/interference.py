"""Interference: where the order of warps could be observed, by the extents (least and greatest address) of their
accesses.

Warps run one after the other between two barriers, and so do CTAs. Where one may have stored what another loaded or
stored, the region is rolled back (within a CTA), or the caller checks more closely (among CTAs, among warps of a region
without barriers, and for stores to global memory).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from warpsim.native.regions.forms import Effect
from warpsim.native.regions.options import spaces_of
from warpsim.native.regions.region import BlockSlice
from warpsim.native.runtime.context import INTERFERED
from warpsim.records import frozen

if TYPE_CHECKING:
    from warpsim.native.codegen.builder import RegionBuilder

FIRST, LAST = (1 << 63) - 1, -(1 << 63)
MOST_PAIRS = 64
"""Above so many pairs, stores to global memory are compared as one."""
Name = tuple[int, int, int]
"""An access: block, step, and which of the step's."""


@frozen
class Segment:
    """Steps of a slice between two barriers."""

    block: int
    first: int
    last: int


class Interference:
    """Records extents. ``numbers`` are the accesses that are followed."""

    def __init__(self, builder: RegionBuilder) -> None:
        self.builder = builder
        region = builder.region
        self.effects: dict[Name, Effect] = {}
        self._segments: list[Segment] = []
        self._after: dict[Segment, list[Segment]] = {}
        self.numbers: dict[Name, int] = {}
        self.inner: list[set[tuple[Name, Name]]] = []
        """For the entry and for each barrier: the pairs that may interfere from there up to the next barrier."""
        self._regions: list[set[Segment]] = []
        self.outer: set[tuple[Name, Name]] = set()
        self.before: dict[int, str] = {}
        self.observed: set[Name] = set()
        """Accesses whose extents the caller wants."""
        alone, observed = builder.variant.alone, builder.variant.observed
        if alone and not observed:
            return
        self._cut()
        stores = {s for e in self.effects.values() if e.kind != "load" and not alone for s in spaces_of(e.space)} - {
            "local"
        }
        self.observed = {n for n, e in self.effects.items() if not set(observed).isdisjoint(spaces_of(e.space))}
        if not (stores or self.observed):
            return
        if region.barriers:
            for source in self._sources():
                segments = self._reached([source])
                pairs: set[tuple[Name, Name]] = set()
                self._pairs(segments, pairs, stores, self.again)
                self.inner.append(pairs)
                self._regions.append(segments)
            stores -= {"shared"}
        self._pairs(set(self._segments), self.outer, stores, self._again_at_all)
        used = {name for pairs in (*self.inner, self.outer) for pair in pairs for name in pair} | self.observed
        self.numbers = {name: k for k, name in enumerate(sorted(used))}

    # ---- what may interfere -----------------------------------------------------------------------

    def _cut(self) -> None:
        builder, region = self.builder, self.builder.region
        firsts: dict[int, Segment] = {}
        lasts: list[tuple[Segment, BlockSlice]] = []
        for slice_ in region.all():
            cuts = [at for block, at in region.barriers if block == slice_.block and slice_.first <= at < slice_.last]
            bounds = [slice_.first, *[at + 1 for at in sorted(cuts)], slice_.last]
            parts = [Segment(slice_.block, a, b) for a, b in pairwise(bounds)]
            self._segments += parts
            if region.slices.get(slice_.block) is slice_:
                firsts[slice_.block] = parts[0]
            lasts.append((parts[-1], slice_))
            for at, instruction in enumerate(builder.instructions(slice_), slice_.first):
                for number, effect in enumerate(builder.traced(instruction).effects):
                    self.effects[slice_.block, at, number] = effect
        for part in self._segments:
            self._after[part] = []
        for part, slice_ in lasts:
            if slice_.ends:
                self._after[part] = [firsts[b] for b in slice_.successors if b in firsts]

    def _sources(self) -> list[Segment]:
        """Where warps start together: at the entry, and behind each barrier. A region that begins inside a block of a
        loop holds parts of that block twice."""
        begins, region = {(s.block, s.first): s for s in self._segments}, self.builder.region
        places = [(region.entry.block, region.entry.first), *((b, at + 1) for b, at in region.barriers)]
        return [begins[place] for place in places]

    def between_barriers(self) -> list[set[Segment]]:
        """The segments to which warps may come without a barrier in between, from the entry and from each barrier."""
        return (
            [self._reached([source]) for source in self._sources()]
            if self.builder.region.barriers
            else [set(self._segments)]
        )

    def _reached(self, work: list[Segment]) -> set[Segment]:
        """The segments that are reachable without a barrier in between."""
        found: set[Segment] = set()
        work = list(work)
        while work:
            one = work.pop()
            if one not in found:
                found.add(one)
                work += self._after[one]
        return found

    def again(self, segment: Segment) -> bool:
        """Whether a warp may come to a segment twice between two barriers."""
        return segment in self._reached(self._after[segment])

    def _again_at_all(self, segment: Segment) -> bool:
        """The same across barriers."""
        if not self.builder.region.barriers:
            return self.again(segment)
        seen, work = set[int](), list(self._follow[segment.block])
        while work:
            block = work.pop()
            if block not in seen:
                seen.add(block)
                work += self._follow[block]
        return segment.block in seen

    @cached_property
    def _follow(self) -> dict[int, set[int]]:
        """The blocks behind each."""
        found: dict[int, set[int]] = {s.block: set() for s in self._segments}
        for one in self._segments:
            found[one.block] |= {s.block for s in self._after[one]}
        return found

    def _pairs(
        self, segments: set[Segment], found: set[tuple[Name, Name]], stores: set[str], again: Callable[[Segment], bool]
    ) -> None:
        names = [
            (name, segment)
            for segment in segments
            for name in self.effects
            if name[0] == segment.block and segment.first <= name[1] < segment.last
        ]
        for space in stores:
            here = [(n, s) for n, s in names if space in spaces_of(self.effects[n].space)]
            for one, segment in here:
                for other, _ in here:
                    a, b = self.effects[one], self.effects[other]
                    if a.kind == b.kind == "load" or (a.commutes and a.commutes == b.commutes):
                        continue
                    if one == other and a.kind == "store" and not again(segment) and not self._stays(space):
                        continue  # its lanes store in the order CTA, warp, lane, as in a step
                    found.add((one, other))

    def _stays(self, space: str) -> bool:
        """Whether also stores in order matter: those of threads that have to keep apart."""
        return space == "global" and self.builder.variant.apart

    def ordered(self) -> list[tuple[Effect, bool, bool]]:
        """The accesses that are followed, whether each warp does them once at most, and whether they load what nobody may store."""
        by_name = {
            name: not self._again_at_all(segment)
            for segment in self._segments
            for name in self.numbers
            if name[0] == segment.block and segment.first <= name[1] < segment.last
        }
        numbered = sorted(self.numbers, key=self.numbers.__getitem__)
        return [(self.effects[n], by_name[n], self.builder.instruction(n).traits.constant) for n in numbered]

    # ---- the code ---------------------------------------------------------------------------------

    def range(self, name: Name) -> str:
        """The place of an access's extent, ``null`` if it is not followed."""
        number = self.numbers.get(name)
        if number is None:
            return "null"
        self._touch()
        return self.now[number]

    def note(self, name: Name, low: str, high: str) -> None:
        """Record the extent of an access."""
        number = self.numbers.get(name)
        if number is None:
            return
        self._touch()
        self._widen(self.now[number], low, high)

    def _touch(self) -> None:
        self.builder.code.store("i1", "true", self.touched)

    def _widen(self, pair: str, low: str, high: str) -> None:
        code = self.builder.code
        for at, value, name in ((0, low, "smin"), (1, high, "smax")):
            place = self._end(pair, at)
            code.store("i64", self.most(name, [code.load("i64", place), value]), place)

    def _end(self, pair: str, at: int) -> str:
        return self.builder.code.at(pair, "i64", at) if at else pair

    def _reset(self, pairs: list[str]) -> None:
        code = self.builder.code
        for pair in pairs:
            code.store("i64", FIRST, pair)
            code.store("i64", LAST, self._end(pair, 1))

    def enter(self) -> None:
        """Once per call."""
        code = self.builder.code
        self.now = [code.slot("[2 x i64]") for _ in self.numbers]
        ends = {self.numbers[b] for pairs in self.inner for _, b in pairs}
        self.phased = {n: code.slot("[2 x i64]") for n in sorted(ends)}
        self.before = {
            n: code.slot("[2 x i64]")
            for n in sorted({self.numbers[b] for b in {b for _, b in self.outer} | self.observed})
        }
        self.of_cta = {n: code.slot("[2 x i64]") for n in self.before} if self.builder.region.barriers else {}
        self.suspect = code.slot("i1")
        code.store("i1", "false", self.suspect)
        self.near = code.slot("i1")
        code.store("i1", "false", self.near)
        self.touched = code.slot("i1")
        for pairs in (self.now, self.before.values(), self.of_cta.values()):
            self._reset(list(pairs))

    def _here(self, source: int) -> set[int]:
        """The numbers of the accesses between a barrier and the next."""
        segments = self._regions[source]
        return {
            number
            for name, number in self.numbers.items()
            if any(name[0] == s.block and s.first <= name[1] < s.last for s in segments)
        }

    def _by_source(self, what: str, write: Callable[[int], None]) -> None:
        """Switch on the barrier where the warps started."""
        builder, code = self.builder, self.builder.code
        count = len(builder.region.barriers) + 1
        source = code.load("i32", builder.source)
        cases = " ".join(f"i32 {k}, label %{what}{k}" for k in range(count))
        code.line(f"switch i32 {source}, label %{what}_on [ {cases} ]")
        for k in range(count):
            code.label(f"{what}{k}")
            write(k)
            code.line(f"br label %{what}_on")
        code.label(f"{what}_on")

    def phase(self) -> None:
        """All warps of a CTA start, or resume behind a barrier."""
        if self.numbers:
            self._by_source("phase", lambda k: self._reset([self.phased[n] for n in self._here(k) if n in self.phased]))

    def warp(self) -> None:
        """A warp starts, or resumes behind a barrier."""
        if self.numbers:
            self.builder.code.store("i1", "false", self.touched)

    def _groups(self, pairs: set[tuple[Name, Name]]) -> list[tuple[tuple[Name, ...], tuple[Name, ...]]]:
        """What is compared: single accesses, or, where these are many, all stores to global memory together."""
        if len(pairs) <= MOST_PAIRS:
            return [((a,), (b,)) for a, b in sorted(pairs)]
        members: dict[str | Name, list[Name]] = {}
        for name in sorted({name for pair in pairs for name in pair}):
            members.setdefault(self._group(name), []).append(name)
        found = sorted({(self._group(a), self._group(b)) for a, b in pairs}, key=str)
        return [(tuple(members[a]), tuple(members[b])) for a, b in found]

    def _group(self, name: Name) -> str | Name:
        effect = self.effects[name]
        return effect.space if effect.kind == "store" and effect.space == "global" else name

    def _overlaps(
        self, pairs: set[tuple[Name, Name]], now: list[str] | dict[int, str], before: dict[int, str]
    ) -> list[tuple[Name, Name, str]]:
        """Whether extents have addresses in common: an access on each side, and a condition."""
        code, kept = self.builder.code, dict[tuple[str, tuple[Name, ...]], tuple[str, str]]()

        def extent(which: str, names: tuple[Name, ...], places: list[str] | dict[int, str]) -> tuple[str, str]:
            if (which, names) not in kept:
                pointers = [places[self.numbers[n]] for n in names]
                lows = [code.load("i64", p) for p in pointers]
                highs = [code.load("i64", self._end(p, 1)) for p in pointers]
                kept[which, names] = self.most("smin", lows), self.most("smax", highs)
            return kept[which, names]

        found = []
        for a, b in self._groups(pairs):
            (low_a, high_a), (low_b, high_b) = extent("now", a, now), extent("before", b, before)
            left, right = code.make(f"icmp slt i64 {low_a}, {high_b}"), code.make(f"icmp slt i64 {low_b}, {high_a}")
            found.append((a[0], b[0], code.make(f"and i1 {left}, {right}")))
        return found

    def most(self, how: str, values: list[str]) -> str:
        """The least or the greatest of numbers, as ``how`` says."""
        code, found = self.builder.code, values[0]
        for value in values[1:]:
            found = code.call(f"llvm.{how}.i64", "i64", f"i64 {found}", f"i64 {value}")
        return found

    def _fold(self, target: str, source: str) -> None:
        code = self.builder.code
        low, high = code.load("i64", source), code.load("i64", self._end(source, 1))
        self._widen(target, low, high)

    def done(self) -> None:
        """A warp exits or waits: compare its extents with those of the warps before it."""
        if not self.numbers:
            return
        if not self.builder.region.barriers:
            self._out({n: self.now[n] for n in self.before})
            self._reset(self.now)
            return
        code = self.builder.code
        code.branch(code.load("i1", self.touched), "done_some", "done_on")
        code.label("done_some")
        self._by_source("done", self._compare)

    def _compare(self, source: int) -> None:
        builder, code = self.builder, self.builder.code
        bad = near = "false"
        for one, other, more in self._overlaps(self.inner[source], self.now, self.phased):
            if all(self.effects[n].kind == "store" and self.effects[n].space == "global" for n in (one, other)):
                near = code.make(f"or i1 {near}, {more}")
            else:
                bad = more if bad == "false" else code.make(f"or i1 {bad}, {more}")
        if near != "false":
            near = code.make(f"or i1 {near}, {code.load('i1', self.near)}")
            code.store("i1", near, self.near)
        if bad != "false":
            builder.fail_unless(code.make(f"xor i1 {bad}, true"), INTERFERED)
        for number in sorted(self._here(source)):
            for kept in (self.phased, self.of_cta):
                if number in kept:
                    self._fold(kept[number], self.now[number])
            self._reset([self.now[number]])

    def cta_done(self) -> None:
        """A CTA is done."""
        self._out(self.of_cta)
        self._reset(list(self.of_cta.values()))

    def _out(self, now: dict[int, str]) -> None:
        """Store extents into the caller's table, and compare them with those before."""
        builder, code = self.builder, self.builder.code
        if not self.before:
            return
        bad = code.load("i1", self.suspect)
        for _, _, more in self._overlaps(self.outer, now, self.before):
            bad = code.make(f"or i1 {bad}, {more}")
        code.store("i1", bad, self.suspect)
        group = code.load("i64", builder.group)
        first = code.make(f"mul i64 {group}, {2 * len(self.numbers)}")
        for number, pair in now.items():
            self._fold(self.before[number], pair)
            for at in (0, 1):
                place = code.make(f"add i64 {first}, {2 * number + at}")
                pointer = code.at(builder.words["ranges"], "i64", place)
                code.store("i64", code.load("i64", self._end(pair, at)), pointer)

    def finish(self) -> None:
        """Whether the caller has to check more closely: 1, the extents of CTAs or warps; 2, what warps of a CTA stored
        to global memory."""
        code = self.builder.code
        suspect, near = (code.make(f"zext i1 {code.load('i1', flag)} to i64") for flag in (self.suspect, self.near))
        self.builder.put_word("suspect", code.make(f"or i64 {suspect}, {code.make(f'shl i64 {near}, 1')}"))
