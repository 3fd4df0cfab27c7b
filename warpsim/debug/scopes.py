"""The variables of C++ that a place of code sees: where they are, and the blocks that they belong to."""

from __future__ import annotations

import re
from typing import TypeAlias

from warpsim.program.c_types import CType
from warpsim.records import frozen

Range: TypeAlias = tuple[int, int]
"""Instructions of a function, by the number of the first, and of the one behind the last."""
TEMPORARY = re.compile(r"param\d+|retval\d+|__local_depot\d+")
"""Variables of PTX in which a compiler keeps those of C++: arguments and results of calls, and the stack."""


@frozen(eq=False)
class Place:
    """Where a variable is while instructions from ``start`` up to ``stop`` come next: at an offset from a variable of PTX, or in
    a register."""

    of: str
    offset: int = 0
    register: bool = False
    start: int = 0
    stop: int = 1 << 62


@frozen(eq=False)
class Symbol:
    """A variable of C++. ``known`` says where its type comes from: ``PTX``, or the accesses of a module; it is empty for debug
    information."""

    name: str
    type: CType
    places: tuple[Place, ...]
    parameter: bool = False
    known: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether it is a name of PTX that means what it means there."""
        return self.known == "PTX" and self.name == self.places[0].of

    def place(self, at: int) -> Place | None:
        """Where it is when the instruction ``at`` comes next."""
        return next((place for place in self.places if place.start <= at < place.stop), None)


@frozen(eq=False)
class Scope:
    """The variables of a block, the blocks in it, and its instructions. ``function`` is the name of one whose body this is;
    where that was inlined, ``call`` is the line of the call."""

    symbols: tuple[Symbol, ...]
    scopes: tuple[Scope, ...] = ()
    ranges: tuple[Range, ...] = ()
    function: str = ""
    call: tuple[str, int] | None = None

    def holds(self, at: int) -> bool:
        """Whether an instruction is in it."""
        return any(start <= at < stop for start, stop in self.ranges)
