"""Walks graphs over the values of a domain: other nodes, arrays, and what others make of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from warpsim.graph.nodes import LANES, PRIMITIVES, Node, bits, cast, operate, where
from warpsim.numerics import floating
from warpsim.numerics.arrays import Array

WARP = (1, LANES, 1)

Value = TypeVar("Value")


class Walk(Generic[Value]):
    """Evaluates nodes, each once. A domain says what an operation makes of the values of its arguments."""

    def __init__(self) -> None:
        self._done: dict[Node, Value] = {}

    def __call__(self, node: Node) -> Value:
        """A node's value."""
        found = self._done.get(node)
        if found is None:
            found = self._done[node] = self.operation(node, [self(a) for a in node.args])
        return found

    def operation(self, node: Node, arguments: list[Value]) -> Value:
        """The value of one operation."""
        raise NotImplementedError


class Substitution(Walk[Node]):
    """The same graph over other inputs; what becomes constant is folded."""

    def __init__(self, inputs: Sequence[Node]) -> None:
        super().__init__()
        self.inputs = inputs

    def operation(self, node: Node, arguments: list[Node]) -> Node:
        """A node like the one of the graph."""
        if node.op == "input":
            return self.inputs[node.value]
        if not arguments:
            return node
        if node.op == "cast":
            return cast(arguments[0], node.dtype)
        if node.op == "bits":
            return bits(arguments[0], node.dtype)
        if node.op == "where":
            return where(arguments[0], arguments[1], arguments[2])
        if node.op in PRIMITIVES or node.value is not None:
            return Node(node.op, tuple(arguments), node.dtype, node.value)
        return operate(getattr(np, node.op), arguments, node.dtype)


class Arrays(Walk[Array]):
    """The values of nodes, for inputs that broadcast; those of operations across lanes are ``[1, 32, 1]``."""

    def __init__(self, inputs: Sequence[Array]) -> None:
        super().__init__()
        self.inputs = inputs

    def operation(self, node: Node, arguments: list[Array]) -> Array:
        """What NumPy gives."""
        return self.inputs[node.value] if node.op == "input" else computed(node, arguments)


def computed(node: Node, arguments: Sequence[Array]) -> Array:
    """The value of an operation on arrays."""
    made = _BEYOND_UFUNCS.get("directed" if node.op == "divide" and node.value is not None else node.op)
    return getattr(np, node.op)(*arguments) if made is None else made(node, *arguments)


def _reduced(node: Node, a: Array) -> Array:
    name = {"or": "bitwise_or", "and": "bitwise_and", "xor": "bitwise_xor"}.get(node.value, node.value)
    return getattr(np, name).reduce(np.broadcast_to(a, WARP), axis=1, keepdims=True, dtype=node.dtype)


_BEYOND_UFUNCS: dict[str, Callable[..., Array]] = {
    "const": lambda node: node.value.reshape(1),
    "lanes": lambda node: node.value.reshape(WARP),
    "cast": lambda node, a: a.astype(node.dtype),
    "bits": lambda node, a: a.view(node.dtype),
    "where": lambda node, *choice: np.where(*choice),
    "fma": lambda node, a, b, c: floating.fma(a, b, c, node.value),
    "directed": lambda node, a, b: floating.directed_quotient(a, b, node.value),
    "byteswap": lambda node, a: a.byteswap(),
    "table": lambda node, index: node.value[index],
    "gather": lambda node, a, lane: np.take_along_axis(np.broadcast_to(a, WARP), np.broadcast_to(lane, WARP), axis=1),
    "lane": lambda node, a: a[:, node.value : node.value + 1],
    "reduce": _reduced,
}
