"""Abstract values: what is known about a register in every thread of a block before anything runs.

A value is known exactly, as an array over the threads of one CTA (or of size 1), or only modulo a power of two; an
unknown value still tracks how uniform it is. Shared variables have the addresses that the machine gives them. The graph
of an instruction is walked over such values: sums, products, shifts and masks keep what is known about low bits, as of
addresses.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from warpsim.analysis.shared_layout import SharedLayout
from warpsim.graph.evaluate import Walk, computed
from warpsim.graph.nodes import Node, Untraceable
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Access, Ending, Mbarrier
from warpsim.numerics.arrays import Array, DType
from warpsim.program.program import Function, Instruction, Operand, Variable
from warpsim.records import frozen
from warpsim.types import ScalarType, StateSpace

U64 = np.dtype(np.uint64)
WARP, WARPGROUP, MOST = 32, 128, 1024
ZERO = np.zeros(1, U64)


class Spread(enum.IntEnum):
    """The threads over which a value is the same."""

    KNOWN = 0
    CTA = 1
    WARPGROUP = 2
    WARP = 3
    THREAD = 4


@frozen(eq=False, slots=False)
class Value:
    """A value: ``bits``, as 64-bit words, exact (``unknown`` is ``KNOWN``) or modulo ``2**zeros``. ``symbols`` are the
    variables whose addresses it was computed from."""

    bits: Array
    unknown: Spread = Spread.KNOWN
    zeros: int = 64
    symbols: frozenset[str] = frozenset()

    @property
    def exact(self) -> bool:
        """Whether every bit is known."""
        return self.unknown is Spread.KNOWN

    @functools.cached_property
    def spread(self) -> Spread:
        """The threads over which the value is the same, known or not."""
        return max(self.unknown, spread_of(self.bits))

    @property
    def constant(self) -> int | None:
        """The value, if it is known and the same everywhere."""
        return int(self.bits[0]) if self.exact and spread_of(self.bits) <= Spread.CTA else None

    def same(self, other: Value) -> bool:
        """Whether the same is known of two values."""
        return self is other or (
            self.unknown is other.unknown
            and self.zeros == other.zeros
            and self.symbols == other.symbols
            and (self.bits is other.bits or np.array_equal(self.bits, other.bits))
        )

    def equals(self, other: Value) -> bool:
        """Whether two values are surely equal: of unknown ones the same may be known, and yet they differ."""
        return self is other or (self.exact and self.same(other))


def spread_of(bits: Array) -> Spread:
    """The threads over which an array is the same."""
    if len(bits) == 1:
        return Spread.KNOWN
    for size, found in ((len(bits), Spread.CTA), (WARPGROUP, Spread.WARPGROUP), (WARP, Spread.WARP)):
        rows = bits.reshape(-1, size)
        if (rows == rows[:, :1]).all():
            return found
    return Spread.THREAD


def exactly(bits: Array, symbols: frozenset[str] = frozenset()) -> Value:
    """A known value."""
    return Value(bits, Spread.KNOWN, 64, symbols)


def congruent(bits: Array, zeros: int, unknown: Spread, symbols: frozenset[str] = frozenset()) -> Value:
    """A value known modulo ``2**zeros``."""
    if zeros <= 0:
        return Value(ZERO, max(unknown, Spread.CTA), 0, symbols)
    zeros = min(zeros, 63)
    return Value(bits & np.uint64((1 << zeros) - 1), max(unknown, Spread.CTA), zeros, symbols)


def anything(spread: Spread = Spread.THREAD, symbols: frozenset[str] = frozenset()) -> Value:
    """An unknown value with a given uniformity."""
    return congruent(ZERO, 0, spread, symbols)


ANYTHING = anything()


def trailing_zeros(bits: Array) -> int:
    """Number of low bits that are zero in every element; 64 for zeros."""
    together = int(np.bitwise_or.reduce(bits))
    return (together & -together).bit_length() - 1 if together else 64


def joined(a: Value, b: Value, at_least: Spread) -> Value:
    """The merge of two values; ``at_least`` says over which threads the choice between them is the same."""
    if a.equals(b):
        return a
    zeros = min(a.zeros, b.zeros, trailing_zeros(a.bits ^ b.bits))
    return congruent(a.bits, zeros, max(a.spread, b.spread, at_least), a.symbols | b.symbols)


class Threads:
    """The threads of one CTA as far as they are known: their number, rounded up to warpgroups, which exist, and their
    indices.

    Without ``.reqntid``, a kernel that reads neither ``%tid.y`` nor ``%tid.z`` is assumed to have rows of whole warps;
    for other kernels, and for functions, only lane numbers are known. ``sure`` is a mask of threads that exist in every
    launch: all of a declared block, or the first warp.
    """

    def __init__(self, function: Function) -> None:
        self.sizes = _sizes(function.directives.get("reqntid"))
        most = _sizes(function.directives.get("maxntid"))
        names = {o.special for i in function.code for o in i.operands}
        flat = function.entry and not any(n.startswith(("tid.", "ntid.")) and n[-1] in "yz" for n in names)
        if self.sizes is not None:
            alive = self.sizes[0] * self.sizes[1] * self.sizes[2]
        elif flat:
            alive = most[0] * most[1] * most[2] if most is not None else MOST
        else:
            alive = WARPGROUP
        alive = max(min(alive, MOST), 1)
        self.count = -(-alive // WARPGROUP) * WARPGROUP
        self.thread = np.minimum(np.arange(self.count), alive - 1).astype(U64)
        self.alive = np.arange(self.count) < alive
        self.sure = self.alive & (self.thread < WARP) if self.sizes is None else self.alive
        self.indexed = self.sizes is not None or flat

    def special(self, name: str) -> Value:
        """The value of a special register."""
        root, _, component = name.partition(".")
        axis = "xyzw".find(component)
        lane = self.thread % np.uint64(WARP)
        if root == "laneid":
            return exactly(lane)
        if root == "tid" and self.indexed:
            x, y, z = self.sizes or (self.count, 1, 1)
            table = [self.thread % np.uint64(x), self.thread // np.uint64(x) % np.uint64(y)]
            table += [self.thread // np.uint64(x * y) % np.uint64(z), ZERO]
            return exactly(table[axis])
        if root == "tid":
            return ANYTHING
        if root == "ntid" and self.sizes is not None:
            return exactly(np.array([(*self.sizes, 1)[axis]], U64))
        if root.startswith("lanemask_"):
            return exactly(_lanemask(root[9:], lane))
        return anything(Spread.WARP if root in ("warpid", "smid") or "clock" in root or "timer" in root else Spread.CTA)


def _sizes(words: tuple[int | str, ...] | None) -> tuple[int, int, int] | None:
    if not words or not all(isinstance(w, int) and w > 0 for w in words):
        return None
    x, y, z = (*(int(w) for w in words), 1, 1)[:3]
    return x, y, z


def _lanemask(kind: str, lane: Array) -> Array:
    bit = np.uint64(1) << lane
    below, full = bit - np.uint64(1), np.uint64(0xFFFFFFFF)
    table = {"eq": bit, "lt": below, "le": below | bit, "gt": full ^ (below | bit), "ge": full ^ below}
    return table[kind]


def mixed(flags: Array, among: Array, size: int) -> Array:
    """A mask of the threads in groups of ``size`` in which ``flags`` is true for some and false for others of
    ``among``."""
    rows, there = (np.broadcast_to(a, among.shape).reshape(-1, size) for a in (flags, among))
    both = (rows & there).any(axis=1) & (~rows & there).any(axis=1)
    return np.repeat(both, size)


Read = Callable[[int], Value]

DEEPEST = 16
"""Operations of a graph that is walked: through more, hardly anything stays known."""


class Evaluator:
    """Evaluates the instructions of a function for all threads of a CTA."""

    def __init__(self, threads: Threads, shared: SharedLayout) -> None:
        self.threads = threads
        self.shared = shared
        self._graphs: dict[int, _Results | None] = {}

    def results(self, instruction: Instruction, read: Read) -> dict[int, Value]:
        """What is known about each register that an instruction writes."""
        form = instruction.form
        if instruction.traits.ending is Ending.CALL:
            return dict.fromkeys(instruction.writes, ANYTHING)
        destinations = instruction.outputs
        if not destinations:
            return {}
        made = self._results(instruction, read)
        found: dict[int, Value] = {}
        for k, operand in enumerate(destinations):
            if operand.register is not None:
                found[operand.register.index] = _fitting(made[k] if k < len(made) else ANYTHING, operand.register.type)
            elif operand.elements is not None and len(destinations) == 1:
                for j, element in enumerate(operand.elements):
                    if element.register is not None:
                        value = made[j] if j < len(made) else made[-1] if form.scope is Scope.THREAD else ANYTHING
                        found[element.register.index] = _fitting(value, element.register.type)
            else:
                found.update(dict.fromkeys(operand.registers, ANYTHING))
        return found

    def operand(self, operand: Operand, read: Read) -> Value:
        """What is known about a source operand."""
        if operand.register is not None:
            value = read(operand.register.index)
            if operand.negated:
                return exactly(value.bits ^ np.uint64(1), value.symbols) if value.exact else value
            return value
        if operand.constant is not None:
            return exactly(_word(operand.constant)) if operand.type.bits <= 64 else ANYTHING
        if operand.special:
            return self.threads.special(operand.special)
        if operand.variable is not None:
            return self.variable(operand.variable, operand.offset)
        if operand.parameter is not None:
            return anything(Spread.CTA)
        if operand.base is not None:
            return self.address(operand.base, operand.offset, read)
        if operand.elements is not None:
            parts = [self.operand(e, read) for e in operand.elements]
            return anything(max(p.spread for p in parts), frozenset().union(*(p.symbols for p in parts)))
        return ANYTHING

    def variable(self, variable: Variable, offset: int) -> Value:
        """The address of a variable: exact in shared memory, elsewhere known as far as its alignment."""
        names = frozenset((variable.unique,))
        if variable.space is StateSpace.SHARED:
            return exactly(_word(offset + self.shared.address(variable)), names)
        return congruent(_word(offset), max(variable.align, 1).bit_length() - 1, Spread.CTA, names)

    def address(self, base: Operand, offset: int, read: Read) -> Value:
        """The address that an operand in brackets names."""
        if base.variable is not None:
            return self.variable(base.variable, offset)
        if base.parameter is not None:
            return anything(Spread.CTA)
        return _masked(_sum(self.operand(base, read), exactly(_word(offset))), base.type.bits)

    def _results(self, instruction: Instruction, read: Read) -> list[Value]:
        form = instruction.form
        values = [self.operand(o, read) for o in instruction.inputs]
        special = self._special(instruction, values)
        if special is not None:
            return special
        if form.scope is not Scope.THREAD or form.ports or not values:
            return [anything(Spread.THREAD)]
        if instruction.traits.generic_address:
            return [values[0]]
        graph = self._graph_of(instruction)
        exact = all(v.exact for v in values)
        if graph is None or not (exact or (graph.partly and any(v.zeros for v in values))):
            return [anything(*_of(values))] * max(form.n_dest, 1)
        inputs: list[Value] = []
        for spec, operand, value in zip(form.operands[form.n_dest :], instruction.inputs, values, strict=False):
            if not spec.constant:
                inputs += [value] if operand.elements is None else [self.operand(e, read) for e in operand.elements]
        known_bits = KnownBits(inputs)
        return [known_bits.result(node) for node in graph.results]

    def _graph_of(self, instruction: Instruction) -> _Results | None:
        if id(instruction) not in self._graphs:
            self._graphs[id(instruction)] = _results_of(instruction)
        return self._graphs[id(instruction)]

    def _special(self, instruction: Instruction, values: list[Value]) -> list[Value] | None:
        """What is known about what memory and collectives give; None for any other instruction."""
        traits = instruction.traits
        if traits.access is Access.LOAD:
            return [_loaded(instruction, values[0])]
        if traits.uniform is not None:
            return [anything(Spread.CTA if traits.uniform == "cta" else Spread.WARP)] * 2
        if traits.shuffles:
            return _shuffled(instruction, *values[:3])
        if traits.elects:
            return [anything(Spread.WARP), exactly((self.threads.thread % np.uint64(WARP) == 0).astype(U64))]
        if traits.mbarrier is None:
            return None
        return [anything(max(Spread.WARP, *(v.spread for v in values))) if traits.does(Mbarrier.WAIT) else ANYTHING]


class _Results(NamedTuple):
    """The results in an instruction's graph; ``partly``: something of them may stay known where not all sources are."""

    results: list[Node]
    partly: bool


