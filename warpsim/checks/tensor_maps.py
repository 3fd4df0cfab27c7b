"""tensor-map: boxes of a tensor that cannot be copied, because of their map, their coordinates or their place in shared
memory; and stores that write beyond the tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.layout.tensor_map import ROW_UNIT
from warpsim.machine.state.transfers import BoxStore
from warpsim.machine.watcher import BoxProblem, Watcher

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group
    from warpsim.machine.state.transfers import Transfer
    from warpsim.machine.values import Array

RULE = "tensor-map"


class TensorMaps(Watcher):
    """Reports the copies that the machine leaves out, and what it stores beyond a tensor."""

    def boxes_refused(self, machine: Machine, group: Group, problem: BoxProblem, active: Array | None) -> None:
        """Report the copy."""
        where = {} if problem.address is None else {"address": problem.address}
        machine.fault(RULE, problem.message, group, active, advice=problem.advice, **where)

    def async_delivered(
        self, machine: Machine, group: Group, active: Array | None, transfer: Transfer, which: Array
    ) -> None:
        """Note stores that write elements behind the end of a row, as a GPU does on purpose."""
        work = transfer.work
        if not isinstance(work, BoxStore) or not work.boxes.beyond:
            return
        beyond = work.boxes.elements(which)[1] & ~work.boxes.inside(which)
        if beyond.any():
            size = work.boxes.fields.dims[0]
            machine.fault(
                RULE,
                f"elements beyond the tensor are written, too: rows of {size} elements end within a unit of {ROW_UNIT} bytes,"
                " and units are stored whole",
                group,
                np.isin(group.selection.positions, transfer.positions[which[beyond.any(axis=1)]]),
                severity="note",
                place=transfer.place,
                advice=f"leave the rest of the last {ROW_UNIT} bytes of a row free, or let threads store its elements",
            )
