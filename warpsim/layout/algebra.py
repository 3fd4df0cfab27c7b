"""Layouts in CuTe's notation ``shape:stride``: functions from coordinates to integers.

A layout of shape ``(4,8)`` and stride ``(32,1)`` maps the coordinate ``(i, j)`` to ``32 i + j``, and an index ``x`` to
the value at its coordinate, where the first mode runs fastest. Shapes may be nested; a stride of 0 repeats a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from warpsim.records import frozen

SHOWN = 4096
"""Largest layout that a notebook shows as a table, in coordinates."""
Tree: TypeAlias = "int | tuple[Tree, ...]"


def leaves(tree: Tree) -> Iterator[int]:
    """The integers of a nested tuple, left to right."""
    if isinstance(tree, int):
        yield tree
    else:
        for part in tree:
            yield from leaves(part)


def product(tree: Tree) -> int:
    """The number of coordinates of a shape."""
    total = 1
    for leaf in leaves(tree):
        total *= leaf
    return total


@frozen(repr=False)
class Layout:
    """A layout ``shape:stride``; both are integers, or tuples nested alike.

    Call it with an index, an array of indices, or one index (or array) per top-level mode.
    """

    shape: Tree
    stride: Tree

    def __attrs_post_init__(self) -> None:
        if not _alike(self.shape, self.stride):
            raise ValueError(f"shape {self.shape} and stride {self.stride} are not nested alike")

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Parse a layout such as ``((4,8),2):((32,1),16)``."""
        shape, _, stride = text.replace(" ", "").replace("_", "").partition(":")
        return cls(_tree(shape), _tree(stride))

    def __repr__(self) -> str:
        return f"{self.shape}:{self.stride}".replace(" ", "").replace(",)", ")")

    def _repr_html_(self) -> str:
        from warpsim.layout.drawing import HUES, Cell, Drawing, part

        rows, columns = (self[0].size, self.size // self[0].size) if isinstance(self.shape, tuple) else (1, self.size)
        if self.size > SHOWN:
            return f"<code>{self!r}</code>"
        every = [Cell(str(self(at)), "", at // max(self.size // HUES, 1) % HUES) for at in range(rows * columns)]
        cells = tuple(tuple(every[row::rows]) for row in range(rows))
        heads, labels = tuple(map(str, range(columns))), tuple(map(str, range(rows)))
        return part(Drawing(repr(self), (), "", heads, labels, cells, 40))

    @property
    def modes(self) -> tuple[tuple[int, int], ...]:
        """(size, stride) of every innermost mode, the fastest first, without modes of size 1."""
        return tuple((s, d) for s, d in zip(leaves(self.shape), leaves(self.stride), strict=True) if s != 1)

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return product(self.shape)

    def __getitem__(self, mode: int) -> Layout:
        if isinstance(self.shape, int) or isinstance(self.stride, int):
            raise IndexError(f"{self!r} has no modes")
        return Layout(self.shape[mode], self.stride[mode])

    def __call__(self, *index: object) -> Any:
        """The value at an index, or at one index per mode; arrays broadcast."""
        if len(index) > 1:
            return sum(self[number](i) for number, i in enumerate(index))
        rest = np.asarray(index[0])
        total = np.zeros_like(rest)
        for size, stride in self.modes:
            total = total + rest % size * stride
            rest = rest // size
        return total if total.ndim else int(total)

    def right_inverse(self) -> Layout:
        """A layout ``r`` with ``self(r(x)) == x`` for every ``x`` below its size."""
        starts = np.cumprod([1, *(size for size, _ in self.modes)])
        found: list[tuple[int, int]] = []
        reach = 1
        for (size, stride), start in sorted(zip(self.modes, starts, strict=False), key=lambda pair: pair[0][1]):
            if stride != reach:
                if stride == 0:
                    continue
                break
            found.append((size, int(start)))
            reach *= size
        return _of(found)

    @property
    def is_bijection(self) -> bool:
        """Whether every value from 0 to size - 1 occurs exactly once."""
        return self.right_inverse().size == self.size

    @property
    def is_onto(self) -> bool:
        """Whether every value occurs equally often; modes of stride 0 do not count."""
        repeats = product(tuple(size for size, stride in self.modes if stride == 0))
        return self.right_inverse().size * repeats == self.size


def _of(modes: list[tuple[int, int]]) -> Layout:
    if not modes:
        return Layout(1, 0)
    if len(modes) == 1:
        return Layout(*modes[0])
    return Layout(tuple(s for s, _ in modes), tuple(d for _, d in modes))


def _alike(a: Tree, b: Tree) -> bool:
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int)
    return len(a) == len(b) and all(_alike(x, y) for x, y in zip(a, b, strict=True))


def _tree(text: str) -> Tree:
    if re.fullmatch(r"\d+", text):
        return int(text)
    if not (text.startswith("(") and text.endswith(")")):
        raise ValueError(f"not a shape or stride: {text!r}")
    parts, depth, start = [], 0, 1
    for at, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if (character == "," and depth == 1) or at == len(text) - 1:
            parts.append(_tree(text[start:at]))
            start = at + 1
    return tuple(parts)
