"""A trace: its data, and its formats: an HTML page, Perfetto, plain data."""

from __future__ import annotations

import base64
import html
import json
import os
from array import array
from collections.abc import Iterable
from importlib import resources

import attrs
import numpy as np
from numpy.typing import ArrayLike

from warpsim.errors import Finding, describe, plural, source_lines, source_name
from warpsim.isa.traits import Traits
from warpsim.program.program import Instruction
from warpsim.records import frozen
from warpsim.report import pages
from warpsim.report.profile import Profile
from warpsim.trace.rows import Flight


@frozen(eq=False, repr=False)
class Trace:
    """A launch, step by step; `save` writes it for a browser or for Perfetto.

    Attributes:
        profile: what every line did, in all CTAs.
        warps: (x, y, z, warp) of each row.
        instructions: the executed instructions; ``steps`` has the number of one for each step.
        runs: (first step, one past the last, crew): steps that the same threads execute one after another.
        crews: (rows, lanes of each as bits, or None for all lanes of the warps).
        waits: (rows, first step, last step, what for).
        flights: asynchronous operations.
        shared_size, variables, block, marks: shared memory, and accesses to it: first step, last step, CTA, first
            block, last block, and 0 for reads, 1 for writes, 2 for tiles of wgmma.
        findings: (step, finding).
        full: whether the launch continued after the last step.
    """

    profile: Profile
    warps: list[tuple[int, int, int, int]]
    instructions: tuple[Instruction, ...]
    steps: array[int]
    runs: tuple[tuple[int, int, int], ...]
    crews: tuple[tuple[tuple[int, ...], tuple[int, ...] | None], ...]
    waits: tuple[tuple[tuple[int, ...], int, int, str], ...]
    flights: tuple[Flight, ...]
    shared_size: int
    variables: tuple[tuple[str, int, int], ...]
    block: int
    marks: tuple[tuple[int, ...], ...]
    findings: tuple[tuple[int, Finding], ...]
    full: bool

    def __repr__(self) -> str:
        return f"Trace({self.profile.kernel!r}, {len(self.steps)} steps of {len(self.warps)} warps)"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a page (``.html``), or a document for https://ui.perfetto.dev (``.json``)."""
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(self.perfetto() if os.fspath(path).endswith(".json") else self.html())

    def html(self) -> str:
        """A self-contained page."""
        profile = self.profile
        facts = [
            f"grid {profile.grid}, block {profile.block}",
            profile.target,
            plural(len(self.steps), "step"),
            plural(profile.total.executions, "warp-instruction"),
            *(["the launch continued after the last step"] if self.full else []),
        ]
        return page(profile.kernel, facts, self.record())

    def perfetto(self) -> str:
        """JSON in the trace event format."""
        return json.dumps({"traceEvents": events(self), "displayTimeUnit": "ns"})

    def _repr_html_(self) -> str:
        return f'<iframe style="width:100%;height:720px;border:0" srcdoc="{html.escape(self.html())}"></iframe>'

    def record(self) -> dict[str, object]:
        """The trace as plain data, which the page reads. Long lists are 32-bit little-endian integers in base64."""
        profile = self.profile
        return {
            "kernel": profile.kernel,
            "file": profile.file,
            "target": profile.target,
            "grid": profile.grid,
            "block": profile.block,
            "full": self.full,
            "warps": self.warps,
            "instructions": [
                [i.span.line, i.text, CLASSES.index(class_of(i.traits)), list(i.source) if i.source else None]
                for i in self.instructions
            ],
            "classes": CLASSES,
            "steps": _packed(self.steps),
            "runs": _packed(self.runs),
            "crews": self.crews,
            "waits": self.waits,
            "flights": [attrs.astuple(flight) for flight in self.flights],
            "shared": {
                "size": self.shared_size,
                "variables": self.variables,
                "block": self.block,
                "marks": _packed(self.marks),
            },
            "findings": [[step, f.severity, f.rule, f.line, describe(f)] for step, f in self.findings],
            "text": profile.program,
            "counts": {line.number: line.counts.executions for line in profile.lines},
            "sources": {
                file: {
                    "text": source_lines(file, profile.file),
                    "counts": {
                        line.number: line.counts.executions for line in profile.by_source() if line.file == file
                    },
                }
                for file in dict.fromkeys(line.source[0] for line in profile.lines if line.source)
            },
        }


