"""Runs a recorded launch as a test; a failure says what is wrong, where to look and what to do next."""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from warpsim.errors import Finding, WarpsimError, describe
from warpsim.host.cases import Case, CaseResult, Comparison, Prepared, counting, run_prepared
from warpsim.host.launch_options import Keywords
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import finding_at, locate
from warpsim.machine.state.group import Group
from warpsim.machine.watcher import READ, MemoryAccess, Watcher
from warpsim.numerics.arrays import Array
from warpsim.records import define
from warpsim.testing.differences import explain, index_text

TRACED = 3
"""Number of wrong elements whose store is traced."""


def failure_of(case: str | os.PathLike[str], *, bits: bool = False, **options: Any) -> str | None:
    """Replay a case; returns a full description of what is wrong, or None.

    Findings of severity error count even if the outputs are right.
    """
    found = Case.read(shown_path(Path(case)))  # findings name the file as whoever reads them would
    gpu = {name: options.pop(name, None) for name in ("device", "numerics")}
    options.setdefault("on_finding", "collect")
    ready = found.prepare(**gpu)
    result = run_prepared(ready, **options)
    if result.ok and (result.bits_equal or not bits):
        return None
    errors = counting(found.description, result.findings)
    compared = [] if result.error is not None and not result.outputs else ready.comparisons()
    every = [Comparison(c.name, c.got, c.expected, None if bits else c.check) for c in compared]
    wrong = [comparison for comparison in every if comparison.wrong.any()]
    lines = [f"{shown_path(found.path)}: {_summary(result, errors, wrong)}"]
    if result.error is not None and not errors:
        lines += ["", result.error]
    for finding in errors:
        times = f" ({finding.count:,} times)" if finding.count > 1 else ""
        lines += ["", f"{finding.severity}{times}: {describe(finding)}"]
    stores: list[Finding] = []
    for comparison in wrong:
        lines += ["", *explain(comparison)]
        if comparison.name in ready.buffers and comparison.check.get("mode") != "set":
            traced, last = _writers(found.prepare(**gpu), comparison, options)
            lines += traced
            stores += last
    number = next((n for n, f in enumerate(result.findings, 1) if f in errors), None)
    if number is not None:
        stop = ["--at-finding", str(number)]
    else:
        places = [f"break {_place(stores[0], ready)}"] if stores and result.error is None else []
        stop = [word for command in (*places, "continue") for word in ("-ex", command)]
    lines += ["", f"next: {_command(found.path, stop, {**options, **gpu})}"]
    return "\n".join(lines)


def _summary(result: CaseResult, errors: list[Finding], wrong: list[Comparison]) -> str:
    said = []
    if wrong:
        said.append(
            f"{', '.join(c.name for c in wrong)} {'differs' if len(wrong) == 1 else 'differ'} from the recording"
        )
    if errors:
        rules = ", ".join(dict.fromkeys(f.rule for f in errors))
        said.append(f"it breaks {rules}{'' if len(errors) == 1 else f' at {len(errors)} places'}")
    if result.error is not None and not errors:
        said.append("it failed")
    return "; ".join(said) or "the launch differs from the recording"


def _writers(again: Prepared, comparison: Comparison, options: Keywords) -> tuple[list[str], list[Finding]]:
    """Find who wrote the first wrong elements, in a second run; returns a description and the stores."""
    size = comparison.expected.dtype.itemsize
    places = [tuple(int(i) for i in at) for at in np.argwhere(comparison.wrong)[:TRACED]]
    base = again.buffers[comparison.name].ptr
    flat = [int(np.ravel_multi_index(p, comparison.expected.shape)) if p else 0 for p in places]
    watcher = Writers([(base + n * size, size) for n in flat])
    given = {**options, "watchers": [*options.get("watchers", ()), watcher]}
    with contextlib.suppress(WarpsimError):  # the findings are already in the message
        again.launch(**given)
    lines: list[str] = []
    for place, writer in zip(places, watcher.found, strict=True):
        lines += sentence(f"{comparison.name}{index_text(place)}", writer)
    return lines, [w.last for w in watcher.found if w.last is not None]


