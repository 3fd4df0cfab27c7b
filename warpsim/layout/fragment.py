"""Which lane holds which element of a matrix: one description, from which gather, scatter, pictures and tables are
derived."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import attrs
import numpy as np
from numpy.typing import DTypeLike

from warpsim.layout.algebra import Layout, Tree, product
from warpsim.numerics.arrays import Array
from warpsim.records import frozen

if TYPE_CHECKING:
    from warpsim.layout.drawing import Cell, Drawing

Holder = tuple[int, int, int]
"""Lane, register, and part of the register, counted from its low end."""


@frozen(eq=False)
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

    def lane(self, thread: Array) -> Array:
        """The lane of a thread of the layout."""
        return thread if self.lanes is None else self.first + self.lanes(thread)

    def place(self, thread: Array | int, value: Array | int) -> tuple[Array, Array]:
        """Row and column of a thread's value; arrays broadcast."""
        at: Array = self.layout(thread, value)
        return at % self.rows, at // self.rows

    def table(self) -> tuple[Array, Array]:
        """Row and column of every value of every thread, ``[threads, values]``."""
        return self.place(np.arange(self.threads)[:, None], np.arange(self.values))

    # ---- as a picture ------------------------------------------------------------------------

    def holders(self, first: int = 0, *, swapped: bool = False) -> list[list[list[Holder]]]:
        """All holders of each element, by row and column (by column and row if ``swapped``); registers count from
        ``first``."""
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


@frozen
class _Plan:
    """The matrix as axes. ``shape`` reshapes ``[rows, columns]`` (or the transpose); ``view`` orders the axes of the
    values (slowest first), then those of the threads; ``first`` picks one of the threads that hold the same element;
    ``where`` is the place of each value among the value axes."""

    shape: tuple[int, ...]
    view: tuple[int, ...]
    threads: tuple[int, ...]
    first: tuple[slice | int, ...] | None
    where: tuple[tuple[int, ...], ...]
    final: tuple[int, int]


@functools.lru_cache(maxsize=512)
def _plan(fragment: Fragment, *, row_major: bool) -> _Plan:
    """The axes for the matrix ``[rows, columns]`` (``row_major``) or ``[columns, rows]``.

    Raises:
        ValueError: the fragment's layout does not contain every element.
    """
    if not fragment.layout.is_onto:
        raise ValueError(f"{fragment.layout!r} does not hold every element once")
    rows, columns = fragment.rows, fragment.columns

    def step(stride: int) -> int:
        if not row_major:
            return stride
        return stride * columns if stride < rows else stride // rows

    threads, values = (fragment.layout[i].modes for i in (0, 1))
    modes = [(size, step(stride)) for size, stride in (*values[::-1], *threads[::-1])]
    moving = sorted((i for i, (_, stride) in enumerate(modes) if stride), key=lambda i: -modes[i][1])
    axis = {mode: place for place, mode in enumerate(moving)}
    value_axes = [i for i in range(len(values)) if i in axis]
    thread_axes = [i for i in range(len(values), len(modes)) if i in axis]
    first = tuple(slice(None) if i in axis else 0 for i in range(len(values), len(modes)))
    sizes = [size for size, _ in values]
    where = []
    for value in range(fragment.values):
        place, rest = [], value
        for size in sizes:
            place.append(rest % size)
            rest //= size
        where.append(tuple(place[::-1][i] for i in value_axes))
    return _Plan(
        tuple(modes[i][0] for i in moving),
        tuple(axis[i] for i in (*value_axes, *thread_axes)),
        tuple(size for size, _ in threads[::-1]),
        None if len(thread_axes) == len(threads) else first,
        tuple(where),
        (rows, columns) if row_major else (columns, rows),
    )


def _kept(index: slice | int) -> bool:
    return isinstance(index, slice)


def extent(registers: tuple[Array, ...]) -> tuple[int, int]:
    """Common ``n`` and ``m`` of registers that may be broadcast."""
    return max(r.shape[0] for r in registers), max(r.shape[2] for r in registers)


