"""``check --strict``: runs every pass over every function of a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from warpsim.analysis.accesses import check_places, check_races
from warpsim.analysis.async_order import check_async, check_mbarriers
from warpsim.analysis.collectives import check_collectives
from warpsim.analysis.divergence import check_divergence
from warpsim.analysis.facts import Facts
from warpsim.analysis.undefined import check_undefined
from warpsim.analysis.wgmma_order import check_wgmma
from warpsim.analysis.wmma_fragments import check_fragments
from warpsim.errors import Finding
from warpsim.program.program import Program

Pass = Callable[[Facts], Iterator[Finding]]
PASSES: tuple[Pass, ...] = (
    check_divergence, check_collectives, check_wgmma, check_async, check_mbarriers, check_races, check_places, check_undefined, check_fragments,
)  # fmt: skip


def check_program(program: Program, stop: Callable[[], bool] = lambda: False) -> tuple[Finding, ...]:
    """Find what is provably wrong without running, in code order; one finding per place and rule, with a count. ``stop`` is asked
    between passes whether the answer is still wanted."""
    found: dict[tuple[str, int, int], Finding] = {}
    for function in program.functions.values():
        if not function.code:
            continue
        facts = Facts(program, function)
        for check in PASSES:
            if stop():
                return ()
            for finding in check(facts):
                key = finding.rule, finding.line, finding.column
                known = found.get(key)
                found[key] = finding if known is None else attrs.evolve(known, count=known.count + 1)
    return tuple(sorted(found.values(), key=lambda f: (f.line, f.column, f.rule)))
