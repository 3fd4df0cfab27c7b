"""The data that a tracer records."""

from __future__ import annotations

from array import array

import attrs

from warpsim.errors import Finding
from warpsim.program.program import Instruction
from warpsim.report.profile import Profile
from warpsim.trace.flights import Flight


@attrs.frozen(eq=False)
class Recording:
    """A launch, step by step.

    Attributes:
        profile: what every line did, in all CTAs.
        warps: (x, y, z, warp) of each row.
        instructions: the executed instructions; ``steps`` has the number of one for each step.
        runs: (first step, one past the last, crew): steps that the same threads execute one after another.
        crews: (rows, lanes of each as bits, or None for all lanes of the warps).
        waits: (rows, first step, last step, what for).
        flights: asynchronous operations.
        shared_size, variables, block, marks: shared memory, and accesses to it: first step, last step, CTA, first
            block, last block, and 0 for reads, 1 for writes, 2 for tiles of wgmma.
        findings: (step, finding).
        full: whether the launch continued after the last step.
    """

    profile: Profile
    warps: list[tuple[int, int, int, int]]
    instructions: tuple[Instruction, ...]
    steps: array[int]
    runs: tuple[tuple[int, int, int], ...]
    crews: tuple[tuple[tuple[int, ...], tuple[int, ...] | None], ...]
    waits: tuple[tuple[tuple[int, ...], int, int, str], ...]
    flights: tuple[Flight, ...]
    shared_size: int
    variables: tuple[tuple[str, int, int], ...]
    block: int
    marks: tuple[tuple[int, ...], ...]
    findings: tuple[tuple[int, Finding], ...]
    full: bool
