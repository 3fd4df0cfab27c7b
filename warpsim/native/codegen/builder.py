"""What the parts of a region's code generation share: its registers and their kinds, the words of its context, its exits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import attrs

from warpsim.graph.nodes import LANES
from warpsim.native.lowering.values import IRBuilder, Val, memory, width
from warpsim.native.regions.forms import Key, Traced
from warpsim.native.regions.options import Variant
from warpsim.native.regions.region import BlockSlice, Region
from warpsim.native.runtime.context import CONTEXT, MIXED, NOWHERE, OWN, SEEN
from warpsim.native.runtime.counting import ACCESS, Counter
from warpsim.program.program import Instruction
from warpsim.records import define

if TYPE_CHECKING:
    from warpsim.native.regions.traces import Traces


UNIFORM, AFFINE, VARYING = 0, 1, 2
Strides = tuple[int | None, int | None]
Visit = tuple[str, int]
"""Of a slice by converged warps, of a block by diverged ones, or of where warps start."""


@define(eq=False)
class RegisterKinds:
    """A lattice: kinds only grow during the analysis, and do not change once ``frozen``."""

    forms: dict[Key, int] = attrs.field(factory=dict)
    strides: dict[Key, Strides] = attrs.field(factory=dict)
    """Known strides, None where they are not the same everywhere."""
    limits: dict[Key, tuple[int, int]] = attrs.field(factory=dict)
    """Of registers that are uniform or affine: the least ``zeros`` and the greatest ``top`` (`Val`) of all places."""
    diverging: set[int] = attrs.field(factory=set)
    """Blocks that lanes of a warp may enter diverged."""
    frozen: bool = False
    _readers: dict[Key, set[Visit]] = attrs.field(factory=dict)
    _writers: dict[Key, set[Visit]] = attrs.field(factory=dict)
    """The visits that read a register where a block begins, and those that write it where one ends."""
    _visit: Visit | None = None
    _work: set[Visit] = attrs.field(factory=set)

    def settle(self, visits: Callable[[], Iterable[Visit]], make: Callable[[Visit], None]) -> None:
        """Make all visits in their order, and each again where a register that it reads has changed since, or one that it writes
        has become of another form; then freeze. There may be more ``visits`` in every pass: of blocks that lanes are found to
        enter diverged."""
        seen, more = set[Visit](), True
        while more:
            more = False
            for visit in visits():
                if visit not in seen or visit in self._work:
                    seen.add(visit)
                    self._work.discard(visit)
                    self._visit, more = visit, True
                    make(visit)
        self._visit, self.frozen = None, True

    def read(self, key: Key) -> None:
        """The current visit depends on a register's kind."""
        if self._visit is not None:
            self._readers.setdefault(key, set()).add(self._visit)

    def form(self, key: Key) -> int:
        """A register's form."""
        return self.forms.get(key, UNIFORM)

    def _changed(self, key: Key) -> None:
        assert not self.frozen, "the kind of a register changes while the region is written"
        self._work |= self._readers.get(key, set())

    def widen(self, key: Key, form: int) -> None:
        """The current visit writes a register that is at least of this form."""
        if form > self.form(key):
            self.forms[key] = form
            self._changed(key)
            self._work |= self._writers.get(key, set())
        if self._visit is not None:
            self._writers.setdefault(key, set()).add(self._visit)

    def stride(self, key: Key, found: Strides) -> None:
        """A register has these strides in some place."""
        old = self.strides.get(key)
        new = found if old is None else tuple([a if a == b else None for a, b in zip(old, found, strict=True)])
        if new != old:
            self.strides[key] = new  # type: ignore[assignment]
            self._changed(key)

    def limit(self, key: Key, zeros: int, top: int) -> None:
        """A register has these in some place; the second time that it has others, nothing is known any more."""
        old = self.limits.get(key)
        if old is None:
            self.limits[key] = zeros, top
        elif zeros < old[0] or top > old[1]:
            self.limits[key] = old[0] if zeros >= old[0] else 0, old[1] if top <= old[1] else 64
        if old != self.limits[key]:
            self._changed(key)

    def diverge(self, blocks: set[int]) -> None:
        """Lanes may enter these blocks diverged."""
        assert not self.frozen or blocks <= self.diverging
        self.diverging |= blocks


