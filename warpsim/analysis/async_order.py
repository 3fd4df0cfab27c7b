"""async-read-early, async-smem-overwrite, proxy-fence, mbarrier: the waits and fences that shared memory accesses need,
and mbarriers that are never initialised or can never complete.

Follows every access to shared memory over all paths through the function, until a wait or a fence ends the operation
that it is part of. Reports a pair of accesses that are known to share a byte, or that both go to one separate variable,
if no path between them has the wait or fence: one on any path is taken to suffice. The initialisation of an mbarrier
needs its fence on every path.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import attrs

from warpsim.analysis.accesses import shared_variables
from warpsim.analysis.dataflow import NOTHING, GroupStates, walk
from warpsim.analysis.facts import OBJECT, READ, SHARED, WRITE, Access, Facts, Step
from warpsim.analysis.flow import members
from warpsim.errors import Finding
from warpsim.isa.traits import Ending, Family, Mbarrier, Stage
from warpsim.program.program import Instruction
from warpsim.records import frozen

COPY, LOAD, STORE, GENERIC, INIT = "cp.async", "bulk load", "bulk store", "generic access", "mbarrier.init"


@frozen(eq=False)
class Site:
    """An access that later accesses may have to wait for or be fenced from."""

    kind: str
    access: Access
    at: int


@frozen
class Conflict:
    """How a conflicting pair of accesses is reported."""

    rule: str
    message: str
    advice: str
    severity: str = "error"


def check_async(facts: Facts) -> Iterator[Finding]:
    """Check one function."""
    if any(
        _is_copy(i) or i.traits.is_async(Family.WGMMA) or i.traits.mbarrier is not None for i in facts.function.code
    ):
        yield from _Order(facts).findings()


def _is_copy(instruction: Instruction) -> bool:
    """Whether an instruction belongs to the asynchronous copies."""
    found = instruction.traits.asynchronous
    return found is not None and found.family in (Family.CP_ASYNC, Family.BULK)


class _Order:
    """The sites of a function, and their states along the paths."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.sizes = {name: v.size for name, v in shared_variables(facts).items() if v.linkage != "extern"}
        self.accesses: dict[int, list[Access]] = {}
        self.sites: list[Site] = []
        self.made: dict[int, int] = {}
        self.of_kind = dict.fromkeys((COPY, LOAD, STORE, GENERIC, INIT), 0)
        for step in facts.steps:
            found = [a for a in step.accesses if a.space == SHARED]
            if found and step.threads.any():
                self.accesses[step.at] = found
                for kind, access in self._sites(found):
                    self._add(kind, access, step.at)
        self.ends: dict[str, list[tuple[int, int]]] = {kind: [] for kind in self.of_kind}
        for step in facts.steps:
            for kind in _ends(step.instruction):
                self.ends[kind].append((step.at, step.block))
        self.reported: set[tuple[str, int]] = set()

    def _add(self, kind: str, access: Access, at: int) -> None:
        own = 1 << len(self.sites)
        self.sites.append(Site(kind, access, at))
        self.of_kind[kind] |= own
        self.made[at] = self.made.get(at, 0) | own

    def _sites(self, found: list[Access]) -> Iterator[tuple[str, Access]]:
        for access in found:
            traits = access.instruction.traits
            if traits.does(Mbarrier.INIT):
                yield INIT, access
            elif access.mode == OBJECT or traits.is_async(Family.WGMMA):
                continue
            elif traits.is_async(Family.BULK):
                if access.mode == WRITE:
                    yield LOAD, access
                elif traits.asynchronous is not None and traits.asynchronous.grouped:
                    yield STORE, access
            elif traits.is_async(Family.CP_ASYNC):
                yield COPY, access
                yield GENERIC, access
            else:
                yield GENERIC, access

    def findings(self) -> Iterator[Finding]:
        """Yield all findings."""
        code = self.facts.function.code
        for at, group_states in walk(self.facts.blocks, NOTHING, self._step, GroupStates.__or__):
            for access in self.accesses.get(at, ()):
                yield from self._check(access, group_states)
            if code[at].traits.leaves and self.facts.function.entry:
                yield from self._end(code[at], group_states)

    # ---- on the way ----------------------------------------------------------------------------

    def _step(self, at: int, group_states: GroupStates) -> GroupStates:
        instruction = self.facts.function.code[at]
        traits = instruction.traits
        ends = sum(self.of_kind[kind] for kind in _ends(instruction))
        if traits.is_async(Family.BULK, Stage.COMMIT):
            group_states = group_states.committed(self.of_kind[STORE])
        elif traits.is_async(Family.CP_ASYNC, Stage.COMMIT):
            group_states = group_states.committed(self.of_kind[COPY])
        elif ends and traits.asynchronous is not None and traits.asynchronous.stage is Stage.WAIT:
            group_states = group_states.waited(ends, instruction.operands[0].constant or 0)
        elif ends:
            group_states = group_states.ended(ends)
        elif traits.ending is Ending.CALL and (instruction.callee or "") in ("", *self.facts.program.functions):
            group_states = NOTHING
        made = self.made.get(at)
        return group_states.issued(made) if made else group_states

    # ---- overlapping accesses ----------------------------------------------------------------------------

    def _check(self, access: Access, group_states: GroupStates) -> Iterator[Finding]:
        """Check an access against all open sites."""
        generic = 0 if access.asynchronous else self.of_kind[GENERIC]
        for number in members(group_states.pending & ~group_states.done & ~self.of_kind[INIT] & ~generic):
            site = self.sites[number]
            conflict = _conflict(site, access)
            if conflict is None:
                continue
            if site.access.overlaps(access):
                yield from self._report(conflict, number, access.instruction)
            elif not group_states.passed >> number & 1 and self._alike(site, access):
                severity = "warning" if site.kind == GENERIC and conflict.severity == "error" else conflict.severity
                yield from self._report(attrs.evolve(conflict, severity=severity), number, access.instruction)
        if access.mode == OBJECT:
            yield from self._initialised(access, group_states)

    def _alike(self, site: Site, access: Access) -> bool:
        """Whether accesses with unknown bytes go to the same variable, and nothing ever completes the first of them."""
        wgmma = access.instruction.traits.is_async(Family.WGMMA)
        if site.kind == GENERIC:
            if site.access.mode == READ or access.mode == WRITE:
                return False
            sizes = None if wgmma and _is_copy(site.access.instruction) else self.sizes
            return site.access.shares(access, sizes)
        return site.access.shares(access, self.sizes) and not self._ever_ended(site.at, site.kind)

    def _ever_ended(self, at: int, kind: str) -> bool:
        """Whether any path after an instruction waits for the operation that it starts."""
        graph, blocks = self.facts.graph, self.facts.blocks
        block = next(b for b in blocks if b.first <= at < b.last)
        behind = functools.reduce(int.__or__, (graph.reachable(s) for s in block.successors), 0)
        ends = self.ends[kind]
        return any(at < end < block.last or behind >> place & 1 for end, place in ends)

    def _report(self, conflict: Conflict, number: int, instruction: Instruction) -> Iterator[Finding]:
        if (conflict.rule, number) in self.reported:
            return
        self.reported.add((conflict.rule, number))
        place = self.sites[number].access.instruction
        message = conflict.message.format(line=place.span.line)
        yield self.facts.finding(
            conflict.rule, instruction, message, severity=conflict.severity, advice=conflict.advice, other=place
        )

    def _initialised(self, access: Access, group_states: GroupStates) -> Iterator[Finding]:
        """Check that the initialisation of an mbarrier is visible to the async proxy or another CTA that uses it."""
        instruction = access.instruction
        remote = "shared::cluster" in instruction.op.modifiers and not access.known
        if not remote and not any(instruction.traits.is_async(family) for family in (Family.BULK, Family.REMOTE)):
            return
        inits = members((group_states.pending | group_states.done) & self.of_kind[INIT])
        same = [n for n in inits if self.sites[n].access.overlaps(access)]
        same = same or [n for n in inits if not (access.known and self.sites[n].access.known)]
        if not any(group_states.pending >> n & 1 for n in same) or ("mbarrier", same[0]) in self.reported:
            return
        self.reported.update(("mbarrier", n) for n in inits)
        init = self.sites[same[0]].access.instruction
        yield self.facts.finding(
            "mbarrier", instruction,
            f"{instruction.text} uses an mbarrier, but no fence makes its initialisation in line {init.span.line}"
            " visible outside the CTA's own threads",
            severity="note", other=init,
            advice="add fence.mbarrier_init.release.cluster after mbarrier.init, before the barrier that the other threads wait at",
        )  # fmt: skip

    def _end(self, instruction: Instruction, group_states: GroupStates) -> Iterator[Finding]:
        """Find bulk stores that are not waited for when the kernel ends."""
        open = group_states.pending & ~group_states.done & self.of_kind[STORE]
        lost = open & group_states.uncommitted
        for number in members(open & (lost | ~group_states.passed)):
            lacks = "was never committed" if lost >> number & 1 else "was never waited for"
            conflict = Conflict(
                "async-smem-overwrite",
                f"the kernel ends while the copy of line {{line}}, which {lacks}, may still read its shared memory",
                "execute cp.async.bulk.commit_group and cp.async.bulk.wait_group.read 0 before the thread exits",
                "warning",
            )
            yield from self._report(conflict, number, instruction)


