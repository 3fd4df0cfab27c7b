"""Graphs of integers and predicates as Python source: what a form does to numbers that all lanes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from warpsim.graph.evaluate import Walk
from warpsim.graph.nodes import Node, Untraceable
from warpsim.numerics.arrays import DType

Number: TypeAlias = "tuple[str, DType | None]"
"""A name or literal, and a type in whose range the integer is; None if it is only congruent to the value."""
BOOL, BYTE = np.dtype(np.bool_), np.dtype(np.uint8)

_MODULO = {
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "negative": "-{0}", "invert": "~{0}",
    "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}", "bitwise_xor": "{0} ^ {1}",
}  # fmt: skip
"""Operations on integers whose results depend on nothing but the operands modulo a power of two."""
_EXACT = {
    "less": "{0} < {1}", "less_equal": "{0} <= {1}", "greater": "{0} > {1}", "greater_equal": "{0} >= {1}",
    "equal": "{0} == {1}", "not_equal": "{0} != {1}", "where": "{1} if {0} else {2}", "logical_not": "not {0}",
    "minimum": "{0} if {0} < {1} else {1}", "maximum": "{0} if {0} > {1} else {1}", "bitwise_count": "abs({0}).bit_count()",
}  # fmt: skip
"""Operations on integers and predicates that stay in the range of their types."""
_DIVISIONS = {
    "floor_divide": "{0} // {1}", "remainder": "{0} % {1}",
    "fmod": "(abs({0}) % abs({1}) if {0} >= 0 else -(abs({0}) % abs({1})))",
}  # fmt: skip
_BITWISE = {"bitwise_and", "bitwise_or", "bitwise_xor"}


class Source(Walk[Number]):
    """Adds statements to ``lines`` that compute nodes from ``inputs``; ``exacts`` are names of numbers in the range of a type.

    Raises:
        Untraceable: of anything but arithmetic on integers and predicates.
    """

    def __init__(self, lines: list[str], inputs: Sequence[Number], exacts: dict[tuple[str, DType], str]) -> None:
        super().__init__()
        self.lines, self.inputs, self.exacts = lines, inputs, exacts

    def operation(self, node: Node, arguments: list[Number]) -> Number:
        """The number of a node."""
        if any(n.dtype.kind not in "iub" for n in (node, *node.args)):
            raise Untraceable(f"{node.op} of {node.dtype} as a number")
        if node.op == "const":
            return f"({int(node.value)})", node.dtype
        if node.op == "input":
            return self.inputs[node.value]
        if node.op in ("cast", "bits"):
            return self._converted(arguments[0], node.args[0].dtype, node.dtype)
        if node.op in _EXACT or (node.op in _BITWISE and node.dtype == BOOL):
            exact = [self.exact(a, n.dtype) for a, n in zip(arguments, node.args, strict=True)]
            return self._named((_EXACT.get(node.op) or _MODULO[node.op]).format(*exact)), node.dtype
        if node.dtype == BOOL or node.value is not None:
            raise Untraceable(f"{node.op} as a number")
        if node.op in _MODULO:
            return self._named(_MODULO[node.op].format(*[text for text, _ in arguments])), _range(node, arguments)
        return self._beyond(node, arguments)

    def exact(self, number: Number, dtype: DType) -> str:
        """A name or literal of the value in the range of a type."""
        text, own = number
        if own is not None and np.can_cast(own, dtype):
            return text
        found = self.exacts.get((text, dtype))
        if found is None:
            mask = (1 << 8 * dtype.itemsize) - 1
            half = 0 if dtype.kind == "u" else mask // 2 + 1
            found = self._named(f"({text} + {half} & {mask}) - {half}" if half else f"{text} & {mask}")
            self.exacts[text, dtype] = found
        return found

    def _named(self, text: str) -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def _converted(self, number: Number, source: DType, target: DType) -> Number:
        if target == BOOL:
            return number if source == BOOL else (self._named(f"{self.exact(number, source)} != 0"), BOOL)
        if source == BOOL:
            return self._named(f"+{number[0]}"), BYTE
        return number if target.itemsize <= source.itemsize else (self.exact(number, source), source)

    def _beyond(self, node: Node, arguments: list[Number]) -> Number:
        a, *rest = (self.exact(each, n.dtype) for each, n in zip(arguments, node.args, strict=True))
        if node.op == "absolute":
            return self._named(f"abs({a})"), None
        if node.op in _DIVISIONS:  # NumPy gives 0 where it divides by 0
            return self._named(f"{_DIVISIONS[node.op].format(a, *rest)} if {rest[0]} else 0"), None
        if node.op not in ("left_shift", "right_shift"):
            raise Untraceable(f"{node.op} as a number")
        left, (by,), width = node.op == "left_shift", rest, 8 * node.dtype.itemsize
        text = f"{a} << {by}" if left else f"{a} >> {by}"
        if not 0 <= _literal(by) < width:
            text = f"{text} if 0 <= {by} < {width} else {'0' if left else f'-({a} < 0)'}"
        return self._named(text), None if left else node.dtype


def _literal(text: str) -> int:
    """The number that a text is; -1 for a name."""
    return int(text[1:-1]) if text[0] == "(" else -1


def _range(node: Node, arguments: list[Number]) -> DType | None:
    """The type of a result, if it is in its range."""
    fitting = [text for text, own in arguments if own is not None and np.can_cast(own, node.dtype)]
    masked = node.op == "bitwise_and" and any(_literal(text) >= 0 for text in fitting)
    return node.dtype if masked or (node.op in _BITWISE and len(fitting) == len(arguments)) else None
