"""Launches whose scalars are known only to lie between bounds: two arbitrary threads, and a solver.

Two threads are enough: a race is between two, and barriers diverge where two threads of a CTA, of which neither has exited, take
different ways to different barriers. What holds for both, whatever their indices, scalars, laps and data, holds for all.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Collection, Iterator, Mapping

import attrs
import z3

from warpsim.errors import Finding
from warpsim.host.options import dims
from warpsim.isa.traits import Ending
from warpsim.machine.reporting import finding_at
from warpsim.machine.state.launch import LaunchState
from warpsim.program.program import Instruction, Variable
from warpsim.proving.answers import RULES, Answer, Verdict
from warpsim.proving.contents import promises
from warpsim.proving.effort import Effort
from warpsim.proving.paths import FALSE, TRUE, Access, Walker, Ways, named
from warpsim.records import frozen

Range = tuple[int, int]


@frozen(eq=False)
class Place:
    """What an address is made from: an array or a variable, its size in bytes, and the residue of its address modulo 256."""

    base: z3.ExprRef
    size: int
    residue: int
    read_only: bool
    space: str


class Questions:
    """Asks the solver about two threads of a launch, of which ``ranges`` are the bounds of some parameters."""

    def __init__(self, state: LaunchState, ranges: Mapping[str, Range], effort: Effort) -> None:
        self.state, self.effort = state, effort
        self.places: dict[str, Place] = {}
        self._placed: dict[int, Place | None] = {}
        self._offsets: dict[int, z3.ExprRef] = {}
        self._theirs: dict[tuple[int, bool], tuple[z3.ExprRef, z3.ExprRef]] = {}
        """By the identity of a term, which is kept alive, and whether the other thread may be of another CTA."""
        self.scalars: dict[str, z3.ExprRef] = {}
        self.always: list[z3.ExprRef] = []
        self.threads: list[z3.ExprRef] = []
        self.ctas: list[z3.ExprRef] = []
        self.specials = self._specials(dims("grid", state.grid), dims("block", state.block))
        for param in state.plan.entry.params:
            if param.name in ranges:
                low, high = ranges[param.name]
                made = self.scalars[param.name] = z3.BitVec(param.name, 8 * param.size)
                self.always += [low <= made, made <= high] if low < 0 else [z3.ULE(low, made), z3.ULE(made, high)]
        self.walker = Walker(
            state.plan.entry, self.specials, self._param, self._variable, self.always, effort, ends=not ranges
        )
        self.ways: Ways = self.walker.run()
        self.code = state.plan.entry.code
        own = [*self.threads, *self.walker.names.own]
        self.other = [(x, z3.Const(f"{x}'", x.sort())) for x in own]
        self.elsewhere = [(x, z3.Const(f"{x}'", x.sort())) for x in self.ctas]

    # ---- what is given -----------------------------------------------------------------------

    def _specials(self, grid: tuple[int, ...], block: tuple[int, ...]) -> dict[str, z3.ExprRef]:
        found: dict[str, z3.ExprRef] = {}
        for axis, cta, thread in zip("xyz", grid, block, strict=True):
            for name, count, kept in ((f"tid.{axis}", thread, self.threads), (f"ctaid.{axis}", cta, self.ctas)):
                made = z3.BitVecVal(0, 32)
                if count > 1:
                    made = z3.BitVec(name, 32)
                    kept.append(made)
                    self.always.append(z3.ULT(made, count))
                found[name] = made
            found[f"ntid.{axis}"], found[f"nctaid.{axis}"] = z3.BitVecVal(thread, 32), z3.BitVecVal(cta, 32)
        x, y, z = (found[f"tid.{axis}"] for axis in "xyz")
        self.linear = z3.simplify(x + y * block[0] + z * (block[0] * block[1]))
        found["laneid"] = self.linear & 31
        return found

    def _param(self, offset: int, nbytes: int) -> z3.ExprRef | None:
        param = next(p for p in self.state.plan.entry.params if p.offset <= offset < p.offset + p.size)
        if param.name in self.scalars:
            return self.scalars[param.name] if nbytes == param.size else None
        number = int.from_bytes(self.state.params[offset : offset + nbytes], "little")
        if nbytes == 8 and number:
            found = next((a for a in self.state.memory.allocations if a.start <= number <= a.end), None)
            if found is not None:
                name, first, size = f"array {found.start:x}", found.start, found.end - found.start
                place = self._place(name, 64, size, first, "global", read_only=found.read_only)
                return place.base + (number - first)
        return z3.BitVecVal(number, 8 * nbytes)

    def _variable(self, variable: Variable) -> z3.ExprRef | None:
        space = variable.space.value
        if variable.in_frame:
            if space != "local":
                return None
            at = self.state.plan.main.offset(variable) & 15
            return self._place(variable.unique, 64, variable.size, at, space, read_only=False).base
        plan, shared = self.state.plan, space == "shared"
        start = plan.address(variable)
        size = variable.size
        if shared and (variable.linkage == "extern" or not size):
            size = self.state.shared_size - start
        bits = 32 if shared else 64
        return self._place(variable.unique, bits, size, start, space, read_only=space == "const").base

    def _place(self, name: str, bits: int, size: int, start: int, space: str, *, read_only: bool) -> Place:
        if name not in self.places:
            base = z3.BitVec(f"&{name}", bits)
            self.places[name] = Place(base, size, start & 255, read_only, space)
            if space == "shared":
                self.always.append(base == start)
            elif space == "local":
                self.always += [base & 255 == start & 255, z3.ULT(base, 1 << 24)]
            else:
                self.always += [base & 255 == start & 255, z3.ULT(base, 1 << 47), z3.UGT(base, 1 << 20)]
        return self.places[name]

    # ---- what is asked -----------------------------------------------------------------------

    def possible(self, *terms: z3.ExprRef, two: bool = False, across: bool = False) -> z3.ModelRef | bool | None:
        """A model of terms; None if there is none, False if nobody knows."""
        if self.effort.late:
            return False
        solver = z3.Solver()
        solver.add(*self.always, *terms)
        if two:
            solver.add(*[self.theirs(term, across=across) for term in self.always])
        answer = self.effort.ask(solver)
        return solver.model() if answer == z3.sat else None if answer == z3.unsat else False

    def theirs(self, term: z3.ExprRef, *, across: bool = False) -> z3.ExprRef:
        """A term of the other thread."""
        key = term.get_id(), across
        if key not in self._theirs:
            self._theirs[key] = term, z3.substitute(term, *self.other, *(self.elsewhere if across else []))
        return self._theirs[key][1]

    def place_of(self, access: Access) -> Place | None:
        """What an address is made from; None if that is not one array or variable of the space, or it is too late to look."""
        if id(access) not in self._placed:
            names = set() if self.effort.late else named(access.address)
            found = [place for place in self.places.values() if str(place.base) in names]
            meant = access.space.partition("::")[0] or "global"
            self._placed[id(access)] = found[0] if [place.space for place in found] == [meant] else None
        return self._placed[id(access)]

    def offset(self, access: Access, place: Place) -> z3.ExprRef:
        """How far behind the beginning an access is."""
        if id(access) not in self._offsets:
            base = place.base if place.base.size() == 64 else z3.ZeroExt(32, place.base)
            self._offsets[id(access)] = z3.simplify(access.address - base)
        return self._offsets[id(access)]

    def bounds(self, places: set[tuple[int, int]] | None) -> Iterator[tuple[Instruction, z3.ModelRef | None]]:
        """Accesses (at these places) that may be outside, misaligned or of what is read-only: the inputs, if they are known."""
        for access in self.ways.accesses:
            span = access.instruction.span
            if places is not None and (span.line, span.column) not in places:
                continue
            place = self.place_of(access)
            if place is None:
                yield access.instruction, None
                continue
            offset = self.offset(access, place)
            inside = z3.ULE(offset, place.size - access.nbytes) if access.nbytes <= place.size else FALSE
            good = [inside, (offset + place.residue) & (access.nbytes - 1) == 0]
            if place.read_only and access.kind != "load":
                good.append(FALSE)
            model = self.possible(access.condition, z3.Not(z3.And(good)))
            if model is not None:
                yield access.instruction, model or None

    def races(self) -> Iterator[tuple[Instruction, z3.ModelRef | None]]:
        """Accesses that two threads may make of the same bytes, unordered."""
        accesses = [(a, self.place_of(a)) for a in self.ways.accesses if a.space != "local"]
        placed = [(a, p) for a, p in accesses if p is not None and p.space != "local"]
        yield from ((a.instruction, None) for a, p in accesses if p is None)
        yield from self._apart
        for (a, p), (b, q) in itertools.combinations_with_replacement(placed, 2):
            if p is not q or (a.kind == "load" and b.kind == "load"):
                continue
            if self.effort.late:
                yield a.instruction, None
                return
            for across in (False,) if p.space == "shared" else (False, True):
                if across and not self.elsewhere:
                    continue
                if (
                    a.kind == b.kind == "atomic"
                    and a.nbytes == b.nbytes
                    and not (across and {a.instruction.traits.scope, b.instruction.traits.scope} & {"cta", "cluster"})
                ):
                    continue
                constant = any(each.instruction.traits.constant for each in (a, b))
                orders = [TRUE] if across or constant else [z3.And(o) for o in self._unordered(a, b)]
                if not orders:
                    continue
                one, two = self.offset(a, p), self.theirs(self.offset(b, q), across=across)
                overlap = z3.And(z3.ULT(one - two + a.nbytes - 1, a.nbytes + b.nbytes - 1))
                pairs = self.elsewhere if across else self.other[: len(self.threads)]
                distinct = z3.Or([z3.BoolVal(constant), *(x != y for x, y in pairs)])
                meeting = overlap, distinct, z3.Or(orders)
                if self.possible(*meeting, two=True, across=across) is None:
                    continue  # whatever the conditions are, which may be long
                conditions = a.condition, self.theirs(b.condition, across=across)
                model = self.possible(*conditions, *meeting, two=True, across=across)
                if model is not None:
                    yield a.instruction, model or None

    def _unordered(self, a: Access, b: Access) -> Iterator[list[z3.ExprRef]]:
        """On which conditions no barrier of the CTA lies between two accesses: of the laps that the two threads are in."""
        if self.early:
            yield [TRUE]
            return
        for start, ahead in self._phases.items():
            if a.at in ahead and b.at in ahead:
                yield list(self._laps(start, a.at, b.at))

    @functools.cached_property
    def _phases(self) -> dict[int, set[int]]:
        """What threads may execute from the kernel's beginning (-1) or a barrier up to the next barrier."""
        return {
            -1: self._ahead([0], self.stops),
            **{at: self._ahead(self._next(at), self.stops) for at in self.stops},
        }

    @functools.cached_property
    def early(self) -> bool:
        """Whether some threads of a CTA may exit where others go on to a barrier, which then orders nothing of theirs."""
        for at, condition, guard in self.walker.branches:
            instruction = self.code[at]
            ahead = self._ahead(self._next(at), self.stops)
            leaves = instruction.traits.leaves or any(not self._next(n) for n in ahead)
            if not leaves or not ahead & self.stops:
                continue
            terms = condition, self.theirs(condition), guard != self.theirs(guard), *self._together(at)
            if self.possible(*terms, two=True) is not None:
                return True
        return False

    def _together(self, at: int) -> list[z3.ExprRef]:
        """That two threads are in the same laps of loops in which each lap passes a barrier."""
        heads = [h for h in self.timed if self._within(at, h) and h in self.ways.laps]
        return [self.ways.laps[h] == self.theirs(self.ways.laps[h]) for h in heads]

    def _laps(self, start: int, one: int, two: int) -> Iterator[z3.ExprRef]:
        """In which laps of loops around one of both instructions, or both, two threads are that come to them from the same barrier
        (`_phases`); of one that has left a loop for good, in which it has."""
        for head in self.timed:
            inside = [self._within(at, head) for at in (one, two)]
            outer = any(head in blocks for other, blocks in self.walker.inside.items() if other != head)
            if head not in self.ways.laps or not any(inside) or (outer and not all(inside)):
                continue
            mine, other = self.ways.laps[head], self.theirs(self.ways.laps[head])
            if start < 0 or not self._within(start, head):
                yield mine == other if all(inside) else (mine if inside[0] else other) == 0  # the first
                continue
            first = self.walker.blocks[head].first
            same = self._ahead(self._next(start), self.stops, cut=frozenset({first}))
            later = self._ahead([first], self.stops) if first in self._phases[start] else set()
            places = [(at in same, at in later) for at in (one, two)]
            if places[0] == places[1] and places[0] != (True, True):
                yield mine == other
            elif (True, True) not in places:
                yield other == mine + 1 if places[0][0] else mine == other + 1

    def _within(self, at: int, head: int) -> bool:
        blocks = self.walker.blocks
        return any(blocks[n].first <= at < blocks[n].last for n in self.walker.inside[head])

    @functools.cached_property
    def stops(self) -> set[int]:
        """The barriers of the CTA that every thread passes which comes there."""
        return {at for at in self.stops_of_cta if self.code[at].guard is None}

    @functools.cached_property
    def timed(self) -> list[int]:
        """The heads of loops in which each lap passes a barrier of the CTA."""
        return [h for h in self.walker.inside if not self._cycle(h)]

    def _cycle(self, head: int) -> bool:
        first = self.walker.blocks[head].first
        return first in self._ahead([first], self.stops, inside=head, start=True)

    def _ahead(
        self,
        starts: list[int],
        stops: set[int],
        *,
        inside: int | None = None,
        start: bool = False,
        cut: frozenset[int] = frozenset(),
    ) -> set[int]:
        """The instructions that can come next from some on without passing a stop; these stops, too."""
        found: set[int] = set()
        work = list(starts) if not start else [n for s in starts for n in ([] if s in stops else self._next(s))]
        while work:
            at = work.pop()
            if at in found or at in cut or (inside is not None and not self._within(at, inside)):
                continue
            found.add(at)
            if at not in stops:
                work += self._next(at)
        return found

    def _next(self, at: int) -> list[int]:
        instruction, traits = self.code[at], self.code[at].traits
        following = [at + 1] if at + 1 < len(self.code) else []
        if traits.ending is Ending.BRANCH:
            targets = [t for t in instruction.targets if t < len(self.code)]
            guard = self._settled.get(at)
            if guard is not None:
                return targets if guard else following
            return targets + (following if instruction.guard is not None else [])
        if (traits.leaves or traits.stop is not None) and instruction.guard is None:
            return []
        return following

    @functools.cached_property
    def _settled(self) -> dict[int, bool]:
        """The guards of branches that are the same in all threads, laps and launches."""
        guards: dict[int, list[z3.ExprRef]] = {}
        for at, _, guard in self.walker.branches:
            guards.setdefault(at, []).append(guard)
        known = {at: {str(z3.simplify(g)) if len(named(g)) == 0 else "" for g in each} for at, each in guards.items()}
        return {at: found == {"True"} for at, found in known.items() if found in ({"True"}, {"False"})}

    def _ends(self, at: int) -> bool:
        """Whether a thread may exit at an instruction."""
        instruction = self.code[at]
        return instruction.traits.leaves or (at + 1 == len(self.code) and not self._next(at))

    def barriers(self) -> Iterator[tuple[Instruction, z3.ModelRef | None]]:
        """Branches on whose sides threads of a CTA may come to different barriers, or lanes of a warp to different collectives."""
        collectives = {m.at for m in self.ways.barriers}
        partial = len(self.ways.exits) > 1 or self.state.block[0] * self.state.block[1] * self.state.block[2] % 32
        if partial:
            yield from ((m.instruction, None) for m in self.ways.barriers if m.at not in self.stops_of_cta)
        for m in self.ways.barriers:
            if m.mask is not None and not m.mask.eq(z3.BitVecVal(0xFFFFFFFF, 32)):
                yield m.instruction, None
        yield from self._parted()
        yield from self._apart
        yield from self._different(collectives, self._near)

    @functools.cached_property
    def _apart(self) -> list[tuple[Instruction, z3.ModelRef | None]]:
        """Branches on whose sides threads of a CTA may come to different barriers: then these order nothing."""
        return list(self._different(self.stops_of_cta, []))

    def _different(self, stops: set[int], near: list[z3.ExprRef]) -> Iterator[tuple[Instruction, z3.ModelRef | None]]:
        """Branches on whose sides two threads, of which this is so, may come to different ones of these instructions."""
        for at, condition, guard in self.walker.branches:
            instruction = self.code[at]
            if instruction.traits.ending is Ending.BRANCH:
                past = self._ahead(self._next(at), stops)
                ahead = past & stops
                if near and any(self._ends(n) for n in past - stops):
                    ahead.add(len(self.code))  # lanes that exit do not come to what others wait for
            elif at in stops:
                ahead = {at, *(self._ahead([at + 1], stops) & stops)} if instruction.guard is not None else set()
            else:
                continue
            if len(ahead) < 2 - (at in stops):
                continue
            same = self._together(at)
            model = self.possible(
                condition, self.theirs(condition), guard != self.theirs(guard), *same, *near, two=True
            )
            if model is not None:
                yield instruction, model or None

    def _parted(self) -> Iterator[tuple[Instruction, z3.ModelRef | None]]:
        """Branches that say that lanes of a warp stay together, and where they may not."""
        for at, condition, guard in self.walker.branches:
            if promises(self.code[at]):
                terms = condition, self.theirs(condition), guard != self.theirs(guard), *self._near
                model = self.possible(*terms, two=True)
                if model is not None:
                    yield self.code[at], model or None

    @property
    def _near(self) -> list[z3.ExprRef]:
        """That two threads are of one warp."""
        warp = z3.LShR(self.linear, 5)
        return [warp == self.theirs(warp)]

    @functools.cached_property
    def stops_of_cta(self) -> set[int]:
        """All barriers of the CTA."""
        return {
            m.at
            for m in self.ways.barriers
            if m.instruction.traits.barrier is not None and m.instruction.traits.barrier.among == "cta"
        }

    def inputs(self, model: z3.ModelRef) -> dict[str, int]:
        """The scalars of a model."""
        return {name: model.eval(symbol, model_completion=True).as_long() for name, symbol in self.scalars.items()}


