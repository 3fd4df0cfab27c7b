"""Findings of a running launch, grouped by rule and place."""

from __future__ import annotations

import re
from typing import NoReturn

import attrs
import numpy as np

from warpsim.errors import LAUNCHED_BY, SECTIONS, ExecutionError, Finding, spans
from warpsim.machine.memory.addresses import INDEX
from warpsim.machine.state.batch import BatchState
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.values import Array
from warpsim.program.program import Instruction
from warpsim.report.rules import ALWAYS

ADVICE = {
    "out-of-bounds": INDEX,
    "misaligned": "an access of N bytes needs an address that is a multiple of N",
    "read-only": "pass a writable array, or store elsewhere",
}
NUMBERS = re.compile(r"\+?0x[0-9a-f]+|\b(?:byte|warp|lane|line) \d+|\d+ bytes|CTA \([^)]*\)")
"""What differs between the copies of an access in an unrolled loop."""
SHARED_ADDRESS = re.compile(r"(?:shared|row) address 0x([0-9a-f]+)")
"""How messages name a place in a CTA's shared memory."""


def record(
    launch: LaunchState,
    batch: BatchState,
    group: Group,
    rule: str,
    message: str,
    lanes: Array | None,
    values: dict[str, object],
) -> Finding | None:
    """Record one occurrence of a broken rule; returns the finding if it is the first at its place. Ends the launch if
    ``on_finding`` says so.

    ``values`` may contain ``severity``, ``advice`` (or what makes it, called for the first at a place), and two
    instructions: the ``other`` one of a conflict, and the ``place`` of the finding if it is not the group's current step.
    ``own`` marks a rule that ``checks`` does not filter. ``repeats``: the copies of an instruction in an unrolled loop are
    one place.
    """
    severity = str(values.pop("severity", "error"))
    own = bool(values.pop("own", False))
    other = values.pop("other", None)
    place = values.pop("place", None)
    advice = values.pop("advice", ADVICE.get(rule, ""))
    checks = launch.settings.checks
    if not (own or rule in ALWAYS or rule in checks) or (severity == "note" and severity not in checks):
        return None
    instruction: Instruction = place or present(group)  # type: ignore[assignment]
    message = SHARED_ADDRESS.sub(lambda found: named(launch, found), message)
    repeats = bool(values.pop("repeats", False)) and instruction.source is not None
    line = instruction.span.line, instruction.span.column
    key = (
        rule,
        *(_repeated(instruction, other, message) if repeats else line),
        severity,
    )  # a note does not hide an error
    known = launch.findings.get(key)
    if known is not None:
        launch.findings[key] = attrs.evolve(known, count=known.count + 1)
        return None
    values |= {"severity": severity, "advice": advice, "other": other, "place": instruction}
    finding = launch.findings[key] = made(launch, batch, group, rule, message, lanes, values)
    return finding


def made(
    launch: LaunchState,
    batch: BatchState,
    group: Group,
    rule: str,
    message: str,
    lanes: Array | None,
    values: dict[str, object],
) -> Finding:
    """A finding, which is not recorded; ``values`` as for `record`."""
    severity, other, place, advice = (values.pop(name, None) for name in ("severity", "other", "place", "advice"))
    instruction: Instruction = place or present(group)  # type: ignore[assignment]
    cta, warp, which = locate(launch, batch, group, lanes)
    finding: Finding = attrs.evolve(
        finding_at(launch, instruction),
        rule=rule,
        message=message,
        severity=str(severity or "error"),
        advice=str((advice() if callable(advice) else advice) or ""),
        cta=cta,
        warp=warp,
        lanes=which,
        section=SECTIONS.get(rule, instruction.form.anchor),
        values=values | _by(launch),
        other=finding_at(launch, other) if isinstance(other, Instruction) else other,  # type: ignore[arg-type]
    )
    return finding


def _repeated(instruction: Instruction, other: object, message: str) -> tuple[object, ...]:
    """What findings at the copies of an instruction in an unrolled loop have in common: the CUDA lines of both parties, and
    what is said without its numbers."""
    there = (other.source, other.inlined_at) if isinstance(other, Finding | Instruction) else None
    here = instruction.source, instruction.inlined_at, instruction.text
    return here, there, NUMBERS.sub("", message)


def named(launch: LaunchState, found: re.Match[str]) -> str:
    """A place in shared memory with the variable that contains it: ``shared address 0x180 (s+0x80)``."""
    name = launch.plan.shared.name(int(found[1], 16), launch.shared_size)
    return f"{found[0]} ({name})" if name else found[0]


def ends_launch(launch: LaunchState, finding: Finding) -> bool:
    """Whether a launch stops at a finding."""
    stops = launch.settings.on_finding == "raise" or finding.rule in ("deadlock", "limit", "trap", "assert")
    return finding.severity == "error" and stops


def stop(launch: LaunchState, finding: Finding) -> NoReturn:
    """End the launch, with all findings collected so far if findings are collected."""
    collected = launch.settings.on_finding == "collect"
    raise ExecutionError(findings=tuple(launch.findings.values()) if collected else (finding,))


def finding_at(launch: LaunchState, instruction: Instruction) -> Finding:
    """A finding without a rule, at an instruction."""
    return Finding(
        rule="",
        message=instruction.text,
        kernel=launch.plan.entry.name,
        file=instruction.span.file,
        line=instruction.span.line,
        column=instruction.span.column,
        source=instruction.source,
        inlined_at=instruction.inlined_at,
        instruction=instruction.text,
        text=line_text(launch, instruction.span.line),
        values=_by(launch),
    )


def _by(launch: LaunchState) -> dict[str, object]:
    return {LAUNCHED_BY: launch.by} if launch.by else {}


def party(launch: LaunchState, batch: BatchState, group: Group, message: str, lanes: Array | None = None) -> Finding:
    """The group's current step, of all or some lanes, as the other party of a finding."""
    cta, warp, which = locate(launch, batch, group, lanes)
    return attrs.evolve(finding_at(launch, present(group)), message=message, cta=cta, warp=warp, lanes=which)


def line_text(launch: LaunchState, line: int) -> str:
    """A line of the module's text."""
    lines = launch.plan.program.lines
    return lines[line - 1] if 0 < line <= len(lines) else ""


def present(group: Group) -> Instruction:
    """The instruction at which a group stands."""
    return group.instruction


def locate(
    launch: LaunchState, batch: BatchState, group: Group, lanes: Array | None
) -> tuple[tuple[int, int, int], int, tuple[int, ...]]:
    """CTA, warp and lanes of the first warp at fault, in the order CTA, warp, lane."""
    positions = group.selection.positions
    if lanes is not None:
        mask = np.broadcast_to(lanes, positions.shape)
        positions = positions[mask] if mask.any() else positions.reshape(-1)
    positions = positions.reshape(-1)
    threads, ctas = positions // batch.shape.n_ctas, positions % batch.shape.n_ctas
    first_cta = int(ctas[np.argmin(batch.ctas[ctas])])
    here = np.sort(threads[ctas == first_cta])
    warp = int(here[0]) >> 5
    lanes_here = tuple(int(t) & 31 for t in here if int(t) >> 5 == warp)
    return launch.cta_of(int(batch.ctas[first_cta])), warp, lanes_here


def counted(what: str, numbers: Array) -> str:
    """``lane 5`` or ``lanes 0-3, 7``."""
    return f"{what}{'' if len(numbers) == 1 else 's'} {spans(numbers)}"
