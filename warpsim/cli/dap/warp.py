"""The request ``warp``, which is not the protocol's: all lanes of the warp in focus, and the matrices of its instruction, for
editors that draw them."""

from __future__ import annotations

import contextlib

import numpy as np

from warpsim.cli.dap.places import Places, Respond
from warpsim.cli.dap.protocol import Body
from warpsim.cli.debug.console import format_of
from warpsim.debug import DebugError
from warpsim.machine.values import Array

MOST = 4096
"""Most elements of a matrix that is sent."""
OPERANDS = "abcde"


class Warp:
    """Answers the request."""

    def __init__(self, places: Places) -> None:
        self.live = places.live

    def on_warp(self, given: Body, respond: Respond) -> None:
        """Send the instruction, the lanes that stand at it, and every register as 32 texts, null in other lanes; of a matrix
        instruction, its operands as rows of texts, and the owner of each element."""
        session = self.live()
        at = session.group_state()
        line = 0 if at is None else at.instruction.span.line
        respond(
            {
                "title": str(session.thread),
                "instruction": session.program.lines[line - 1].strip() if line else "the launch has ended",
                "lane": session.thread.lane,
                "active": [False] * 32 if at is None else session.context.lanes().reshape(-1).tolist(),
                "registers": [
                    {"name": name, "type": values.dtype.name, "lanes": _texts(values)}
                    for name, values in session.registers.items()
                ],
                "matrices": [] if at is None or at.instruction.traits.matrix is None else list(self._matrices()),
            }
        )

    def _matrices(self) -> list[Body]:
        found: list[Body] = []
        for name in OPERANDS:
            with contextlib.suppress(DebugError):  # the instruction has no such operand
                matrix = self.live().matrix(name)
                rows, columns = matrix.values.shape
                if rows * columns > MOST:
                    found.append({"name": name, "axes": list(matrix.axes), "values": [], "owners": []})
                    found[-1]["note"] = f"{rows} x {columns}: too large to draw; matrix {name} in the console shows it"
                    continue
                owners = [[matrix.owner(i, j) for j in range(columns)] for i in range(rows)]
                values = [_texts(row) for row in matrix.values]
                found.append(
                    {
                        "name": name,
                        "axes": list(matrix.axes),
                        "values": values,
                        "owners": owners,
                        "note": matrix.note,
                    }
                )
        return found


def _texts(values: Array) -> list[str | None]:
    """Each element as text; None where it is masked."""
    data, mask = np.ma.getdata(values), np.ma.getmaskarray(values)
    one = format_of(data)
    return [None if np.all(away.tolist()) else one(value) for value, away in zip(data, mask, strict=True)]
