"""mbarrier: objects that are never initialised, and phases that can never complete.

Checks kernels that call no function of the module, for objects with a known address, and only if the addresses of all
instructions that could initialise them, arrive at them or complete their transactions are known too.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from warpsim.analysis.accesses import OBJECT, SHARED, Access, accesses
from warpsim.analysis.evaluate import Read
from warpsim.analysis.facts import Facts
from warpsim.errors import Finding
from warpsim.isa.traits import Ending, Family, Mbarrier, Stage
from warpsim.program.program import Instruction

RULE = "mbarrier"


@attrs.define
class _Uses:
    """What the instructions of a kernel do to mbarriers, in block order."""

    made: list[Access] = attrs.field(factory=list)
    arrivals: list[Access] = attrs.field(factory=list)
    expected: list[Access] = attrs.field(factory=list)
    completed: list[Access] = attrs.field(factory=list)
    waits: list[Access] = attrs.field(factory=list)


def check_mbarriers(facts: Facts) -> Iterator[Finding]:
    """Check one function."""
    code = facts.function.code
    if not facts.function.entry or not any(i.traits.mbarrier is not None for i in code):
        return
    called = {i.callee for i in code if i.traits.ending is Ending.CALL}
    if "" in called or not called.isdisjoint(facts.program.functions):
        return
    uses = _Uses()
    for block in facts.blocks:
        for _, instruction, read in facts.walk(block.index):
            threads = facts.executing(block.index, instruction, read)[0]
            for access in accesses(facts, instruction, read, threads):
                if access.mode == OBJECT and access.space == SHARED:
                    _note(uses, facts, instruction, access, read)
    yield from _check(facts, uses)


def _note(uses: _Uses, facts: Facts, instruction: Instruction, access: Access, read: Read) -> None:
    traits = instruction.traits
    if traits.does(Mbarrier.INIT):
        uses.made.append(access)
    elif traits.does(Mbarrier.WAIT):
        uses.waits.append(access)
    elif traits.does(Mbarrier.COMPLETE):
        uses.completed.append(access)
    elif traits.mbarrier is not None and not traits.does(Mbarrier.INVAL):
        if traits.does(Mbarrier.EXPECT):
            bytes = facts.value(instruction.operands[-1], read).constant
            if bytes:
                uses.expected.append(access)
        if traits.does(Mbarrier.ARRIVE):
            uses.arrivals.append(access)
    elif traits.is_async(Family.CP_ASYNC, Stage.ARRIVE):
        uses.arrivals.append(access)
    else:
        uses.completed.append(access)


def _check(facts: Facts, uses: _Uses) -> Iterator[Finding]:
    reported: set[bytes] = set()
    for access in (*uses.arrivals, *uses.waits, *uses.completed):
        key = access.address.bits.tobytes()
        if access.known and access.threads.any() and key not in reported and _nobody(access, uses.made):
            reported.add(key)
            yield facts.finding(
                RULE, access.instruction, f"{access.instruction.text}: nothing initialises this mbarrier",
                advice="execute mbarrier.init in one thread, then a barrier, before the first use",
            )  # fmt: skip
    for access in uses.waits:
        key = access.address.bits.tobytes()
        if not access.known or not access.threads.any() or key in reported:
            continue
        expected = [a for a in uses.expected if a.overlaps(access)]
        if _nobody(access, uses.arrivals):
            what = "nothing arrives at this mbarrier: its phase can never complete"
        elif expected and _nobody(access, uses.completed):
            what = "no copy completes the bytes that this mbarrier expects: its phase can never complete"
        else:
            continue
        reported.add(key)
        yield facts.finding(
            RULE, access.instruction, f"{access.instruction.text}: {what}",
            other=expected[0].instruction if expected else None,
            advice="make as many arrivals as mbarrier.init expects, and copy as many bytes as were announced",
        )  # fmt: skip


def _nobody(access: Access, others: list[Access]) -> bool:
    """Whether none of the other accesses can be at the place of an access."""
    return all(o.known and o.threads.any() and not o.overlaps(access) for o in others)
