"""The variable that an access's address is made from, whatever was added to it.

Registers are followed from the instructions that name a variable through moves, conversions and sums, along every path through a
function. What is made from two variables, or from one in any other way (a product, a difference of addresses), is not known;
nor is what memory, a call or another thread gives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from warpsim.analysis.dataflow import settle
from warpsim.analysis.flow import blocks_of
from warpsim.graph.evaluate import Walk
from warpsim.graph.nodes import Graph, Node, Untraceable
from warpsim.isa.spec import Scope
from warpsim.program.program import Function, Instruction, Operand, Param, Variable

Symbol = Variable | Param
Made = object | None
"""A variable, `LOST`, or None for what no variable's address is in."""
LOST = object()
"""Made from a variable in a way that is not followed."""
State = dict[int, Made]
"""What the registers hold that were written."""
DEEPEST = 16
"""Operations of a graph that is walked: no address is made with more."""


def symbol_of(operand: Operand) -> Symbol | None:
    """The variable or parameter whose address an operand is."""
    return operand.variable or operand.parameter


def made_from(function: Function, followed: Callable[[Symbol], bool]) -> dict[tuple[int, int], Symbol]:
    """The variable behind a register in brackets, by the instruction's identity and the register's index; of those that are
    ``followed``, where it is known."""
    derived = _derived(function, followed)
    if not derived:
        return {}
    blocks, _ = blocks_of(function)
    code = function.code
    start: State = {}
    steps = [
        [i for i in code[b.first : b.last] if not derived.isdisjoint(i.reads + i.writes) or _names(i)] for b in blocks
    ]

    def through(index: int, state: State) -> State:
        after = dict(state)
        for instruction in steps[index]:
            _apply(instruction, after, derived)
        return after

    found: dict[tuple[int, int], Symbol] = {}
    entered: list[State | None] = settle(blocks, start, through, _joined)
    for index, before in enumerate(entered):
        state = dict(before or {})
        for instruction in steps[index]:
            for operand in instruction.operands:
                if operand.base is not None and operand.base.register is not None:
                    register = operand.base.register.index
                    made = state.get(register)
                    if isinstance(made, Symbol):
                        found[id(instruction), register] = made
            _apply(instruction, state, derived)
    return found


def _names(instruction: Instruction) -> bool:
    return any(map(symbol_of, instruction.inputs))


def _derived(function: Function, followed: Callable[[Symbol], bool]) -> set[int]:
    """The registers that may hold what is computed from the addresses of variables."""
    work = [i for i in function.code if any((s := symbol_of(o)) and followed(s) for o in i.inputs)]
    found: set[int] = set()
    if not work:
        return found
    users: dict[int, list[Instruction]] = {}
    for instruction in function.code:
        if not instruction.form.ports and instruction.outputs and instruction.outputs[0].type.kind not in "fp":
            for register in instruction.reads:
                users.setdefault(register, []).append(instruction)
    while work:
        for register in work.pop().writes:
            if register not in found:
                found.add(register)
                work += users.get(register, ())
    return found


def _apply(instruction: Instruction, state: State, derived: set[int]) -> None:
    """Update a state for an instruction."""
    for register, made in _results(instruction, state).items():
        if register in derived:
            old = state.get(register, made) if instruction.guard is not None else made
            state[register] = made if old is made else LOST


def _joined(one: State, other: State) -> State:
    """What is known where paths meet; of a register that only one of them has written, what that one says."""
    both = {**one, **other}
    return {r: made if one.get(r, made) is made else LOST for r, made in both.items()}


def _results(instruction: Instruction, state: State) -> dict[int, Made]:
    """What is known of each register that an instruction writes."""
    if not instruction.writes:
        return {}
    values = [[_value(part, state) for part in operand.parts] for operand in instruction.inputs]
    given = [value for parts in values for value in parts]
    if all(value is None for value in given):
        return dict.fromkeys(instruction.writes)
    lost: dict[int, Made] = dict.fromkeys(instruction.writes, LOST)
    if instruction.traits.generic_address:
        return dict.fromkeys(instruction.writes, given[0])
    plain = instruction.form.scope is Scope.THREAD and not instruction.form.ports
    if LOST in given or not plain or instruction.outputs[0].type.kind == "f":
        return lost
    try:
        graph = instruction.graph
    except Untraceable:
        return lost
    specs = instruction.form.operands[instruction.form.n_dest :]
    inputs = [value for spec, parts in zip(specs, values, strict=False) if not spec.constant for value in parts]
    symbols = [None, *{id(value): value for value in inputs if value is not None}.values(), LOST]
    numbers = {id(value): number for number, value in enumerate(symbols)}
    flows = _flows(graph, tuple([numbers[id(value)] for value in inputs]))
    for operand, sources in zip(instruction.outputs, flows, strict=False):
        for part, source in zip(operand.parts, sources, strict=False):
            if part.register is not None:
                lost[part.register.index] = symbols[source]
    return lost


def _value(operand: Operand, state: State) -> Made:
    return state.get(operand.register.index) if operand.register is not None else symbol_of(operand)


@functools.lru_cache(maxsize=4096)
def _flows(graph: Graph, inputs: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """What the results of a graph are made from: the number of a variable, 0 for none, -1 where it is lost."""
    if graph.size > DEEPEST:
        return tuple([(-1,) * len(nodes) for nodes in graph.outputs])
    walk = _Sources(inputs)
    return tuple([tuple(map(walk, nodes)) for nodes in graph.outputs])


class _Sources(Walk[int]):
    """What the nodes of a graph are made from."""

    def __init__(self, inputs: Sequence[int]) -> None:
        super().__init__()
        self.inputs = inputs

    def operation(self, node: Node, arguments: list[int]) -> int:
        """What the result of an operation is made from."""
        if node.op == "input":
            return self.inputs[node.value]
        named = [source for source in arguments if source]
        if not named or node.dtype.kind == "b":
            return 0
        if node.op in ("cast", "bits") and node.dtype.itemsize >= 4:
            return named[0]
        if node.op == "where" and arguments[1] == arguments[2]:
            return arguments[1]
        if node.op in ("add", "bitwise_or", "bitwise_xor") and len(named) == 1:
            return named[0]
        return arguments[0] if node.op == "subtract" and not arguments[1] else -1
