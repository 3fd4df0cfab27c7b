"""Chooses the form of an instruction and checks its operands against it."""

from __future__ import annotations

from collections.abc import Iterator

import warpsim.isa  # noqa: F401  declares the instructions
from warpsim.isa import matching, spec, unsupported
from warpsim.isa.matching import Candidate
from warpsim.isa.spec import Op
from warpsim.isa.traits import Ending
from warpsim.program.calls import call
from warpsim.program.names import FunctionBuilder, Place, Scope
from warpsim.program.operands import check
from warpsim.program.problems import LAST, Mismatch, Problems
from warpsim.program.program import ADDRESS, Instruction, Operand, Register
from warpsim.program.resolve import Resolver
from warpsim.program.values import Values
from warpsim.ptx import ast
from warpsim.types import TYPES, StateSpace


class Checker:
    """Checks the instructions of a function."""

    def __init__(self, resolver: Resolver, builder: FunctionBuilder, problems: Problems, module: ast.Module) -> None:
        self.resolver = resolver
        self.builder = builder
        self.problems = problems
        self.version = module.version
        self.values = Values(resolver, builder)

    def all(self) -> Iterator[Instruction]:
        """The typed instructions of the function that are right, until there are too many problems."""
        for number in range(len(self.builder.code)):
            if self.problems.full:
                return
            made = self.at(number)
            if made is not None:
                yield made

    def at(self, number: int) -> Instruction | None:
        """The typed instruction at a place of the code; None after noting what is wrong with it, and for what was read by line."""
        self.builder.at, node = number, self.builder.code[number]
        if not isinstance(node, ast.Instruction):
            return None
        _, scope, places, _ = self.builder.run(number)
        return self.check(node, scope, places)

    def check(self, node: ast.Instruction, scope: Scope, places: tuple[Place, ...]) -> Instruction | None:
        """The typed instruction; None after noting what is wrong with it."""
        text = ".".join((node.opcode, *node.modifiers))
        self.values.begin(scope, node.opcode)
        guard = self._guard(node, scope)
        found = matching.candidates(node.opcode, node.modifiers)
        if not found:
            self._no_form(node, text)
            return None
        best: Mismatch | None = None
        for candidate in found:
            try:
                self._available(candidate, node)
                self.values.against(candidate.op, candidate.traits)
                called = candidate.traits.ending is Ending.CALL
                operands = call(self.values, node) if called else self._operands(candidate, node)
            except Mismatch as mismatch:
                if best is None or mismatch.weight > best.weight:
                    best = mismatch.with_traceback(None)  # else it holds this frame and those that called it
                continue
            if guard is not None and any(o.base is not None and _is_argument(o.base) for o in operands):
                message = f"{text} of a call's argument or result cannot have a guard"
                self.problems.add("operand-type", node.span, message, "branch around the call with its arguments", text)
            op, source = self._selected(candidate), places[0] if places else None
            return Instruction(
                candidate.form, op, candidate.traits, operands, guard, node.span, source, inlined_at=places[1:]
            )
        assert best is not None
        order = {"function": self.builder.end, "module": LAST - 1}.get(best.late)
        self.problems.add(best.rule, best.span, best.message, best.advice, text, found[0].form.anchor, order=order)
        return None

    def _guard(self, node: ast.Instruction, scope: Scope) -> tuple[Register, bool] | None:
        if node.guard is None:
            return None
        name, span = node.guard.register.text, node.guard.register.span
        found = self.resolver.lookup(scope, name, self.builder)
        if not isinstance(found, Register):
            self.problems.add("undeclared", span, f"{name} is not declared")
            return None
        if found.type.kind != "p":
            message = f"the guard {found.name} is a .{found.type.name} register, not a .pred"
            self.problems.add("operand-type", span, message)
        return found, node.guard.negated

    def _no_form(self, node: ast.Instruction, text: str) -> None:
        known = spec.forms(node.opcode)
        words = {w for f in known for s in f.pattern.slots for w in s.values}
        strange = [m for m in node.modifiers if m not in words]
        if node.opcode in unsupported.OPCODES or (known and unsupported.is_known(node.opcode, node.modifiers, strange)):
            message = f"{text} is legal PTX that this version does not run"
            self.problems.add("unsupported", node.span, message, instruction=text)
        elif known:
            near = matching.nearest(node.opcode, node.modifiers)
            message = f"{text} is not a form of {node.opcode}"
            message += f": it does not take .{strange[0]}" if strange else ""
            advice = f"the nearest form is: {near}" if near else ""
            self.problems.add("illegal-form", node.span, message, advice, text, known[0].anchor)
        else:
            import difflib

            close = difflib.get_close_matches(node.opcode, spec.opcodes(), 1)
            advice = f"did you mean {close[0]}?" if close else ""
            self.problems.add("syntax", node.span, f"{node.opcode} is not a PTX instruction", advice, text)

    def _available(self, candidate: Candidate, node: ast.Instruction) -> None:
        text = candidate.op.text
        if candidate.illegal:
            raise Mismatch("illegal-form", node.span, f"{text}: {candidate.illegal}", weight=4)
        until = candidate.form.declared.until
        if until is not None and self.version >= until[1] and self.resolver.has((until[0], None)):
            message = f"{text} was removed in PTX .version {until[1][0]}.{until[1][1]} for sm_{until[0]} and newer"
            advice = "use the form with .sync, which names the participating lanes"
            raise Mismatch("target", node.span, message, advice, 5)
        for gate in candidate.gates:
            if missed := self._missed(gate, text):
                raise Mismatch("target", node.span, missed, weight=5)

    def _missed(self, gate: spec.Gate, text: str) -> str:
        """What an instruction needs that the module has not; empty if it has it."""
        if self.resolver.has(gate):
            return ""
        target, version = gate
        if version is not None and self.version < version:
            have = f"this module has {self.version[0]}.{self.version[1]}"
            return f"{text} needs PTX .version {version[0]}.{version[1]}; {have}"
        return f"{text} needs .target {matching.targets(target)}; this module is for {self.resolver.target}"

    def _operands(self, candidate: Candidate, node: ast.Instruction) -> tuple[Operand, ...]:
        op, specs = candidate.op, tuple([typed for typed in candidate.operands if typed.spec.kind != "carry"])
        syntax = f"its syntax is: {candidate.form.syntax}"
        given: list[ast.Operand | None] = list(node.operands)
        for place, typed in enumerate(specs):
            if typed.spec.pair and place < len(given):
                operand = given[place]
                if isinstance(operand, ast.Pair):
                    given[place : place + 1] = [operand.first, operand.second]
                elif specs[place + 1].spec.optional:
                    given.insert(place + 1, None)
                else:
                    raise Mismatch("operand-type", node.span, f"{op.text} has two destinations, d|p", syntax, 1)
        if len(given) != len(specs):
            wanted, have = (len(s) - sum(typed.spec.pair for typed in specs) for s in (specs, given))
            message = f"{op.text} takes {wanted} operands, not {have}"
            raise Mismatch("operand-count", node.span, message, syntax, 1)
        found = [
            Operand(t.type or ADDRESS) if o is None else check(self.values, t, o)
            for t, o in zip(specs, given, strict=True)
        ]
        if len(specs) != len(candidate.operands):
            for at, typed in enumerate(candidate.operands):
                if typed.spec.kind == "carry":
                    found.insert(at, Operand(TYPES["pred"], self.builder.carry()))
        return tuple(found)

    def _selected(self, candidate: Candidate) -> Op:
        """The modifiers, with what the operands choose if the form takes any such: selectors, negations, elements left out."""
        op, values = candidate.op, self.values
        if values.missing:
            found: dict[str, object] = {"missing": values.missing}
        elif any(typed.spec.selectors for typed in candidate.operands):
            found = {"selectors": values.selectors, "negative": frozenset(values.negative)}
        else:
            return op
        return Op(op.text, op.modifiers, {**op.given, **found}, candidate.form.names)


def _is_argument(base: Operand) -> bool:
    """Whether an address is that of a .param variable of a function's body."""
    return base.variable is not None and base.variable.space is StateSpace.PARAM
