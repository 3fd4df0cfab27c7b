"""The graph of a form: what it reads, what it gives, and its accesses of memory in order."""

from __future__ import annotations

import functools
from typing import Any

import attrs
import numpy as np

from warpsim.graph.nodes import Node
from warpsim.types import ScalarType

COMMUTING = {
    "add": "add", "minimum": "min", "maximum": "max", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
}  # fmt: skip
"""Of integers, the updates whose order does not matter, by their operations."""


@attrs.frozen
class Input:
    """What a form reads: a register (an element of one, if the name has a number), or the ``address`` of an operand; ``source`` is
    the place of the operand among the sources."""

    name: str
    dtype: np.dtype[Any]
    source: int
    address: bool = False


@attrs.frozen
class Place:
    """Where an access goes: an input that is an address, and what is added to it."""

    input: int
    offset: int = 0


@attrs.frozen(eq=False)
class MemoryAccess:
    """An access of memory: ``values`` are what is stored, or the operands of an atomic's ``update``, a graph of which input
    0 is what memory holds. ``space`` is as written."""

    kind: str
    space: str
    place: Place
    type: ScalarType
    count: int
    values: tuple[Node, ...] = ()
    update: Node | None = None

    @property
    def commutes(self) -> str:
        """The name of an update that leaves the same in memory in whatever order lanes do it."""
        update = self.update
        if update is None or update.dtype.kind not in "iu" or [n.op for n in update.args] != ["input", "input"]:
            return ""
        return COMMUTING.get(update.op, "")


@attrs.frozen(eq=False, slots=False)
class Graph:
    """A form with modifiers and types of operands; ``outputs`` are the elements of each destination, none where the form
    gives nothing."""

    inputs: tuple[Input, ...]
    outputs: tuple[tuple[Node, ...], ...]
    accesses: tuple[MemoryAccess, ...] = ()

    @functools.cached_property
    def size(self) -> int:
        """The number of operations that give the results."""
        found, work = set[Node](), [node for nodes in self.outputs for node in nodes]
        while work:
            node = work.pop()
            if node not in found:
                found.add(node)
                work += node.args
        return len(found)
