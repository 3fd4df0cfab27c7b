"""A graph to read: a line for each result and access, and for what is used more than once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from warpsim.graph.evaluate import Walk
from warpsim.graph.nodes import LANES, Graph, MemoryAccess, Node

INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%", "bitwise_and": "&",
    "bitwise_or": "|", "bitwise_xor": "^", "left_shift": "<<", "right_shift": ">>", "less": "<", "less_equal": "<=",
    "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=",
}  # fmt: skip
PREFIX = {"invert": "~", "logical_not": "!", "negative": "-"}
KINDS = {"i": "s", "V": "bf"}
LONG = 100
"""A longer expression is split."""


def type_name(dtype: np.dtype) -> str:
    """A type in PTX's words."""
    return "pred" if dtype.kind == "b" else f"{KINDS.get(dtype.kind, dtype.kind)}{8 * dtype.itemsize}"


def lines(graph: Graph, names: list[str]) -> Iterator[str]:
    """A graph's text; ``names`` are those of the destinations."""
    yield ", ".join(f"{i.name}: {'address' if i.address else type_name(i.dtype)}" for i in graph.inputs)
    text = _Text(graph)
    for number, access in enumerate(graph.accesses):
        yield from text.line(_access(text, number, access))
        if access.update is not None:
            update = _Text(Graph((), ((access.update,),)), [f"m{number}", *map(text, access.values)])
            yield from update.line(f"[{text.place(access)}] = {update.whole(access.update)}")
    for name, results in zip(names, graph.outputs, strict=False):
        for k, result in enumerate(results):
            element = name if len(results) == 1 else f"{name}{k}"
            yield from text.line(f"{element} = {text.whole(result)} : {type_name(result.dtype)}")


def _access(text: _Text, number: int, access: MemoryAccess) -> str:
    values = ", ".join(map(text, access.values))
    vector = f".v{access.count}" if access.count > 1 else ""
    what = f"{access.kind}{'.' if access.space else ''}{access.space}{vector}.{access.type.name} [{text.place(access)}]"
    given = "" if access.kind == "store" else f"m{number} = "
    return f"{given}{what}{', ' if values else ''}{values}"


class _Text(Walk[str]):
    """Expressions. ``line`` puts what they need in front."""

    def __init__(self, graph: Graph, names: list[str] | None = None) -> None:
        super().__init__()
        self.names = [i.name for i in graph.inputs] if names is None else names
        self.uses = Counter[Node]()
        self.ahead: list[str] = []
        self.temporaries = 0
        roots = [node for nodes in graph.outputs for node in nodes] + [v for a in graph.accesses for v in a.values]
        seen = set[Node]()
        while roots:
            node = roots.pop()
            self.uses[node] += 1
            if node not in seen:
                seen.add(node)
                roots += node.args

    def whole(self, node: Node) -> str:
        """What stands behind the sign of equality."""
        text = self(node)
        named = self.ahead and self.ahead[-1].startswith(f"{text} = ") and self.uses[node] < 2
        return self.ahead.pop().split(" = ", 1)[1].rpartition(" : ")[0] if named else _bare(text)

    def place(self, access: MemoryAccess) -> str:
        """Where an access goes."""
        return self.names[access.place.input] + (f"+{access.place.offset}" if access.place.offset else "")

    def line(self, text: str) -> Iterator[str]:
        """A line, behind those that it uses."""
        yield from self.ahead
        self.ahead.clear()
        yield text

    def operation(self, node: Node, arguments: list[str]) -> str:
        """An expression, or the name of one that is used again."""
        text = self._expression(node, arguments)
        if not node.args or (self.uses[node] < 2 and len(text) < LONG):
            return text
        self.temporaries += 1
        name = f"t{self.temporaries}"
        self.ahead.append(f"{name} = {_bare(text)} : {type_name(node.dtype)}")
        return name

    def _expression(self, node: Node, arguments: list[str]) -> str:
        op, bare = node.op, [_bare(a) for a in arguments]
        if op == "input":
            return self.names[node.value]
        if op == "const":
            return _number(node.value)
        if op == "lanes":
            counted = bool((node.value == np.arange(LANES)).all())
            return "lane" if counted else f"[{', '.join(map(_number, node.value[:4]))} ... {_number(node.value[-1])}]"
        if op in ("load", "atomic"):
            number, element = node.value
            return f"m{number}" if not element else f"m{number}[{element}]"
        if op == "cast":
            return f"{type_name(node.dtype)}({bare[0]})"
        if op == "bits":
            return f"{arguments[0]}:{type_name(node.dtype)}"
        if op in INFIX and node.value is None:
            return f"({arguments[0]} {INFIX[op]} {arguments[1]})"
        if op in PREFIX:
            return f"{PREFIX[op]}{arguments[0]}"
        value = "" if node.value is None else f".{node.value}" if op != "table" else f"[{node.value.size}]"
        return f"{op}{value}({', '.join(bare)})"


def _bare(text: str) -> str:
    """Without the brackets around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]


def _number(value: np.ndarray | np.generic) -> str:
    if value.dtype.kind in "iu" and abs(int(value)) > 0xFFFF:
        return hex(int(value))
    return str(value.item()).lower()
