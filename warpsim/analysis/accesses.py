"""misaligned, matrix-alignment, tensor-map and out-of-bounds, for addresses that are known without running; and race: accesses
by different threads to one byte of shared memory with nothing in between that could order them.

An address is checked as far as it is known: exactly, or by its low bits. Threads that only some launches have, and
threads that a data-dependent condition may exclude, are not checked unless all threads are wrong. Races are looked for in
pairs whose addresses are known in every thread and that are executed by threads that data cannot exclude. Anything that may
synchronise threads (barriers, shuffles, mbarriers, fences, atomics, calls) on any path in between is taken to suffice.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsim.analysis.dataflow import NOTHING, GroupStates, walk
from warpsim.analysis.facts import SHARED, WRITE, Access, Facts, Marks
from warpsim.analysis.flow import members
from warpsim.errors import Finding
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Access as Kind
from warpsim.isa.traits import Ending, Family
from warpsim.numerics.arrays import Array
from warpsim.program.program import Instruction, Variable
from warpsim.records import frozen
from warpsim.types import StateSpace

ALIGNED = {
    "misaligned": "an access of N bytes needs an address that is a multiple of N",
    "matrix-alignment": "rows of ldmatrix and stmatrix are 16 bytes at multiples of 16",
    "tensor-map": "boxes in shared memory are aligned to 128 bytes",
}


def check_places(facts: Facts) -> Iterator[Finding]:
    """Check one function."""
    variables = shared_variables(facts)
    for step in facts.steps:
        if step.instruction.traits.is_async(Family.WGMMA) or not step.threads.any():
            continue
        for access in step.accesses:
            yield from _aligned(facts, access, certain=step.certain)
            yield from _inside(facts, access, variables, certain=step.certain)


def shared_variables(facts: Facts) -> dict[str, Variable]:
    """The shared variables that the function can name, by unique name."""
    both = (*facts.program.variables, *facts.function.variables)
    return {v.unique: v for v in both if v.space is StateSpace.SHARED}


def _aligned(facts: Facts, access: Access, *, certain: bool) -> Iterator[Finding]:
    address = access.address
    known = min(access.align, 1 << min(address.zeros, 62))
    odd = np.broadcast_to(address.bits % np.uint64(known) != 0, access.threads.shape) & access.threads
    if not _counts(odd, access.threads, certain=certain):
        return
    rule = "tensor-map" if access.align == 128 else "misaligned"
    if access.instruction.traits.matrix is not None:
        rule = "matrix-alignment"
    first = int(np.broadcast_to(address.bits, odd.shape)[odd][0])
    if address.exact:
        what = f"address 0x{first:x} is not a multiple of {access.align}"
    else:
        what = f"an address that is {first % known} modulo {known} is not a multiple of {access.align}"
    message = f"{access.instruction.text}: {access.space + ' ' if access.space != 'generic' else ''}{what}"
    yield facts.finding(rule, access.instruction, message, threads=odd, advice=ALIGNED[rule], values={"address": first})


def _counts(wrong: Array, threads: Array, *, certain: bool) -> bool:
    return bool(wrong.any() if certain else wrong.any() and (wrong == threads).all())


def _inside(facts: Facts, access: Access, variables: dict[str, Variable], *, certain: bool) -> Iterator[Finding]:
    """Find accesses outside the only variable that their address was computed from."""
    if access.space != SHARED or not access.address.exact or len(access.address.symbols) != 1:
        return
    variable = variables.get(next(iter(access.address.symbols)))
    if variable is None or not variable.size or variable.linkage == "extern":
        return
    start = facts.evaluator.shared.address(variable)
    place = np.broadcast_to(access.address.bits, access.threads.shape).astype(np.int64)
    outside = access.threads & ((place < start) | (place + access.nbytes > start + variable.size))
    if not outside.any() or ((outside != access.threads).any() and not (certain and facts.threads.sizes)):
        return
    first = int(place[outside][0])
    where = f"{first - start} bytes from its start" if first >= start else f"{start - first} bytes before it"
    hit = next((v for v in variables.values() if v is not variable and v.size and v.unique in facts.evaluator.shared.offsets
                and (at := facts.evaluator.shared.address(v)) < first + access.nbytes and first < at + v.size), None)  # fmt: skip
    into = f", in {hit.name}" if hit is not None else ""
    message = (
        f"{access.instruction.text}: {access.nbytes} bytes at shared address 0x{first:x} are not inside"
        f" {variable.name} [{variable.size} bytes], {where}{into}"
    )
    yield facts.finding(
        "out-of-bounds", access.instruction, message, threads=outside,
        advice="make the variable as large as what is accessed through it", values={"address": first},
    )  # fmt: skip


RULE = "race"
RACE_ADVICE = "add bar.sync between the two, or bar.warp.sync if all threads involved are in one warp"
EVERYTHING = -1
NOBODY, SEVERAL = -1, -2


@frozen(eq=False)
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
        traits = step.instruction.traits
        weak = traits.access in (Kind.LOAD, Kind.STORE) and not traits.order.strong and traits.asynchronous is None
        if weak and step.certain and step.threads.any():
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
    return facts.finding(RULE, second.instruction, message, other=first.instruction, advice=RACE_ADVICE)
