"""The wgmma of a batch in flight: accumulators in use, committed groups, and late results.

State is kept per warpgroup of each CTA (a *column*: warpgroup times CTAs plus CTA) as tickets, the running numbers of
its ``wgmma.mma_async``. A register is in flight while the ticket of its last use is above ``done``. Accumulators are
kept per function, one row per register that any wgmma of the function accumulates in or reads A from.
"""

from __future__ import annotations

import attrs
import numpy as np

from warpsim.machine.plan import FunctionPlan
from warpsim.machine.selection import Shape
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array, Value

GROUPS = 8
"""wait_group takes 0 to 7, so older groups cannot be distinguished."""


@attrs.define(eq=False)
class RegisterUse:
    """Rows of one function's registers: the last ticket as accumulator, and by slot the values that have not appeared."""

    accumulator: Array
    held: dict[int, Array] = attrs.field(factory=dict)


@attrs.define(eq=False)
class Pending:
    """A wgmma without effect so far: the group at it, its operands by slot, the ``columns`` that remain, and those in
    which it has ``landed``, still unhandled.
    """

    group: Group
    columns: Array
    tickets: Array
    operands: dict[int, Value]
    remaining: Array
    landed: Array


@attrs.define(eq=False)
class Wgmma:
    """The wgmma of one batch; ``starting`` are the tickets of the one being started, 0 in other columns."""

    n_columns: int
    issued: Array
    done: Array
    ends: Array
    uses: dict[str, RegisterUse] = attrs.field(factory=dict)
    starting: Array | None = None
    pending: list[Pending] = attrs.field(factory=list)
    """Late ones, in issue order."""

    @classmethod
    def of(cls, shape: Shape) -> Wgmma:
        """The initial state."""
        n = -(-shape.n_threads // 128) * shape.n_ctas
        return cls(n, np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros((GROUPS, n), np.int64))

    def use(self, plan: FunctionPlan) -> RegisterUse:
        """The register rows of a function."""
        found = self.uses.get(plan.name)
        if found is None:
            n_rows = len(plan.wgmma_rows)
            found = self.uses[plan.name] = RegisterUse(np.zeros((n_rows, self.n_columns), np.int64))
        return found
