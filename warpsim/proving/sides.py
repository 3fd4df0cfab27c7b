"""Both sides of what data decide, one after the other.

Where a branch follows from what nobody knows, its threads take one side up to where the sides meet again (the immediate
post-dominator), then, with the registers they had, the other. Behind it they know only those bits of registers and of local
memory that both sides leave the same. A guard of a single instruction is such a branch. Rules see the accesses of either
side. What a side does for others to see can only be an access: where it meets other threads, nothing is followed.

A loop that data may leave in every lap has a side for each lap. One that begins with what another began with is not followed
again, and after many laps they begin with what all have in common.

Threads for which equal data decide know the same behind it, if each side leaves the same in all of them (`Alike`); not behind loops.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable

import attrs
import numpy as np

from warpsim.analysis.flow import Graph, immediate_dominators, returned_by
from warpsim.checks.undefined_bits import transfer_of
from warpsim.checks.undefined_registers import MEMORY, lanes_of, origins, put, undefined
from warpsim.checks.undefined_registers import together as either
from warpsim.checks.written import WrittenBits
from warpsim.errors import Finding
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Access, Ending
from warpsim.machine.hooks import MemoryAccess
from warpsim.machine.machine import Machine
from warpsim.machine.plan import FunctionPlan
from warpsim.machine.reporting import party
from warpsim.machine.selection import Selection
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.values import Array, as_array
from warpsim.machine.watcher import READ
from warpsim.program.program import Instruction
from warpsim.proving.alike import NAME as FINGERPRINT
from warpsim.proving.alike import fingerprints, mixed, together
from warpsim.records import define, frozen

ASSERT, PRINT = "__assertfail", "vprintf"
"""Functions of the system: one ends the launch, one prints."""
LAPS = 256
"""So many laps of a loop that data may leave begin with what they know."""
HALVES = ("lo", "hi")
DEEPEST = 400
"""So many choices may lie in one another."""
ALONE = frozenset({"memory", "report"})
"""Ports of instructions that a thread may execute on one side only."""


class Lost(Exception):
    """A launch cannot be followed any further; says why."""


@frozen(eq=False)
class Known:
    """What threads know: values and undefined bits of registers, in the threads' shape, words of local memory with
    their written bits, if a side may change those, and the fingerprints (`Alike`) of undefined registers."""

    values: dict[int, Array]
    undefined: dict[int, Array]
    local: tuple[Array, Array] | None
    alike: dict[int, Array] = attrs.field(factory=dict)

    def covers(self, other: Known) -> bool:
        """Whether all of other is possible here."""
        for index, value in other.values.items():
            mine = self.values.get(index)
            if mine is None:
                return False
            beyond = _either(_differing(mine, value), other.undefined.get(index))
            here = self.undefined.get(index)
            halves = (
                [(beyond, here)]
                if beyond.dtype.names is None
                else [(beyond[h], None if here is None else here[h]) for h in HALVES]
            )
            if any((bits if known is None else bits & ~known).any() for bits, known in halves):
                return False
        for index, held in self.alike.items():
            if ((held != 0) & (held != other.fingerprints(index))).any():
                return False
        if self.local is None or other.local is None:
            return True
        (mine, known), (value, there_known) = _alike(self.local, other.local)
        return not (known & ((mine ^ value) | ~there_known)).any()

    def fingerprints(self, index: int) -> Array:
        """Those of a register; 0 where it has none."""
        found = fingerprints(self.values[index], self.undefined.get(index), self.alike.get(index))
        return np.zeros(1, np.uint64) if found is None else found

    def depending(self, decided: Array) -> Known:
        """The same, where data with these fingerprints have also decided."""
        return attrs.evolve(self, alike={index: together(decided, held) for index, held in self.alike.items()})

    def joined(self, other: Known, mine: Array | None, others: Array | None, decided: Array | None = None) -> Known:
        """What is so on both sides: ``mine`` and ``others`` are masks of the threads that come from them (None: all); ``decided``
        are the fingerprints of what decides between them."""
        values, unknown, alike = {}, {}, {}
        for index in self.values.keys() | other.values.keys():
            a, b = self.values.get(index), other.values.get(index)
            if a is None or b is None:
                values[index] = found = a if a is not None else other.values[index]
                unknown[index] = _filled(found)
                continue
            bits = _either(_differing(a, b), self.undefined.get(index), other.undefined.get(index))
            if mine is None or others is None:
                values[index] = a
            else:
                bits = np.where(mine & others, bits, np.where(mine, *_two(self, other, index, bits)))
                values[index] = np.where(mine, a, b.view(a.dtype))
            if lanes_of(bits).any():
                unknown[index] = bits
                if decided is not None:
                    alike[index] = self._prints(other, index, mine, others, decided)
        local = None
        if self.local is not None and other.local is not None:
            (a, known), (b, there) = _alike(self.local, other.local)
            words, both = a, known & there & ~(a ^ b)
            if mine is not None and others is not None:
                one, two = mine.reshape(-1), others.reshape(-1)
                words, both = np.where(one, a, b), np.where(one & two, both, np.where(one, known, there))
            local = words, both
        return Known(values, unknown, local, alike)

    def _prints(self, other: Known, index: int, mine: Array | None, others: Array | None, decided: Array) -> Array:
        """The fingerprints of a register that two sides leave."""
        one, two = self.fingerprints(index), other.fingerprints(index)
        both = np.where(one == two, one, np.where((one != 0) & (two != 0), together(decided, one, two), 0))
        if mine is None or others is None:
            return both
        return np.where(mine & others, both, np.where(mine, one, two))


def _two(one: Known, other: Known, index: int, like: Array) -> tuple[Array, Array]:
    zero = np.zeros(1, like.dtype)
    return one.undefined.get(index, zero), other.undefined.get(index, zero)


def _alike(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """The same words of both: memory may have grown in between."""
    n = min(len(one[0]), len(other[0]))
    return (one[0][:n], one[1][:n]), (other[0][:n], other[1][:n])


def _unsigned(value: Array) -> Array:
    plain = value.dtype.kind == "b" or value.dtype.names is not None
    return value if plain else value.view(f"u{value.dtype.itemsize}")


def _differing(one: Array, other: Array) -> Array:
    """The bits in which two values of a register differ."""
    a, b = _unsigned(one), _unsigned(other)
    if a.dtype.names is None:
        found: Array = a ^ b
        return found
    out = np.zeros(np.broadcast_shapes(a.shape, b.shape), a.dtype)
    out["lo"], out["hi"] = a["lo"] ^ b["lo"], a["hi"] ^ b["hi"]
    return out


def _either(bits: Array, *more: Array | None) -> Array:
    return functools.reduce(either, [m for m in more if m is not None], bits)


def _filled(value: Array) -> Array:
    like = _unsigned(value)
    if like.dtype.names is not None:
        out = np.zeros(1, like.dtype)
        out["lo"] = out["hi"] = ~np.uint64(0)
        return out
    return np.ones(1, like.dtype) if like.dtype.kind == "b" else np.full(1, ~like.dtype.type(0))


@frozen(eq=False)
class Start:
    """Where a side begins, and with what."""

    block: int
    at: int
    known: Known


@define(eq=False)
class Choice:
    """Threads that take all sides of what data decide: where these meet (``block`` beyond the last: where the function
    returns), and the registers that are alive there. ``held`` are the groups that wait meanwhile, ``todo`` the sides to come,
    ``found`` what is known behind those that are done, ``began`` what laps have begun with: how many, what was known, and how much
    of shared memory was not; ``decided`` the fingerprints of all that decides, None of a loop."""

    group: Group
    block: int
    at: int
    live: tuple[int, ...]
    local: bool
    held: list[Group]
    origin: Finding
    here: Array
    place: tuple[int, int]
    todo: list[Start] = attrs.field(factory=list)
    found: tuple[Known, Array] | None = None
    began: dict[tuple[int, int], tuple[int, Known, int]] = attrs.field(factory=dict)
    decided: Array | None = attrs.field(factory=lambda: np.ones(1, np.uint64))

    def is_met(self, group: Group) -> bool:
        """Whether a group stands where the sides meet."""
        if group.plan is not self.group.plan or group.stack != self.group.stack:
            return False
        if self.block < len(group.plan.blocks):
            return (group.block, group.at) == (self.block, self.at)
        return group.instruction.traits.leaves


class Sides:
    """The choices of a launch. A watcher asks `pauses` before each step; where it says so, the launch pauses for `decide`."""

    def __init__(self) -> None:
        self.choices: list[Choice] = []
        self.stored: list[MemoryAccess] = []
        self.lost: set[Hashable] = set()
        """What of shared memory is no longer known since the outermost choice."""
        self.chosen = False
        """Whether data have decided anything."""
        self.loops = False
        """Whether data may keep threads in a loop for ever."""
        self._graphs: dict[int, Graph] = {}

    # ---- before a step -----------------------------------------------------------------------

    def pauses(self, group: Group, instruction: Instruction) -> bool:
        """Whether the next step of a group is for `decide`."""
        if instruction.guard is not None and self._open(group, instruction):
            return True
        if not self.choices:
            return False
        if instruction.traits.leaves and not _executing(group, instruction).any():
            return False
        choice = self.choices[-1]
        leaves = instruction.traits.leaves and group.stack == choice.group.stack
        return leaves or choice.is_met(group) or _stops(instruction) or not _is_alone(group, instruction)

    @staticmethod
    def _open(group: Group, instruction: Instruction) -> bool:
        """Whether data decide a guard that matters."""
        assert instruction.guard is not None
        if undefined(group, instruction.guard[0].index) is None:
            return False
        return instruction.traits.ending is not None or not transfer_of(group.plan, instruction).pure

    def accessed(self, access: MemoryAccess) -> None:
        """Note what a side stores for others to see."""
        if self.choices and access.kind != READ and access.space.startswith("shared"):
            self.stored.append(kept(access))

    # ---- at a step ---------------------------------------------------------------------------

    def decide(self, state: LaunchState, machine: Machine) -> None:
        """Go on with a launch that has paused before a step.

        Raises:
            Lost: it cannot be followed.
        """
        group = state.running
        assert group is not None
        state.running, state.reported, state.left = None, False, None
        instruction = group.instruction
        if instruction.guard is not None and self._open(group, instruction):
            self._choose(machine, group, instruction)
            return
        top = self.choices[-1]
        if _stops(instruction):
            self._next(machine)
        elif top.is_met(group) and not _exits(group, instruction):
            self._arrive(machine, top, group, instruction)
        else:
            raise Lost(f"which threads execute it follows from {source_of(top.origin)}")

    def _choose(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """Take both sides, in the threads for which nobody knows."""
        assert instruction.guard is not None
        slot, negated = instruction.guard[0].index, instruction.guard[1]
        bits = undefined(group, slot)
        assert bits is not None
        mask = np.broadcast_to(bits, group.selection.shape)
        if not mask.all():
            group, known = machine.divide(group, mask)
            machine.push(known)
        group.flush(None)  # a guard's sides take along what they may change, and find the rest where it was
        self.chosen = True
        choice = self._choice(machine, group, instruction, slot)
        self._forget(machine)
        if instruction.traits.ending is not None and self._graph(group.plan).region(group.block) >> group.block & 1:
            choice.decided = None
        if choice.decided is not None:
            by = group.shadow(FINGERPRINT, slot)
            choice.decided = together(
                choice.decided, mixed(id(instruction)), np.zeros(1, np.uint64) if by is None else by
            )
        now = self._known(machine, choice, group, self._alive(group, instruction, slot))
        key = group.block, group.at
        if key in choice.began:
            laps, began, lost = choice.began[key]
            if self._waits(group.plan, group.block):
                raise Lost("it decides how long a loop waits for other threads")
            if lost == len(self.lost) and began.covers(now):
                self.loops = True
                if choice.found is not None and choice.decided is not None:
                    choice.found = choice.found[0].depending(choice.decided), choice.found[1]
                self._next(machine)
                return
            if laps >= LAPS:
                now = began.joined(now, None, None)
            choice.began[key] = laps + 1, now, len(self.lost)
        else:
            choice.began[key] = 1, now, len(self.lost)
        taken = np.broadcast_to(not negated, (1,))
        sides = [
            Start(*key, attrs.evolve(now, values={**now.values, slot: value}, undefined=_without(now.undefined, slot)))
            for value in (taken, ~taken)
        ]
        back = instruction.traits.ending is Ending.BRANCH and _target(group.plan, instruction) <= group.block
        choice.todo += sides if back else sides[::-1]
        self._start(machine, choice)

    def _choice(self, machine: Machine, group: Group, instruction: Instruction, slot: int) -> Choice:
        """The choice that a guard belongs to: that of an earlier lap, or a new one."""
        plan = group.plan
        block, at, live = self._meeting(group, instruction, slot)
        top = self.choices[-1] if self.choices else None
        if (
            top is not None
            and (top.block, top.at) == (block, at)
            and top.group.plan is plan
            and top.group.stack == group.stack
            and top.group.selection.n == group.selection.n
            and not machine.batch.runnable
        ):
            return top
        if len(self.choices) >= DEEPEST:
            raise Lost("too much is decided by data")
        origin = origins(machine).get(group, slot) or party(machine.launch, machine.batch, group, "decides")
        held, machine.batch.runnable = machine.batch.runnable, []
        here = np.zeros(group.selection.positions.shape, np.bool_)
        stand = machine.stand_in(group)
        stand.back_edges = group.back_edges
        local = self._changes_local(plan, group.block, instruction)
        made = Choice(stand, block, at, live, local, held, origin, here, (block, at))
        if not self.choices:
            self.lost.clear()
        self.choices.append(made)
        return made

    def _meeting(self, group: Group, instruction: Instruction, slot: int) -> tuple[int, int, tuple[int, ...]]:
        """Where the sides of a guard meet, and the registers that are alive there."""
        plan, block = group.plan, group.plan.blocks[group.block]
        if instruction.traits.ending is None:
            changed = (slot, *instruction.writes)
            if group.at + 1 < len(block.instructions):
                return group.block, group.at + 1, changed
            (following,) = block.successors
            return following, 0, changed
        meeting = self._graph(plan).post_dominators[group.block]
        if meeting < len(plan.blocks):
            return meeting, 0, tuple(plan.blocks[meeting].live_in)
        return meeting, 0, tuple(returned_by(plan.function))

    def _graph(self, plan: FunctionPlan) -> Graph:
        """The flow graph; guarded returns also lead to its exit."""
        if id(plan) not in self._graphs:
            made = self._graphs[id(plan)] = Graph(plan.flow)
            forward = [[*b.successors] for b in plan.flow]
            for block in plan.blocks:
                if not block.successors or block.instructions[-1].traits.leaves:
                    forward[block.index].append(made.exit)
            backward = [[b for b, after in enumerate(forward) if n in after] for n in range(made.exit + 1)]
            found = immediate_dominators(backward, [*forward, []], made.exit)
            made.post_dominators = [made.exit if m < 0 else m for m in found[: made.exit]]
        return self._graphs[id(plan)]

    def _waits(self, plan: FunctionPlan, block: int) -> bool:
        """Whether a loop around a block may wait for what other threads do."""
        graph = self._graph(plan)
        around = [b for b in plan.blocks if graph.reachable(block) >> b.index & graph.reachable(b.index) >> block & 1]
        return any(i.traits.polls or i.traits.access is Access.ATOMIC for b in around for i in b.instructions)

    def _alive(self, group: Group, instruction: Instruction, slot: int) -> set[int]:
        """The registers that a side may read."""
        plan = group.plan
        if instruction.traits.ending is None:
            return {slot, *instruction.reads, *instruction.writes}
        found = {slot, *instruction.reads, *returned_by(plan.function)}
        for successor in plan.blocks[group.block].successors:
            found |= plan.blocks[successor].live_in
        return found

    def _changes_local(self, plan: FunctionPlan, block: int, instruction: Instruction) -> bool:
        """Whether a side may change local memory."""
        if instruction.traits.ending is None:
            return _stores_locally(instruction)
        inside = self._graph(plan).region(block)
        return any(_stores_locally(i) for b in plan.blocks if inside >> b.index & 1 for i in b.instructions)

    # ---- sides -------------------------------------------------------------------------------

    def _start(self, machine: Machine, choice: Choice) -> None:
        start = choice.todo.pop()
        choice.here = np.zeros_like(choice.here)
        machine.push(self._stand(machine, choice, choice.group.selection, start.block, start.at, start.known))

    @staticmethod
    def _stand(machine: Machine, choice: Choice, selection: Selection, block: int, at: int, known: Known) -> Group:
        """The threads at a place, with what they know."""
        was = choice.group
        group = machine.group(selection, was.plan, was.stack, block, at, was.local_base, machine.batch.generation)
        for index, value in known.values.items():
            group.set(index, value)
            put(group, index, known.undefined.get(index))
            group.set_shadow(FINGERPRINT, index, known.alike.get(index))
            if index in known.undefined and origins(machine).get(group, index) is None:
                origins(machine).put(group, index, choice.origin)
        group.flush(None)
        if known.local is not None:
            local, positions = machine.batch.local, selection.positions.reshape(-1)
            bits = local.shadow
            assert isinstance(bits, WrittenBits)
            words, written = known.local
            for space, new in ((local, words), (bits, written)):
                space.own()
                space.words[: len(new), positions] = new
                space.views.clear()
            bits.reopen()
        made = machine.stand_in(group)
        made.back_edges = was.back_edges
        return made

    @staticmethod
    def _known(machine: Machine, choice: Choice, group: Group, registers: Iterable[int]) -> Known:
        """What threads know."""
        values, unknown, alike = {}, {}, {}
        for index in registers:
            values[index] = np.array(as_array(group.read(index)))
            bits = undefined(group, index)
            if bits is not None:
                unknown[index] = np.array(bits)
                held = group.shadow(FINGERPRINT, index)
                if held is not None and choice.decided is not None:
                    alike[index] = np.array(held)
        kept = None
        if choice.local:
            space, positions = machine.batch.local, group.selection.positions.reshape(-1)
            shadow = space.shadow
            assert isinstance(shadow, WrittenBits)
            kept = space.words[:, positions], shadow.words[:, positions]
        return Known(values, unknown, kept, alike)

    def _arrive(self, machine: Machine, choice: Choice, group: Group, instruction: Instruction) -> None:
        """Threads of a side come to where the sides meet."""
        leaving = _executing(group, instruction)
        if choice.block >= len(group.plan.blocks) and not leaving.all():
            group, others = machine.divide(group, leaving)
            machine.push(others)
        group.flush(None)
        choice.place = group.block, group.at
        flat = choice.here.reshape(-1)
        flat[np.searchsorted(choice.group.selection.positions.reshape(-1), group.selection.positions.reshape(-1))] = (
            True
        )
        self._next(machine)

    def _next(self, machine: Machine) -> None:
        """Go on after threads have come to where the sides meet, or are not followed further."""
        if machine.batch.runnable:
            return
        choice = self.choices[-1]
        self._forget(machine)
        if choice.here.any():
            stand = machine.stand_in(choice.group)
            known = self._known(machine, choice, stand, choice.live)
            if choice.found is None:
                choice.found = known, choice.here
            else:
                before, there = choice.found
                whole = bool(there.all() and choice.here.all())
                mine, others = (None, None) if whole else (there, choice.here)
                choice.found = before.joined(known, mine, others, choice.decided), there | choice.here
        if choice.todo:
            self._start(machine, choice)
            return
        if choice.found is None or not choice.found[1].all():
            raise Lost(f"no way leads on from what data decide at line {choice.group.instruction.span.line}")
        self.choices.pop()
        machine.batch.runnable = choice.held
        block, at = choice.place
        machine.push(self._stand(machine, choice, choice.group.selection, block, at, choice.found[0]))

    def _forget(self, machine: Machine) -> None:
        """What sides have stored in shared memory may be there, or not."""
        for access in self.stored:
            parts = access.places, access.columns, access.active
            self.lost.add((access.nbytes, *(None if p is None else np.asarray(p).tobytes() for p in parts)))
        forget(machine, self.stored)


def kept(access: MemoryAccess) -> MemoryAccess:
    """An access as it is now, for later."""
    active = None if access.active is None else np.array(access.active)
    made: MemoryAccess = attrs.evolve(access, at=np.array(access.places), active=active, differs=None)
    return made


def forget(machine: Machine, stored: list[MemoryAccess]) -> None:
    """What was stored in shared memory may be there, or not."""
    bits = machine.batch.shared.shadow
    assert isinstance(bits, WrittenBits)
    for access in stored:
        bits.clear(access.places, access.columns, access.nbytes, access.active, rows=access.everywhere)
    stored.clear()


def source_of(origin: Finding) -> str:
    """Where something that nobody knows comes from."""
    what = "what memory holds" if origin.message.startswith(MEMORY) else origin.message
    return f"{what} (line {origin.line}: {origin.instruction})"


def _without(bits: dict[int, Array], slot: int) -> dict[int, Array]:
    return {index: each for index, each in bits.items() if index != slot}


def _target(plan: FunctionPlan, instruction: Instruction) -> int:
    return plan.place_of.get(instruction.targets[0], len(plan.blocks))


def _stores_locally(instruction: Instruction) -> bool:
    traits = instruction.traits
    if traits.ending is Ending.CALL or traits.moves_stack:
        return True
    stores = traits.access in (Access.STORE, Access.ATOMIC)
    return stores and not {"global", "shared"} & {space.split("::")[0] for space in traits.spaces}


def _executing(group: Group, instruction: Instruction) -> Array:
    """The threads that execute an instruction."""
    if instruction.guard is None:
        return np.ones(group.selection.shape, np.bool_)
    register, negated = instruction.guard
    return np.broadcast_to(as_array(group.read(register.index)) != negated, group.selection.shape)


def _stops(instruction: Instruction) -> bool:
    """Whether the launch ends with an instruction."""
    return instruction.traits.stop is not None or instruction.callee == ASSERT


def _exits(group: Group, instruction: Instruction) -> bool:
    """Whether a thread exits out of a function that was called, or leaves it without an instruction that says so."""
    ending = instruction.traits.ending
    if ending is Ending.EXIT:
        return bool(group.stack)
    return ending is Ending.BRANCH and any(target not in group.plan.place_of for target in instruction.targets)


def _is_alone(group: Group, instruction: Instruction) -> bool:
    """Whether a thread may execute an instruction on one side only, without others."""
    traits, form = instruction.traits, instruction.form
    if traits.ending is Ending.CALL:
        program = group.plan.kernel.program
        callee = program.aliases.get(instruction.callee, instruction.callee)
        return callee == PRINT or callee == "" or callee in program.functions
    if traits.ending is not None:
        return not _exits(group, instruction)
    return (
        form.scope is Scope.THREAD
        and not form.ports - ALONE
        and traits.asynchronous is None
        and traits.fence is None
        and traits.mbarrier is None
        and not traits.synchronises
        and not (traits.order.acquire or traits.order.release)
    )
