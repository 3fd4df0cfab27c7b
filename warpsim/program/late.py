"""Makes the code of a function that was read by line, when it is first asked for."""

from __future__ import annotations

import itertools
import re
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence

import attrs

from warpsim.errors import Span
from warpsim.isa import matching
from warpsim.isa.traits import Ending
from warpsim.program.blocks import Blocks
from warpsim.program.lines import Reading
from warpsim.program.names import DIGITS, FunctionBuilder, Label, Place, Scope, Symbol
from warpsim.program.problems import Problems
from warpsim.program.program import CARRY, Body, Instruction, Operand, Register
from warpsim.program.resolve import Resolver
from warpsim.program.shapes import NAME, hole_of
from warpsim.program.statements import WHOLE, Group, Piece, Shape, Statement, Written
from warpsim.program.typecheck import Checker
from warpsim.ptx import ast
from warpsim.ptx.outline import HOLE
from warpsim.ptx.parser import Parser
from warpsim.types import TYPES


def ended(builder: FunctionBuilder, code: list[Instruction], span: Span) -> Body:
    """A body with its code. Its closing brace returns; a label there, what may be passed, and a function without code need an
    instruction to run."""
    if not code or len(builder.code) in builder.labels.values() or _goes_on(code[-1]):
        ret = matching.candidates("ret", ())[0]
        code = [*code, Instruction(ret.form, ret.op, ret.traits, (), None, span)]
    if any(form.operands and form.operands[0].pair for form in {i.form for i in code}):
        code = list(map(_with_first, code))
    return Body(tuple(builder.registers), tuple(code), builder.labels)


def _with_first(instruction: Instruction) -> Instruction:
    """An instruction with its first result alone where one register is given for both: a GPU keeps that."""
    operands = instruction.operands
    if len(operands) < 2 or operands[0].register is None or operands[0].register is not operands[1].register:
        return instruction
    if not instruction.form.operands[0].pair:
        return instruction
    return attrs.evolve(instruction, operands=(operands[0], Operand(operands[1].type), *operands[2:]))


def _goes_on(instruction: Instruction) -> bool:
    """Whether a block's last instruction lets threads come to what is behind it."""
    ending = instruction.traits.ending
    return ending is Ending.CALL or (ending is not None and instruction.guard is not None)


