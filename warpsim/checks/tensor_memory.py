"""Tensor memory: what is not allocated, and what is never freed."""

from __future__ import annotations

import numpy as np

from warpsim.machine.hooks import TensorProblem
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array
from warpsim.machine.watcher import Watcher

RULE = "tcgen05"


class TensorMemoryRules(Watcher):
    """Reports what instructions may not do with tensor memory."""

    def tensor_refused(self, machine: Machine, group: Group, problem: TensorProblem, lanes: Array | None) -> None:
        """Report it, by its own rule if it names one."""
        rule, severity, advice = problem.rule or RULE, problem.severity, problem.advice
        machine.fault(rule, problem.message, group, lanes, severity=severity, advice=advice, **problem.values)

    def group_exited(self, machine: Machine, group: Group) -> None:
        """Report what CTAs have not freed when their last threads exit."""
        memory = machine.batch.tensor
        if memory is None:
            return
        leaked = (machine.batch.alive == 0) & (memory.owner != 0).any(axis=1)
        here = np.broadcast_to(leaked[group.selection.ctas], group.selection.shape)
        if here.any():
            cta = int(np.broadcast_to(group.selection.ctas, here.shape)[here][0])
            columns = 32 * int((memory.owner[cta] != 0).sum())
            machine.fault(
                RULE,
                f"the CTA exits with {columns} columns of tensor memory allocated",
                group,
                here,
                advice="free with tcgen05.dealloc what tcgen05.alloc gave, before the CTA's last threads exit",
                columns=columns,
            )
