"""Findings of a running launch: what, where, who; grouped by rule and place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from warpsim.errors import SECTIONS, ExecutionError, Finding
from warpsim.machine.values import Array
from warpsim.program.program import Instruction

if TYPE_CHECKING:
    from warpsim.machine.batch import Batch
    from warpsim.machine.group import Group
    from warpsim.machine.launch import Launch

ALWAYS = frozenset({"out-of-bounds", "misaligned", "read-only", "deadlock", "limit", "trap", "assert"})
ADVICE = {
    "out-of-bounds": "check the index against the size of the array, and the guard of the access",
    "misaligned": "an access of N bytes needs an address that is a multiple of N",
    "uninitialised": "write the register on every path that leads here",
    "read-only": "pass a writable array, or store elsewhere",
}


class Collector:
    """The findings of one launch."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.muted = 0
        self._found: dict[tuple[str, int, int], Finding] = {}

    def all(self) -> list[Finding]:
        """Every finding, in the order in which the places were first seen."""
        return list(self._found.values())

    def add(
        self, batch: Batch, rule: str, message: str, group: Group, lanes: Array | None, values: dict[str, object]
    ) -> None:
        """One occurrence; ends the launch where ``on_finding`` says so.

        ``values`` may hold ``severity``, ``advice``, and two instructions: the ``other`` party, and the ``place`` of the
        finding where that is not the group's present step."""
        severity = str(values.pop("severity", "error"))
        other = values.pop("other", None)
        place = values.pop("place", None)
        advice = str(values.pop("advice", ADVICE.get(rule, "")))
        if self.muted:
            return
        if rule not in ALWAYS and rule not in self.launch.settings.checks:
            return
        instruction: Instruction = place or present(group)  # type: ignore[assignment]
        key = rule, instruction.span.line, instruction.span.column
        known = self._found.get(key)
        if known is not None:
            self._found[key] = attrs.evolve(known, count=known.count + 1)
            return
        cta, warp, which = locate(self.launch, batch, group, lanes)
        finding = attrs.evolve(
            finding_at(self.launch, instruction),
            rule=rule,
            message=message,
            severity=severity,
            advice=advice,
            cta=cta,
            warp=warp,
            lanes=which,
            section=SECTIONS.get(rule, instruction.form.anchor),
            values=values,
            other=finding_at(self.launch, other) if isinstance(other, Instruction) else other,  # type: ignore[arg-type]
        )
        self._found[key] = finding
        if severity == "error" and (
            self.launch.settings.on_finding == "raise" or rule in ("deadlock", "limit", "trap", "assert")
        ):
            raise ExecutionError(findings=(finding,))


def finding_at(launch: Launch, instruction: Instruction) -> Finding:
    """A finding without a rule: the place of an instruction."""
    return Finding(
        rule="",
        message=instruction.text,
        kernel=launch.plan.entry.name,
        file=instruction.span.file,
        line=instruction.span.line,
        column=instruction.span.column,
        source=instruction.source,
        instruction=instruction.text,
        text=line_text(launch, instruction.span.line),
    )


def party(group: Group, message: str) -> Finding:
    """The group's present step as the other party of a finding."""
    launch = group.batch.launch
    cta, warp, lanes = locate(launch, group.batch, group, None)
    return attrs.evolve(finding_at(launch, present(group)), message=message, cta=cta, warp=warp, lanes=lanes)


def line_text(launch: Launch, line: int) -> str:
    """A line of the module's text."""
    lines = launch.image.program.lines
    return lines[line - 1] if 0 < line <= len(lines) else ""


def present(group: Group) -> Instruction:
    """The instruction at which a group stands."""
    block = group.plan.blocks[group.block]
    return block.instructions[min(group.at, len(block.instructions) - 1)]


