"""The evidence for the bits of a session's launches, per instruction form."""

from __future__ import annotations

from typing import Any

from warpsim.isa.evidence import EXACT, MEANING, MODELLED, RECORDED, RECOVERED, STATED
from warpsim.machine.fidelity import Executed, executed


class Forms:
    """The executed instruction forms of launches, and how often warps executed each."""

    def __init__(self) -> None:
        self.counts: dict[Executed, int] = {}

    def add(self, state: Any) -> None:
        """Count a finished launch."""
        for form in executed(state.counts, state.device.sm):
            self._count(form)

    def _count(self, form: Executed) -> None:
        key = form.without_count()
        self.counts[key] = self.counts.get(key, 0) + form.count

    def plain(self) -> list[dict[str, Any]]:
        """The counts as plain data, for another process."""
        return [{**key.plain(), "count": count} for key, count in self.counts.items()]

    def merge(self, other: list[dict[str, Any]]) -> None:
        """Add the counts of another process."""
        for record in other:
            self._count(Executed(**record))

    def summary(self) -> list[str]:
        """Summarise the forms by kind of evidence, and name those that are only modelled."""
        lines = []
        for standing in (RECORDED, RECOVERED, EXACT, MODELLED, STATED):
            forms = [key for key in self.counts if key.standing == standing]
            if forms:
                warps = sum(self.counts[key] for key in forms)
                lines.append(f"  {standing:9} {len(forms):4} forms, {warps:,} warp-instructions: {MEANING[standing]}")
            if standing == MODELLED:
                lines += [f"    {key.instruction} on sm_{key.sm}: {key.evidence}" for key in forms]
        return ["warpsim: what the executed instructions' bits rest on", *lines] if lines else []
