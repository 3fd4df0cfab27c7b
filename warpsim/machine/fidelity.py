"""The executed instructions of a launch, each with the evidence for its bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

import attrs

from warpsim.isa.evidence import evidence
from warpsim.isa.spec import Form
from warpsim.machine.plan import BoundBlock
from warpsim.records import frozen


@frozen
class Executed:
    """An instruction as written, its form, how often warps executed it, and the evidence for its result."""

    instruction: str
    form: str
    standing: str
    evidence: str
    sm: int
    count: int = 0

    def without_count(self) -> Executed:
        """The same without the count."""
        return attrs.evolve(self, count=0)

    def plain(self) -> dict[str, object]:
        """As JSON has it."""
        return attrs.asdict(self)


def executed(counts: Mapping[BoundBlock, int], sm: int) -> tuple[Executed, ...]:
    """The instructions of the blocks that warps entered, with counts, by name."""
    total: dict[str, tuple[Form, int]] = {}
    for block, warps in counts.items():
        for instruction in block.instructions:
            known = total.get(instruction.text)
            total[instruction.text] = instruction.form, (known[1] if known else 0) + warps
    found = []
    for text, (form, count) in sorted(total.items()):
        rests = evidence(form, text, sm)
        found.append(Executed(text, form.syntax, rests.standing, rests.source, sm, count))
    return tuple(found)


class Fidelity(Sequence[Executed]):
    """The result of `executed`, computed on first use."""

    def __init__(self, counts: Mapping[BoundBlock, int], sm: int, found: tuple[Executed, ...] | None = None) -> None:
        self._counts, self._sm, self._found = counts, sm, found

    @property
    def _all(self) -> tuple[Executed, ...]:
        if self._found is None:
            self._found = executed(self._counts, self._sm)
            self._counts = {}
        return self._found

    @overload
    def __getitem__(self, index: int) -> Executed: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Executed, ...]: ...

    def __getitem__(self, index: int | slice) -> Executed | tuple[Executed, ...]:
        return self._all[index]

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        return "\n".join(f"{e.standing:9} {e.count:>12,}  {e.instruction}: {e.evidence}" for e in self._all)

    def __reduce__(self) -> tuple[type[Fidelity], tuple[dict[BoundBlock, int], int, tuple[Executed, ...]]]:
        return Fidelity, ({}, self._sm, self._all)