def page(kernel: str, facts: Iterable[str], record: dict[str, object]) -> str:
    """Render the page from a trace's plain data."""
    files = resources.files("warpsim.trace")
    data = json.dumps(record, separators=(",", ":")).replace("<", "\\u003c")
    frame = files.joinpath("page.html").read_text(encoding="utf-8")
    body = frame.replace("KERNEL", html.escape(kernel)).replace("FACTS", html.escape(" · ".join(facts)))
    style, script = (files.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return pages.page(
        f"trace of {kernel}", f"{body}<script type=application/json id=data>{data}</script>", style, script
    )


MOST = 500_000
"""Most slices of single steps; in longer traces, a slice is a run of steps by the same threads."""


def events(trace: Trace) -> list[dict[str, object]]:
    """Make a process for each CTA, a thread for each of its warps, and asynchronous events for operations in flight."""
    ctas = list(dict.fromkeys(warp[:3] for warp in trace.warps))
    process = {cta: number + 1 for number, cta in enumerate(ctas)}
    out: list[dict[str, object]] = []
    for cta in ctas:
        out.append({"ph": "M", "name": "process_name", "pid": process[cta], "args": {"name": f"CTA {cta}"}})
    for x, y, z, warp in trace.warps:
        out.append(
            {
                "ph": "M",
                "name": "thread_name",
                "pid": process[x, y, z],
                "tid": warp + 1,
                "args": {"name": f"warp {warp}"},
            }
        )

    def place(row: int) -> dict[str, object]:
        x, y, z, warp = trace.warps[row]
        return {"pid": process[x, y, z], "tid": warp + 1}

    for name, start, end, rows, args in _slices(trace):
        out += [{"ph": "X", "name": name, "ts": start, "dur": end - start, "args": args, **place(row)} for row in rows]
    for rows, start, end, what in trace.waits:  # beside the instructions, some of which poll
        span: dict[str, object] = {"cat": "wait", "name": f"waits for {what}"}
        for row in rows:
            identity: dict[str, object] = {"id": f"wait{row}", **place(row)}
            out += [{"ph": "b", "ts": start, **span, **identity}, {"ph": "e", "ts": end, **span, **identity}]
    last = len(trace.steps)
    for number, flight in enumerate(trace.flights):
        instruction = trace.instructions[flight.instruction]
        span = {
            "cat": "in flight",
            "name": f"{flight.kind}: {instruction.text}",
            "id": f"flight{number}",
            **place(flight.row),
        }
        args = {"bytes": flight.nbytes, "shared": f"0x{flight.low:x}-0x{flight.high:x}", "line": instruction.span.line}
        out.append({"ph": "b", "ts": flight.issued, "args": args, **span})
        out.append({"ph": "e", "ts": last if flight.visible < 0 else flight.visible, **span})
    for step, finding in trace.findings:
        pid = 1 if finding.cta is None else process.get(finding.cta, 1)
        more = {"pid": pid, "tid": (finding.warp or 0) + 1, "args": {"text": describe(finding)}}
        out.append({"ph": "i", "s": "g", "name": f"{finding.severity}: {finding.rule}", "ts": step, **more})
    return out


def _slices(trace: Trace) -> list[tuple[str, int, int, tuple[int, ...], dict[str, object]]]:
    single = sum((last - first) * len(trace.crews[crew][0]) for first, last, crew in trace.runs) <= MOST
    out: list[tuple[str, int, int, tuple[int, ...], dict[str, object]]] = []
    for first, last, crew in trace.runs:
        rows = trace.crews[crew][0]
        if not single:
            lines = [trace.instructions[trace.steps[step]].span.line for step in (first, last - 1)]
            out.append((f"lines {lines[0]} to {lines[1]}", first, last, rows, {}))
            continue
        for step in range(first, last):
            instruction = trace.instructions[trace.steps[step]]
            args: dict[str, object] = {"line": instruction.span.line}
            if instruction.source is not None:
                args["source"] = source_name(instruction.source)
            out.append((instruction.text, step, step + 1, rows, args))
    return out


CLASSES = ("arithmetic", "control", "memory", "shared", "async", "matrix", "barrier", "wait")
"""Classes of instructions, in the order of precedence for a picture that has room for one."""


def class_of(traits: Traits) -> str:
    """The class of an instruction, one of `CLASSES`."""
    if traits.mbarrier is not None or (traits.asynchronous is not None and "wait" in traits.asynchronous.stage.value):
        return "wait"
    if traits.barrier is not None or traits.fence is not None:
        return "barrier"
    if traits.matrix is not None:
        return "matrix"
    if traits.asynchronous is not None:
        return "async"
    if traits.access is not None:
        return "shared" if "shared" in traits.spaces else "memory"
    return "control" if traits.ending is not None else "arithmetic"


def _packed(numbers: ArrayLike) -> str:
    return base64.b64encode(np.asarray(numbers, "<i4").tobytes()).decode()