def locate(
    launch: Launch, batch: Batch, group: Group, lanes: Array | None
) -> tuple[tuple[int, int, int], int, tuple[int, ...]]:
    """CTA, warp and lanes of the first warp concerned, in the order CTA, warp, lane."""
    positions = group.selection.positions
    if lanes is not None:
        mask = np.broadcast_to(lanes, positions.shape)
        positions = positions[mask] if mask.any() else positions.reshape(-1)
    positions = positions.reshape(-1)
    threads, ctas = positions // batch.shape.n_ctas, positions % batch.shape.n_ctas
    first_cta = int(ctas[np.argmin(batch.ctas[ctas])])
    here = np.sort(threads[ctas == first_cta])
    warp = int(here[0]) >> 5
    number = int(batch.ctas[first_cta])
    gx, gy, _ = launch.grid
    return (
        (number % gx, number // gx % gy, number // (gx * gy)),
        warp,
        tuple(int(t) & 31 for t in here if int(t) >> 5 == warp),
    )


def limit(launch: Launch, group: Group, message: str, advice: str) -> None:
    """A budget is used up: always ends the launch."""
    launch.findings.add(group.batch, "limit", message, group, None, {"advice": advice})


_COLLECTIVES = {
    **dict.fromkeys(("mma", "wmma", "ldmatrix", "stmatrix", "movmatrix", "wgmma"), "aligned-divergence"),
}


def _phase_wait(group: Group) -> Instruction | None:
    """The wait for an mbarrier in the loop at whose head a group sleeps."""
    for block in group.plan.blocks[group.block :]:
        for instruction in block.instructions:
            if instruction.form.root == "mbarrier":
                return instruction
        if block.waits:
            break
    return None


def is_aligned_barrier(instruction: Instruction) -> bool:
    """Whether all lanes of a warp execute a CTA barrier together: ``bar`` always, ``barrier`` with ``.aligned``."""
    words = instruction.text.split(".")
    return "warp" not in words and (words[0] == "bar" or (words[0] == "barrier" and "aligned" in words))


def parted_warps(launch: Launch) -> bool:
    """Report warps that stand at an aligned barrier in parts, and let them arrive so; True where there were any."""
    found = False
    for batch in launch.batches:
        here = [group for group in batch.parked if is_aligned_barrier(present(group))]
        batch.parked = [group for group in batch.parked if not any(group is h for h in here)]
        for group in here:
            others = [g for g in (*here, *batch.parked) if g is not group]
            name = present(group).text
            launch.findings.add(
                batch,
                "aligned-divergence",
                f"{name} waits for all lanes of the warp, of which some stand elsewhere",
                group,
                None,
                {
                    "other": party(others[0], "lanes of the warp wait here") if others else None,
                    "advice": "move it to where the lanes have met again, or write barrier without .aligned",
                },
            )
            group.excused = True
            batch.push(group)
            found = True
    return found


def deadlock(launch: Launch) -> None:
    """Nothing can make progress: say who waits for what."""
    notes: list[str] = []
    first: Group | None = None
    rule = "deadlock"
    place: Instruction | None = None
    for batch in launch.batches:
        for number, barrier in batch.barriers.items():
            for group, _ in barrier.waiting:
                group.at = max(group.at - 1, 0)
                first = first or group
                short = np.flatnonzero(barrier.arrived)
                cta = int(short[0]) if len(short) else 0
                notes.append(
                    f"{group.selection.n} threads wait at barrier {number} in line {present(group).span.line} ({int(barrier.arrived[cta])} arrived)"
                )
                rule = "barrier-divergence"
        for group in batch.cluster_barrier.waiting if batch.cluster_barrier is not None else ():
            group.at = max(group.at - 1, 0)
            first = first or group
            notes.append(f"{group.selection.n} threads wait for their clusters in line {present(group).span.line}")
        for group in batch.parked:
            first = first or group
            notes.append(
                f"{group.selection.n} threads wait in line {present(group).span.line} for lanes of their warps"
            )
            rule = _COLLECTIVES.get(present(group).form.root, "membermask")
    for group in launch.sleeping:
        first = first or group
        notes.append(
            f"{group.selection.n} threads poll memory in a loop at line {present(group).span.line} that nobody changes"
        )
        place = _phase_wait(group)
        rule = "mbarrier" if place is not None else "deadlock"
    if first is None:
        return
    if rule != "deadlock" and rule not in launch.settings.checks:
        rule = "deadlock"
    if rule == "mbarrier":
        notes.insert(0, "the phase of an mbarrier can never complete")
    message = "no thread can make progress: " + "; ".join(notes[:6])
    values: dict[str, Any] = {"advice": "threads that wait for each other must all reach the place where they wait"}
    if place is not None:
        values["place"] = place
    launch.findings.add(first.batch, rule, message, first, None, values)
    raise ExecutionError(findings=tuple(launch.findings.all()[-1:]))