PATH = 0x9E3779B97F4A7C15
"""An odd number, so that warps with the same sum of blocks have come the same way."""


class RegionBuilder:
    """Builds one region's function."""

    words: dict[str, str]
    """The words of the context that every warp needs."""
    results: dict[int, str]
    """Where uniform live-outs are written."""
    log_used: str
    changed: str
    common: str
    path: str
    """A number for the branches that a warp has taken; over all warps its bits that any has, and that all have; and whether
    lanes of any warp have parted."""
    any_path: str
    every_path: str
    parted: str
    back_edge_count: str
    waiting: str
    place: str
    leaving: str
    source: str
    group: str
    now: str
    """The number of the warp among all, and in its CTA; its row and its CTA in the tables, its lanes as bits, and how many."""
    now_member: str
    row: str
    cta: str
    row64: str
    cta64: str
    column: str
    mask: str
    lanes: str

    def __init__(
        self,
        traces: Traces,
        region: Region,
        varying: frozenset[Key],
        variant: Variant,
        kinds: RegisterKinds,
        code: IRBuilder,
    ) -> None:
        self.traces, self.region, self.varying, self.variant, self.kinds = traces, region, varying, variant, kinds
        self.plan = region.plan
        self.code = code
        self.code.row = variant.row or 32
        self.exits = {place: number for number, place in enumerate(region.exits)}
        self.barriers = {place: number for number, place in enumerate(region.barriers)}
        self.written = {slot for p in region.all() for i in self.instructions(p) for slot, _ in self.traced(i).outputs}
        self.choices = {b for s in region.all() if len(set(s.successors)) > 1 for b in s.successors}
        """The blocks that a branch chooses: these tell which way a warp has come."""
        self.counters = Counters(code, used=variant.counted)
        self.failures: set[int] = set()
        self.left: set[int] = set()
        """The registers that are live at any exit that is emitted."""

    # ---- the region ---------------------------------------------------------------------------------

    def instructions(self, slice_: BlockSlice) -> Sequence[Instruction]:
        """The instructions of a slice, without the branch."""
        return self.plan.blocks[slice_.block].instructions[slice_.first : slice_.last]

    def instruction(self, name: tuple[int, int, int]) -> Instruction:
        """The instruction of an access."""
        return self.plan.blocks[name[0]].instructions[name[1]]

    def traced(self, instruction: Instruction) -> Traced:
        """An instruction's graphs."""
        made = self.traces.of(instruction)
        assert made is not None
        return made

    # ---- the context ---------------------------------------------------------------------------

    def word(self, name: str, type: str = "i64") -> str:
        """A word of the context."""
        pointer = self.code.at("%ctx", "i64", CONTEXT[name])
        return self.code.load(type, pointer)

    def put_word(self, name: str, value: str, type: str = "i64") -> None:
        """Write a word of the context."""
        pointer = self.code.at("%ctx", "i64", CONTEXT[name])
        self.code.store(type, value, pointer)

    def element(self, array: str, index: str, type: str = "i32") -> str:
        """An element of an array."""
        return self.code.load(type, self.code.at(array, type, index))

    def descriptor(self, array: str, number: int) -> str:
        """The descriptor of a value that comes in or goes out."""
        return self.code.at(self.words[array], "i64", number * 6)

    def fail_unless(self, good: str, why: int) -> None:
        """A guard: roll back with a status unless a condition holds."""
        code = self.code
        on = code.fresh("on")
        code.branch(good, on, f"fail{why}")
        self.failures.add(why)
        code.label(on)

    def count(self, block: int, here: str, how: str = "add") -> None:
        """Count a warp with the lanes ``here`` in a block, and the lane that is followed, if it is one of them."""
        code, blocks = self.code, sorted(self.region.slices)
        number = blocks.index(block)
        counted = [(2 * number, "1"), (2 * number + 1, self.lanes if here == self.mask else self.counters.number(here))]
        if self.variant.follows:
            lane = code.make(f"trunc i64 {self.word('lane')} to i32")
            met = code.make(f"icmp ne i32 {code.make(f'and i32 {here}, {lane}')}, 0")
            counted.append((2 * len(blocks) + number, code.make(f"zext i1 {met} to i64")))
        for at, more in counted:
            place = code.at(self.words["counts"], "i64", at)
            old = code.load("i64", place)
            code.store("i64", code.make(f"{how} i64 {old}, {more}"), place)
        self.counters.entered(block, here, how)

    def count_back(self, block: int, at: int, here: str) -> None:
        """Take back the count of lanes that exit where a block begins: the interpreter counts them again."""
        if at == 0:
            self.count(block, here, "sub")

    def changes(self, space: str, where: str = "true") -> None:
        """Memory of a space is changed if a condition holds."""
        code, what = self.code, OWN if space == "local" else SEEN
        more = code.make(f"select i1 {where}, i64 {what}, i64 0")
        old = code.load("i64", self.changed)
        code.store("i64", code.make(f"or i64 {old}, {more}"), self.changed)

    def passes(self, block: int) -> None:
        """Hash a block into the path of a converged warp, where it could have come elsewhere."""
        if block not in self.choices:
            return
        code = self.code
        old = code.load("i64", self.path)
        mixed = code.make(f"mul i64 {old}, {PATH}")
        code.store("i64", code.make(f"add i64 {mixed}, {block + 1}"), self.path)

    # ---- where warps leave ------------------------------------------------------------------------

    def leave(self, exit: int, values: Callable[[int], Val]) -> None:
        """A converged warp exits."""
        code = self.code
        self.left |= self.region.live[exit]
        self.left_by(f"{exit}")
        self.put_outs(values, exit)
        code.line("br label %left")

    def left_by(self, exit: str) -> None:
        """Record the exit of the warp, and whether all took the same."""
        code = self.code
        place = code.at(self.words["exits"], "i32", self.now)
        code.store("i32", exit, place)
        common = code.load("i32", self.common)
        first, same = code.make(f"icmp eq i32 {common}, {NOWHERE}"), code.make(f"icmp eq i32 {common}, {exit}")
        good = code.make(f"or i1 {first}, {same}")
        code.store("i32", code.make(f"select i1 {good}, i32 {exit}, i32 {MIXED}"), self.common)

    def put_outs(self, values: Callable[[int], Val], exit: int | None = None) -> None:
        """Write the live-outs of an exit, or of any."""
        code = self.code
        live = self.left if exit is None else self.region.live[exit]
        for number, slot in enumerate(self.region.outs):
            if slot not in live:
                continue
            value: Val = values(slot)
            if slot not in self.varying:
                wide = value if value.type == "i64" else code.convert("zext", value, "i64")
                code.store("i64", wide.text, self.results[slot])
                continue
            n = width(memory(value.type))
            pointer = code.spill(value)
            warp = f"i32 {self.row}", f"i32 {self.cta}", f"i32 {self.mask}"
            where = f"ptr {self.descriptor('outs', number)}"
            code.call(f"ws_out_{n // 8}", "void", "ptr %ctx", where, *warp, f"ptr {pointer}")

    def check_limit(self, block: int, leave: Callable[[], None]) -> None:
        """Exit before a block at which lanes have to wait for others."""
        if not self.variant.limited:
            return
        code = self.code
        with code.when(code.make(f"icmp sge i64 {block}, {self.words['limit']}"), leaves=True):
            leave()

    # ---- loops ------------------------------------------------------------------------------------

    def count_back_edge(self, leave: Callable[[], None]) -> None:
        """Count a back edge; exit before the branch where the interpreter has to check its limits."""
        code = self.code
        back_edges = code.load("i64", self.back_edge_count)
        more = code.make(f"add i64 {back_edges}, 1")
        over = code.make(f"icmp sgt i64 {more}, {self.words['back_edges']}")
        if self.region.stored:
            used = code.load("i64", self.log_used)
            half = code.make(f"lshr i64 {self.words['log_size']}, 1")
            over = code.make(f"or i1 {over}, {code.make(f'icmp ugt i64 {used}, {half}')}")
        with code.when(over, leaves=True):
            leave()
        code.store("i64", more, self.back_edge_count)