def _ends(instruction: Instruction) -> tuple[str, ...]:
    """The kinds of sites that an instruction waits for or fences."""
    traits = instruction.traits
    if traits.is_async(Family.BULK, Stage.WAIT):
        return (STORE,)
    if any(traits.is_async(Family.CP_ASYNC, stage) for stage in (Stage.WAIT, Stage.WAIT_ALL, Stage.ARRIVE)):
        return (COPY,)
    if traits.does(Mbarrier.WAIT):
        return (LOAD,)
    if traits.fence is not None and traits.fence.mbarrier_init:
        return (INIT,)
    if traits.fence is not None and traits.fence.proxy is not None and "global" not in traits.spaces:
        return (GENERIC, INIT)
    return ()


WAIT_COPY = "execute cp.async.wait_group first (and a barrier, for what other threads copied)"
WAIT_LOAD = "wait for the copy's mbarrier first: mbarrier.try_wait in a loop"
WAIT_STORE = "execute cp.async.bulk.commit_group and cp.async.bulk.wait_group.read first, then a barrier"
FENCE = "add fence.proxy.async after the generic accesses, before the barrier that the issuing thread waits at (async proxy)"


def _conflict(site: Site, access: Access) -> Conflict | None:
    """The conflict between an access and a site that is still open, if any."""
    verb = "written" if access.mode == WRITE else "read"
    if access.mode == OBJECT or site.access is access:
        return None
    early = f"shared memory is {verb} while the copy of line {{line}} still writes it"
    if site.kind == COPY and not (_is_copy(access.instruction) and access.mode == WRITE):
        return Conflict("async-read-early", early, WAIT_COPY)
    if site.kind == LOAD and not (access.asynchronous and access.mode == WRITE):
        return Conflict("async-read-early", early, WAIT_LOAD)
    if site.kind == STORE and access.mode == WRITE:
        message = "shared memory is written while the copy of line {line} still reads it"
        return Conflict("async-smem-overwrite", message, WAIT_STORE)
    if site.kind != GENERIC or not access.asynchronous:
        return None
    if site.access.mode == READ:
        if access.mode == READ:
            return None
        message = "the async proxy writes what line {line} reads through the generic proxy"
        return Conflict("proxy-fence", message, FENCE, "warning")
    copied = _is_copy(site.access.instruction) and access.instruction.traits.is_async(Family.WGMMA)
    message = (
        f"the async proxy {'writes' if access.mode == WRITE else 'reads'} what line {{line}} wrote through the"
        " generic proxy, with no fence.proxy.async in between"
    )
    severity = "note" if copied else "warning" if access.mode == WRITE else "error"
    return Conflict("proxy-fence", message, FENCE, severity)


