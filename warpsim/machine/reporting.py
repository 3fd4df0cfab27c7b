"""Findings of a running launch: what, where, who; grouped by rule and place."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import attrs
import numpy as np

from warpsim.errors import SECTIONS, ExecutionError, Finding
from warpsim.isa.traits import Access
from warpsim.machine.memory.strays import INDEX
from warpsim.machine.values import Array
from warpsim.program.program import Instruction

if TYPE_CHECKING:
    from warpsim.machine.batch import Batch
    from warpsim.machine.group import Group
    from warpsim.machine.launch import Launch

ALWAYS = frozenset({"out-of-bounds", "misaligned", "read-only", "deadlock", "limit", "trap", "assert"})
ADVICE = {
    "out-of-bounds": INDEX,
    "misaligned": "an access of N bytes needs an address that is a multiple of N",
    "uninitialised": "write the register on every path that leads here",
    "read-only": "pass a writable array, or store elsewhere",
}


class Collector:
    """The findings of one launch."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.muted = 0
        self.fatal: tuple[Group, Array | None, str] | None = None
        """The group, lanes and rule of the finding that ends the launch."""
        self._found: dict[tuple[str, int, int, str], Finding] = {}

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
        checks = self.launch.settings.checks
        if (rule not in ALWAYS and rule not in checks) or (severity == "note" and severity not in checks):
            return
        instruction: Instruction = place or present(group)  # type: ignore[assignment]
        key = rule, instruction.span.line, instruction.span.column, severity  # a note hides no error
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
            self.fatal = group, lanes, rule
            self.stop(finding)

    def stop(self, finding: Finding) -> NoReturn:
        """End the launch, with all that was collected so far where it is collected."""
        collected = self.launch.settings.on_finding == "collect"
        raise ExecutionError(findings=tuple(self.all()) if collected else (finding,))


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


FAULTS = frozenset({"out-of-bounds", "misaligned", "read-only", "uninitialised"})
"""Rules that are looked at before an instruction does anything."""


def act_before(launch: Launch) -> None:
    """An access of some lanes ends the launch: let the lanes before them write to memory, in the order CTA, warp, lane.

    So what stands in memory then is the same whether few or many CTAs run side by side, but for what later CTAs have
    done already."""
    if launch.findings.fatal is None:
        return
    group, lanes, rule = launch.findings.fatal
    instruction, batch = present(group), group.batch
    if rule not in FAULTS or lanes is None or instruction.traits.access not in (Access.STORE, Access.ATOMIC):
        return
    positions, n_ctas = group.selection.positions, batch.shape.n_ctas
    order = batch.ctas[positions % n_ctas] * batch.shape.n_threads + positions // n_ctas
    before = order < order[np.broadcast_to(lanes, order.shape)].min()
    if before.any():
        at = group.at
        first, _ = batch.divide(group, before)
        launch.findings.muted += 1
        first.plan.blocks[first.block].steps[at](first)
        launch.findings.muted -= 1