def _results_of(instruction: Instruction) -> _Results | None:
    try:
        graph = instruction.graph
    except Untraceable:
        return None
    results = [node for nodes in graph.outputs for node in nodes]
    whole = not any(o.type.kind == "f" for o in instruction.operands) and graph.size <= DEEPEST
    return _Results(results, whole and any(node.op in _RULES for node in results))


def _word(number: int) -> Array:
    return np.array([number & (2**64 - 1)], U64)


def _typed(value: Value, dtype: DType) -> Array:
    """An exact value as a type."""
    return value.bits != 0 if dtype.kind == "b" else value.bits.astype(f"u{dtype.itemsize}").view(dtype)


def _widened(result: Array) -> Array:
    """Extend a result to 64-bit words as its type requires."""
    flat = result.reshape(-1)
    if flat.dtype.kind == "b":
        return flat.astype(U64)
    if flat.dtype.kind == "i":
        return flat.astype(np.int64).view(U64)
    return flat.view(f"u{flat.dtype.itemsize}").astype(U64)


def _masked(value: Value, bits: int) -> Value:
    if value.zeros <= bits or bits >= 64:
        return value
    mask = np.uint64((1 << bits) - 1)
    if value.exact:
        return exactly(value.bits & mask, value.symbols)
    return congruent(value.bits & mask, min(value.zeros, bits), value.unknown, value.symbols)


