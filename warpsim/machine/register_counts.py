"""What the warps of each warpgroup asked of ``setmaxnreg``: all four have to ask the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.machine.reporting import present
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.batch import Batch
    from warpsim.machine.group import Group

RULE = "setmaxnreg"


class RegisterCounts:
    """The port. Counts do not limit anything here; warps that lag behind their warpgroup are named at the end."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self._asked: Array | None = None
        self._last: tuple[Group, Any] | None = None

    def change(self, count: int) -> None:
        """The warps of the step ask for ``count`` registers a thread."""
        batch = self.batch
        if RULE not in batch.launch.settings.checks:
            return
        shape, group = batch.shape, batch.memory.group
        if self._asked is None:
            self._asked = np.zeros((-(-shape.n_threads // 128) * 4, shape.n_ctas), np.int64)
        warps = np.zeros(self._asked.shape, np.bool_)
        warps[group.selection.threads >> 5, group.selection.ctas] = True
        self._asked[warps] = self._asked[warps] * 1009 + count  # tells sequences of counts apart
        self._last = group, present(group)

    def finish(self) -> None:
        """The batch has ended: report warpgroups whose warps did not do the same."""
        if self._asked is None or self._last is None:
            return
        real = np.arange(len(self._asked)) < -(-self.batch.shape.n_threads // 32)
        asked = np.where(real[:, None], self._asked, -1).reshape(-1, 4, self.batch.shape.n_ctas)
        first = asked[:, :1]
        if ((asked != first) & (asked >= 0)).any():
            group, place = self._last
            self.batch.fault(
                RULE,
                "setmaxnreg was executed by some warps of a warpgroup and not by the others",
                group,
                place=place,
                advice="all warps of the warpgroup execute the same setmaxnreg",
            )