def gather(
    fragment: Fragment,
    registers: tuple[Array, ...],
    n: int,
    m: int,
    dtype: DTypeLike | None = None,
    *,
    row_major: bool = False,
    batch_first: bool = False,
) -> Array:
    """Gather registers into the matrix ``[columns, rows, W]`` (``row_major``: ``[rows, columns, W]``).

    Args:
        fragment: where the elements are; a repeated element is read from its first place.
        registers: arrays ``[n, threads, m]``, where ``n`` and ``m`` may be 1.
        n: warps.
        m: CTAs side by side.
        dtype: type to view elements as, of the same width; unsigned by default. Elements narrower than a byte become
            uint8, unchanged.
        row_major: the order of the axes.
        batch_first: make ``W`` the first axis instead of the last.
    """
    plan = _plan(fragment, row_major=row_major)
    bits, per = fragment.bits, fragment.per_register
    element = registers[0].dtype if bits >= 32 else np.dtype(f"u{max(bits // 8, 1)}")
    axes = len(plan.shape)
    if batch_first:
        out = np.empty((n * m, *plan.shape), element)
        view = out.transpose(*(axis + 1 for axis in plan.view), 0)
    else:
        out = np.empty((*plan.shape, n * m), element)
        view = out.transpose(*plan.view, axes)
    mask = np.uint32((1 << bits) - 1) if bits < 8 else None
    whole, split = (n, fragment.threads, m), (*plan.threads, n * m)
    for number, register in enumerate(registers):
        places = plan.where[number * per : (number + 1) * per]
        if not places:
            break
        wide = register if per == 1 else register.view(np.uint32)
        if fragment.lanes is not None and wide.shape[1] > 1:
            wide = wide[:, fragment.lane(np.arange(fragment.threads))]
        if wide.shape != whole:
            wide = np.broadcast_to(wide, whole)
        lanes = wide.transpose(1, 0, 2).reshape(split)
        if plan.first is not None:
            lanes = lanes[plan.first]
        for h, place in enumerate(places):
            part = lanes if per == 1 else lanes >> np.uint32(h * bits)
            view[place] = part if mask is None else part & mask
    matrix = out.reshape(n * m, *plan.final) if batch_first else out.reshape(*plan.final, n * m)
    return matrix if dtype is None else matrix.view(dtype)


def scatter(fragment: Fragment, matrix: Array, n: int, m: int, *, row_major: bool = False) -> tuple[Array, ...]:
    """Scatter a matrix ``[columns, rows, W]`` (``row_major``: ``[rows, columns, W]``) to registers ``[n, threads, m]``.

    An element held by several threads goes to each of them.
    """
    plan = _plan(fragment, row_major=row_major)
    view = matrix.reshape(*plan.shape, n * m).transpose(*plan.view, len(plan.shape))
    per, bits = fragment.per_register, fragment.bits
    threads = fragment.threads
    split = (*plan.threads, n * m)
    parts = []
    for place in plan.where:
        part = view[place]
        if plan.first is not None:
            part = np.broadcast_to(part[tuple(slice(None) if f else None for f in map(_kept, plan.first))], split)
        parts.append(part.reshape(threads, n, m).transpose(1, 0, 2))
    if per == 1:
        return tuple(parts)
    plain = np.dtype(f"u{matrix.dtype.itemsize}")
    words = []
    for start in range(0, len(parts), per):
        word = np.ascontiguousarray(parts[start]).view(plain).astype(np.uint32)
        for h, part in enumerate(parts[start + 1 : start + per], 1):
            word |= np.ascontiguousarray(part).view(plain).astype(np.uint32) << np.uint32(h * bits)
        words.append(word)
    return tuple(words)


# ---- a batch of matrices ------------------------------------------------------------------------


def registers_of(fragment: Fragment, matrices: Array) -> Array:
    """Scatter matrices ``[batch, rows, columns]`` of unsigned bits to registers ``[batch, threads, registers]``.

    Threads are the lanes of a warp (of a warpgroup if the fragment has 128); lanes without elements get zeros.
    """
    values = np.concatenate(scatter(fragment, matrices.transpose(1, 2, 0), len(matrices), 1, row_major=True), axis=2)
    if fragment.lanes is None:
        return values
    lanes = fragment.lane(np.arange(fragment.threads))
    out = np.zeros((len(values), -(-int(lanes.max() + 1) // 32) * 32, values.shape[2]), values.dtype)
    out[:, lanes] = values
    return out


def matrix_of(fragment: Fragment, registers: Array) -> Array:
    """Gather registers ``[batch, threads, registers]`` into matrices of unsigned bits: the inverse of `registers_of`."""
    held = tuple(np.moveaxis(registers, 2, 0)[..., None])
    return gather(fragment, held, len(registers), 1, row_major=True, batch_first=True)