def _fitting(value: Value, type: ScalarType) -> Value:
    """A value in a register of a type."""
    return ANYTHING if type.bits > 64 else _masked(value, 1 if type.kind == "p" else type.bits)


# ---- what is known in part -----------------------------------------------------------------------


def _of(values: list[Value]) -> tuple[Spread, frozenset[str]]:
    return max(v.spread for v in values), frozenset().union(*(v.symbols for v in values))


def _sum(a: Value, b: Value) -> Value:
    if a.exact and b.exact:
        return exactly(a.bits + b.bits, a.symbols | b.symbols)
    return congruent(a.bits + b.bits, min(a.zeros, b.zeros), *_of([a, b]))


def _product(a: Value, b: Value) -> Value:
    if a.exact and b.exact:
        return exactly(a.bits * b.bits, a.symbols | b.symbols)
    if b.exact or a.exact:
        part, factor = (a, b) if b.exact else (b, a)
        zeros = part.zeros + trailing_zeros(factor.bits)
        return congruent(part.bits * factor.bits, zeros, *_of([a, b]))
    zeros = min(a.zeros, trailing_zeros(a.bits)) + min(b.zeros, trailing_zeros(b.bits))
    return congruent(ZERO, zeros, *_of([a, b]))


def _common(a: Value, b: Value) -> Value:
    if a.exact or b.exact:
        part, mask = (a, b) if b.exact else (b, a)
        low = np.uint64((1 << part.zeros) - 1) if part.zeros < 64 else np.uint64(2**64 - 1)
        if not (mask.bits & ~low).any():
            return exactly(part.bits & mask.bits, a.symbols | b.symbols)
        zeros = trailing_zeros(mask.bits)
        if zeros >= part.zeros:
            return congruent(ZERO, zeros, *_of([a, b]))
    return _modulo(a.bits & b.bits, a, b)


