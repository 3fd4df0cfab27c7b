"""One thread's way through a kernel: on which condition it reaches what, and with which values.

Blocks are visited in their order, and their states joined where paths meet. Before a loop, the registers that it writes are
any values, but for those to which each lap adds the same: they are their first value and the number of laps times that.
"""

from __future__ import annotations

from collections.abc import Callable

import z3

from warpsim.analysis.flow import blocks_of
from warpsim.analysis.loops import loop_blocks
from warpsim.graph.nodes import Untraceable
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Access as AccessKind
from warpsim.isa.traits import Ending
from warpsim.program.program import Function, Instruction, Operand, Variable
from warpsim.proving.effort import Effort, Spent
from warpsim.proving.symbols import Names, Terms, resized, width_of
from warpsim.records import define, frozen

State = dict[int, z3.ExprRef]
Coming = list[tuple[z3.ExprRef, State]]
Edges = dict[int, Coming]
TRUE, FALSE = z3.BoolVal(val=True), z3.BoolVal(val=False)
UNROLLED, MOST = 64, 4096
"""Most laps that are followed one by one, and most instructions of them."""
LAPS = 32
"""Bits of the number of a loop's laps."""
HARMLESS = frozenset({"active", "lane", "report", "memory"})


@frozen(eq=False)
class Access:
    """An access of memory: on which condition, where (64 bits), how many bytes, and in which space."""

    at: int
    instruction: Instruction
    condition: z3.ExprRef
    address: z3.ExprRef
    nbytes: int
    kind: str
    space: str


@frozen(eq=False)
class Met:
    """A barrier that a thread reaches on a condition."""

    at: int
    instruction: Instruction
    mask: z3.ExprRef | None = None
    """The lanes that meet, if the instruction says so."""


@define(eq=False)
class Ways:
    """What is known of a thread: its accesses, barriers, and on which conditions it leaves."""

    accesses: list[Access]
    barriers: list[Met]
    exits: list[tuple[int, z3.ExprRef]]
    unclear: dict[int, tuple[Instruction, str]]
    laps: dict[int, z3.ExprRef]


