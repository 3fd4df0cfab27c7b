"""aligned-divergence, exited-lane, setmaxnreg, membermask: instructions that a warp (a warpgroup, the lanes of a mask)
must execute together, after a branch or a guard that splits it.

An error if the lanes are known to split: the condition is a function of ``%tid``, ``%laneid`` and constants. A warning
if the condition depends on per-thread data, which may agree. Lanes that exit at once are not waited for, except by
matrix instructions; those of a mask are waited for unless they exit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from warpsim.analysis.facts import Facts
from warpsim.analysis.flow import members
from warpsim.analysis.values import WARP, WARPGROUP, Spread, mixed
from warpsim.errors import Finding
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Ending, Stop
from warpsim.numerics.arrays import Array
from warpsim.program.program import Instruction

ASSERT = "__assertfail"
ADVICE = "branch on a condition that is the same in all its lanes, or move it to where they have reconverged"


def check_divergence(facts: Facts) -> Iterator[Finding]:
    """Check one function."""
    aligned, masks = _aligned(facts), _masks(facts)
    if not any(aligned) and not masks:
        return
    seen: set[int] = set()
    for block in facts.blocks:
        last = facts.function.code[block.last - 1]
        if len(block.successors) > 1 and last.guard is not None and last.traits.ending is Ending.BRANCH:
            yield from _branch(facts, block.index, aligned, seen)
            yield from _masked(facts, block.index, masks, seen)
        elif last.traits.leaves and last.guard is not None:
            yield from _leaving(facts, block.index, aligned, seen)
    yield from _guards(facts, seen)


def must_meet(instruction: Instruction) -> int:
    """The number of lanes that must execute an instruction together: a warp, a warpgroup, or 0 for none."""
    if instruction.traits.register_count or instruction.form.scope is Scope.WARPGROUP:
        return WARPGROUP
    return WARP if instruction.traits.aligned else 0


def _aligned(facts: Facts) -> list[list[int]]:
    return [[i for i in range(b.first, b.last) if must_meet(facts.function.code[i])] for b in facts.blocks]


def _branch(facts: Facts, index: int, aligned: list[list[int]], seen: set[int]) -> Iterator[Finding]:
    """Check what only one side of a branch executes."""
    graph, branch = facts.graph, facts.function.code[facts.blocks[index].last - 1]
    taken, join = facts.decision(index), graph.post_dominators[index]
    sides = list(dict.fromkeys(facts.blocks[index].successors))
    if len(sides) != 2 or taken.spread < Spread.WARPGROUP:
        return
    for side, other in (sides, sides[::-1]):
        skipping = graph.within(other, join)
        leaves = _leaves(facts, other)
        lonely = leaves or (join == graph.exit and not any(aligned[b] for b in members(skipping)))
        if _stops(facts, skipping):
            continue
        for at in members(graph.within(side, join) & ~skipping):
            for i in aligned[at]:
                instruction = facts.function.code[i]
                if i in seen or (lonely and not instruction.whole):
                    continue  # exited lanes are not waited for
                if not taken.exact:
                    if taken.spread is Spread.THREAD and not leaves:
                        seen.add(i)
                        yield _may_part(facts, instruction, branch)
                    continue
                split = mixed(taken.bits != 0, facts.reach[index], must_meet(instruction)) & facts.reach[at]
                if split.any():
                    seen.add(i)
                    rule = "exited-lane" if leaves else "aligned-divergence"
                    yield _split(facts, rule, instruction, split, branch)


def _masks(facts: Facts) -> dict[int, tuple[int, int]]:
    """(block, mask) of each instruction with a known membermask."""
    found = {}
    for step in (
        facts.steps if any(s.name == "membermask" for i in facts.function.code for s in i.form.operands) else ()
    ):
        operand = step.instruction.named.get("membermask")
        mask = None if operand is None else step.value(operand).constant
        if mask is not None:
            found[step.at] = step.block, mask
    return found


def _masked(facts: Facts, index: int, masks: dict[int, tuple[int, int]], seen: set[int]) -> Iterator[Finding]:
    """Find lanes named by a mask that have taken another path, where they cannot exit before they wait for those that came."""
    graph, branch = facts.graph, facts.function.code[facts.blocks[index].last - 1]
    taken, sides = facts.decision(index), list(dict.fromkeys(facts.blocks[index].successors))
    if not masks or not taken.exact or len(taken.bits) == 1 or len(sides) != 2:
        return
    lane = facts.threads.thread % np.uint64(WARP)
    for side, other in (sides, sides[::-1]):
        skipping = graph.within(other, graph.post_dominators[index])
        if _stops(facts, skipping):
            continue
        only = graph.within(side, graph.post_dominators[index]) & ~skipping
        for i, (at, mask) in masks.items():
            if i in seen or not only >> at & 1:
                continue
            named = np.uint64(mask) >> lane & np.uint64(1) != 0
            comes = facts.reach[at] & named
            some = np.repeat(comes.reshape(-1, WARP).any(axis=1), WARP)
            missing = some & named & facts.reach[index] & ~facts.reach[at] & ~_elsewhere(facts, i, masks, skipping)
            instruction = facts.function.code[i]
            waits = functools.partial(_waits, masks, i, instruction, comes, missing)
            if missing.any() and not _exit(facts, other, missing, waits):
                seen.add(i)
                first = int(lane[missing][0])
                message = (
                    f"{instruction.text}: its mask 0x{mask:08x} names lane {first}, which the condition of line"
                    f" {branch.span.line} sends down another path"
                )
                yield facts.finding("membermask", instruction, message, other=branch, threads=missing, advice=ADVICE)


def _waits(
    masks: dict[int, tuple[int, int]],
    i: int,
    here: Instruction,
    comes: Array,
    missing: Array,
    j: int,
    there: Instruction,
) -> bool:
    """Whether the missing threads wait at ``j`` for some that wait for them at ``i``, in each of their warps."""
    if there.guard is not None:
        return False
    if j not in masks:
        barrier = there.traits.barrier
        return bool(must_meet(there)) or (barrier is not None and barrier.waits and barrier.among != "warp")
    mask = masks[j][1]
    if mask == masks[i][1] and there.text == here.text:
        return False
    named = (comes.reshape(-1, WARP) & (mask >> np.arange(WARP) & 1 != 0)).any(axis=1)
    return bool(named[missing.reshape(-1, WARP).any(axis=1)].all())


def _exit(facts: Facts, start: int, missing: Array, waits: Callable[[int, Instruction], bool]) -> bool:
    """Whether threads may come from a block to their exit without an instruction that ``waits``."""
    seen, work = 0, [start]
    while work:
        at = work.pop()
        if seen >> at & 1 or not (facts.reach[at] & missing).any():
            continue
        seen |= 1 << at
        block = facts.blocks[at]
        if any(waits(j, facts.function.code[j]) for j in range(block.first, block.last)):
            continue
        if not block.successors or facts.function.code[block.last - 1].traits.leaves:
            return True
        work += block.successors
    return False


def _elsewhere(facts: Facts, i: int, masks: dict[int, tuple[int, int]], blocks: int) -> Array:
    """Threads that may come, in some blocks, to an instruction with the same qualifiers and mask as ``i``, which waits for
    these (PTX ISA, bar.warp.sync and shfl.sync)."""
    code, mask = facts.function.code, masks[i][1]
    alike = [
        at for j, (at, other) in masks.items() if blocks >> at & 1 and other == mask and code[j].text == code[i].text
    ]
    return np.any([facts.reach[at] for at in alike], axis=0) if alike else np.zeros(1, np.bool_)


def _stops(facts: Facts, blocks: int) -> bool:
    """Whether a path ends the launch, by a trap or a call that never returns."""
    functions = facts.program.functions
    for at in members(blocks):
        block = facts.blocks[at]
        for instruction in facts.function.code[block.first : block.last]:
            name = instruction.callee
            if (
                instruction.traits.stop is Stop.TRAP
                or name == ASSERT
                or (name in functions and functions[name].noreturn)
            ):
                return True
    return False


def _leaves(facts: Facts, index: int) -> bool:
    """Whether a block and everything after it only exits."""
    for at in members(facts.graph.reachable(index)):
        block = facts.blocks[at]
        for instruction in facts.function.code[block.first : block.last]:
            if not instruction.traits.leaves and instruction.traits.ending is not Ending.BRANCH:
                return False
    return True


def _leaving(facts: Facts, index: int, aligned: list[list[int]], seen: set[int]) -> Iterator[Finding]:
    """Find instructions that need every lane after the exit of part of the warp."""
    exit = facts.function.code[facts.blocks[index].last - 1]
    taken = facts.decision(index)
    if not taken.exact or len(taken.bits) == 1 or not facts.function.entry:
        return
    for successor in facts.blocks[index].successors:
        for at in members(facts.graph.reachable(successor)):
            for i in aligned[at]:
                instruction = facts.function.code[i]
                if not instruction.whole or i in seen:
                    continue
                split = mixed(taken.bits != 0, facts.reach[index], must_meet(instruction)) & facts.reach[at]
                if split.any():
                    seen.add(i)
                    yield _split(facts, "exited-lane", instruction, split, exit)


def _guards(facts: Facts, seen: set[int]) -> Iterator[Finding]:
    """Find guards that are true in only part of the warp."""
    for step in facts.steps:
        instruction, holds = step.instruction, step.guard
        if holds is None or step.at in seen or not must_meet(instruction):
            continue
        if holds.unknown is Spread.THREAD:
            yield _may_part(facts, instruction, instruction)
        if holds.exact and len(holds.bits) > 1:
            flags = holds.bits != 0
            split = mixed(flags, facts.reach[step.block], must_meet(instruction)) & flags
            if split.any():
                seen.add(step.at)
                yield _split(facts, "aligned-divergence", instruction, split, None)


def _may_part(facts: Facts, instruction: Instruction, branch: Instruction) -> Finding:
    whole = "warpgroup" if must_meet(instruction) == WARPGROUP else "warp"
    message = (
        f"{instruction.text} must be executed by all lanes of a {whole} together, but the condition of line {branch.span.line}"
        " may differ between lanes with different data"
    )
    rule = "setmaxnreg" if instruction.traits.register_count else "aligned-divergence"
    return facts.finding(rule, instruction, message, severity="warning", other=branch, advice=ADVICE)


def _split(facts: Facts, rule: str, instruction: Instruction, split: Array, branch: Instruction | None) -> Finding:
    whole = "warpgroup" if must_meet(instruction) == WARPGROUP else "warp"
    here = int(np.flatnonzero(split)[0])
    size = must_meet(instruction)
    first = here // size * size
    count = int(split[first : first + size].sum())
    if rule == "exited-lane":
        message = f"{instruction.text} needs every lane of the {whole}, but only {count} remain; the others have exited"
    else:
        message = f"{instruction.text} must be executed by all lanes of a {whole} together, but only {count} of {size} reach it"
        if instruction.traits.register_count:
            rule = "setmaxnreg"
    where = (
        f" (the condition of line {branch.span.line} splits them)" if branch is not None else " (its guard splits them)"
    )
    return facts.finding(rule, instruction, message + where, other=branch, threads=split, advice=ADVICE)