def _modulo(bits: Array, a: Value, b: Value) -> Value:
    """The bits of a result whose low bits depend on the low bits of both operands."""
    return congruent(bits, min(a.zeros, b.zeros), *_of([a, b]))


def _shifted(a: Value, by: Value, direction: int) -> Value:
    if by.constant is None or by.constant > 63:
        return anything(*_of([a, by]))
    bits = a.bits << np.uint64(by.constant) if direction > 0 else a.bits >> np.uint64(by.constant)
    return congruent(bits, a.zeros + direction * by.constant, *_of([a, by]))


def _chosen(condition: Value, yes: Value, no: Value) -> Value:
    if condition.constant is not None:
        return yes if condition.constant else no
    return joined(yes, no, condition.spread)


_RULES: dict[str, Callable[..., Value]] = {
    "add": _sum,
    "subtract": lambda a, b: _modulo(a.bits - b.bits, a, b),
    "multiply": _product,
    "bitwise_and": _common,
    "bitwise_or": lambda a, b: _modulo(a.bits | b.bits, a, b),
    "bitwise_xor": lambda a, b: _modulo(a.bits ^ b.bits, a, b),
    "left_shift": lambda a, by: _shifted(a, by, 1),
    "right_shift": lambda a, by: _shifted(a, by, -1),
    "where": _chosen,
    "bits": lambda a: a,
    "cast": lambda a: a,
    "input": lambda a: a,
}
"""Of integers, modulo ``2**64``; what is known of a sum of 32 bits is then known modulo ``2**32``."""


