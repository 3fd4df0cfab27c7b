"""On which bytes of its sources each byte of a form's results depends: of packed types, on the elements of the same place."""

from __future__ import annotations

import functools

from warpsim.graph.evaluate import Walk
from warpsim.graph.nodes import Graph, Node

Byte = frozenset[tuple[int, int]]
"""The bytes on which one depends: pairs of a source's place and a number from the lowest."""
NONE: Byte = frozenset()


@functools.lru_cache(maxsize=1024)
def dependence_of(graph: Graph) -> tuple[tuple[Byte, ...], ...] | None:
    """For each result, what each of its bytes depends on; None if each byte depends on all."""
    walk = _Bytes(graph)
    results = tuple([walk(node) for nodes in graph.outputs for node in nodes])
    alike = {byte for result in results for byte in result}
    return None if len(alike) < 2 or any(len(nodes) != 1 for nodes in graph.outputs) else results


class _Bytes(Walk[tuple[Byte, ...]]):
    """What the bytes of nodes depend on."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def operation(self, node: Node, arguments: list[tuple[Byte, ...]]) -> tuple[Byte, ...]:
        """What the bytes of the result of an operation depend on."""
        size = node.dtype.itemsize
        if node.op == "input":
            source = self.graph.inputs[node.value].source
            return tuple([frozenset(((source, k),)) for k in range(size)])
        if node.known:
            return (NONE,) * size
        if node.op == "bits":
            return arguments[0]
        if any(n.dtype.kind not in "iu" for n in (node, *node.args)):
            return self._together(size, arguments)
        if node.op == "cast":
            fill = arguments[0][-1] if node.args[0].dtype.kind == "i" else NONE
            return (arguments[0] + (fill,) * size)[:size]
        if node.op in ("left_shift", "right_shift") and node.args[1].op == "const":
            return self._shifted(node, arguments[0], int(node.args[1].value))
        if node.op in ("bitwise_and", "bitwise_or", "bitwise_xor", "invert"):
            made = [frozenset[tuple[int, int]]().union(*parts) for parts in zip(*arguments, strict=True)]
            mask = next((n for n in node.args if n.op == "const"), None) if node.op == "bitwise_and" else None
            kept = bytes([1] * size) if mask is None else mask.value.tobytes()
            return tuple([byte if some else NONE for byte, some in zip(made, kept, strict=True)])
        return self._together(size, arguments)

    @staticmethod
    def _together(size: int, arguments: list[tuple[Byte, ...]]) -> tuple[Byte, ...]:
        return (NONE.union(*(byte for argument in arguments for byte in argument)),) * size

    @staticmethod
    def _shifted(node: Node, held: tuple[Byte, ...], count: int) -> tuple[Byte, ...]:
        size, (whole, part) = len(held), divmod(count, 8)
        if node.op == "left_shift":
            row, at = (NONE,) * (size + 1) + held, size + 1 - whole
            lower = at - 1
        else:
            fill = held[-1] if node.dtype.kind == "i" else NONE
            row, at = held + (fill,) * (size + 1), whole
            lower = at + 1
        if not 0 <= count < 8 * size:
            return (NONE.union(*held),) * size
        return tuple([row[at + k] | row[lower + k] if part else row[at + k] for k in range(size)])
