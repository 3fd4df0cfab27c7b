"""The graphs of forms: a body is traced once for its modifiers and the types of its operands."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from warpsim.graph.nodes import LANES, Graph, Input, MemoryAccess, Node, Place, Untraceable, bits, cast
from warpsim.graph.trace import Lane, node_of, trace
from warpsim.isa.data_movement import Unpacked
from warpsim.isa.matching import Candidate, TypedOperand
from warpsim.isa.ports import Atomic
from warpsim.isa.spec import Form, Op, Scope
from warpsim.numerics.arrays import DType
from warpsim.types import ScalarType, bits_type

POINTER: Final = "address"
Given: TypeAlias = "DType | tuple[DType, ...] | tuple[ScalarType, int | None] | Literal['address'] | None"
"""What stands for a source operand: the dtype of a register, a tuple of those of a vector, the type and bits of a constant, or
`POINTER`; None for what has no value."""
BEYOND = {Scope.WARPGROUP: "it is for a warpgroup", Scope.SYNC: "it waits", Scope.CONTROL: "it is control flow"}
"""What has no graph."""
EVERYBODY = 0xFFFFFFFF
"""The membermask of a graph: its lanes are those of a whole warp."""
WARP = (1, LANES, 1)
WORD = np.dtype(np.uint64)


@functools.lru_cache(maxsize=4096)
def graph_of(form: Form, op: Op, given: tuple[Given, ...], counts: tuple[int | None, ...]) -> Graph:
    """What a form does with such sources, for destinations of so many elements (None: no vectors).

    Raises:
        Untraceable: where its body does something else than arithmetic and accesses of memory.
    """
    if form.scope in BEYOND:
        raise Untraceable(BEYOND[form.scope])
    inputs: list[Input] = []
    shape = WARP if form.scope is Scope.WARP else (2,)

    def read(name: str, source: int, what: Any) -> Any:
        if isinstance(what, tuple) and isinstance(what[0], ScalarType):
            raw = np.array(what[1], f"u{what[0].dtype.itemsize}").view(what[0].dtype)
            return np.full([1] * len(shape), raw)
        if isinstance(what, tuple):
            return tuple([read(f"{name}{k}", source, dtype) for k, dtype in enumerate(what)])
        if what is None:
            return None
        dtype = WORD if what == POINTER else what
        inputs.append(Input(name, dtype, source, what == POINTER))
        number = len(inputs) - 1
        return Place(number) if what == POINTER else Lane(Node("input", (), dtype, number), shape)

    names = [spec.name for spec in form.operands[form.n_dest :]]
    arguments = [read(*each) for each in zip(names, itertools.count(), given, strict=False)]
    memory = _Memory()
    ports = {"memory": memory, "active": np.ones(WARP, np.bool_), "report": lambda *_, **__: None}
    if form.ports - ports.keys():
        raise Untraceable(f"ports {sorted(form.ports)}")
    made = trace(form.function, op, *arguments, **{name: ports[name] for name in form.ports})
    results = () if made is None else (made,) if form.n_dest == 1 else made
    outputs = tuple([_elements(result, count) for result, count in zip(results, counts, strict=True)])
    return Graph(tuple(inputs), outputs, tuple(memory.accesses))


def graph_of_spelling(candidate: Candidate, constants: Sequence[int] = ()) -> Graph:
    """What a form does with operands of its own types; ``constants`` are those that it needs, 0 where they are lacking."""
    numbers = itertools.chain(constants, itertools.repeat(0))
    given: list[Given] = []
    for typed in candidate.operands[candidate.form.n_dest :]:
        spec, type = typed.spec, typed.type
        if spec.kind == "address":
            given.append(POINTER)
        elif type is None:
            given.append(None)
        elif spec.name == "membermask":
            given.append((type, EVERYBODY))
        elif spec.constant:
            given.append((type, next(numbers)))
        else:
            count = _count(typed)
            given.append(
                type.dtype
                if count is None
                else (bits_type(type.bits // count).dtype if not typed.count else type.dtype,) * count
            )
    counts = tuple([_count(typed) for typed in candidate.operands[: candidate.form.n_dest]])
    return graph_of(candidate.form, candidate.op, tuple(given), counts)


def _count(typed: TypedOperand) -> int | None:
    """The elements of a vector, two where it takes any number of them."""
    return None if typed.count is None or (typed.count == 1 and not typed.spec.braces) else typed.count or 2


def _elements(result: Any, count: int | None) -> tuple[Node, ...]:
    if count is None:
        return (node_of(result),)
    parts = result.parts(count) if isinstance(result, Unpacked) else result
    if len(parts) != count:
        raise Untraceable(f"{len(parts)} results for {count}")
    return tuple(map(node_of, parts))


class _Memory:
    """The memory of a body that is traced: notes its accesses."""

    def __init__(self) -> None:
        self.accesses: list[MemoryAccess] = []

    def load(self, space: str, address: Place, type: ScalarType, count: int = 1) -> tuple[Lane, ...]:
        """Note a load."""
        self.accesses.append(MemoryAccess("load", space, address, type, count))
        number = len(self.accesses) - 1
        return tuple([Lane(Node("load", (), type.dtype, (number, k))) for k in range(count)])

    def store(self, space: str, address: Place, type: ScalarType, values: tuple[ArrayLike, ...]) -> None:
        """Note a store."""
        given = tuple([node_of(v, type.dtype) for v in values])
        self.accesses.append(MemoryAccess("store", space, address, type, len(values), given))

    def atomic(self, space: str, address: Place, type: ScalarType, atomic: Atomic, *, returns: bool) -> Lane | None:
        """Note an atomic; what it leaves in memory is a graph over what it finds there."""
        update = atomic.shared if atomic.shared is not None and space.startswith("shared") else atomic.update
        given = [node_of(v, type.dtype) for v in atomic.operands]
        places = [Lane(Node("input", (), dtype, k)) for k, dtype in enumerate((type.dtype, *(g.dtype for g in given)))]
        new = node_of(update(*places), type.dtype)
        new = bits(new, type.dtype) if new.dtype.itemsize == type.dtype.itemsize else cast(new, type.dtype)
        self.accesses.append(MemoryAccess("atomic", space, address, type, 1, tuple(given), new))
        return Lane(Node("atomic", (), type.dtype, (len(self.accesses) - 1, 0))) if returns else None

    def multiples(self, address: Place, nbytes: int) -> _Memory:
        """Itself: what is traced is the access of a lane that does not fault."""
        return self

    def advance(self, address: Place, nbytes: int) -> Place:
        """An address further on."""
        return Place(address.input, address.offset + nbytes)
