"""Descriptors that hold the rank of their CTA on a GPU, because the address in them is not masked.

Bits 24 and up of an address of a CTA's own shared memory are its rank in the cluster (H200: ``tests/layout/descriptors_of_ranks_h200.txt``);
here such addresses are alike in all CTAs. Followed is by how much registers would differ in the CTA of rank 1.
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
"""By how much registers would be larger; those that would not are left out."""


class _Inputs(Arrays):
    """The values of nodes for inputs of any type."""

    def operation(self, node: Node, arguments: list[Array]) -> Array:
        """An input of the node's type; else what NumPy gives."""
        found = super().operation(node, arguments)
        return found.astype(node.dtype) if node.op == "input" else found


def ranked_descriptors(function: Function) -> Iterator[tuple[tuple[Span, str], int]]:
    """The place of a wgmma, the name of a descriptor, and by how much that would be larger."""
    code = function.code
    if not any(map(is_mma, code)):
        return
    blocks, _ = blocks_of(function)
    start: State = {}

    def step(at: int, state: State) -> State:
        instruction = code[at]
        if not instruction.writes:
            return state
        after = {r: by for r, by in state.items() if r not in instruction.writes}
        after.update(_results(instruction, state))
        return _common(after, state) if instruction.guard is not None else after

    for at, state in walk(blocks, start, step, _common):
        for name, operand, _ in matrices(code[at]) if state and is_mma(code[at]) else ():
            if operand.register is not None and operand.register.index in state:
                yield (code[at].span, name), state[operand.register.index]


def _common(one: State, other: State) -> State:
    """What holds on both of two paths."""
    return {r: by for r, by in one.items() if other.get(r) == by}


def _results(instruction: Instruction, state: State) -> State:
    """By how much registers that an instruction writes would be larger, if by one bit; other registers that it reads count as zero."""
    specs = instruction.form.operands[instruction.form.n_dest :]
    read = [operand for spec, operand in zip(specs, instruction.inputs, strict=False) if not spec.constant]
    inputs = [part for operand in read for part in operand.parts]
    larger = [_larger(part, state) for part in inputs]
    if not any(larger) or instruction.form.scope is not Scope.THREAD or instruction.form.ports:
        return {}
    try:
        graph = instruction.graph
    except Untraceable:
        return {}
    given = [np.array(part.constant or 0) for part in inputs]
    here, there = _Inputs(given), _Inputs([a + b for a, b in zip(given, larger, strict=True)])
    found: State = {}
    for operand, nodes in zip(instruction.outputs, graph.outputs, strict=False):
        for part, node in zip(operand.parts, nodes, strict=False):
            if part.register is not None and node.dtype.kind in "iu" and (value := here(node)).size == 1:
                difference = there(node).item() - value.item() & (1 << 8 * node.dtype.itemsize) - 1
                if difference.bit_count() == 1:
                    found[part.register.index] = difference
    return found


def _larger(operand: Operand, state: State) -> int:
    if operand.register is not None:
        return state.get(operand.register.index, 0)
    return RANK if operand.variable is not None and operand.variable.space is StateSpace.SHARED else 0