class KnownBits(Walk[Value]):
    """What is known about the bits of a graph's nodes; those of fewer than 64 bits are extended by zeros."""

    def __init__(self, inputs: Sequence[Value]) -> None:
        super().__init__()
        self.inputs = inputs

    def operation(self, node: Node, arguments: list[Value]) -> Value:
        """What is known about an operation's result."""
        if node.op == "input":
            return _masked(self.inputs[node.value], _width(node))
        known = [a.zeros for a in arguments]
        if arguments and not any(known):
            return anything(*_of(arguments))
        if all(a.exact for a in arguments):
            typed = [_typed(a, n.dtype) for a, n in zip(arguments, node.args, strict=True)]
            with np.errstate(all="ignore"):
                made = exactly(_widened(computed(node, typed)), frozenset().union(*(a.symbols for a in arguments)))
            return _masked(made, _width(node))
        truth = node.op == "cast" and node.dtype.kind == "b"
        if truth or any(each.dtype.kind not in "iub" for each in (node, *node.args)):
            return anything(*_of(arguments))
        if node.op == "cast":
            return congruent(arguments[0].bits, min(known[0], _width(node.args[0]), _width(node)), *_of(arguments))
        rule = _RULES.get(node.op)
        if rule is None:
            return anything(*_of(arguments))
        return _masked(rule(*arguments), _width(node))

    def result(self, node: Node) -> Value:
        """What is known about a result, extended as its type requires."""
        value = self(node)
        return exactly(_widened(_typed(value, node.dtype)), value.symbols) if value.exact else value


def _width(node: Node) -> int:
    return 1 if node.dtype.kind == "b" else 8 * node.dtype.itemsize


# ---- memory and collectives ----------------------------------------------------------------------


def _loaded(load: Instruction, address: Value) -> Value:
    base = load.inputs[0].base
    param = None if base is None else base.parameter
    if param is not None and param.pointer is not None and param.pointer[1]:
        return congruent(ZERO, param.pointer[1].bit_length() - 1, Spread.CTA)
    if "local" in load.traits.spaces:
        return ANYTHING
    return anything(max(address.spread, Spread.WARP if load.traits.polls else Spread.CTA))


def _shuffled(instruction: Instruction, value: Value, lane: Value, clamp: Value) -> list[Value]:
    inside = anything(Spread.WARP)
    if value.spread <= Spread.WARP:
        return [value, inside]
    if "idx" not in instruction.op.modifiers or clamp.constant != WARP - 1:
        return [ANYTHING, ANYTHING]
    if lane.constant is not None and value.exact:
        picked = value.bits.reshape(-1, WARP)[:, lane.constant % WARP]
        return [exactly(np.repeat(picked, WARP), value.symbols), inside]
    return [anything(Spread.WARP if lane.spread <= Spread.WARP else Spread.THREAD, value.symbols), inside]
