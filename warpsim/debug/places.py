"""Where a motion may stop for breakpoints and watchpoints: compiled code takes the steps between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from warpsim.debug.breakpoints import (
    Breakpoint,
    LineColumn,
    MemoryTarget,
    RegisterTarget,
    Target,
    Watchpoint,
    may_change,
    may_write,
    registers_of,
)
from warpsim.debug.conditions import accesses, any_of, condition_of
from warpsim.debug.timeline import Places
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Ending
from warpsim.machine.state.launch import LaunchState
from warpsim.native.regions.options import Condition, Stops
from warpsim.program.program import Instruction, line_column

Stopping = tuple[LineColumn, Condition | None]
Who = tuple[int, int | None]
CHANGES, READS = frozenset({"store", "atomic"}), frozenset({"load", "atomic"})
"""Accesses that may change memory, and those that read it."""


def places_of(points: Sequence[Breakpoint | Watchpoint], launch: LaunchState) -> Places:
    """Where any of these points may stop a launch."""
    found: list[Stopping] = []
    after = set[LineColumn]()
    who: set[Who | None] = set()
    addresses: list[int] = []
    for point in points:
        if isinstance(point, Breakpoint):
            always = point.condition is None or point.ignore > 0
            condition = None if always else condition_of(point.condition or "")
            found += [(place, condition) for place in point.locations]
            who.add(None)
        else:
            kinds = CHANGES | READS if point.read else CHANGES
            watched = list(_watched(point.target, launch, kinds, len(addresses)))
            addresses += _addresses(point.target)
            found += watched
            after |= {place for place, _ in watched}
            who.add(_who(point.target, launch))
    return Places(_joined(found), frozenset(after), who.pop() if len(who) == 1 else None, watched=tuple(addresses))


def writers(target: RegisterTarget | MemoryTarget, launch: LaunchState) -> Places:
    """Where a register or memory may be written."""
    found = _joined(_watched(target, launch, CHANGES))
    return Places(found, frozenset(found), _who(target, launch), watched=tuple(_addresses(target)) if found else ())


def _joined(found: Iterable[Stopping]) -> Stops:
    by_place: dict[LineColumn, list[Condition | None]] = {}
    for place, condition in found:
        by_place.setdefault(place, []).append(condition)
    return {
        place: None if None in conditions else any_of([c for c in conditions if c is not None])
        for place, conditions in by_place.items()
    }


def _addresses(target: Target) -> list[int]:
    """The address that conditions on a target compare with."""
    return [target.location.address] if isinstance(target, MemoryTarget) else []


def _watched(target: Target, launch: LaunchState, kinds: frozenset[str], number: int = 0) -> Iterator[Stopping]:
    """The instructions that may change what is watched, or read it; memory is the one of a ``number``."""
    kernel = launch.plan
    alone = not (kernel.uses.asynchronous or kernel.program.externs)  # nothing happens in global memory as threads exit
    for function in [f for f in kernel.program.functions.values() if f is kernel.entry or not f.entry]:
        for instruction in function.code:
            place = line_column(instruction)
            if isinstance(target, MemoryTarget):
                if "memory" in instruction.form.ports and _plain(instruction) and target.location.space != "generic":
                    yield place, accesses(kinds, _space(target), number, target.nbytes)
                elif alone and instruction.traits.leaves and _space(target) == "global":
                    continue
                elif instruction.form.ports or not _plain(instruction):
                    yield place, None
            elif isinstance(target, RegisterTarget):
                if function.name == target.function and may_write(instruction, target.register.index):
                    yield place, None
            elif may_change(instruction, registers_of(target.instruction)):
                yield place, None


def _plain(instruction: Instruction) -> bool:
    """Whether all that an instruction does is done when it has been executed."""
    if instruction.traits.ending is Ending.BRANCH:
        return True
    return instruction.form.scope in (Scope.THREAD, Scope.WARP) and instruction.form.ports <= {
        "memory", "active", "report",
    }  # fmt: skip


def _space(target: MemoryTarget) -> str:
    return "global" if target.location.space == "const" else target.location.space


def _who(target: Target, launch: LaunchState) -> Who | None:
    """The CTA and warp (linear) whose steps alone change a target; None if others do."""
    if isinstance(target, RegisterTarget):
        return None if target.focus is None else (launch.number_of(target.focus.cta), target.focus.warp)
    if isinstance(target, MemoryTarget) and target.location.space in ("shared", "local"):
        focus = target.focus
        return launch.number_of(focus.cta), focus.warp if target.location.space == "local" else None
    return None
