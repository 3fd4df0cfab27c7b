"""The variable that an access's address is made from, whatever was added to it.

Registers are followed from the instructions that name a variable through moves, conversions and sums, along every path through a
function. What is made from two variables, or from one in any other way (a product, a difference of addresses), is not known;
nor is what memory, a call or another thread gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warpsim.analysis.dataflow import settle
from warpsim.analysis.flow import blocks_of
from warpsim.graph.evaluate import Walk
from warpsim.graph.nodes import Node, Untraceable
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
    ``followed``, where it is known.
    """
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
    if graph.size > DEEPEST:
        return lost
    specs = instruction.form.operands[instruction.form.n_dest :]
    inputs = [value for spec, parts in zip(specs, values, strict=False) if not spec.constant for value in parts]
    walk = _Sources(inputs)
    for operand, nodes in zip(instruction.outputs, graph.outputs, strict=False):
        for part, node in zip(operand.parts, nodes, strict=False):
            if part.register is not None:
                lost[part.register.index] = walk(node)
    return lost


def _value(operand: Operand, state: State) -> Made:
    return state.get(operand.register.index) if operand.register is not None else symbol_of(operand)


class _Sources(Walk[Made]):
    """What the nodes of a graph are made from."""

    def __init__(self, inputs: Sequence[Made]) -> None:
        super().__init__()
        self.inputs = inputs

    def operation(self, node: Node, arguments: list[Made]) -> Made:
        """What the result of an operation is made from."""
        if node.op == "input":
            return self.inputs[node.value]
        named = [made for made in arguments if made is not None]
        if not named or node.dtype.kind == "b":
            return None
        if node.dtype.itemsize < 4:
            return LOST
        if node.op in ("cast", "bits"):
            return named[0]
        if node.op == "where":
            return arguments[1] if arguments[1] is arguments[2] else LOST
        if node.op in ("add", "bitwise_or", "bitwise_xor"):
            return named[0] if len(named) == 1 else LOST
        if node.op == "subtract":
            return arguments[0] if arguments[1] is None else LOST
        if node.op == "bitwise_and":
            return named[0] if len(named) == 1 and any(map(_aligns, node.args)) else LOST
        return LOST


def _aligns(mask: Node) -> bool:
    """Whether a constant keeps all but the low bits of what it is combined with."""
    if mask.op != "const":
        return False
    cleared = ~int(mask.value) & ((1 << 8 * mask.dtype.itemsize) - 1)
    return cleared & (cleared + 1) == 0
