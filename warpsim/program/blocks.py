"""Flattens the blocks of a function's body into its registers, variables, labels and instructions.

An operand that is a register or variable plus an immediate (``add.u32 %r1, %r2+4, tile+16``) becomes an instruction here.
The manual has such sums in addresses, and with a variable's address in mov. The assembler takes one for any integer, one of
an untyped register for a float or a pair of halves, too, and computes it in an instruction before: in the register's own
type, then converted to the operand's size (ptxas 13.0, seen in its code).
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from warpsim.isa import matching
from warpsim.isa.matching import TypedOperand
from warpsim.isa.traits import Traits
from warpsim.program.names import FunctionBuilder, Label, Place, Prototype, Scope, Symbol, TargetList
from warpsim.program.program import Param, Register, Variable
from warpsim.program.resolve import OF_INSTRUCTIONS, Resolver
from warpsim.ptx import ast
from warpsim.ptx.words import OPAQUE
from warpsim.types import TYPES, ScalarType

DEEPEST = 32
"""Calls that one place keeps."""


class Blocks:
    """Flattens the blocks of one function. Labels are declared before its instructions are checked."""

    def __init__(self, builder: FunctionBuilder, resolver: Resolver) -> None:
        self.builder, self.resolver, self.problems = builder, resolver, resolver.problems
        self.places: tuple[Place, ...] = ()
        """File and line of the last ``.loc``, then those that it is inlined at."""
        self.known: dict[tuple[object, ...], tuple[Place, ...]] = {}
        """What was followed, by the place that it named."""

    def add(self, statements: Iterable[ast.Statement], scope: Scope) -> None:
        """Flatten statements of a block, whose names are those of ``scope``."""
        label: str | None = None
        for statement in statements:
            previous, label = label, None
            match statement:
                case ast.Instruction():
                    self.builder.begin(scope, self.places)
                    self.builder.code += expanded(statement, scope, self.builder, self.resolver)
                case ast.Label():
                    label = self._label(statement, scope)
                case ast.Variable(space="reg"):
                    self._registers(statement, scope)
                case ast.Variable():
                    at, name = len(self.builder.code), self.builder.name
                    self.builder.variables += self.resolver.variable(statement, name, scope, at)
                case ast.Block():
                    self.add(statement.statements, Scope(scope))
                case ast.Directive(name="loc"):
                    place, inlined = statement.arguments[:3], "inlined_at" in statement.arguments
                    self.locate(place, statement.arguments[-3:] if inlined else None)
                case ast.CallPrototype() | ast.Directive() if previous is not None:
                    self._labelled(previous, statement, scope)

    def locate(self, place: tuple[int | str, ...], inlined_at: tuple[int | str, ...] | None) -> None:
        """Follow a ``.loc``; what it is inlined at is the place that a ``.loc`` before it has named."""
        callers: tuple[Place, ...] = ()
        if inlined_at is not None:
            callers = self.known.get(inlined_at) or (self._place(*inlined_at),)
        before = self.known.get(place)
        here = before[0] if before else self._place(*place)
        self.places = self.known[place] = (here, *callers)[:DEEPEST]

    def _place(self, number: int | str, line: int | str, _column: int | str) -> Place:
        return self.resolver.files.get(int(number), str(number)), int(line)

    # ---- labels ------------------------------------------------------------------------------

    def _label(self, node: ast.Label, scope: Scope) -> str | None:
        """Declare a label of the next instruction or declaration; None if the name is taken."""
        name = node.name
        if name in scope.labels:
            self.problems.add("redeclared", node.span, f"label {name} is defined twice in this scope")
            return None
        if name in scope.symbols:
            self.problems.add("redeclared", node.span, f"{name} is declared in this scope, and a label here")
        self.label(name, scope)
        return name

    def label(self, name: str, scope: Scope) -> None:
        """Declare a label whose name is free."""
        at, labels = len(self.builder.code), self.builder.labels
        scope.labels[name] = Label(at)
        labels[name if name not in labels else f"{name}#{at}"] = at

    def _labelled(self, label: str, node: ast.CallPrototype | ast.Directive, scope: Scope) -> None:
        """Declare a prototype or a target list, which instructions name by its label."""
        if isinstance(node, ast.Directive) and node.name == "branchtargets":
            self.builder.pending.append((label, node, scope))  # its labels may come later
            return
        if isinstance(node, ast.CallPrototype):
            scope.labels[label] = self._prototype(node)
        elif node.name == "calltargets":
            scope.labels[label] = self._functions(node)
        else:
            return
        scope.since.setdefault(label, len(self.builder.code))

    def _prototype(self, node: ast.CallPrototype) -> Prototype:
        if len(node.returns) > 1 and any(p.space == "param" for p in node.returns):
            self.problems.add("directive", node.span, "multiple results must be in registers", "use .reg")
        for declared in (*node.params, *node.returns):
            if declared.space == "reg" and any(None in item.dimensions for item in declared.declarators):
                self.problems.add("directive", declared.span, "an array without a size must be in .param")
        return Prototype(node.params, node.returns)

    def _functions(self, node: ast.Directive) -> TargetList:
        """Resolve the functions of a ``.calltargets``."""
        names = tuple(map(str, node.arguments))
        for name in names:
            if not isinstance(self.resolver.globals.get(name), ast.Function):
                self.problems.add("undeclared", node.span, f"{name} of .calltargets is not a function")
        return TargetList(functions=names)

    def branch_targets(self) -> None:
        """Resolve target lists, once all labels are known."""
        for name, directive, scope in self.builder.pending:
            labels = []
            for argument in map(str, directive.arguments):
                found = _label_of(scope, argument)
                if found is not None:
                    labels.append(found.target)
                    continue
                message = f"label {argument} of .branchtargets is not defined in this function"
                self.problems.add("undeclared", directive.span, message, order=self.builder.end)
            scope.labels[name] = TargetList(labels=tuple(labels))
            scope.lists[name] = directive.span

    # ---- registers ---------------------------------------------------------------------------

    def _registers(self, node: ast.Variable, scope: Scope) -> None:
        type = self.resolver.type_of(node.type, node.span)
        for item in node.declarators:
            self._check_register(node, item, type)
            if item.count is None:
                self._register(node, item, type, scope)
                continue
            known = min(scope.numbers.get(item.name, ()), default=item.count) < item.count
            if known or item.name in scope.ranges.by_prefix:
                message = f"{item.name}<{item.count}> is declared twice in this scope"
                self.problems.add("redeclared", item.span, message)
            scope.ranges.by_prefix[item.name] = (item.count, type, node.vector)
            scope.since[item.name + "<"] = len(self.builder.code)

    def _register(self, node: ast.Variable, item: ast.Declarator, type: ScalarType, scope: Scope) -> None:
        symbol = self.builder.declared(item.name, type, node.vector)
        self.resolver.declare(item.name, symbol, item.span, scope, len(self.builder.code))

    def _check_register(self, node: ast.Variable, item: ast.Declarator, type: ScalarType) -> None:
        """Check what cannot be a register."""
        add = self.problems.add
        self.resolver.check_wide(type, node.span)
        if node.type in OPAQUE:
            self.resolver.check_opaque(node, "function")
        elif item.initialiser is not None:
            add("initialiser", item.span, "a .reg variable cannot have an initialiser")
        if node.vector > 1 and type.kind == "p":
            add("directive", item.span, "a .pred register cannot be a vector")
        elif node.vector > 1 and node.vector * type.bits > 128:
            add("directive", item.span, f"a vector of {node.vector} .{type.name} exceeds 128 bits")
        if type.name in OF_INSTRUCTIONS or type.bits == 4:
            message = f"a register cannot be declared .{type.name}"
            add("directive", node.span, message, f"use .b{max(type.bits, 8)}")
        if item.dimensions:
            message = f"{item.name} is an array, which cannot be in registers"
            add("directive", item.span, message, "use %name<N>, or .local")


def _label_of(scope: Scope, name: str) -> Label | None:
    """Look up a label, innermost scope first."""
    at: Scope | None = scope
    while at is not None:
        found = at.labels.get(name)
        if isinstance(found, Label):
            return found
        at = at.outer
    return None


SIZES = (16, 32, 64)
"""Sizes of the integers that a constant is added to; with one for another type the assembler crashes, or does not end."""

CONVERTED = frozenset({"f16", "f32", "f64", "f16x2", "u16x2", "s16x2"})
"""Other types for which a sum of an untyped register is cut or extended to their size; bf16 and narrower ones take their own."""
_INTEGERS = frozenset(f"{kind}{bits}" for kind in "usb" for bits in SIZES)


def expanded(
    node: ast.Instruction, scope: Scope, builder: FunctionBuilder, resolver: Resolver
) -> list[ast.Instruction]:
    """An instruction with registers for the sums among its operands, behind the instructions that make them; a surface's with
    one element of a vector, before those that repeat it."""
    if repeated := _repeated(node, scope, builder, resolver):
        return repeated
    if not any(isinstance(operand, ast.SymbolOffset) for operand in node.operands):
        return [node]
    builder.at = len(builder.code)
    code: list[ast.Instruction] = []
    operands = list(node.operands)
    for place, operand in enumerate(operands):
        taken = _taken(node, place) if isinstance(operand, ast.SymbolOffset) and not operand.subscript else None
        if taken is None or not isinstance(operand, ast.SymbolOffset):
            continue
        of, (typed, traits) = resolver.lookup(scope, operand.symbol.text, builder), taken
        if isinstance(of, (Variable, Param)) and traits.symbols is not None:  # it takes addresses itself
            continue
        number = ast.Integer(operand.offset, unsigned=False, span=operand.span)
        read: tuple[ast.Operand, ...] = (operand.symbol, number) if isinstance(of, Register) else (operand,)
        for type, words in _steps(of, typed):
            name = f"{operand.symbol.text}{operand.offset:+}.{type.name}"
            if name not in scope.symbols:  # no name in a text has a sign
                scope.symbols[name] = builder.register(name, type)
            made = ast.Name(name, operand.span)
            code.append(attrs.evolve(node, opcode=words[0], modifiers=words[1:], operands=(made, *read)))
            operands[place], read = made, (made,)
    return [*code, attrs.evolve(node, operands=tuple(operands))]


def _repeated(
    node: ast.Instruction, scope: Scope, builder: FunctionBuilder, resolver: Resolver
) -> list[ast.Instruction]:
    """An instruction with the first element of a vector of two or four where its form takes one: a load's other elements are copies
    of it, a store's are not stored. Nothing for all else."""
    if not any(isinstance(operand, ast.Vector) for operand in node.operands):
        return []
    found = [c for c in matching.candidates(node.opcode, node.modifiers) if c.form.declared.repeated]
    if not found or len(found[0].operands) != len(node.operands):
        return []
    places = [
        n for n, o in enumerate(found[0].operands) if o.spec.name in found[0].form.declared.repeated and o.count == 1
    ]
    vector = node.operands[places[0]] if places else None
    if not isinstance(vector, ast.Vector) or len(vector.elements) not in (2, 4):
        return []
    place, loaded = places[0], found[0].operands[places[0]].spec.dest
    first, *others = vector.elements
    symbols = [resolver.lookup(scope, e.text, builder) if isinstance(e, ast.Name) else None for e in vector.elements]
    sizes = {symbol.type.bits if isinstance(symbol, Register) else 0 for symbol in symbols}
    if 0 in sizes or len(sizes) > 1 or (loaded and len(set(symbols)) < len(symbols)):
        return []
    operands = list(node.operands)
    operands[place] = first
    one, move = attrs.evolve(node, operands=tuple(operands)), (f"b{sizes.pop()}",)
    moved = [attrs.evolve(node, opcode="mov", modifiers=move, operands=(other, first)) for other in others]
    return [one, *moved] if loaded else [one]


