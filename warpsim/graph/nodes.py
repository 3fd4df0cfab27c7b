"""Graphs: typed operations on lanes, whose constants are folded where nodes are made; what a form reads, gives, and accesses in memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpsim.numerics.arrays import Array, DType
from warpsim.records import frozen
from warpsim.types import ScalarType

LANES = 32
CONSTANT = frozenset({"const", "lanes"})
"""Operations whose value is known: the same in all lanes, or one for each lane of a warp."""

PRIMITIVES = frozenset({"fma", "byteswap", "table", "gather", "lane", "reduce"})
"""Operations that are no ufunc of NumPy's."""

ZERO_NEUTRAL = frozenset({"add", "subtract", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"})
CARRYING = frozenset({"add", "subtract", "multiply"})
"""Of integers: no byte of the result depends on those above it."""
COMMUTING = frozenset({"add", "multiply", "bitwise_and", "bitwise_or", "bitwise_xor"})


class Untraceable(Exception):
    """A body does something that has no place in a graph."""


@frozen(eq=False)
class Node:
    """One operation on lanes. ``op`` is the name of a ufunc, or

    ==========  =================================================================================================
    input       ``value`` is its number
    const       ``value``, an array without axes; of ``lanes`` one of 32 elements
    cast, bits  the argument converted, or its bits, as another type
    where       the second argument where the first holds, else the third
    fma         the product of two plus a third, rounded once in the mode ``value``, as ``divide`` is if it has one
    byteswap    the argument's bytes in reverse order
    table       the elements of the array ``value`` that the argument names
    gather      the first argument of the lanes that the second names; of ``lane``, of the lane ``value``
    reduce      one value of all lanes by the ufunc ``value``
    load        what an access of memory gives: ``value`` is its number and the element's; ``atomic`` likewise
    ==========  =================================================================================================
    """

    op: str
    args: tuple[Node, ...]
    dtype: DType
    value: Any = None

    @property
    def known(self) -> bool:
        """Whether it is a constant."""
        return self.op in CONSTANT


def constant(value: ArrayLike, dtype: DType) -> Node:
    """The same value in every lane."""
    return Node("const", (), dtype, np.asarray(value, dtype).reshape(()))


def of_array(array: Array) -> Node:
    """A constant, or one for each lane of a warp.

    Raises:
        Untraceable: of any other shape.
    """
    if array.dtype == object or array.dtype.names:
        raise Untraceable(f"a constant of {array.dtype}")
    if array.size == 1 or (array.size and bool((array == array.flat[0]).all())):
        return constant(array.flat[0], array.dtype)
    if array.size == LANES and array.shape[:2] in ((1, LANES), (LANES,)):
        return Node("lanes", (), array.dtype, array.reshape(-1).copy())
    raise Untraceable(f"a constant array of shape {array.shape}")


def cast(node: Node, dtype: DType) -> Node:
    """A value converted as ``astype`` does."""
    if node.dtype == dtype:
        return node
    if node.known:
        with np.errstate(all="ignore"):
            return Node(node.op, (), dtype, node.value.astype(dtype))
    return Node("cast", (node,), dtype)


def bits(node: Node, dtype: DType) -> Node:
    """The same bits as another type of that width."""
    if node.dtype == dtype:
        return node
    if node.dtype.itemsize != dtype.itemsize or node.dtype.names or dtype.names:
        raise Untraceable(f"a view of {node.dtype} as {dtype}")
    if node.known:
        return Node(node.op, (), dtype, node.value.view(dtype))
    if node.op == "bits":
        return bits(node.args[0], dtype)
    return Node("bits", (node,), dtype)


def where(condition: Node, yes: Node, no: Node) -> Node:
    """A choice lane by lane."""
    if condition.op == "const":
        return yes if bool(condition.value) else no
    if condition.known and yes.known and no.known:
        return of_array(np.where(condition.value, yes.value, no.value))
    return yes if yes is no else Node("where", (condition, yes, no), yes.dtype)


def operate(ufunc: np.ufunc, nodes: Sequence[Node], dtype: DType) -> Node:
    """A ufunc on values of the types that it takes."""
    if all(n.known for n in nodes):
        with np.errstate(all="ignore"):
            folded = np.asarray(ufunc(*[n.value.reshape(-1) for n in nodes]))
        return of_array(folded.astype(dtype, copy=False))
    if len(nodes) == 2 and dtype.kind in "iub":
        for node, other in (nodes, nodes[::-1]) if ufunc.__name__ in COMMUTING else (nodes,):
            if other.op == "const" and _is_neutral(ufunc.__name__, other):
                return node
    return Node(ufunc.__name__, tuple(nodes), dtype)


def _is_neutral(name: str, constant: Node) -> bool:
    """Whether an operation with this second operand leaves the first as it is."""
    if name == "bitwise_and":
        return bool(~constant.value == 0)
    return bool(constant.value == 0) if name in ZERO_NEUTRAL else name == "multiply" and bool(constant.value == 1)


UPDATES = {
    "add": "add", "minimum": "min", "maximum": "max", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
}  # fmt: skip
"""Of integers, the updates whose order does not matter, by their operations."""


@frozen
class Input:
    """What a form reads: a register (an element of one, if the name has a number), or the ``address`` of an operand; ``source`` is
    the place of the operand among the sources."""

    name: str
    dtype: DType
    source: int
    address: bool = False


@frozen
class Place:
    """Where an access goes: an input that is an address, and what is added to it."""

    input: int
    offset: int = 0


@frozen(eq=False)
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
        return UPDATES.get(update.op, "")


@frozen(eq=False, slots=False)
class Graph:
    """A form with modifiers and types of operands; ``outputs`` are the elements of each destination, none where the form
    gives nothing."""

    inputs: tuple[Input, ...]
    outputs: tuple[tuple[Node, ...], ...]
    accesses: tuple[MemoryAccess, ...] = ()

    @property
    def updates_a_vector(self) -> bool:
        """Whether it is several atomics, whose address must be a multiple of the size of all of them together."""
        return sum(access.kind == "atomic" for access in self.accesses) > 1

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