class Late:
    """The code of a function whose body was read by line; the first of its lines is at ``begin``."""

    def __init__(self, checker: Checker, scope: Scope, read: Reading, begin: Span) -> None:
        self.checker, self.builder, self.scope = checker, checker.builder, scope
        self.text, self.statements, self.kinds, self.begin = read.text, read.statements, read.kinds, begin
        self.names: list[str] = []
        """Those of the line or group at hand that begin with a percent sign."""
        self.widths: list[int] = []
        """Of a group, how long those until each are together."""
        self.registers: dict[str, Register] = {}
        """Those of the lines until the one at hand."""
        self.known: dict[str, Operand] = {}
        """Operands that are registers, by type and name."""
        self.others: list[Instruction] = []
        if read.odd:
            self._check(read.odd)

    def _check(self, numbers: list[int]) -> None:
        """Check what is not a line, at these places of the code, unless its like was checked before."""
        checked: list[Instruction] = []
        groups: dict[Group, None] = {}
        with self.builder.trial(numbers):
            for number in numbers:
                node = self.builder.code[number]
                if isinstance(node, Written):
                    groups[node.group] = None
                elif (made := self.checker.at(number)) is not None:
                    checked.append(made)
        self.others = [*checked, *(kind for group in groups for kind in group.kinds)]

    def samples(self) -> tuple[Instruction, ...]:
        """An instruction of each kind."""
        return (*{id(each): each for each in map(Statement.sample, self.statements)}.values(), *self.others)

    def body(self) -> Body:
        """Make the body, once."""
        made = ended(self.builder, list(self._code()), self.begin)
        self.builder.code, self.builder.runs, self.text, self.known, self.registers = [], [], "", {}, {}
        return made

    def _target(self, name: str) -> int:
        """Where a label stands."""
        label = self.scope.labels[name]
        assert isinstance(label, Label)
        return label.target

    def _code(self) -> Iterator[Instruction]:
        """The instructions."""
        written, parsed = None, []
        pieces: tuple[Piece, ...] = ()
        texts = self.text.split("\n")
        for number, (node, (begin, scope, places, row)) in enumerate(self.builder.all()):
            self.builder.at, at = number, row + number - begin
            if isinstance(node, Statement):
                names = self.names = NAME.findall(texts[at])
                guarded = len(names[0]) if node.shape.instruction.guard is not None else 0
                yield self._instruction(node, places, self.begin.line + at, node.shape.column + guarded)
                continue
            if isinstance(node, Written):
                if node is not written:
                    written, pieces = node, self._pieces(node, scope)
                    parsed = [] if pieces else self._parsed(node)
                if pieces:
                    statement, line, column, first, end = pieces[at]
                    column += self.widths[end] - self.widths[first]
                    yield self._instruction(statement, places, node.line + line, column)
                    continue
                node = parsed[at]
            made = self.checker.check(node, scope, places)
            assert made is not None, "it was checked before"
            yield made

    def _parsed(self, node: Written) -> list[ast.Instruction]:
        return _instructions(Parser("", self.begin.file, matching.is_name).statements(node.text, node.line))

    def _pieces(self, node: Written, scope: Scope) -> tuple[Piece, ...]:
        """The instructions of a group with holes, for which the names of this text are found; nothing if it has none."""
        group = node.group
        if not group.pieces:
            group.pieces.append(_pieces_of(node, self.kinds, self.checker))
        self.names = NAME.findall(node.text)
        self.widths = _widths(self.names)
        for name in _declared(group) if group.pieces[0] else ():
            register = scope.symbols[name]
            assert isinstance(register, Register)
            alias = f"{HOLE}{register.index}"
            self.registers[alias] = register
            self.names.append(alias)
        return group.pieces[0]

    def _instruction(self, node: Statement, places: tuple[Place, ...], line: int, column: int) -> Instruction:
        """Make an instruction of a line or a group, whose names are found."""
        shape, known, registers = node.shape, self.known, self.registers
        sample, names = shape.instruction, self.names
        guard = sample.guard
        if guard is not None:
            name = names[guard[0].index]
            guard = registers.get(name) or self._register(name), guard[1]
        made = []
        for operand, place, key in shape.operands:
            if place >= 0:
                name = names[place]
                found = known.get(key + name)
                if found is None:
                    register = registers.get(name) or self._register(name)
                    found = known[key + name] = Operand(operand.type, register, operand.negated)
                made.append(found)
            else:
                made.append(operand if place == WHOLE else node.placed(operand, self._placed, self._target))
        operands = tuple(made)
        span = tuple.__new__(Span, (self.begin.file, line, column, sample.span.length))
        form, op, traits = sample.form, sample.op, sample.traits
        if not places:
            return Instruction(form, op, traits, operands, guard, span)
        return Instruction(form, op, traits, operands, guard, span, places[0], places[1:])

    def _placed(self, o: Operand) -> Operand:
        """An operand with the register that its hole is for."""
        at = o.register.index  # type: ignore[union-attr]
        if at == len(self.names):
            for name in self.names:  # the carry flag is the last that is counted
                self._register(name)
            return Operand(o.type, self.builder.carry())
        name = self.names[at]
        key = o.type.name + name if not o.negated else f"!{o.type.name}{name}"
        found = self.known.get(key)
        if found is None:
            register = self.registers.get(name) or self._register(name)
            found = self.known[key] = Operand(o.type, register, o.negated)
        return found

    def _register(self, name: str) -> Register:
        """A register of the function."""
        scope = self.scope
        found = scope.made.get(name) or scope.symbols.get(name)
        if found is None:
            type = TYPES[self.kinds[name][len(HOLE) :]]
            if "0" in name and name[len(name.rstrip(DIGITS))] == "0":  # %r01
                found = scope.of_range(name, self.builder, type, 1)
            else:
                found = scope.made[name] = self.builder.register(name, type)
        assert isinstance(found, Register)
        self.registers[name] = found
        return found


# ---- groups ----------------------------------------------------------------------------------------
# Statements that take several lines, or share one: of those alike but for registers of the function one is checked, and the others
# are parsed when their code is made.


def _instructions(made: Sequence[ast.Statement]) -> list[ast.Instruction]:
    """The instructions of a group."""
    return [each for each in _inside(made) if isinstance(each, ast.Instruction)]


