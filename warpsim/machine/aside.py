"""A short branch that some threads take alone, such as a leader's, which arrives at an mbarrier or starts a copy.

They run it at once, while the group of all of them stays as it is and goes on where the branch ends: groups for both sides, two
turns and a group for all would come to the same. If anybody asks meanwhile where the threads are, the group is split after all.
"""

from __future__ import annotations

from warpsim.isa.spec import Scope
from warpsim.isa.traits import Ending
from warpsim.machine.machine import Machine
from warpsim.machine.plan import ATTEND, BoundBlock, FunctionPlan
from warpsim.machine.selection import Rect, split
from warpsim.machine.state.group import Group
from warpsim.machine.values import FLAT, Affine, Array, as_array, reduced, spread
from warpsim.records import frozen

LONGEST = 32
"""Instructions of such a branch. What is longer may be worth machine code of its own."""


@frozen(eq=False)
class Aside:
    """Such a branch: the block ``inside``, and where it ends."""

    inside: BoundBlock
    target: int

    def run(self, machine: Machine, group: Group, mask: Array) -> bool:
        """Run it by the threads of a group where ``mask`` is false; the group is then at its end, or (block -1) its parts have
        replaced it. False, and nothing is done, where others may come first, or somebody follows groups.
        """
        if not machine.unfollowed or type(group.selection) is not Rect or group.shadowed(self.inside.examined):
            return False
        limit = machine.limit(group)
        if limit is not None and limit <= (group.generation, (*group.key[:-2], self.target, 0)):
            return False
        staying, going = split(group.selection, mask)
        launch, batch = machine.launch, machine.batch
        ahead = launch.instructions + len(self.inside.instructions) * going.n_warps
        if type(going) is not Rect or ahead > (launch.settings.max_instructions or ahead):
            return False
        child = self._child(machine, group, ~mask, going)

        def divide() -> None:
            child.asks = None
            group.flush(self.inside.live_in)  # with all that is read where the branch ends: it writes none of that
            rest = machine.stand_in(group, staying)
            rest.recall()
            rest.block, rest.at, rest.back_edges, group.block = self.target, 0, group.back_edges, -1
            machine.push(rest)

        launch.running, batch.divide = child, divide
        try:
            suspended = self._execute(machine, child)
        except BaseException:
            batch.settle()
            raise
        if suspended or batch.divide is None:
            batch.settle()
            self._follow(machine, child, suspended)
            return True
        launch.running, batch.divide, group.block, group.at = group, None, self.target, 0
        launch.mark, launch.groups = launch.memory.version, launch.groups + 2
        group.number, group.seen, group.arrives_in_parts = launch.groups, (), False  # as after a merge
        return True

    def _child(self, machine: Machine, group: Group, mask: Array, selection: Rect) -> Group:
        """The threads that run it, where it begins, with the registers that it reads."""
        child, shape = machine.stand_in(group, selection), group.selection.shape
        child.block, child.at, child.back_edges = self.inside.index, 0, group.back_edges
        for index in self.inside.examined:
            value = group.read(index)
            if not (value.strides == FLAT if type(value) is Affine else value.size == 1):
                value = reduced(spread(as_array(value), shape)[spread(mask, shape)].reshape(selection.shape))
            child.env[index] = value
        child.asks = machine.batch.settle
        return child

    def _execute(self, machine: Machine, child: Group) -> object:
        """Execute its steps; up to one, and what this returns, if that does not let the threads just go on."""
        machine.count_entry(child, 1)
        for child.at, step in enumerate(self.inside.steps):
            suspended = step(machine, child)
            if suspended:
                return suspended
        return None

    def _follow(self, machine: Machine, child: Group, suspended: object) -> None:
        """Let its threads go on as a group of their own."""
        if suspended is None:
            child.block, child.at = self.target, 0
        else:
            assert suspended is ATTEND, "its threads cannot wait"
            if machine.hooks.shadowed_after is not None:
                machine.hooks.shadowed_after(machine, child, self.inside.instructions[child.at])
            child.at += 1
        machine.push(child)


def aside(plan: FunctionPlan, inside: BoundBlock, target: int) -> Aside | None:
    """A block that a branch to ``target`` leaves out, if it leads there alone, does nothing that makes threads wait or part, and
    leaves no register to what follows."""
    instructions, live = inside.instructions, plan.blocks[target].live_in
    if inside.successors != (target,) or inside.index >= target or len(instructions) > LONGEST:
        return None
    for instruction in instructions:
        traits = instruction.traits
        if traits.ending is not None:
            goes_on = traits.ending is Ending.BRANCH
        else:
            goes_on = instruction.form.scope is Scope.THREAD and not traits.synchronises
        if not goes_on or not live.isdisjoint(instruction.writes):
            return None
    return Aside(inside, target)
