"""Control flow: what ends a block, barriers, calls and returns."""

from __future__ import annotations

import numpy as np

from warpsim.isa.traits import Ending
from warpsim.machine.aside import Aside, aside
from warpsim.machine.barriers import leave
from warpsim.machine.machine import Machine
from warpsim.machine.memory.stack import ThreadStack
from warpsim.machine.plan import BoundBlock, End, FunctionPlan, literal
from warpsim.machine.runtime import system_call
from warpsim.machine.selection import Lanes, Selection, from_positions, split
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array, as_array, extend
from warpsim.machine.waiting import back_edge
from warpsim.numerics.arrays import distinct
from warpsim.program.program import Instruction, Operand, Param
from warpsim.records import frozen

MAX_DEPTH = 512


def bind_end(plan: FunctionPlan, instruction: Instruction, block: BoundBlock, following: int | None) -> End:
    """The closure that ends a block: returns the next block, or None if the group was passed on."""
    ending = instruction.traits.ending
    if ending is Ending.BRANCH:
        taken: End = jump(plan.place_of.get(instruction.targets[0]))
    elif ending is Ending.INDEXED_BRANCH:
        taken = _table(plan, instruction)
    elif ending is Ending.CALL:
        taken = _call(plan, instruction, block, following)
    elif ending is Ending.RETURN:
        taken = _return
    else:
        taken = _exit
    if instruction.guard is None:
        return taken
    assert following is not None, "a closing brace that threads may come to returns"
    register, negated = instruction.guard
    target = plan.place_of.get(instruction.targets[0]) if ending is Ending.BRANCH else None
    short = None
    if target is not None and "uni" not in instruction.op.modifiers:
        short = aside(plan, plan.blocks[following], target)
    return _conditional(plan, register.index, taken, target, following, short, negated=negated)


def jump(target: int | None) -> End:
    """Jump to a block; the end of a function returns from it."""
    if target is None:
        return _return
    return lambda machine, group: target


def _conditional(
    plan: FunctionPlan, slot: int, taken: End, target: int | None, following: int, short: Aside | None, *, negated: bool
) -> End:  # fmt: skip
    def end(machine: Machine, group: Group) -> int | None:
        value = group.env[slot]
        if value is None:
            value = group.fetch(slot)
        value = as_array(value)
        if value.size == 1:
            return taken(machine, group) if bool(value.item()) != negated else following
        count = int(np.count_nonzero(value))
        if count == 0 or count == value.size:
            return taken(machine, group) if (count > 0) != negated else following
        mask = ~value if negated else value
        if short is not None and short.run(machine, group, mask):
            return None if group.block < 0 else target
        yes, no = part(machine, group, mask, live_after(plan, target, following))
        no.block, no.at = following, 0
        machine.push(no)
        if target is not None:
            yes.block, yes.at = target, 0
            if target > group.block or not back_edge(machine, yes, group.plan.blocks[group.block]):
                machine.push(yes)
            return None
        where = taken(machine, yes)
        if where is not None:
            yes.block, yes.at = where, 0
            machine.push(yes)
        return None

    return end


def live_after(plan: FunctionPlan, target: int | None, following: int) -> frozenset[int] | None:
    """Registers that either side of a branch reads; None (all) if a side calls, or returns with results."""
    if target is None:
        return None
    return plan.blocks[target].live_in | plan.blocks[following].live_in


def part(machine: Machine, group: Group, mask: Array, live: frozenset[int] | None = None) -> tuple[Group, Group]:
    """Split a group into the threads where ``mask`` is true and the others, each with its registers (those in
    ``live``)."""
    selection = group.selection
    if machine.launch.settings.keeps:
        live = None
    if isinstance(selection, Lanes):
        flags = mask.reshape(-1)
        parts = (
            compact(machine, group, flags.nonzero()[0], live),
            compact(machine, group, (~flags).nonzero()[0], live),
        )
        fewer, others = sorted([p.selection for p in parts], key=lambda s: s.n)
        vars(others)["warp_sizes"] = selection.warp_sizes - fewer.warp_sizes  # without a look at each of its lanes
    else:
        group.flush(live)
        yes, no = split(selection, mask)
        parts = fork(machine, group, yes), fork(machine, group, no)
    if machine.hooks.group_split is not None:
        machine.hooks.group_split(machine, group, parts)
    if machine.hooks.uniform_split is not None and "uni" in group.instruction.op.modifiers:
        machine.hooks.uniform_split(machine, group, parts)
    return parts