def answers_within(
    state: LaunchState,
    ranges: Mapping[str, Range],
    effort: Effort,
    places: set[tuple[int, int]] | None = None,
    names: Collection[str] = tuple(RULES),
) -> tuple[tuple[Answer, ...], list[dict[str, int]]]:
    """What can be proved of these properties for all scalars in ranges, and the inputs that may refute what cannot. Bounds are
    in question only of accesses at ``places`` (lines and columns), if those are given."""
    # z3 does not always look at its limits
    timer = threading.Timer(min(effort.seconds + 0.1, threading.TIMEOUT_MAX), z3.main_ctx().interrupt)
    timer.daemon = True
    timer.start()
    try:
        return _answers_within(state, ranges, effort, places, names)
    except z3.Z3Exception:
        if not effort.late:
            raise
        late = (_unclear(state, state.plan.entry.code[0], "what follows takes the solver too long"),)
        return tuple([Answer(name, Verdict.UNKNOWN, late) for name in names]), []
    finally:
        timer.cancel()


def _answers_within(
    state: LaunchState,
    ranges: Mapping[str, Range],
    effort: Effort,
    places: set[tuple[int, int]] | None,
    names: Collection[str],
) -> tuple[tuple[Answer, ...], list[dict[str, int]]]:
    asked = Questions(state, ranges, effort)
    unclear = [_unclear(state, i, why) for i, why in asked.ways.unclear.values()]
    suspects: list[dict[str, int]] = []
    found = []
    for name in names:
        questions = {"bounds": lambda: asked.bounds(places), "races": asked.races, "barriers": asked.barriers}.get(name)
        left = list(unclear)
        if not unclear and questions is not None:
            for instruction, model in questions():
                why = "no proof for all inputs"
                if model is not None:
                    suspects.append(asked.inputs(model))
                    why = "a counterexample was found that no launch confirms"
                left.append(_unclear(state, instruction, why))
                if not ranges:
                    break  # launches have said what else is open
        found.append(Answer(name, Verdict.UNKNOWN if left else Verdict.PROVED, tuple(dict.fromkeys(left))))
    return tuple(found), suspects


def _unclear(state: LaunchState, instruction: Instruction, why: str) -> Finding:
    made: Finding = attrs.evolve(finding_at(state, instruction), rule="unknown", message=f"{instruction.text}: {why}")
    return made
