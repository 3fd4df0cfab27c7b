"""One launch that stands for all contents of memory and all legal orders of threads.

Where nothing that memory holds or that the order of threads changes decides where threads go, what they access and whom
they wait for, each launch with these scalars makes the same accesses, ordered by the same barriers, waits and fences. So
what the rules find in one holds for all; the last moment at which an asynchronous operation may act, and the first, are
two launches.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import attrs

from warpsim.checks.race.detector import RaceWatcher
from warpsim.checks.undefined_registers import CONTENTS
from warpsim.checks.undefined_registers import RULE as UNDEFINED
from warpsim.checks.uninitialised import Uninitialised
from warpsim.checks.watchers import watchers_of
from warpsim.errors import ExecutionError, Finding
from warpsim.host.arguments import Arguments
from warpsim.host.command_options import Options
from warpsim.host.device import Device
from warpsim.host.kernel import Kernel
from warpsim.host.launch_options import Keywords
from warpsim.host.options import Dim
from warpsim.isa.traits import Access
from warpsim.machine.engine import Run, run
from warpsim.machine.reporting import finding_at
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.watcher import Watcher
from warpsim.program.program import Instruction
from warpsim.proving.alike import Alike
from warpsim.proving.answers import RULES, Answer, Verdict
from warpsim.proving.contents import ADDRESS, HARMLESS, Contents
from warpsim.proving.effort import SECONDS, Effort
from warpsim.proving.pairing import Pairing
from warpsim.proving.sides import Lost, source_of
from warpsim.records import frozen

ORDERS: tuple[Keywords, ...] = (
    {"async_effects": "at_wait"},
    {"async_effects": "eager"},
    {"async_effects": "eager", "schedule": 1},
)
"""The launches: asynchronous operations act as late as they may, at once (if there are any), and in a random order."""
ENDING = "loops whose end data decide do end"
FOLLOW = "unknown"
"""The rule of findings that say what could not be followed."""


@frozen(eq=False)
class Launching:
    """A kernel, and how it is launched."""

    kernel: Kernel
    grid: Dim
    block: Dim
    args: Arguments
    device: Device
    shared_mem: int = 0
    cluster: Dim | None = None
    cooperative: bool = False
    effort: Effort = attrs.field(factory=lambda: Effort.within(SECONDS))

    def findings(self, order: Keywords, contents: Contents | None = None) -> tuple[Finding, ...]:
        """What all rules find in a launch, on a copy of memory. If ``contents`` are not known, that includes what depends on them
        (`UNDEFINED`) and what cannot be followed (`FOLLOW`)."""
        with self.begun(order) as state:
            return _run(state, contents)

    @contextmanager
    def begun(self, order: Keywords) -> Iterator[LaunchState]:
        """The launch before its first step, on a copy of memory."""
        options = Options(
            shared_mem=self.shared_mem,
            cluster=self.cluster,
            cooperative=self.cooperative,
            checks="all",
            on_finding="collect",
            max_seconds=round(max(self.effort.seconds, 0.1), 1),
            **order,
        )
        mapped: list[int] = []
        with self.device.lock:
            try:
                state = self.kernel.begin(self.grid, self.block, self.args, mapped, self.device, options)
                state.memory = copy.deepcopy(state.memory)
                yield state
            finally:
                for address in mapped:
                    self.device.memory.unmap(address)


def _run(state: LaunchState, contents: Contents | None) -> tuple[Finding, ...]:
    seeing: list[Watcher] = watchers_of(state)
    if contents is not None:
        state.settings = attrs.evolve(state.settings, checks=state.settings.checks | {CONTENTS})
        seeing = [contents if type(each) is Uninitialised else each for each in watchers_of(state)]
        seeing = [
            *(Pairing(contents.strange, each) for each in seeing if isinstance(each, RaceWatcher)),
            Alike(),
            *seeing,
        ]
    try:
        if contents is None:
            run(state, seeing)
        else:
            _follow(state, seeing, contents)
    except ExecutionError as problem:
        found = list(dict.fromkeys([*problem.findings, *state.findings.values()]))
        found += [_as_unclear(last, f"the launch ends here: {last.message}") for last in problem.findings[-1:]]
    else:
        found = list(state.findings.values())
    for instruction, why in contents.strange.values() if contents is not None else ():
        found.append(attrs.evolve(finding_at(state, instruction), rule=FOLLOW, message=f"{instruction.text}: {why}"))
    return tuple(found)


def _follow(state: LaunchState, seeing: list[Watcher], contents: Contents) -> None:
    """Run a launch, both sides of what data decide included."""
    running = Run(state, seeing)
    try:
        while running.advance() and not contents.over:
            group = state.running
            assert group is not None
            try:
                contents.sides.decide(state, running.machine(state.turns[0]))
            except Lost as problem:
                contents.strange[id(group.instruction)] = group.instruction, str(problem)
                return
        for choice in () if contents.over else contents.sides.choices:
            contents.strange[id(choice.group.instruction)] = (
                choice.group.instruction,
                "not all of its sides come to an end",
            )
    finally:
        state.memory.nanoseconds += state.now
        state.release()


def answers(launching: Launching) -> Seen:
    """What launches with these scalars show."""
    seen = Seen(launching)
    for order in ORDERS if seen.waits else ORDERS[::2]:
        seen.look(order)
        if all(name in seen.broken for name in RULES):
            break
    return seen


Place = tuple[int, int]
"""A line and a column."""


class Seen:
    """What launches have shown: ``broken`` properties, with the options of the first launch that breaks one, what is
    ``unclear`` of each, and where the accesses are whose ``bounds`` are not clear (None: any may be)."""

    def __init__(self, launching: Launching) -> None:
        self.launching = launching
        self.broken: dict[str, tuple[Finding, ...]] = {}
        self.unclear: dict[str, list[Finding]] = {name: [] for name in RULES}
        self.bounds: set[Place] | None = set()
        self.options: dict[str, object] = {}
        self.assumed: tuple[str, ...] = ()
        code = _code_of(launching.kernel)
        self.waits = _is_asynchronous(code)
        self._code = {(i.span.line, i.span.column): i for i in code}

    def look(self, order: Keywords) -> None:
        """Look at a launch in one order."""
        contents = Contents(self.launching.effort)
        settled = all(name in self.broken or self.unclear[name] for name in RULES)
        found = () if settled else self.launching.findings(order, contents)
        if contents.sides.loops:
            self.assumed = (ENDING,)
        for each in found:
            if (open_ := _unclear(each)) is not None:
                self._note(each, open_, contents)
        suspects = [f for f in found if _breaks(f, None)]
        if order is not ORDERS[0] and not (suspects or any(self.unclear.values()) or contents.sides.chosen):
            return
        known = self.launching.findings(order)
        for name in RULES:
            confirmed = tuple(f for f in known if _breaks(f, name))
            if confirmed and name not in self.broken:
                self.broken[name], self.options = confirmed, self.options or dict(order)
        self._leave_open(suspects, found, known, contents)

    def _leave_open(
        self, suspects: list[Finding], found: tuple[Finding, ...], known: tuple[Finding, ...], contents: Contents
    ) -> None:
        """Note what ``suspects`` leave open, which a launch of any contents has ``found``; one of those given has shown what is ``known``."""
        confirmed_at = {(f.rule, f.line, f.column) for f in known if _breaks(f, None)}
        astray = {(f.line, f.column) for f in found if _strays(f)}
        for each in suspects:
            if each.rule in RULES["asynchrony"] or (each.rule in RULES["races"] and not self._is_global(each)):
                self._race(each)
            if (each.rule, each.line, each.column) not in confirmed_at:
                message = f"other contents of memory may break {each.rule}, and no launch has shown it: {each.message}"
                if each.rule not in RULES["bounds"] or (each.line, each.column) not in astray:
                    self._note(each, _as_unclear(each, message), contents)

    def _is_global(self, race: Finding) -> bool:
        """Whether a race is between loads, stores or atomics of global memory, of which nothing is known anyway."""
        parties = [self._code.get((f.line, f.column)) for f in (race, race.other) if f is not None]
        return all(i is not None and set(i.traits.spaces) == {"global"} and not i.traits.asynchronous for i in parties)

    def _race(self, race: Finding) -> None:
        """Leave open what a launch shows of other properties: other orders of what races, or is not waited for, may show others."""
        self.bounds = None
        for name in RULES:
            if race.rule not in RULES[name]:
                self.unclear[name].append(
                    _as_unclear(race, f"behind this fault others may hide; mend it and prove again: {race.message}")
                )

    def _note(self, finding: Finding, open_: Finding, contents: Contents) -> None:
        instruction = self._code.get((finding.line, finding.column))
        if _strays(finding) and instruction is not None and contents.boxes.harmless(instruction):
            return
        names = _left_open(finding, instruction, waits=self.waits)
        for name in names:
            self.unclear[name].append(open_)
        if len(names) == len(RULES):
            self.bounds = None
        elif self.bounds is not None and "bounds" in names:
            self.bounds.add((finding.line, finding.column))

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The answer for each property."""
        return tuple([_answer(name, self.broken, self.unclear[name]) for name in RULES])