def fork(machine: Machine, group: Group, selection: Selection) -> Group:
    """A group of some of a group's threads, at its place and in its loops."""
    child = machine.stand_in(group, selection)
    child.recall()
    child.back_edges = group.back_edges
    return child


def compact(machine: Machine, group: Group, keep: Array, live: frozenset[int] | None) -> Group:
    """Extract some lanes of a list of lanes, with their registers."""
    selection = from_positions(machine.batch.shape, group.selection.positions[keep])
    child = fork(machine, group, selection)
    if not isinstance(selection, Lanes):
        group.flush(live)
        return child
    kept = group.dirty if live is None else group.dirty & live
    group.leave(keep, child, kept if live is None else live)
    child.dirty = set(kept)
    return child


def _table(plan: FunctionPlan, instruction: Instruction) -> End:
    """``brx.idx``: one target per value of the index."""
    index = plan.slot(instruction.operands[0])
    assert index is not None, "an index is a register or a constant"
    targets = [plan.place_of[target] for target in instruction.targets]

    def values_of(group: Group) -> Array:
        values = as_array(group.read(index))
        return values.view(f"u{values.dtype.itemsize}")

    def beyond(machine: Machine, group: Group, number: int) -> None:
        """End threads whose index has no target, because their behaviour is undefined."""
        message = f"{instruction.text}: the index {number} has no target in a list of {len(targets)}"
        machine.fault("out-of-bounds", message, group)
        leave(machine, group)

    def end(machine: Machine, group: Group) -> int | None:
        values, rest = values_of(group), group
        if values.size == 1:
            number = int(values.reshape(-1)[0])
            if number < len(targets):
                return targets[number]
            beyond(machine, group, number)
            return None
        numbers = distinct(values)
        for at, number in enumerate(numbers.tolist()):
            chosen = rest
            if at + 1 < len(numbers):
                chosen, rest = part(machine, rest, values_of(rest) == number)
            if number >= len(targets):
                beyond(machine, chosen, number)
                continue
            chosen.block, chosen.at = targets[number], 0
            machine.push(chosen)
        return None

    return end


def check_depth(machine: Machine, group: Group) -> None:
    """Limit the call depth."""
    if len(group.stack) >= MAX_DEPTH:
        machine.fault("limit", f"calls nest deeper than {MAX_DEPTH}", group, advice="check that the recursion ends")


# ---- calls --------------------------------------------------------------------------------------


def _exit(machine: Machine, group: Group) -> int | None:
    leave(machine, group)
    return None


@frozen(eq=False)
class _Call:
    """A call in a function; ``following`` is the block behind it."""

    plan: FunctionPlan
    block: int
    following: int
    arguments: tuple[Operand, ...]
    returns: tuple[Operand, ...]

    def enter(self, machine: Machine, group: Group, name: str) -> int | None:
        """Threads go into a function. Gives the block where they go on at once, if it is a function of the CUDA runtime."""
        program = self.plan.kernel.program
        name = program.aliases.get(name, name)
        if name not in program.functions:
            system_call(machine, group, name, self.plan, self.arguments, self.returns)
            return self.following
        target = self.plan.kernel.function(name)
        base = self._frame(machine, group, target, name)
        stack = (*group.stack, (self.plan, self.block, self.following, group.local_base))
        inner = machine.group(group.selection, target, stack, 0, 0, base, group.generation)
        inner.follow(group)
        for argument, param in zip(self.arguments, target.function.params, strict=False):
            if param.registers:
                _hand_over(machine, group, argument, inner, param)
        if machine.hooks.function_entered is not None:
            machine.hooks.function_entered(machine, inner)
        group.flush(None)
        machine.push(inner)
        return None

    def _frame(self, machine: Machine, group: Group, target: FunctionPlan, name: str) -> int:
        """Where the frame of the function begins, with its arguments in it."""
        check_depth(machine, group)
        stack = ThreadStack(machine, group)
        base = stack.callee_frame()
        stack.reach(base + target.frame_size, f"the call of {name}")
        positions = group.selection.positions.reshape(-1)
        if machine.hooks.stack_extended is not None:
            machine.hooks.stack_extended(machine, group, positions, base, target.frame_size)
        if target.stack_word is not None:
            word = np.full(len(positions), base + target.stack_word)
            machine.fill("local", word, positions, np.zeros(len(positions), np.uint32))
        for argument, param in zip(self.arguments, target.function.params, strict=False):
            if not param.registers:
                _copy_in(machine, group, self.plan, argument, base + target.offset(param), param)
        return base

    def through(self, machine: Machine, group: Group, slot: int) -> None:
        """Threads go into the functions whose addresses a register holds, one function after the other."""
        rest = group
        values = distinct(as_array(rest.read(slot)))
        for number, value in enumerate(values):
            chosen = rest
            if number + 1 < len(values):
                chosen, rest = part(machine, rest, as_array(rest.read(slot)) == value)
            name = self.plan.kernel.image.function_at(int(value))
            if name is None:
                machine.fault("out-of-bounds", f"call through 0x{int(value):x}, which is not a function", chosen)
                leave(machine, chosen)
                continue
            where = self.enter(machine, chosen, name)
            if where is not None:
                chosen.block, chosen.at = where, 0
                machine.push(chosen)


