"""What becomes of the bits of a form's sources: they are moved, combined bit by bit, or computed with; and on which bytes results depend."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable

import attrs
import numpy as np

from warpsim.graph.evaluate import Walk
from warpsim.graph.nodes import CARRYING, Graph, Node
from warpsim.records import frozen

NONE: frozenset[int] = frozenset()


class Fate(enum.Enum):
    """What becomes of the bits of sources."""

    MOVED = "moved"
    """Those of some sources, or zeros, stand in the result; the other sources say where."""
    BITWISE = "bitwise"
    """Each bit of the result depends on bits of the same place."""
    COMPUTED = "computed"
    """Any bit of the result may depend on any bit."""


@frozen
class Moves:
    """What a form does with bits: ``moved`` are the places of the sources whose bits are moved."""

    fate: Fate
    moved: frozenset[int] = NONE


@functools.lru_cache(maxsize=4096)
def moves_of(graph: Graph) -> Moves:
    """What a form does with the bits of its sources. A second result is never moved: it depends on the others alone, or the first
    counts as computed."""
    bits = _Bits()
    results = [[bits(node) for node in nodes] for nodes in graph.outputs]
    if graph.accesses or not results:
        return Moves(Fate.COMPUTED)
    first, rest = results[0], [b for more in results[1:] for b in more]
    moved = frozenset().union(*(b.moved for b in first))
    decides = frozenset().union(*(b.used for b in first), *(b.used | b.moved for b in rest))
    if moved and not moved & decides and not any(b.computed for b in first):
        return Moves(Fate.MOVED, frozenset(graph.inputs[k].source for k in moved))
    bitwise = not rest and all(b.aligned for b in first) and any(b.computed for b in first)
    return Moves(Fate.BITWISE if bitwise else Fate.COMPUTED)


@frozen
class Held:
    """What a value holds: bits of the inputs ``moved``, at places, out of ``places``, that the inputs ``used`` decide, and zeros; or
    what was ``computed`` from these. ``aligned``: each bit depends on bits of the same place."""

    places: int
    moved: frozenset[int] = NONE
    used: frozenset[int] = NONE
    computed: bool = False
    aligned: bool = True

    @property
    def sources(self) -> frozenset[int]:
        """The inputs on which it depends."""
        return self.moved | self.used


class _Bits(Walk[Held]):
    """What nodes hold."""

    def operation(self, node: Node, arguments: list[Held]) -> Held:
        """What the result of an operation holds."""
        if node.op == "input":
            return Held(_all(node), frozenset((node.value,)))
        if node.known:
            return Held(_set(node))
        rule = _RULES.get(node.op)
        floating = node.op != "where" and any(n.dtype.kind == "f" for n in (node, *node.args))
        return (None if rule is None or floating else rule(node, *arguments)) or _computed(node, arguments)


def _computed(node: Node, arguments: list[Held]) -> Held:
    used = frozenset().union(*(a.sources for a in arguments))
    bitwise = node.op in ("bitwise_and", "bitwise_or", "bitwise_xor", "invert")
    return Held(_all(node), used=used, computed=True, aligned=bitwise and all(a.aligned for a in arguments))


def _cast(node: Node, a: Held) -> Held | None:
    (source,) = node.args
    if node.dtype.kind == "b":  # whether a value is not 0: its bit, if it has one alone
        return None if a.places & (a.places - 1) else attrs.evolve(a, places=1, aligned=False)
    top = 1 << (8 * source.dtype.itemsize - 1)
    sign = source.dtype.kind == "i" and node.dtype.itemsize > source.dtype.itemsize and bool(a.places & top)
    return attrs.evolve(a, places=_all(node) if sign else a.places & _all(node), aligned=a.aligned and not sign)


def _shifted(node: Node, a: Held, by: Held) -> Held:
    places = _all(node)
    if node.args[1].op == "const":
        count, top = int(node.args[1].value), (places >> 1) + 1
        if node.op == "left_shift":
            places &= a.places << count
        elif node.dtype.kind == "u" or not a.places & top:
            places = a.places >> count
    return Held(places, a.moved, a.used | by.sources, a.computed, aligned=False)


def _masked(node: Node, a: Held, b: Held) -> Held | None:
    """Of bits and a mask; of two values that hold bits it is computed."""
    places = a.places & b.places
    if any(n.known for n in node.args):
        return attrs.evolve(b if node.args[0].known else a, places=places)
    if bool(a.moved) == bool(b.moved):
        return None
    data, mask = (a, b) if a.moved else (b, a)
    return Held(places, data.moved, data.used | mask.used, data.computed, data.aligned and mask.aligned)


def _joined(node: Node, a: Held, b: Held) -> Held | None:
    """Of bits at places of their own."""
    if any(n.known for n in node.args) or (a.places & b.places and not _complementary(*node.args)):
        return None
    return Held(
        a.places | b.places, a.moved | b.moved, a.used | b.used, a.computed or b.computed, a.aligned and b.aligned
    )


def _chosen(node: Node, condition: Held, yes: Held, no: Held) -> Held | None:
    if all(n.known for n in node.args[1:]) and not no.places:  # the bit of the condition, several times
        return attrs.evolve(condition, places=yes.places, aligned=False) if condition.moved else None
    if any(n.known and held.places for n, held in zip(node.args[1:], (yes, no), strict=True)):
        return None
    used, computed = yes.used | no.used | condition.sources, yes.computed or no.computed
    return Held(yes.places | no.places, yes.moved | no.moved, used, computed, aligned=False)


_RULES: dict[str, Callable[..., Held | None]] = {
    "bits": lambda node, a: a,
    "byteswap": lambda node, a: attrs.evolve(a, places=_all(node), aligned=False),
    "cast": _cast,
    "left_shift": _shifted,
    "right_shift": _shifted,
    "bitwise_and": _masked,
    "bitwise_or": _joined,
    "bitwise_xor": _joined,
    "where": _chosen,
    "gather": lambda node, a, lane: Held(a.places, a.moved, a.used | lane.sources, a.computed, aligned=False),
}


def _complementary(a: Node, b: Node) -> bool:
    """Whether one is masked by what the other's mask leaves out."""
    if not a.op == b.op == "bitwise_and":
        return False
    return any(n.op == "invert" and n.args[0] in other.args for one, other in ((a, b), (b, a)) for n in one.args)


