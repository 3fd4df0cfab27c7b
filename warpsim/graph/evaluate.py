"""Walks graphs over the values of a domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from warpsim.graph.nodes import PRIMITIVES, Node, bits, cast, operate, where

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