def _call(plan: FunctionPlan, instruction: Instruction, block: BoundBlock, following: int | None) -> End:
    results, callee, arguments = instruction.operands
    block.returns = results.parts
    assert following is not None, "a closing brace that threads may come to returns"
    made = _Call(plan, block.index, following, arguments.parts, results.parts)
    if callee.register is None:
        return lambda machine, group: made.enter(machine, group, callee.function)
    slot = callee.register.index
    return lambda machine, group: made.through(machine, group, slot)


def _copy_in(machine: Machine, group: Group, plan: FunctionPlan, argument: Operand, target: int, param: Param) -> None:
    local, positions = machine.batch.local, group.selection.positions.reshape(-1)
    if argument.base is not None:
        local.move(group.local_base + plan.place(argument.base), target, param.size, positions)
        return
    value = as_array(group.value(argument))
    size = max(param.size, 4)
    value = (
        extend(value, size, signed=False)
        if value.dtype.itemsize < size
        else value.view(f"u{value.dtype.itemsize}").astype(f"u{size}")
    )
    full = np.broadcast_to(value.reshape(-1) if value.size == 1 else value, group.selection.shape).reshape(-1)
    machine.fill("local", np.full(len(positions), target), positions, np.ascontiguousarray(full))


def _hand_over(machine: Machine, group: Group, argument: Operand, inner: Group, param: Param) -> None:
    """Pass an argument to the registers of a ``.reg`` parameter."""
    for operand, register in zip(argument.parts, param.registers, strict=True):
        dtype = register.type.dtype
        if operand.register is not None:
            group.hand_on(operand.register.index, inner, register.index)
        elif operand.constant is not None:
            inner.set(register.index, literal(operand.constant & ((1 << 8 * dtype.itemsize) - 1), register.type))
        elif operand.base is not None:
            positions = group.selection.positions.reshape(-1)
            source = np.full(len(positions), group.local_base + group.plan.place(operand.base))
            inner.set(
                register.index, machine.batch.local.gather(source, positions, dtype).reshape(group.selection.shape)
            )


def _return(machine: Machine, group: Group) -> int | None:
    if not group.stack:
        leave(machine, group)
        return None
    caller, block, following, base = group.stack[-1]
    back = machine.group(group.selection, caller, group.stack[:-1], following, 0, base, group.generation)
    back.follow(group)
    returns = caller.blocks[block].returns
    for operand, param in zip(returns, group.plan.function.returns, strict=False):
        _hand_back(machine, group, back, operand, param)
    if machine.hooks.stack_extended is not None and group.plan.frame_size:  # the frame's variables end with it
        positions = group.selection.positions.reshape(-1)
        machine.hooks.stack_extended(machine, group, positions, group.local_base, group.plan.frame_size)
    if machine.hooks.registers_written is not None:
        written = tuple(slot for operand in returns for slot in operand.registers)
        if written:
            machine.hooks.registers_written(machine, back, written)
    group.flush(frozenset())  # its registers end with it
    machine.push(back)
    return None


def _hand_back(machine: Machine, group: Group, back: Group, operand: Operand, param: Param) -> None:
    """A result, from a register or the frame of the function to where the caller wants it."""
    if param.registers:
        for register, result in zip(param.registers, operand.parts, strict=True):
            if result.register is not None:
                group.hand_on(register.index, back, result.register.index)
        return
    local, positions = machine.batch.local, group.selection.positions.reshape(-1)
    source = group.local_base + group.plan.offset(param)
    if operand.base is not None:
        local.move(source, back.local_base + back.plan.place(operand.base), param.size, positions)
    elif operand.register is not None:
        value = local.gather(np.full(len(positions), source), positions, operand.register.type.dtype)
        back.set(operand.register.index, value.reshape(group.selection.shape))