def _all(node: Node) -> int:
    return 1 if node.dtype.kind == "b" else (1 << 8 * node.dtype.itemsize) - 1


def _set(node: Node) -> int:
    """The bits that are set in some lane of a constant."""
    raw = np.ascontiguousarray(node.value).reshape(-1)
    words = raw if raw.dtype.kind == "b" else raw.view(f"u{raw.dtype.itemsize}")
    return int(np.bitwise_or.reduce(words.astype(np.uint64)))


Byte = frozenset[tuple[int, int]]
"""The bytes on which one depends: pairs of a source's place and a number from the lowest."""
NO_BYTES: Byte = frozenset()


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
            return (NO_BYTES,) * size
        if node.op == "bits":
            return arguments[0]
        if any(n.dtype.kind not in "iu" for n in (node, *node.args)):
            return self._together(size, arguments)
        if node.op == "cast":
            fill = arguments[0][-1] if node.args[0].dtype.kind == "i" else NO_BYTES
            return (arguments[0] + (fill,) * size)[:size]
        if node.op in ("left_shift", "right_shift") and node.args[1].op == "const":
            return self._shifted(node, arguments[0], int(node.args[1].value))
        if node.op in ("bitwise_and", "bitwise_or", "bitwise_xor", "invert"):
            made = [frozenset[tuple[int, int]]().union(*parts) for parts in zip(*arguments, strict=True)]
            mask = next((n for n in node.args if n.op == "const"), None) if node.op == "bitwise_and" else None
            kept = bytes([1] * size) if mask is None else mask.value.tobytes()
            return tuple([byte if some else NO_BYTES for byte, some in zip(made, kept, strict=True)])
        if node.op in CARRYING:
            return tuple([self._together(1, [one[: k + 1] for one in arguments])[0] for k in range(size)])
        return self._together(size, arguments)

    @staticmethod
    def _together(size: int, arguments: list[tuple[Byte, ...]]) -> tuple[Byte, ...]:
        return (NO_BYTES.union(*(byte for argument in arguments for byte in argument)),) * size

    @staticmethod
    def _shifted(node: Node, held: tuple[Byte, ...], count: int) -> tuple[Byte, ...]:
        size, (whole, part) = len(held), divmod(count, 8)
        if node.op == "left_shift":
            row, at = (NO_BYTES,) * (size + 1) + held, size + 1 - whole
            lower = at - 1
        else:
            fill = held[-1] if node.dtype.kind == "i" else NO_BYTES
            row, at = held + (fill,) * (size + 1), whole
            lower = at + 1
        if not 0 <= count < 8 * size:
            return (NO_BYTES.union(*held),) * size
        return tuple([row[at + k] | row[lower + k] if part else row[at + k] for k in range(size)])
