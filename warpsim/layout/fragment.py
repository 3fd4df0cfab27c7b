"""Who holds which element of a matrix: one description, from which gather, scatter, pictures and tables come."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from warpsim.layout.algebra import Layout, Tree, product

Array = NDArray[Any]


@attrs.frozen(eq=False)
class Fragment:
    """Who holds which element of a ``rows x columns`` matrix.

    ``layout(thread, value)`` is ``row + rows * column``; values count the elements of a thread, those of one register
    first. ``bits`` is the width that an element takes in its register (64: a register of its own). Where not every lane
    holds elements, ``lanes`` gives the lane of each thread of the layout, from lane ``first`` on.

    ``threads`` hold elements, ``values`` each (repeated ones counted, of which ``distinct`` come first), in ``registers``
    of ``per_register`` elements."""

    rows: int
    columns: int
    bits: int
    layout: Layout
    lanes: Layout | None = None
    first: int = 0

    threads: int = attrs.field(init=False)
    values: int = attrs.field(init=False)
    distinct: int = attrs.field(init=False)
    per_register: int = attrs.field(init=False)
    registers: int = attrs.field(init=False)

    @threads.default
    def _threads(self) -> int:
        return self.layout[0].size

    @values.default
    def _values(self) -> int:
        return self.layout[1].size

    @distinct.default
    def _distinct(self) -> int:
        return product(tuple(size for size, stride in self.layout[1].modes if stride))

    @per_register.default
    def _per_register(self) -> int:
        return max(32 // self.bits, 1)

    @registers.default
    def _registers(self) -> int:
        return -(-self.values // self.per_register)

    def lane(self, thread: Any) -> Any:
        """The lane of a thread of the layout."""
        return thread if self.lanes is None else self.first + self.lanes(thread)

    def place(self, thread: Any, value: Any) -> tuple[Any, Any]:
        """Row and column of a value of a thread; arrays broadcast."""
        at = self.layout(thread, value)
        return at % self.rows, at // self.rows

    def table(self) -> tuple[Array, Array]:
        """Row and column of every value of every thread, ``[threads, values]``."""
        return self.place(np.arange(self.threads)[:, None], np.arange(self.values))


def fragment(rows: int, columns: int, bits: int, threads: Layout, values: Layout) -> Fragment:
    """A fragment from the places of its threads and of its values."""
    return Fragment(rows, columns, bits, Layout((threads.shape, values.shape), (threads.stride, values.stride)))


def layout_of(*modes: tuple[int, int]) -> Layout:
    """A layout of (size, stride) pairs, the fastest first."""
    shape: Tree = tuple(size for size, _ in modes)
    return Layout(shape, tuple(stride for _, stride in modes))
