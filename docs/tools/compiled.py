"""Which forms the compiled engine runs as machine code, and why it leaves the others to the interpreter:

    python -m docs.tools.compiled            prints the list
    python -m docs.tools.compiled --write    writes it to compiled.txt, where the page of instructions and a test find it

A line holds the opcode, the form, and ``compiled`` or reasons; both where some modifiers are compiled and others not."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from warpsim.errors import Span
from warpsim.graph.nodes import Node
from warpsim.isa import matching, spec
from warpsim.isa.matching import Candidate, TypedOperand
from warpsim.isa.spec import Form, Limit, Op, Scope
from warpsim.isa.traits import Ending
from warpsim.machine.binding.bind import bind_function
from warpsim.machine.plan import Image
from warpsim.native.lowering.graphs import Lowering
from warpsim.native.lowering.values import IRBuilder, Unlowerable, Val, element
from warpsim.native.regions.forms import Traced
from warpsim.native.regions.traces import Traces
from warpsim.program.program import ADDRESS, Instruction, Operand, Register, vector
from warpsim.program.snippet import KERNEL, snippet_program
from warpsim.types import TYPES, ScalarType, bits_type

LIST = Path(__file__).with_suffix(".txt")
COMPILED = "compiled"
SM = 90
PLAN = Image(snippet_program("").program, {}, bind_function).plan(KERNEL).main
MOST = 24
"""Spellings of a form that are looked at; of those that have more, so many at random."""


def spellings(form: Form) -> Iterator[Candidate]:
    """A form with the modifiers that it takes."""
    slots = form.pattern.slots
    groups = sorted({slot.group for slot in slots if slot.group is not None})
    rng, seen = random.Random(form.syntax), set()
    for number in range(8 * MOST):
        kept = {
            g for k, g in enumerate(groups) if (rng.random() < 0.5 if number >= 2 ** len(groups) else number >> k & 1)
        }
        present = [slot for slot in slots if slot.group is None or slot.group in kept]
        words = tuple(rng.choice(sorted(slot.values)) for slot in present)
        for found in matching.candidates(form.root, words):
            if found.form is form and not found.illegal and words not in seen and len(seen) < MOST:
                seen.add(words)
                yield found


def instruction_of(candidate: Candidate) -> Instruction:
    """An instruction with registers of the types that the operands have, and the least constants."""
    op, numbers = candidate.op, itertools.count()
    if any(typed.spec.selectors for typed in candidate.operands):  # a third operand without a use needs a part of d
        parts = {t.spec.name: min(t.spec.selectors) for t in candidate.operands if t.spec.selectors and t.spec.dest}
        merges = any(t.spec.name == "c" for t in candidate.operands) and not op.get("op2")
        more = {"selectors": parts if merges else {}, "negative": frozenset()}
        op = Op(op.text, op.modifiers, {**op.given, **more}, candidate.form.names)
    operands = tuple([_operand(typed, numbers) for typed in candidate.operands])
    return Instruction(candidate.form, op, candidate.traits, operands, None, Span(1, 1, ""))


def _register(type: ScalarType, numbers: Iterator[int]) -> Operand:
    number = next(numbers)
    return Operand(type, Register(f"r{number}", number, type))


def _operand(typed: TypedOperand, numbers: Iterator[int]) -> Operand:
    spec, type = typed.spec, typed.type
    if spec.kind == "address":
        narrow = typed.spaces is not None and "shared" in typed.spaces
        return Operand(ADDRESS, base=_register(TYPES["u32" if narrow else "u64"], numbers))
    if spec.kind == "sink":
        return Operand(ADDRESS)
    assert type is not None
    if typed.count is None or (typed.count == 1 and not spec.braces):
        return _value(typed, typed.limit, type, numbers)
    count = typed.count or 2
    limits = typed.limit if isinstance(typed.limit, list) else [typed.limit] * count
    part = type if typed.count else bits_type(type.bits // count)
    return vector([_value(typed, limit, part, numbers) for limit in limits])


def _value(typed: TypedOperand, limit: Limit | None, type: ScalarType, numbers: Iterator[int]) -> Operand:
    if not typed.spec.constant:
        return _register(type, numbers)
    least = 0 if limit is None else min(itertools.islice(limit, 100))
    return Operand(type, constant=least & (1 << type.bits) - 1)


def verdict(candidate: Candidate) -> str:
    """Whether the compiled engine takes an instruction, or why not."""
    form = candidate.form
    if candidate.traits.ending is Ending.BRANCH:
        return COMPILED
    if form.scope is Scope.CONTROL:
        return "leaves the function"
    instruction, known = instruction_of(candidate), Traces(PLAN, SM)
    made = known.of(instruction)
    if made is None:
        return known.reasons[id(instruction)]
    try:
        _lower(made)
    except Unlowerable as problem:
        return str(problem)
    return COMPILED


def _lower(made: Traced) -> None:
    """Write an instruction's graphs as code that nobody runs; every input is a vector.

    Raises:
        Unlowerable: what has no code.
    """
    each = [n for _, n in made.outputs] + [n for e in made.effects for n in (e.address, *e.values)]
    for graphs in (each, *([e.update] for e in made.effects if e.update is not None)):
        inputs, work = dict[int, Val](), list(graphs)
        while work:
            node = work.pop()
            work += node.args
            if node.op == "input":
                inputs[node.value] = _given(node)
        vals = [inputs.get(k, Val("i32", "%none", uniform=False)) for k in range(max(inputs, default=-1) + 1)]
        lower = Lowering(IRBuilder(), vals, _given)
        for node in graphs:
            lower(node)


def _given(node: Node) -> Val:
    return Val(element(node.dtype), "%given", uniform=False)


def verdicts(root: str, most: int = MOST) -> dict[tuple[str, str], set[str]]:
    """What is said of the forms of an opcode, for as many spellings of each."""
    found: dict[tuple[str, str], set[str]] = {}
    for form in spec.forms(root):
        said = found.setdefault((root, form.syntax), set())
        said |= {verdict(candidate) for candidate in itertools.islice(spellings(form), most)}
    return found


def listed() -> dict[tuple[str, str], list[str]]:
    """The list as it is stored: what is said of each form."""
    rows = [line.split("\t") for line in LIST.read_text(encoding="utf-8").splitlines()]
    return {(root, form): said.split("; ") for root, form, said in rows}


def main() -> None:
    """Print or write the list."""
    found = {key: said for root in sorted(spec.opcodes()) for key, said in verdicts(root).items()}
    lines = [
        "\t".join((*key, "; ".join(sorted(said, key=lambda s: (s != COMPILED, s))))) for key, said in found.items()
    ]
    text = "".join(f"{line}\n" for line in lines)
    if sys.argv[1:] == ["--write"]:
        LIST.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