def _taken(node: ast.Instruction, place: int) -> tuple[TypedOperand, Traits] | None:
    """What an instruction takes at a place; None for a result, and for what is no single value."""
    for candidate in matching.candidates(node.opcode, node.modifiers):
        specs = [o for o in candidate.operands if o.spec.kind != "carry"]
        specs = [o for o, before in zip(specs, [None, *specs], strict=False) if before is None or not before.spec.pair]
        if len(specs) == len(node.operands):
            typed = specs[place]
            single = typed.spec.kind == "value" and typed.type is not None and not typed.spec.dest
            return (typed, candidate.traits) if single and candidate.traits.register_plus_immediate else None
    return None


def _steps(of: Symbol, typed: TypedOperand) -> list[tuple[ScalarType, tuple[str, ...]]]:
    """The instructions that make a sum, each with the type of its result; none where there can be no sum."""
    wanted = typed.type
    assert wanted is not None
    integer = wanted.kind in "usb" and wanted.name == f"{wanted.kind}{wanted.bits}"
    if wanted.bits not in SIZES or typed.spec.selectors:
        return []
    rule = typed.spec.rule  # masks, counts, policies and metadata are of their own size
    fixed = typed.checked_as is not None or rule in (".u32", ".u64", ".b64") or (rule == ".b32" and typed.register)
    if isinstance(of, (Variable, Param)) and integer and not (fixed and wanted.bits == 64):
        made = TYPES[f"u{max(wanted.bits, 32)}"]
        steps: list[tuple[ScalarType, tuple[str, ...]]] = [(made, ("mov", made.name))]
    elif isinstance(of, Register) and of.type.kind in ("usb" if integer else "b") and of.type.bits in SIZES:
        made = of.type
        if "x2" in made.name or (made.bits != wanted.bits and (fixed or wanted.name not in CONVERTED | _INTEGERS)):
            return []
        steps = [(made, ("add", f"u{made.bits}"))]
    else:
        return []
    if made.bits == wanted.bits:
        return steps
    sign = "s" if made.kind == "s" else "u"
    return [*steps, (TYPES[f"b{wanted.bits}"], ("cvt", f"{sign}{wanted.bits}", f"{sign}{made.bits}"))]


__all__ = ["expanded"]
