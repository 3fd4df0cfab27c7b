"""Arithmetic on integers that all threads of a group share, as one step of Python's numbers: loop counters, addresses of stages,
descriptors, and the predicates made of them.

Persistent kernels compute these between asynchronous instructions, for a few warps at a time. What stands in a row is written as
the source of one Python function, made of the graphs of the forms. Where an operand varies among threads, the instructions that
depend on it are steps of their own inside.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

import numpy as np

from warpsim.graph.nodes import Graph, Node, Untraceable
from warpsim.graph.source import BOOL, Number, Source
from warpsim.isa.spec import Scope
from warpsim.machine.machine import Machine
from warpsim.machine.plan import BoundBlock, FunctionPlan, Step, literal, live_at
from warpsim.machine.state.group import Group
from warpsim.machine.values import FALSE, FLAT, SINGLE, TRUE, Affine, DType, Value
from warpsim.program.program import Instruction, Operand
from warpsim.records import frozen

LEAST = 2
"""So many instructions are worth a step of their own."""
TRIES = 8
"""How often a function is written for registers that come to vary one after the other; then nothing is gained."""


def shared(value: Value) -> int | None:
    """The integer that a value is in all threads; None if it is none."""
    if type(value) is Affine:
        return value.base if value.strides == FLAT else None
    return value.item() if value.size == 1 and value.dtype.kind in "iub" else None


NAMES = {"Affine": Affine, "FLAT": FLAT, "SINGLE": SINGLE, "TRUE": TRUE, "FALSE": FALSE, "shared": shared}


@frozen(eq=False)
class _Operation:
    """An instruction that computes one register from others. ``sources`` are slots, or the text and the type of numbers; ``node`` is
    the result, of which the register takes the ``dtype``."""

    step: Step
    sources: tuple[int | tuple[str, DType], ...]
    node: Node
    register: int
    dtype: DType


@functools.lru_cache(maxsize=4096)
def _result(graph: Graph) -> Node | None:
    """The only result of a form that is arithmetic on integers and predicates."""
    if graph.accesses or [len(nodes) for nodes in graph.outputs] != [1]:
        return None
    node = graph.outputs[0][0]
    try:
        Source([], [("x", None)] * len(graph.inputs), {})(node)
    except Untraceable:
        return None
    return node


def _operation(plan: FunctionPlan, number: int, instruction: Instruction, step: Step) -> _Operation | None:
    form, traits = instruction.form, instruction.traits
    if form.scope is not Scope.THREAD or form.ports or instruction.guard is not None or form.n_dest != 1:
        return None
    target = instruction.operands[0]
    if target.register is None or number in plan.on_wgmma_rows or traits.synchronises or traits.allocation is not None:
        return None
    try:
        graph = instruction.graph
    except Untraceable:
        return None
    node = _result(graph)
    sources = [_source(plan, instruction.inputs[given.source]) for given in graph.inputs]
    dtype = target.register.type.dtype
    if node is None or None in sources or (node.dtype.kind == "b") != (dtype.kind == "b") or dtype.itemsize > 8:
        return None
    if node.dtype.itemsize == dtype.itemsize:
        dtype = node.dtype
    elif dtype.kind != "b":
        dtype = np.dtype(f"{'i' if target.type.signed else 'u'}{dtype.itemsize}")
    return _Operation(step, tuple(s for s in sources if s is not None), node, target.register.index, dtype)


def _source(plan: FunctionPlan, operand: Operand) -> int | tuple[str, DType] | None:
    """The slot or the number of an operand; None for any other."""
    dtype, register = operand.type.dtype, operand.register
    if operand.negated or operand.elements is not None or operand.base is not None or dtype.kind not in "iub":
        return None
    if register is not None:
        return register.index if register.type.dtype.itemsize >= dtype.itemsize else None
    number = plan.number(operand)
    if number is None or dtype.kind == "b":
        return plan.slot(operand) if number is None else None
    return f"({literal(number, operand.type).base})", dtype


def fused(plan: FunctionPlan, block: BoundBlock) -> tuple[list[Step], frozenset[int]]:
    """For `BoundBlock.fused`: what runs a block's steps, and the places inside those that run several."""
    steps, first, inside = list(block.steps), plan.flow[block.index].first, set[int]()
    found = [_operation(plan, first + k, block.instructions[k], step) for k, step in enumerate(steps)]
    for plain, places in itertools.groupby(range(len(steps)), lambda k: found[k] is not None):
        at, *rest = places
        operations = [o for o in found[at : at + 1 + len(rest)] if o is not None]
        if plain and len(operations) >= LEAST:
            live = live_at(plan, block.index, at + len(operations))
            steps[at] = _Run(plan, at, operations, live, steps).begin
            inside.update(rest)
    return steps, frozenset(inside)


