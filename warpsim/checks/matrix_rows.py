"""matrix-address-space, matrix-alignment: rows of ldmatrix and stmatrix that are not in shared memory or not aligned to
their size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.machine.memory.outside import RowProblem
from warpsim.machine.memory.row_access import report_rows
from warpsim.machine.values import Array
from warpsim.machine.watcher import Watcher

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group

BROKEN = {RowProblem.SPACE: "matrix-address-space", RowProblem.ALIGNMENT: "matrix-alignment"}
RULES = frozenset(BROKEN.values())


class MatrixRows(Watcher):
    """Names the rule broken by rows that cannot be accessed."""

    def rows_refused(
        self, machine: Machine, group: Group, problem: RowProblem, rows: Array, address: Array, nbytes: int
    ) -> None:
        """Report the rows."""
        report_rows(machine, group, BROKEN[problem], problem, rows, address, nbytes)
