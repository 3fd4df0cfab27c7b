"""The fragment-mismatch rule while running: what the flow of fragments shows is reported when it is executed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.analysis.wmma_fragments import ADVICE, RULE, Mismatch
from warpsim.machine.plan import Step
from warpsim.machine.state.group import Group

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine


def watch_fragments(wrong: Mismatch | None, step: Step) -> Step:
    """``step``, reported when it is executed with a wrong fragment."""
    if wrong is None:
        return step

    def watched(machine: Machine, group: Group) -> object:
        machine.fault(
            RULE,
            wrong.message,
            group,
            None,
            register=wrong.register,
            other=wrong.found.maker,
            advice=ADVICE,
        )
        return step(machine, group)

    return watched