def _given(operations: Iterable[_Operation]) -> list[int]:
    """The slots that operations in a row read before one of them writes these."""
    written, given = set[int](), dict[int, None]()
    for operation in operations:
        given.update(dict.fromkeys([s for s in operation.sources if isinstance(s, int) and s not in written]))
        written.add(operation.register)
    return list(given)


class _Run:
    """Operations in a row, after which the registers ``live`` are read; its step is one of ``steps``, at the place ``at``."""

    def __init__(
        self, plan: FunctionPlan, at: int, operations: list[_Operation], live: frozenset[int], steps: list[Step]
    ) -> None:
        self._plan, self._at, self._operations, self._live, self._steps = plan, at, operations, live, steps
        self._given = _given(operations)
        self._varying = set[int]()
        """Those of them that have held other than one integer for all threads."""
        self._tries = 0

    def begin(self, machine: Machine, group: Group) -> object:
        """Write the function for what the registers hold now and call it."""
        self._varying.update([slot for slot in self._given if shared(group.read(slot)) is None])
        self._tries += 1
        step = self._steps[self._at] = (self._written() if self._tries <= TRIES else None) or self._operations[0].step
        return step(machine, group)

    def _written(self) -> Step | None:
        """The function; None where nothing is gained."""
        text = _Text(self._plan, self._varying)
        own = [text.add(number, operation) for number, operation in enumerate(self._operations)]
        if own.count(False) < LEAST:
            return None
        text.store(self._live)
        lines = [*text.head, *text.body, f"return {self._at + len(own)}"]
        made: dict[str, Step] = {}
        names = NAMES | text.names | {"begin": self.begin}
        exec("def run(machine, group):\n    env = group.env\n    " + "\n    ".join(lines), names, made)
        return made["run"]


class _Text:
    """The source of a run where some slots are varying: what reads these is left to the steps of the instructions."""

    def __init__(self, plan: FunctionPlan, varying: AbstractSet[int]) -> None:
        self.head: list[str] = []
        self.body: list[str] = []
        self.names: dict[str, object] = {}
        self._predicates = {r.index for r in plan.function.registers if r.type.kind == "p"}
        self._varying = set(varying)
        self._known: dict[int, Number] = {}
        """What slots hold now."""
        self._exacts: dict[tuple[str, DType], str] = {}
        self._computed: dict[int, DType] = {}
        """Registers whose values are not stored yet, and the types to store."""

    def add(self, number: int, operation: _Operation) -> bool:
        """Add an operation; gives whether it is left to its step."""
        register = operation.register
        slots = [s for s in operation.sources if isinstance(s, int)]
        if not self._varying.isdisjoint(slots):
            self.store(slots)
            self.names[f"step{number}"] = operation.step
            self.body.append(f"step{number}(machine, group)")
            self._varying.add(register)
            self._computed.pop(register, None)
            return True
        inputs = [self._read(s) if isinstance(s, int) else s for s in operation.sources]
        source, node = Source(self.body, inputs, self._exacts), operation.node
        result, wide = source(node), operation.dtype
        if node.dtype.itemsize < wide.itemsize:
            same = np.dtype(f"{wide.kind}{node.dtype.itemsize}")
            result = source.exact(result, same), same
        self._varying.discard(register)
        self._known[register], self._computed[register] = result, wide
        return False

    def _read(self, slot: int) -> Number:
        if slot not in self._known:
            name = f"s{slot}"
            self._known[slot] = name, BOOL if slot in self._predicates else None
            self.head += [f"v = env[{slot}]", f"if v is None: v = group.fetch({slot})"]
            if slot in self._predicates:
                self.head += ["if v.size != 1: return begin(machine, group)", f"{name} = v.item()"]
            else:
                self.head += [
                    f"{name} = v.base if type(v) is Affine and v.strides is FLAT else shared(v)",
                    f"if {name} is None: return begin(machine, group)",
                ]
        return self._known[slot]

    def store(self, registers: Iterable[int]) -> None:
        """Store those that are computed."""
        stored = [r for r in dict.fromkeys(registers) if r in self._computed]
        for register in stored:
            dtype = self._computed.pop(register)
            name = Source(self.body, (), self._exacts).exact(self._known[register], dtype)
            if dtype.kind == "b":
                value = f"TRUE if {name} else FALSE"
            else:
                self.names[dtype.name] = dtype
                value = f"Affine({name}, FLAT, SINGLE, {dtype.name})"
            self.body.append(f"env[{register}] = {value}")
        if stored:
            key = f"dirty{len(self.body)}"
            self.names[key] = frozenset(stored)
            self.body.append(f"group.dirty.update({key})")
