"""race: accesses by different threads to one byte of shared memory with nothing in between that could order them.

Checks pairs whose addresses are known in every thread and that are executed by threads that data cannot exclude.
Anything that may synchronise threads (barriers, shuffles, mbarriers, fences, atomics, calls) on any path in between is
taken to suffice.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from warpsim.analysis.accesses import SHARED, WRITE, Access, Marks
from warpsim.analysis.dataflow import NOTHING, GroupStates, walk
from warpsim.analysis.facts import Facts
from warpsim.analysis.flow import members
from warpsim.errors import Finding
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Access as Kind
from warpsim.isa.traits import Ending, Traits
from warpsim.program.program import Instruction

RULE = "race"
ADVICE = "add bar.sync between the two, or bar.warp.sync if all threads involved are in one warp"
EVERYTHING = -1
NOBODY, SEVERAL = -1, -2


@attrs.frozen(eq=False)
class Site:
    """A weak access and the thread that makes it, per byte."""

    access: Access
    owners: Marks


def check_races(facts: Facts) -> Iterator[Finding]:
    """Check one function."""
    sites = _sites(facts)
    if not any(s.access.mode == WRITE for s in sites.values()):
        return
    numbers = {at: n for n, at in enumerate(sites)}
    code = facts.function.code

    def step(at: int, open: GroupStates) -> GroupStates:
        if _orders(code[at]):
            open = open.ended(EVERYTHING)
        return open.issued(1 << numbers[at]) if at in numbers else open

    places = list(sites)
    reported: set[int] = set()
    for at, open in walk(facts.blocks, NOTHING, step, GroupStates.__or__):
        for number in members(open.pending & ~open.done) if at in sites else ():
            first, second = sites[places[number]], sites[at]
            if number not in reported and _races(first, second):
                reported.add(number)
                yield _finding(facts, first.access, second.access)


def _sites(facts: Facts) -> dict[int, Site]:
    found: dict[int, Site] = {}
    for step in facts.steps:
        if _is_weak(step.instruction.traits) and step.certain and step.threads.any():
            for access in step.accesses:
                if access.space == SHARED and access.known:
                    found[step.at] = Site(access, _owners(access))
    return found


def _owners(access: Access) -> Marks:
    owners = Marks.around(access.starts, access.nbytes, np.int16, NOBODY)
    if not len(owners.content):
        return owners
    thread = np.flatnonzero(access.threads).astype(np.int16)
    for k in range(access.nbytes):
        at = access.starts - owners.low + k
        owners.content[at] = thread
        owners.content[at[owners.content[at] != thread]] = SEVERAL
    return owners


def _races(first: Site, second: Site) -> bool:
    """Whether two accesses by different threads share a byte, where one writes and the other reads."""
    if first.access.mode == second.access.mode:
        return False
    a, b = first.owners.common(second.owners)
    return bool(((a != NOBODY) & (b != NOBODY) & ((a != b) | (a == SEVERAL))).any())


def _is_weak(traits: Traits) -> bool:
    """Whether an instruction is a load or store without ordering."""
    return traits.access in (Kind.LOAD, Kind.STORE) and not traits.order.strong and traits.asynchronous is None


def _orders(instruction: Instruction) -> bool:
    """Whether an instruction may synchronise threads."""
    traits = instruction.traits
    return (
        instruction.form.scope in (Scope.SYNC, Scope.WARP, Scope.WARPGROUP)
        or traits.order.strong
        or traits.access is Kind.ATOMIC
        or traits.ending is Ending.CALL
        or not (traits.fence is None and traits.mbarrier is None and traits.asynchronous is None)
    )


def _finding(facts: Facts, first: Access, second: Access) -> Finding:
    done, does = ("wrote", "reads") if first.mode == WRITE else ("read", "writes")
    message = (
        f"{second.instruction.text} {does} shared memory that other threads {done} in line"
        f" {first.instruction.span.line}, and nothing orders the two accesses"
    )
    return facts.finding(RULE, second.instruction, message, other=first.instruction, advice=ADVICE)