RULE = "mbarrier"


def check_mbarriers(facts: Facts) -> Iterator[Finding]:
    """Check one function."""
    code = facts.function.code
    if not facts.function.entry or not any(i.traits.mbarrier is not None for i in code):
        return
    called = {i.callee for i in code if i.traits.ending is Ending.CALL}
    if "" in called or not called.isdisjoint(facts.program.functions):
        return
    uses: dict[Mbarrier, list[Access]] = {does: [] for does in Mbarrier}
    for step in facts.steps:
        for access in step.accesses:
            if access.mode == OBJECT and access.space == SHARED:
                for does in _done_to(step):
                    uses[does].append(access)
    yield from _check(facts, uses)


def _done_to(step: Step) -> Iterator[Mbarrier]:
    """What an instruction does to an mbarrier. A copy completes bytes, and so may who uses it after an invalidation; an
    announcement of none does nothing."""
    traits = step.instruction.traits
    if traits.is_async(Family.CP_ASYNC, Stage.ARRIVE) or traits.is_async(Family.TCGEN05, Stage.COMMIT):
        yield Mbarrier.ARRIVE
    elif traits.mbarrier is None or traits.does(Mbarrier.INVAL):
        yield Mbarrier.COMPLETE
    else:
        first = next((d for d in (Mbarrier.INIT, Mbarrier.WAIT, Mbarrier.COMPLETE) if traits.does(d)), None)
        if first is not None:
            yield first
            return
        if traits.does(Mbarrier.EXPECT) and step.value(step.instruction.operands[-1]).constant:
            yield Mbarrier.EXPECT
        if traits.does(Mbarrier.ARRIVE):
            yield Mbarrier.ARRIVE


def _check(facts: Facts, uses: dict[Mbarrier, list[Access]]) -> Iterator[Finding]:
    reported: set[bytes] = set()
    for access in (*uses[Mbarrier.ARRIVE], *uses[Mbarrier.WAIT], *uses[Mbarrier.COMPLETE]):
        key = access.address.bits.tobytes()
        if access.known and access.threads.any() and key not in reported and _nobody(access, uses[Mbarrier.INIT]):
            reported.add(key)
            yield facts.finding(
                RULE, access.instruction, f"{access.instruction.text}: nothing initialises this mbarrier",
                advice="execute mbarrier.init in one thread, then a barrier, before the first use",
            )  # fmt: skip
    for access in uses[Mbarrier.WAIT]:
        key = access.address.bits.tobytes()
        if not access.known or not access.threads.any() or key in reported:
            continue
        expected = [a for a in uses[Mbarrier.EXPECT] if a.overlaps(access)]
        if _nobody(access, uses[Mbarrier.ARRIVE]):
            what = "nothing arrives at this mbarrier: its phase can never complete"
        elif expected and _nobody(access, uses[Mbarrier.COMPLETE]):
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