def _place(store: Finding, ready: Prepared) -> str:
    """The debugger's words for a store by its first lane."""
    assert store.cta is not None
    assert store.warp is not None
    wide, tall, _ = ready.block
    thread = store.warp * 32 + store.lanes[0]
    ids = {
        "ctaid": (store.cta, ready.grid),
        "tid": ((thread % wide, thread // wide % tall, thread // (wide * tall)), ready.block),
    }
    wanted = [
        f"%{name}.{axis} == {value}"
        for name, (place, extents) in ids.items()
        for axis, value, extent in zip("xyz", place, extents, strict=True)
        if extent > 1
    ]
    return f"{store.line} if {' && '.join(wanted)}" if wanted else str(store.line)


def _command(path: Path, stop: list[str], options: Keywords) -> str:
    """A debugger command that stops where things went wrong."""
    words = ["warpsim", "debug", "replay", shown_path(path)]
    for name in ("checks", "async_effects", "schedule", "device", "numerics"):
        value = options.get(name)
        if isinstance(value, str | int) and value != "eager":
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join([*words, *stop])


def shown_path(path: Path) -> str:
    """The shortest form of a path from here."""
    try:
        return os.path.relpath(path) if len(os.path.relpath(path)) < len(str(path)) else str(path)
    except ValueError:  # another drive
        return str(path)


# ---- who wrote what ------------------------------------------------------------------------------


@define
class Writer:
    """The last write to an element, and the number of writes."""

    last: Finding | None = None
    count: int = 0
    lines: set[int] = attrs.field(factory=set)


class Writers(Watcher):
    """Notes the last write to each of a few elements of global memory, given as ``(address, nbytes)``."""

    def __init__(self, elements: list[tuple[int, int]]) -> None:
        self.elements = elements
        self.found = [Writer() for _ in elements]

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Note stores and atomics of lanes."""
        if access.space != "global" or not access.writes:
            return
        shape, place, nbytes, active = group.selection.shape, np.asarray(access.place), access.nbytes, access.active
        for writer, (address, size) in zip(self.found, self.elements, strict=True):
            hit = (place < address + size) & (place + nbytes > address)
            if not hit.any():
                continue
            lanes = np.broadcast_to(hit, shape)
            if active is not None:
                lanes = lanes & np.broadcast_to(active, shape)
            if lanes.any():
                self._note(writer, machine, group, lanes)

    def global_tile_accessed(
        self, machine: Machine, group: Group, positions: Array, access: int, address: Array, nbytes: int
    ) -> None:
        """Note bulk copies to global memory."""
        if access == READ:
            return
        for writer, (wanted, size) in zip(self.found, self.elements, strict=True):
            address = np.asarray(address)
            hit = (address < wanted + size) & (address + nbytes > wanted)
            if hit.any():
                receivers = hit.reshape(len(positions), -1).any(axis=1) if hit.size % len(positions) == 0 else None
                who = positions if receivers is None else np.asarray(positions)[receivers]
                self._note(writer, machine, group, np.isin(group.selection.positions, who))

    def _note(self, writer: Writer, machine: Machine, group: Group, lanes: Array) -> None:
        cta, warp, which = locate(machine.launch, machine.batch, group, lanes)
        place = finding_at(machine.launch, group.instruction)
        writer.last = attrs.evolve(place, cta=cta, warp=warp, lanes=which)
        writer.count += 1
        writer.lines.add(place.line)


def cuda_lines(finding: Finding) -> str:
    """The CUDA line of a place, and the call in the kernel that brought it there, in parentheses."""
    places = [place for place in (finding.source, *finding.inlined_at[-1:]) if place]
    return f" ({', inlined at '.join(f'{file}:{line}' for file, line in places)})" if places else ""


def sentence(what: str, writer: Writer) -> list[str]:
    """Describe the last write to an element."""
    last = writer.last
    if last is None:
        return [f"  nothing wrote {what} in this launch"]
    lane = f"lane {last.lanes[0]}" if len(last.lanes) == 1 else f"lanes {', '.join(map(str, last.lanes[:4]))}"
    lines = f"line{'s' * (len(writer.lines) > 1)} {', '.join(map(str, sorted(writer.lines)))}"
    times = "" if writer.count == 1 else f" (the last of {writer.count:,} writes, from {lines})"
    return [
        f"  {what} was written by CTA {last.cta}, warp {last.warp}, {lane}{times}:",
        f"    {last.file}:{last.line}{cuda_lines(last)}: {last.text.strip() or last.message}",
    ]
