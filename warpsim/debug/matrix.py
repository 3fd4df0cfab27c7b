"""A matrix instruction's operand as a matrix."""

from __future__ import annotations

from html import escape
from typing import Any

import attrs
from numpy.typing import NDArray

from warpsim.debug.given import DebugError
from warpsim.report import pages

Array = NDArray[Any]
NOBODY = "not stored: the metadata skip this element"


@attrs.frozen(eq=False)
class Matrix:
    """An operand as it stands now: ``values`` ``[rows, columns]``, masked where the owning thread does not stand here.

    For an operand in registers, ``lanes`` (0 to 127 within a warpgroup) and ``registers`` (names) give the owner of
    each element; for one in shared memory, ``addresses`` does. ``axes`` names rows and columns.
    """

    name: str
    instruction: str
    line: int
    axes: tuple[str, str]
    values: Any
    lanes: Array | None = None
    registers: Array | None = None
    addresses: Array | None = None
    note: str = ""

    def owner(self, row: int, column: int) -> str:
        """Name the owner of an element: lane and register, or address and bank.

        Raises:
            DebugError: there is no such element.
        """
        rows, columns = self.values.shape
        if not (0 <= row < rows and 0 <= column < columns):
            raise DebugError(f"{self.name} is {rows} x {columns}: there is no element [{row},{column}]")
        if self.addresses is not None:
            if self.addresses[row, column] < 0:
                return NOBODY
            address = int(self.addresses[row, column])
            return f"shared 0x{address:x}, bank {address >> 2 & 31}"
        assert self.lanes is not None
        assert self.registers is not None
        if self.lanes[row, column] < 0:
            return NOBODY
        return f"lane {int(self.lanes[row, column])}, {self.registers[row, column]}"

    def _repr_html_(self) -> str:
        rows, columns = self.values.shape
        head = "".join(f"<th>{column}</th>" for column in range(columns))
        body = "".join(
            f"<tr><th>{row}</th>"
            + "".join(
                f'<td title="{escape(self.owner(row, column))}">{escape(str(self.values[row, column]))}</td>'
                for column in range(columns)
            )
            + "</tr>"
            for row in range(rows)
        )
        title = f"{self.name} of {self.instruction}: {' x '.join(self.axes)}"
        table = pages.scrolling(f"<thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody>")
        return pages.part(f"<p>{escape(title)}</p>{table}")
