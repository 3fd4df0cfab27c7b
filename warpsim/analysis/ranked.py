"""What the descriptors of a function would hold in the CTA of rank 1 of a cluster beyond what they hold here.

On a GPU the addresses of a CTA's own shared memory hold its rank from bit 24 on (an H200: ``tests/layout/descriptors_of_ranks_h200.txt``); here they are
alike in all CTAs. A descriptor into which an address goes without a mask has the rank in its leading offset.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsim.analysis.dataflow import walk
from warpsim.analysis.facts import matrices
from warpsim.analysis.flow import blocks_of
from warpsim.analysis.wgmma_order import is_mma
from warpsim.errors import Span
from warpsim.graph.evaluate import Arrays
from warpsim.graph.nodes import Node, Untraceable
from warpsim.isa.spec import Scope
from warpsim.numerics.arrays import Array
from warpsim.program.program import Function, Instruction, Operand
from warpsim.types import StateSpace

RANK = 1 << 24
State = dict[int, int]
"""By how much registers would differ; those that would not are left out."""


class _Inputs(Arrays):
    """The values of nodes for inputs of any type."""

    def operation(self, node: Node, arguments: list[Array]) -> Array:
        """An input of the node's type; else what NumPy gives."""
        found = super().operation(node, arguments)
        return found.astype(node.dtype) if node.op == "input" else found


def descriptors_by_rank(function: Function) -> Iterator[tuple[tuple[Span, str], int]]:
    """The place of a wgmma and the name of a descriptor, and by how much it would be more, of those that would."""
    code = function.code
    if not any(map(is_mma, code)):
        return
    blocks, _ = blocks_of(function)
    start: State = {}

    def step(at: int, state: State) -> State:
        instruction = code[at]
        if not instruction.writes:
            return state
        after = {r: more for r, more in state.items() if r not in instruction.writes}
        after.update(_results(instruction, state))
        return _common(after, state) if instruction.guard is not None else after

    for at, state in walk(blocks, start, step, _common):
        for name, operand, _ in matrices(code[at]) if state and is_mma(code[at]) else ():
            if operand.register is not None and operand.register.index in state:
                yield (code[at].span, name), state[operand.register.index]


def _common(one: State, other: State) -> State:
    """What holds on both of two paths."""
    return {r: more for r, more in one.items() if other.get(r) == more}


def _results(instruction: Instruction, state: State) -> State:
    """By how much the registers that an instruction writes would differ; what it reads otherwise counts as zero."""
    specs = instruction.form.operands[instruction.form.n_dest :]
    read = [operand for spec, operand in zip(specs, instruction.inputs, strict=False) if not spec.constant]
    inputs = [part for operand in read for part in operand.parts]
    more = [_more(part, state) for part in inputs]
    if not any(more) or instruction.form.scope is not Scope.THREAD or instruction.form.ports:
        return {}
    try:
        graph = instruction.graph
    except Untraceable:
        return {}
    given = [np.array(part.constant or 0) for part in inputs]
    here, there = _Inputs(given), _Inputs([a + b for a, b in zip(given, more, strict=True)])
    found: State = {}
    for operand, nodes in zip(instruction.outputs, graph.outputs, strict=False):
        for part, node in zip(operand.parts, nodes, strict=False):
            if part.register is not None and node.dtype.kind in "iu" and (value := here(node)).size == 1:
                difference = there(node).item() - value.item() & (1 << 8 * node.dtype.itemsize) - 1
                if difference.bit_count() == 1:
                    found[part.register.index] = difference
    return found


def _more(operand: Operand, state: State) -> int:
    if operand.register is not None:
        return state.get(operand.register.index, 0)
    return RANK if operand.variable is not None and operand.variable.space is StateSpace.SHARED else 0
