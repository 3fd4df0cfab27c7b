"""A trace in the trace event format of ui.perfetto.dev and chrome://tracing; a step is shown as a microsecond."""

from __future__ import annotations

from typing import Any

from warpsim.errors import describe, source_name
from warpsim.trace.recording import Recording

MOST = 500_000
"""Most slices of single steps; in longer traces, a slice is a run of steps by the same threads."""


def events(trace: Recording) -> list[dict[str, Any]]:
    """Make a process for each CTA, a thread for each of its warps, and asynchronous events for operations in flight."""
    ctas = list(dict.fromkeys(warp[:3] for warp in trace.warps))
    process = {cta: number + 1 for number, cta in enumerate(ctas)}
    out: list[dict[str, Any]] = []
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

    def place(row: int) -> dict[str, Any]:
        x, y, z, warp = trace.warps[row]
        return {"pid": process[x, y, z], "tid": warp + 1}

    for name, start, end, rows, args in _slices(trace):
        out += [{"ph": "X", "name": name, "ts": start, "dur": end - start, "args": args, **place(row)} for row in rows]
    for rows, start, end, what in trace.waits:  # beside the instructions, some of which poll
        span = {"cat": "wait", "name": f"waits for {what}"}
        for row in rows:
            identity: dict[str, Any] = {"id": f"wait{row}", **place(row)}
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


def _slices(trace: Recording) -> list[tuple[str, int, int, tuple[int, ...], dict[str, Any]]]:
    single = sum((last - first) * len(trace.crews[crew][0]) for first, last, crew in trace.runs) <= MOST
    out: list[tuple[str, int, int, tuple[int, ...], dict[str, Any]]] = []
    for first, last, crew in trace.runs:
        rows = trace.crews[crew][0]
        if not single:
            lines = [trace.instructions[trace.steps[step]].span.line for step in (first, last - 1)]
            out.append((f"lines {lines[0]} to {lines[1]}", first, last, rows, {}))
            continue
        for step in range(first, last):
            instruction = trace.instructions[trace.steps[step]]
            args: dict[str, Any] = {"line": instruction.span.line}
            if instruction.source is not None:
                args["source"] = source_name(instruction.source)
            out.append((instruction.text, step, step + 1, rows, args))
    return out
