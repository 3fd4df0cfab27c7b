"""The fragment-mismatch rule while running: what the flow of fragments shows is reported when it is executed."""

from __future__ import annotations

from warpsim.analysis.wmma_fragments import ADVICE, RULE, Mismatch
from warpsim.machine.group import Group
from warpsim.machine.plan import Step


def watch_fragments(wrong: Mismatch | None, step: Step) -> Step:
    """``step``, reported when it is executed with a wrong fragment."""
    if wrong is None:
        return step

    def watched(group: Group) -> object:
        group.batch.fault(
            RULE,
            wrong.message,
            group,
            None,
            register=wrong.register,
            other=wrong.found.maker,
            advice=ADVICE,
        )
        return step(group)

    return watched
