"""Which lane holds which element of a matrix: one description, from which gather, scatter, pictures and tables are
derived.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from warpsim.layout.algebra import Layout, Tree, product

if TYPE_CHECKING:
    from warpsim.layout.drawing import Cell, Drawing

Array = NDArray[Any]
Holder = tuple[int, int, int]
"""Lane, register, and part of the register, counted from its low end."""


@attrs.frozen(eq=False)
class Fragment:
    """The distribution of a ``rows x columns`` matrix over lanes.

    ``layout(thread, value)`` is ``row + rows * column``; values number the elements of a thread, register by register.
    ``bits`` is the width of an element in its register (64: a register of its own). If only some lanes hold elements,
    ``lanes`` gives the lane of each thread of the layout, from lane ``first`` on.

    ``threads`` hold ``values`` elements each (counting repeated ones, of which ``distinct`` come first), in
    ``registers`` of ``per_register`` elements.
    """

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
        """Row and column of a thread's value; arrays broadcast."""
        at = self.layout(thread, value)
        return at % self.rows, at // self.rows

    def table(self) -> tuple[Array, Array]:
        """Row and column of every value of every thread, ``[threads, values]``."""
        return self.place(np.arange(self.threads)[:, None], np.arange(self.values))

    # ---- as a picture ------------------------------------------------------------------------

    def holders(self, first: int = 0, *, swapped: bool = False) -> list[list[list[Holder]]]:
        """All holders of each element, by row and column (by column and row if ``swapped``); registers count from
        ``first``.
        """
        rows, columns = self.table()
        shape = (self.columns, self.rows) if swapped else (self.rows, self.columns)
        grid: list[list[list[Holder]]] = [[[] for _ in range(shape[1])] for _ in range(shape[0])]
        per = self.per_register
        for thread, value in np.ndindex(rows.shape):
            row, column = int(rows[thread, value]), int(columns[thread, value])
            if swapped:
                row, column = column, row
            grid[row][column].append((int(self.lane(thread)), first + value // per, value % per))
        return grid

    def formula(self, axes: tuple[str, str] = ("row", "column")) -> str:
        """The layout in CuTe's notation, and what its values mean. ``axes`` are the fragment's own rows and columns."""
        per = self.per_register
        value = f"value = {per} * register + part" if per > 1 else "value = register"
        thread = "lane" if self.lanes is None else "thread"
        text = f"({thread}, value) -> {axes[0]} + {self.rows} * {axes[1]}: {self.layout!r}, {value}"
        if self.lanes is not None:
            text += f", lane = {self.lanes!r} of thread" + (f" + {self.first}" if self.first else "")
        return text

    def drawing(
        self,
        name: str = "r",
        title: str = "",
        axes: tuple[str, str] = ("row", "column"),
        first: int = 0,
        notes: tuple[str, ...] = (),
        *,
        swapped: bool = False,
    ) -> Drawing:
        """Draw a cell per element, coloured by lane, with lane, register and part. ``axes`` are those of the picture."""
        from warpsim.layout.drawing import Drawing

        grid = self.holders(first, swapped=swapped)
        cells = tuple(
            tuple(self._cell(name, f"{axes[0]} {r}, {axes[1]} {c}", cell) for c, cell in enumerate(line))
            for r, line in enumerate(grid)
        )
        own = axes[::-1] if swapped else axes
        heads, labels = tuple(map(str, range(len(grid[0])))), tuple(map(str, range(len(grid))))
        return Drawing(title or name, (self.formula(own), *notes), "\\".join(axes), heads, labels, cells)

    def _cell(self, name: str, place: str, held: list[Holder]) -> Cell:
        from warpsim.layout.drawing import Cell

        lane, register, part = held[0]
        tip = "; ".join(f"lane {a}, {name}{b}, part {p}" for a, b, p in held)
        second = f"{name}{register}" + (f".{part}" if self.per_register > 1 else "")
        return Cell(f"T{lane}", second, lane % 32, f"{place}: {tip}", f"T{lane}")

    def _repr_html_(self) -> str:
        from warpsim.layout.drawing import part

        return part(self.drawing(title=f"{self.rows} x {self.columns} elements of {self.bits} bits"))


def fragment(rows: int, columns: int, bits: int, threads: Layout, values: Layout) -> Fragment:
    """A fragment from the layouts of its threads and of its values."""
    return Fragment(rows, columns, bits, Layout((threads.shape, values.shape), (threads.stride, values.stride)))


def layout_of(*modes: tuple[int, int]) -> Layout:
    """A layout from (size, stride) pairs, the fastest first."""
    shape: Tree = tuple(size for size, _ in modes)
    return Layout(shape, tuple(stride for _, stride in modes))
