"""A session in a notebook: position, surrounding code, registers."""

from __future__ import annotations

from html import escape

import numpy as np

from warpsim.debug.standpoint import Standpoint
from warpsim.report import pages

AROUND = 4


def html_of(session: Standpoint) -> str:
    """Render a session as an HTML fragment."""
    stop = session.stop
    if stop.reason == "end":
        error = session.error
        return pages.part(
            f"<p>{escape(session.kernel.name)}: ended after {stop.step} steps</p>"
            + (f"<pre class=error>{escape(str(error))}</pre>" if error is not None else "")
        )
    lines, here = session.timeline.state.plan.program.lines, stop.line or 1
    text = "".join(
        f"<tr{' class=here' * (number == here)}><td class=no>{number}</td>"
        f"<td class=text>{escape(lines[number - 1].strip())}</td></tr>"
        for number in range(max(here - AROUND, 1), min(here + AROUND, len(lines)) + 1)
    )
    head = f"{session.kernel.name}, {session.thread}, step {stop.step}: {stop.reason}"
    found = pages.finding(stop.finding) if stop.finding is not None else ""
    return pages.part(f"<p>{escape(head)}</p>{found}{pages.scrolling(text)}{_registers(session)}")


def _registers(session: Standpoint) -> str:
    rows = []
    for name, values in session.registers.items():
        mask = np.ma.getmaskarray(values)
        shown = ["-" if away else str(value) for value, away in zip(np.ma.getdata(values), mask, strict=True)]
        same = len(set(shown)) == 1
        cells = (
            f'<td class=text colspan="32">{escape(shown[0])}</td>'
            if same
            else "".join(f"<td>{escape(v)}</td>" for v in shown)
        )
        rows.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    lanes = "".join(f"<th>{lane}</th>" for lane in range(32))
    table = pages.scrolling(f"<thead><tr><th></th>{lanes}</tr></thead><tbody>{''.join(rows)}</tbody>")
    return f"<details><summary>registers by lane</summary>{table}</details>"
