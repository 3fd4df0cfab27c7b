"""An operand of a matrix instruction as a matrix."""

from __future__ import annotations

from html import escape
from typing import Any

import attrs
from numpy.typing import NDArray

from warpsim.debug.places import DebugError

Array = NDArray[Any]
NOBODY = "stored by nobody: the metadata leave it out"


@attrs.frozen(eq=False)
class Matrix:
    """An operand as it stands now: ``values`` ``[rows, columns]``, masked where who holds them does not stand here.

    Of one in registers ``lanes`` (counted through the warpgroup where one holds it) and ``registers`` (names) say who holds
    each element, of one in shared memory ``addresses``. ``axes`` names rows and columns."""

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
        """Who holds an element.

        Raises:
            DebugError: there is no such element."""
        rows, columns = self.values.shape
        if not (0 <= row < rows and 0 <= column < columns):
            raise DebugError(f"{self.name} is {rows} x {columns}")
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
        return f"<table><caption>{escape(title)}</caption><tr><th></th>{head}</tr>{body}</table>"