def _code_of(kernel: Kernel) -> list[Instruction]:
    functions = kernel.module.program.functions.values()
    return [i for f in functions if not f.entry or f.name == kernel.name for i in f.code]


def _is_asynchronous(code: list[Instruction]) -> bool:
    """Whether anything acts later than it is executed, or through an mbarrier."""
    plain = {"memory", "active", "report"}
    return any(i.traits.asynchronous or i.traits.mbarrier or i.form.ports - plain for i in code)


def _answer(name: str, broken: Mapping[str, tuple[Finding, ...]], unclear: list[Finding]) -> Answer:
    if name in broken:
        return Answer(name, Verdict.REFUTED, broken[name])
    return Answer(name, Verdict.UNKNOWN, tuple(dict.fromkeys(unclear))) if unclear else Answer(name, Verdict.PROVED)


def _left_open(finding: Finding, instruction: Instruction | None, *, waits: bool) -> frozenset[str]:
    """The properties that are not proved because of a finding. That of an access at an address which nobody knows is proved of
    launches where it is in bounds: it may touch all of its memory, which matters to what ``waits`` for asynchronous operations."""
    if _breaks(finding, None):
        return frozenset(name for name in RULES if _breaks(finding, name))
    access = None if instruction is None else instruction.traits.access
    if not _strays(finding) or instruction is None or access is None:
        return frozenset(RULES)
    spaces = set(instruction.traits.spaces)
    if spaces and spaces <= {"local", "const"}:
        return frozenset({"bounds"})
    reads = access is Access.LOAD and spaces == {"global"}
    return frozenset({"bounds", "races"} if reads or not waits else {"bounds", "races", "asynchrony"})


def _breaks(finding: Finding, name: str | None) -> bool:
    """Whether a finding breaks a property, or any."""
    rules = RULES[name] if name is not None else frozenset().union(*RULES.values())
    return finding.rule in rules and finding.severity != "note"


def _strays(finding: Finding) -> bool:
    """Whether a finding is of an address that nobody knows."""
    return finding.rule == UNDEFINED and finding.values.get("use") == ADDRESS


def _unclear(finding: Finding) -> Finding | None:
    """What a finding leaves open; None of one that breaks a property, or a rule that is none of ours."""
    if finding.rule == FOLLOW:
        return finding
    if finding.rule == UNDEFINED:
        use, register = finding.values.get("use"), finding.values.get("register")
        if use in HARMLESS:
            return None
        what = f"{register} is used as {use}" if use else finding.message
        origin = finding.other
        if origin is None:
            return _as_unclear(finding, f"{what}, and nothing wrote it")
        return _as_unclear(finding, f"{what}, and follows from {source_of(origin)}")
    return None


def _as_unclear(finding: Finding, message: str) -> Finding:
    made: Finding = attrs.evolve(finding, rule=FOLLOW, message=message, advice="", other=None, count=1)
    return made
