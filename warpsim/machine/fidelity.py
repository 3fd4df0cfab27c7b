"""The executed instructions of a launch, each with the evidence for its bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

import attrs

from warpsim.isa.evidence import CHOSEN, EXACT, MEANING, MODELLED, RECORDED, RECOVERED, STATED, choice_of, evidence
from warpsim.isa.spec import Form
from warpsim.machine.plan import BoundBlock
from warpsim.records import frozen


@frozen
class Executed:
    """An instruction as written, its form, how often warps executed it, the evidence for its result, and the ``choice`` that PTX
    leaves open in it (the order of atomics or of prints, a NaN's payload, a clock)."""

    instruction: str
    form: str
    standing: str
    evidence: str
    sm: int
    count: int = 0
    choice: str = ""

    def plain(self) -> dict[str, object]:
        """Plain data, for JSON."""
        return attrs.asdict(self)


def executed(counts: Mapping[BoundBlock, int], sm: int) -> tuple[Executed, ...]:
    """The instructions of the blocks that warps entered, with counts: those of the weakest evidence first, then by name."""
    total: dict[str, tuple[Form, int]] = {}
    chosen: dict[str, set[str]] = {}
    read = {(block.function, register) for block in counts for i in block.instructions for register in i.reads}
    read |= {(block.function, register) for block in counts for o in block.returns for register in o.registers}
    for block, warps in counts.items():
        for instruction in block.instructions:
            known = total.get(instruction.text)
            total[instruction.text] = instruction.form, (known[1] if known else 0) + warps
            unread = read.isdisjoint((block.function, register) for register in instruction.writes)
            what = [CALLS.get(o.function or "") or CHOSEN.get(o.special) for o in instruction.operands]
            what.append(choice_of(instruction.form, instruction.text, unread=unread))
            chosen.setdefault(instruction.text, set()).update(filter(None, what) if warps else ())
    found = []
    for text, (form, count) in sorted(total.items()):
        rests = evidence(form, text, sm)
        choice = ", ".join(sorted(chosen[text]))
        found.append(Executed(text, form.syntax, rests.standing, rests.source, sm, count, choice))
    order = {standing: number for number, standing in enumerate(STRENGTH)}
    return tuple(sorted(found, key=lambda e: order.get(e.standing, len(order))))


CALLS = {"vprintf": "order of prints", "malloc": "addresses of the heap"}
"""Functions whose effects PTX leaves open."""
STRENGTH = (MODELLED, RECOVERED, RECORDED, EXACT)
"""The kinds of evidence for results, the weakest first."""


@frozen
class Badge:
    """What the bits of a launch rest on.

    ``standing`` is the weakest kind of evidence among the executed instructions, and ``counts`` says how many warp-instructions
    each kind covers. ``choices`` are results that PTX leaves open; ``models`` are the instructions that only a model covers.
    """

    standing: str
    counts: dict[str, int]
    choices: tuple[str, ...]
    models: tuple[str, ...]

    @classmethod
    def of(cls, found: Sequence[Executed]) -> Badge:
        """Sum up what a launch executed."""
        counts: dict[str, int] = {}
        for each in found:
            counts[each.standing] = counts.get(each.standing, 0) + each.count
        models = [f"{e.instruction}: {e.evidence}" for e in found if e.standing == MODELLED and e.count]
        choices = sorted({each for e in found if e.choice and e.count for each in e.choice.split(", ")})
        weakest = next((standing for standing in STRENGTH if counts.get(standing)), STATED)
        return cls(weakest, counts, tuple(choices), tuple(models))

    def __str__(self) -> str:
        total = sum(self.counts.values()) or 1
        shares = [f"{100 * n / total:.3g} % {name}" for name in MEANING if (n := self.counts.get(name))]
        return ", ".join(shares) + (f"; chosen: {', '.join(self.choices)}" if self.choices else "")

    def plain(self) -> dict[str, object]:
        """Plain data, for JSON."""
        return attrs.asdict(self)


def shown(e: Executed) -> str:
    """A line of a table."""
    chosen = f"; chosen: {e.choice}" if e.choice else ""
    return f"{e.standing:9} {e.count:>12,}  {e.instruction}: {e.evidence}{chosen}"


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

    @property
    def badge(self) -> Badge:
        """What all of it rests on."""
        return Badge.of(self._all)

    def __repr__(self) -> str:
        return "\n".join(map(shown, self._all))

    def __reduce__(self) -> tuple[type[Fidelity], tuple[dict[BoundBlock, int], int, tuple[Executed, ...]]]:
        return Fidelity, ({}, self._sm, self._all)
