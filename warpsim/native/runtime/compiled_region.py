"""Machine code of a region, with what a caller has to know of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import attrs
import numpy as np

from warpsim.native.runtime.counting import Counter
from warpsim.native.runtime.trail import Piece
from warpsim.numerics.arrays import Array, DType
from warpsim.records import define

if TYPE_CHECKING:
    from warpsim.machine.plan import BoundBlock
    from warpsim.native.regions.options import Variant
    from warpsim.native.regions.region import Region
    from warpsim.native.runtime.inputs import InputKind


class Access(NamedTuple):
    """An access of memory whose extent the code records: "load", "store" or "atomic", the space, how an atomic commutes, the name of
    its type, and whether it is a load of what nobody may store."""

    kind: str
    space: str
    commutes: str
    type: str
    constant: bool = False


@define(eq=False)
class CompiledRegion:
    """A region compiled for one signature."""

    region: Region
    given: tuple[InputKind, ...]
    variant: Variant
    function: Callable[[int], int]
    """``int f(void *context)``."""
    tables: list[Array]
    """Arrays that the code looks up."""
    left: list[tuple[int, bool]]
    """The live-out registers that it leaves: number, and whether it varies."""
    accesses: list[Access]
    once: list[bool]
    """Whether no warp goes to an access more than once."""
    outer: list[int]
    """The accesses whose extents the caller compares among CTAs, or among warps."""
    frame_bytes: int
    spaces: frozenset[str]
    """The spaces that it accesses."""
    products: bool
    """Whether it multiplies matrices."""
    counters: list[Counter]
    """Where it counts what a profile has, and of how many words."""
    counter_words: int
    pieces: list[Piece]
    """What warps that are shown from near leave."""

    outs: list[tuple[int, int, bool, DType]] = attrs.field(init=False)
    """Live-out registers: number, register, whether it varies, type."""
    stacks: dict[DType, list[int]] = attrs.field(init=False)
    """The places in ``outs`` of those that vary, by type."""
    blocks: list[tuple[int, BoundBlock]] = attrs.field(init=False)
    hows: list[str] = attrs.field(init=False)
    outs_at: int = attrs.field(init=False)
    """A call's words are descriptors of inputs, of live-outs, then block counts: where the latter two begin, and the
    total."""
    counts_at: int = attrs.field(init=False)
    n_words: int = attrs.field(init=False)
    addresses: Array = attrs.field(init=False)
    """The addresses of ``tables``."""
    tables_at: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        plan, region = self.region.plan, self.region
        registers = plan.function.registers
        self.outs = [
            (number, region.outs[number], varying, registers[region.outs[number]].type.dtype)
            for number, varying in self.left
        ]
        self.stacks = {}
        for place, (_, _, varying, dtype) in enumerate(self.outs):
            if varying:
                self.stacks.setdefault(dtype, []).append(place)
        self.blocks = [(number, plan.blocks[number]) for number in sorted(region.slices)]
        self.hows = [kind.how for kind in self.given]
        self.outs_at = 6 * len(self.given)
        self.counts_at = self.outs_at + 6 * len(region.outs)
        self.n_words = self.counts_at + 3 * len(self.blocks) + 1
        self.addresses = np.array([t.ctypes.data for t in self.tables] or [0], np.int64)
        self.tables_at = self.addresses.ctypes.data