def grouped(checker: Checker, made: Sequence[ast.Statement], numbers: range, kinds: Mapping[str, str]) -> Group | None:
    """The group of statements, given the places of their code and what stands for the names of their function; None where
    something is wrong, or others that look alike may mean something else."""
    declared = [each for each in _inside(made) if not isinstance(each, ast.Instruction)]
    variables = [each for each in declared if isinstance(each, ast.Variable) and each.space == "reg"]
    items = [item for each in variables for item in each.declarators]
    if not numbers or len(variables) < len(declared) or len(numbers) != len(_instructions(made)):
        return None
    if any(item.count is not None or kinds.get(item.name, "").startswith(HOLE) for item in items):
        return None
    code = _checked(checker, numbers)
    block = isinstance(made[0], ast.Block)
    own = checker.builder.run(numbers[0])[1].symbols.keys() if block else ()
    for instruction in code:
        names = [instruction.guard[0].name] if instruction.guard is not None else []
        for o in (leaf for operand in instruction.operands for leaf in _leaves(operand)):
            if o.variable is not None or o.parameter is not None or o.function or o.targets:
                return None
            names += [o.register.name] if o.register is not None else []
        if not all(name in own or name == CARRY or kinds.get(name, "").startswith(HOLE) for name in names):
            return None
    return Group(tuple(variables), tuple(code), block=block) if code else None


def _declared(group: Group) -> list[str]:
    """The names that are declared in a group."""
    return [item.name for each in group.declarations for item in each.declarators]


def _pieces_of(node: Written, kinds: Mapping[str, str], checker: Checker) -> tuple[Piece, ...]:
    """The instructions of a group with holes, in which each register of the function has a name of its own; nothing where this
    is not possible."""
    holes: dict[str, Symbol] = {}
    number = itertools.count()

    def fill(match: re.Match[str]) -> str:
        at, kind = next(number), kinds[match[0]]
        if not kind.startswith(HOLE):
            return match[0]
        name = f"%_{at}"
        holes[name] = Register(name, at, TYPES[kind[len(HOLE) :]])
        return name

    text = NAME.sub(fill, node.text)
    module, group = checker.resolver.module, node.group
    builder, scope, problems = FunctionBuilder("", entry=checker.builder.entry), Scope(None), Problems("", text)
    builder.registers = [Register("", at, TYPES["b32"]) for at in range(next(number))]
    scope.symbols = holes
    resolver, inner = Resolver(module, problems), Scope(scope)
    Blocks(builder, resolver).add(group.declarations, inner)
    total, one = len(builder.registers), Checker(resolver, builder, problems, module)
    nodes = _instructions(Parser("", "", matching.is_name).statements(text, 1))
    code = [made for each in nodes if (made := one.check(each, inner, ())) is not None]
    plain = "%_" not in node.text and all(isinstance(each, Register) for each in inner.symbols.values())
    if not plain or problems.findings or len(builder.registers) > total:
        return ()
    begins = [0, *(match.end() for match in re.finditer("\n", text))]
    names = list(NAME.finditer(text))
    ends, widths = [match.end() for match in names], _widths([match[0] for match in names])
    pieces = []
    for made in code:
        _, line, column, _ = made.span
        begin = begins[line - 1]
        first, end = bisect(ends, begin), bisect(ends, begin + column - 1)
        statement = Statement(Shape(made, 0, tuple([hole_of(o, total) for o in made.operands])), ())
        pieces.append(Piece(statement, line - 1, column - widths[end] + widths[first], first, end))
    return tuple(pieces)


def _widths(names: Sequence[str]) -> list[int]:
    """How long names are together, until each of them and all."""
    return list(itertools.accumulate(map(len, names), initial=0))


def _checked(checker: Checker, numbers: range) -> list[Instruction]:
    """The instructions at some places; none where anything is wrong, which is said when the whole function is checked."""
    builder, problems = checker.builder, checker.problems
    code: list[Instruction] = []
    if problems.findings:
        return code
    with builder.trial(numbers):
        code += [made for number in numbers if (made := checker.at(number)) is not None]
    if problems.findings:
        problems.findings.clear()
        problems.orders.clear()
        code.clear()
    return code


def _inside(made: Sequence[ast.Statement]) -> Sequence[ast.Statement]:
    """What stands in the only block, or the statements."""
    return made[0].statements if len(made) == 1 and isinstance(made[0], ast.Block) else made


def _leaves(o: Operand) -> Iterator[Operand]:
    """An operand and all parts of it."""
    yield o
    for each in (*([o.base] if o.base is not None else ()), *o.coordinates, *(o.elements or ())):
        yield from _leaves(each)