class Counters:
    """Counters of what a launch's profile has, in regions that are made for one: where each is, from ``begin`` on, a pointer."""

    begin: str
    whole: str
    """The lanes of the warp that its CTA has, those of it that are here, and whether some are elsewhere."""
    mask: str
    lanes: str
    part: str
    straight: dict[int, int]
    """Of the steps that are being written, all behind one another: where lanes, warps, and pieces, of which a warp has so many, are
    counted."""

    def __init__(self, code: IRBuilder, *, used: bool) -> None:
        self.code, self.used = code, used
        self.all: list[Counter] = []
        self.words, self.straight = 0, {}
        self._places: dict[tuple[object, ...], int] = {}

    def place(self, what: str, block: int, at: int, *more: object, words: int = 1, nbytes: int = 0) -> str:
        """A pointer to a counter: the same wherever code of its step is emitted."""
        key = what, block, at, *more
        if key not in self._places:
            self._places[key] = self.words
            self.all.append(Counter(what, block, at, self.words, nbytes))
            self.words += words
        return self.code.at(self.begin, "i64", self._places[key])

    def access(self, space: str, block: int, at: int, number: int, nbytes: int) -> str:
        """The counters of one of a step's accesses."""
        return self.place(space, block, at, number, words=ACCESS[space], nbytes=nbytes)

    def even(self, block: int, at: int, nbytes: int) -> None:
        """Count an access of shared memory by a converged warp whose banks do not conflict: with others between the same steps."""
        code, pieces = self.code, max(nbytes // 4, 1)
        if pieces not in self.straight:
            word = self.straight[pieces] = self.words
            self.words += 3
            self.add(code.at(self.begin, "i64", word), self.lanes)
            self.add(code.at(self.begin, "i64", word + 1), "1")
            size = LANES // pieces
            for first in range(0, LANES if pieces > 1 else 0, size):
                part = code.make(f"and i32 {self.mask}, {((1 << size) - 1) << first}")
                some = code.make(f"zext i1 {code.make(f'icmp ne i32 {part}, 0')} to i64")
                self.add(code.at(self.begin, "i64", word + 2), some)
        self.all.append(Counter("even", block, at, self.straight[pieces], nbytes))

    def add(self, place: str, more: str, how: str = "add") -> None:
        """Add to a counter, or subtract."""
        code = self.code
        code.store("i64", code.make(f"{how} i64 {code.load('i64', place)}, {more}"), place)

    def warp(self, wholes: str, row: str, mask: str) -> None:
        """A warp begins."""
        if self.used:
            self.whole, self.mask = self.code.load("i32", self.code.at(wholes, "i32", row)), mask
            self.lanes = self.number(mask)
            self.part = self._among(mask)

    def _among(self, here: str) -> str:
        """Whether these are only a part of the warp's lanes, 0 or 1."""
        return self.code.make(f"zext i1 {self.code.make(f'icmp ne i32 {here}, {self.whole}')} to i64")

    def entered(self, block: int, here: str, how: str) -> None:
        """A warp enters a block with the lanes ``here``."""
        if self.used:
            part = self.part if here == self.mask else self._among(here)
            self.add(self.place("partial", block, 0), part, how)

    def guarded(self, block: int, at: int, here: str, passed: str) -> None:
        """A guard lets the lanes ``passed`` of those ``here`` pass."""
        if self.used:
            self.add(self.place("left out", block, at), self.number(self.code.make(f"xor i32 {here}, {passed}")))

    def branched(self, block: int, here: str, taken: str) -> None:
        """Lanes ``taken`` of those ``here`` take a branch."""
        code = self.code
        if self.used:
            some, rest = code.make(f"icmp ne i32 {taken}, 0"), code.make(f"icmp ne i32 {taken}, {here}")
            both = code.make(f"and i1 {some}, {rest}")
            self.add(self.place("diverged", block, 0), code.make(f"zext i1 {both} to i64"))

    def number(self, lanes: str) -> str:
        """How many lanes a mask has."""
        count = self.code.call("llvm.ctpop.i32", "i32", f"i32 {lanes}")
        return self.code.make(f"zext i32 {count} to i64")