class Walker:
    """Follows one thread. ``specials`` are its special registers, ``param`` gives the value of a parameter's bytes and ``variable`` the
    address of a variable, None where it is not known; ``always`` holds of all inputs; ``effort`` is what it may cost;
    it ``ends`` at the first instruction that cannot be followed, or names all of them."""

    def __init__(
        self,
        function: Function,
        specials: dict[str, z3.ExprRef],
        param: Callable[[int, int], z3.ExprRef | None],
        variable: Callable[[Variable], z3.ExprRef | None],
        always: list[z3.ExprRef],
        effort: Effort,
        *,
        ends: bool = False,
    ) -> None:
        self.function, self.specials, self.params = function, specials, param
        self.variable, self.always, self.effort, self.ends = variable, always, effort, ends
        self.names = Names()
        self.blocks, _ = blocks_of(function)
        self.ways = Ways([], [], [], {}, {})
        self.branches: list[tuple[int, z3.ExprRef, z3.ExprRef]] = []
        """Of guarded branches, exits and barriers: where, on which condition they are reached, and their guard."""
        self.sides: dict[int, tuple[z3.ExprRef, z3.ExprRef, bool, z3.ExprRef]] = {}
        """By the identity of the condition of one side of a guard: the condition before it, the guard, whether that holds, and the
        condition: as long as it lives, no other has its identity."""
        self.recording = False
        self.at = 0
        self.read = {r for i in function.code for r in i.reads}
        self.inside = {b: loop_blocks(self.blocks, b) for b in range(len(self.blocks)) if self._is_head(b)}

    def _is_head(self, block: int) -> bool:
        return any(block in self.blocks[n].successors for n in loop_blocks(self.blocks, block))

    def run(self) -> Ways:
        """Follow all paths."""
        self.recording = True
        edges: Edges = {0: [(TRUE, {})]}
        try:
            self._sweep(0, len(self.blocks), edges, None)
            self._lost(edges, len(self.blocks))
        except (Spent, z3.Z3Exception) as problem:
            if not isinstance(problem, Spent) and not self.effort.late:
                raise
            why = "following all paths that lead here takes too long"
            self.ways.unclear.setdefault(self.at, (self.function.code[self.at], why))
        return self.ways

    def _lost(self, edges: Edges, end: int) -> None:
        """Note jumps into blocks that were already visited."""
        for target in edges:
            if target < end:
                at = self.blocks[target].first
                self._unclear(at, self.function.code[at], "is reached by a jump into a loop, which is not followed")

    # ---- control flow ------------------------------------------------------------------------

    def _sweep(self, first: int, last: int, edges: Edges, around: int | None) -> None:
        at = first
        while at < last:
            coming = edges.pop(at, [])
            if not coming:
                at += 1
                continue
            condition, state = self._joined(coming, self.blocks[at].live_in)
            if at in self.inside and at != around:
                at = self._loop(at, condition, state, edges)
            else:
                self._block(at, condition, state, edges)
                at += 1

    def _joined(self, coming: Coming, live: frozenset[int]) -> tuple[z3.ExprRef, State]:
        """On which condition any of these edges is taken, and the state then."""
        coming = self._folded(coming, live)
        if len(coming) == 1:
            return coming[0][0], dict(coming[0][1])
        found: State = {}
        for register in live:
            values = [(c, s[register]) for c, s in coming if register in s]
            if not values:
                continue
            value = values[-1][1]
            for condition, other in values[-2::-1]:
                value = value if other.eq(value) else z3.If(condition, other, value)
            found[register] = value
        return z3.Or([c for c, _ in coming]), found

    def _folded(self, coming: Coming, live: frozenset[int]) -> Coming:
        """The same edges, but one instead of two that come from both sides of a guard: terms stay small."""
        waiting: dict[tuple[int, int], tuple[bool, z3.ExprRef, State]] = {}
        others: Coming = []
        work = list(coming)[::-1]
        while work:
            condition, state = work.pop()
            origin = self.sides.get(condition.get_id())
            if origin is None:
                others.append((condition, state))
                continue
            before, guard, holds, _ = origin
            key = before.get_id(), guard.get_id()
            if key not in waiting or waiting[key][0] == holds:
                others += [waiting[key][1:]] if key in waiting else []
                waiting[key] = holds, condition, state
                continue
            _, _, other = waiting.pop(key)
            yes, no = (state, other) if holds else (other, state)
            both: State = {}
            for register in live & (yes.keys() | no.keys()):
                a, b = (
                    each[register] if register in each else other[register] for each, other in ((yes, no), (no, yes))
                )
                both[register] = a if a.eq(b) else z3.If(guard, a, b)
            work.append((before, both))
        return [*others, *((c, s) for _, c, s in waiting.values())]

    def _loop(self, head: int, condition: z3.ExprRef, state: State, edges: Edges) -> int:
        inside = self.inside[head]
        end = max(inside) + 1
        unrolled = self._unrolled(head, end, condition, state, edges)
        if unrolled is None:
            return end
        condition, state = unrolled
        code = [i for n in inside for i in self.function.code[self.blocks[n].first : self.blocks[n].last]]
        written = {r for i in code for r in i.writes} & self.blocks[head].live_in
        before, self.recording = self.recording, False
        any_state = self._havoc(state, written)
        back = self._lap(head, end, TRUE, any_state)
        steps: State = {}
        for register in written:
            was = any_state[register]
            steps_of = [z3.simplify(s[register] - was) for _, s in back if register in s and z3.is_bv(was)]
            same = back and len(steps_of) == len(back) and all(s.eq(steps_of[0]) for s in steps_of)
            if (
                same
                and register in state
                and not (named(steps_of[0]) - named(*state.values())) & set(map(str, self.names.own))
            ):
                steps[register] = steps_of[0]
        laps = z3.ZeroExt(64 - LAPS, number := self.names.fresh(LAPS, "laps"))
        counted = self._havoc(state, written - steps.keys())
        for register, step in steps.items():
            counted[register] = state[register] + _fit(laps, step.size()) * step
        mark = len(self.names.own)
        back = self._lap(head, end, TRUE, counted)
        again = z3.Or([c for c, _ in back]) if back else FALSE
        free = [*self.names.own[mark:], *(counted[r] for r in written - steps.keys())]
        free = [x for x in free if z3.is_const(x)]
        previous = z3.substitute(
            again, [(number, number - 1), *((x, self.names.fresh(0 if z3.is_bool(x) else x.size())) for x in free)]
        )
        facts = [z3.Or(number == 0, previous)]
        for register, step in steps.items():
            facts += self._kept(number, laps, state[register], step, (condition, again, facts[0]))
        self.recording = before
        if before:
            self.ways.laps[head] = number
        self._lap(head, end, z3.And(condition, *facts), counted, edges)
        return end

    def _unrolled(
        self, head: int, end: int, condition: z3.ExprRef, state: State, edges: Edges
    ) -> tuple[z3.ExprRef, State] | None:
        """Follow laps one by one while it is known that another follows, of a loop without barriers; None after the last, else what
        the others begin with."""
        code = [i for n in self.inside[head] for i in self.function.code[self.blocks[n].first : self.blocks[n].last]]
        if any(i.traits.barrier is not None for i in code):
            return condition, state
        before = self.recording
        for _ in range(min(UNROLLED, MOST // len(code))):
            self.recording = False
            back = self._lap(head, end, TRUE, dict(state))
            self.recording = before
            again = z3.simplify(z3.Or([c for c, _ in back])) if back else FALSE
            if not z3.is_true(again) and not z3.is_false(again):
                break
            back = self._lap(head, end, condition, state, edges)
            if z3.is_false(again):
                return None
            condition, state = self._joined(back, self.blocks[head].live_in)
        return condition, state

    def _kept(
        self, number: z3.ExprRef, laps: z3.ExprRef, first: z3.ExprRef, step: z3.ExprRef, given: tuple[z3.ExprRef, ...]
    ) -> list[z3.ExprRef]:
        """That a register which counts does not wrap around, signed or unsigned, where induction shows it."""
        if step.size() > 32:
            return []
        found = []
        for extend in (z3.SignExt, z3.ZeroExt):
            wide = [extend(64 - x.size(), x) for x in (first, z3.simplify(first + _fit(laps, step.size()) * step))]
            by = z3.SignExt(64 - step.size(), step)
            holds = wide[1] == wide[0] + laps * by
            after = z3.substitute(holds, (number, number + 1))
            solver = z3.Solver()
            solver.add(*self.always, *given, holds, number != (1 << LAPS) - 1, z3.Not(after))
            if self.effort.ask(solver) == z3.unsat:
                found.append(holds)
        return found

    def _lap(
        self, head: int, end: int, condition: z3.ExprRef, state: State, edges: Edges | None = None
    ) -> list[tuple[z3.ExprRef, State]]:
        """One lap; the edges back to its head."""
        mine: Edges = {}
        self._block(head, condition, dict(state), mine)
        self._sweep(head + 1, end, mine, head)
        back = mine.pop(head, [])
        self._lost(mine, end)
        if edges is not None:
            for target, coming in mine.items():
                edges.setdefault(target, []).extend(coming)
        return back

    def _havoc(self, state: State, registers: set[int]) -> State:
        found = dict(state)
        for register in registers:
            found[register] = self.names.fresh(width_of(self.function.registers[register].type.dtype), "loop")
        return found

    def _block(self, number: int, condition: z3.ExprRef, state: State, edges: Edges) -> None:
        block = self.blocks[number]
        for at in range(block.first, block.last):
            instruction = self.function.code[at]
            self.at = at
            self.effort.follow()
            guard = self._guard(instruction, state)
            here = condition if guard is None else self._side(condition, guard, holds=True)
            if guard is not None and self.recording:
                self.branches.append((at, condition, guard))
            ending = instruction.traits.ending
            if ending is None and instruction.traits.stop is None:
                self._step(at, instruction, here, guard, state)
                continue
            stays = FALSE if guard is None else self._side(condition, guard, holds=False)
            if ending is Ending.BRANCH:
                target = self.blocks_at(instruction.targets[0])
                if target is None:
                    self._leave(at, here)
                else:
                    edges.setdefault(target, []).append((here, dict(state)))
            elif instruction.traits.leaves or instruction.traits.stop is not None:
                self._leave(at, here)
            else:
                self._unclear(at, instruction, "calls and indexed branches are not followed")
                return
            condition = stays
        following = self.blocks_at(block.last)
        if following is not None and not z3.is_false(condition):
            edges.setdefault(following, []).append((condition, dict(state)))

    def _side(self, condition: z3.ExprRef, guard: z3.ExprRef, *, holds: bool) -> z3.ExprRef:
        """The condition of one side of a guard."""
        made = z3.And(condition, guard if holds else z3.Not(guard))
        self.sides[made.get_id()] = condition, guard, holds, made
        return made

    def blocks_at(self, at: int) -> int | None:
        """The block that starts at an instruction."""
        return next((n for n, b in enumerate(self.blocks) if b.first == at), None)

    def _leave(self, at: int, condition: z3.ExprRef) -> None:
        if self.recording:
            self.ways.exits.append((at, condition))

    def _unclear(self, at: int, instruction: Instruction, why: str) -> None:
        self.ways.unclear.setdefault(at, (instruction, why))
        if self.ends:
            raise Spent

    # ---- instructions ------------------------------------------------------------------------

    def _guard(self, instruction: Instruction, state: State) -> z3.ExprRef | None:
        if instruction.guard is None:
            return None
        register, negated = instruction.guard
        value = self._register(register.index, state)
        return z3.Not(value) if negated else value

    def _register(self, index: int, state: State) -> z3.ExprRef:
        if index not in state:
            state[index] = self.names.fresh(width_of(self.function.registers[index].type.dtype))
        return state[index]

    def _step(
        self, at: int, instruction: Instruction, condition: z3.ExprRef, guard: z3.ExprRef | None, state: State
    ) -> None:
        traits = instruction.traits
        if traits.barrier is not None:
            plain = traits.barrier.among == "warp" or (
                traits.barrier.arrives and traits.barrier.waits and self._whole(instruction)
            )
            if not plain:
                self._unclear(at, instruction, "barriers of some threads are not followed")
            if self.recording:
                self.ways.barriers.append(Met(at, instruction, self._mask(instruction, state)))
            self._give(instruction, {}, guard, state)
            return
        locks = traits.access is AccessKind.ATOMIC and not self.read.isdisjoint(instruction.writes)
        if not self._followed(instruction) or (locks and self._repeats(at)):
            self._unclear(at, instruction, "is followed only where all scalars are known")
        elif traits.synchronises and self.recording:
            self.ways.barriers.append(Met(at, instruction, self._mask(instruction, state)))
        try:
            made = self._made(at, instruction, condition, state)
        except Untraceable as problem:
            if "memory" in instruction.form.ports:
                self._unclear(at, instruction, f"is not followed: {problem}")
            made = {}
        self._give(instruction, made, guard, state)

    def _repeats(self, at: int) -> bool:
        """Whether an instruction is in a loop."""
        return any(self.blocks[n].first <= at < self.blocks[n].last for inside in self.inside.values() for n in inside)

    def _followed(self, instruction: Instruction) -> bool:
        """Whether an instruction has no effect but its result, accesses of lanes and a meeting of its warp."""
        traits, special = instruction.traits, instruction.form.scope is not Scope.THREAD
        if instruction.form.ports - HARMLESS or traits.asynchronous is not None or traits.mbarrier is not None:
            return traits.fence is not None and traits.fence.proxy is None
        if (
            (traits.polls and traits.access is not AccessKind.ATOMIC)
            or instruction.whole
            or traits.register_count
            or traits.tensor_map
            or traits.moves_stack
        ):
            return False
        return not special or (traits.synchronises and "memory" not in instruction.form.ports)

    def _mask(self, instruction: Instruction, state: State) -> z3.ExprRef | None:
        mask = instruction.named.get("membermask")
        return None if mask is None else z3.simplify(self._operand(mask, state))

    def _whole(self, instruction: Instruction) -> bool:
        plain = [o for o in instruction.inputs if o.register is not None or o.constant is None]
        return not plain and len([o for o in instruction.inputs if o.constant is not None]) <= 1

    def _give(
        self, instruction: Instruction, made: dict[int, z3.ExprRef], guard: z3.ExprRef | None, state: State
    ) -> None:
        for register in instruction.writes:
            dtype = self.function.registers[register].type.dtype
            bits = 8 * dtype.itemsize if dtype.names else width_of(dtype)
            new = made.get(register)
            new = self.names.fresh(bits) if new is None else new
            state[register] = new if guard is None else z3.If(guard, new, self._register(register, state))

    def _made(self, at: int, instruction: Instruction, condition: z3.ExprRef, state: State) -> dict[int, z3.ExprRef]:
        """The values that an instruction gives to registers; notes its accesses."""
        address = instruction.address
        if address is not None and address.base is not None and address.base.parameter is not None:
            return self._parameter(instruction, address.base.parameter.offset + address.base.offset + address.offset)
        if instruction.form.scope is not Scope.THREAD:
            return {}
        if instruction.traits.generic_address:
            if "global" not in instruction.traits.spaces:
                raise Untraceable("generic addresses of other memory than global")
            (register,) = instruction.writes
            return {register: self._operand(instruction.inputs[0], state)}
        return self._computed(at, instruction, condition, state)

    def _computed(
        self, at: int, instruction: Instruction, condition: z3.ExprRef, state: State
    ) -> dict[int, z3.ExprRef]:
        """The same by the instruction's graph."""
        graph = instruction.graph
        if graph.updates_a_vector:
            raise Untraceable("a vector of atomics")
        inputs = []
        for given in graph.inputs:
            operand = instruction.inputs[given.source]
            if operand.elements is not None:
                number = int(given.name[len(given.name.rstrip("0123456789")) :] or 0)
                if number >= len(operand.elements):
                    raise Untraceable("a vector of another length")
                operand = operand.elements[number]
            value = self._address(operand, state) if given.address else self._operand(operand, state)
            inputs.append(resized(value, width_of(given.dtype), signed=False))
        for access in graph.accesses:
            if self.recording:
                place = inputs[access.place.input] + access.place.offset
                nbytes = access.type.bytes * access.count
                self.ways.accesses.append(Access(at, instruction, condition, place, nbytes, access.kind, access.space))
        terms, found = Terms(inputs, self.names), {}
        for operand, nodes in zip(instruction.outputs, graph.outputs, strict=True):
            for part, node in zip(operand.parts, nodes, strict=True):
                if part.register is not None:
                    bits = width_of(part.register.type.dtype)
                    found[part.register.index] = resized(terms(node), bits, signed=node.dtype.kind == "i")
        return found

    def _parameter(self, instruction: Instruction, offset: int) -> dict[int, z3.ExprRef]:
        found, type = {}, instruction.op.type
        for number, part in enumerate(instruction.outputs[0].parts):
            if part.register is not None:
                value = self.params(offset + number * type.bytes, type.bytes)
                value = self.names.fresh(8 * type.bytes) if value is None else value
                found[part.register.index] = resized(value, width_of(part.register.type.dtype), signed=type.kind == "s")
        return found

    def _address(self, operand: Operand, state: State) -> z3.ExprRef:
        base = operand.base
        assert base is not None
        return resized(self._operand(base, state) + operand.offset, 64, signed=False)  # of 32 bits: it wraps around

    def _operand(self, operand: Operand, state: State) -> z3.ExprRef:
        bits = width_of(operand.type.dtype)
        if operand.register is not None:
            value = resized(self._register(operand.register.index, state), bits, signed=False)
            return z3.Not(value) if operand.negated else value
        if operand.constant is not None:
            return z3.BoolVal(bool(operand.constant)) if not bits else z3.BitVecVal(operand.constant, bits)
        if operand.special:
            value = self.specials.get(operand.special)
            return self.names.fresh(bits) if value is None else resized(value, bits, signed=False)
        if operand.variable is not None and not operand.generic:
            value = self.variable(operand.variable)
            if value is not None:
                return resized(value, bits, signed=False) + operand.offset
        return self.names.fresh(bits)


def _fit(value: z3.ExprRef, bits: int) -> z3.ExprRef:
    return resized(value, bits, signed=False)


def named(*terms: z3.ExprRef) -> set[str]:
    """The names of the symbols in terms."""
    found: set[str] = set()
    seen: set[int] = set()
    work = list(terms)
    while work:
        term = work.pop()
        if term.get_id() in seen:
            continue
        seen.add(term.get_id())
        if z3.is_const(term) and term.decl().kind() == z3.Z3_OP_UNINTERPRETED:
            found.add(term.decl().name())
        work += term.children()
    return found
