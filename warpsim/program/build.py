"""From a syntax tree to a typed program: every name resolved, every instruction matched to a form."""

from __future__ import annotations

import functools

import attrs

from warpsim.errors import Finding, PtxError, Span
from warpsim.isa import matching
from warpsim.isa.traits import Ending
from warpsim.program.collector import no_collection
from warpsim.program.names import BUILTINS
from warpsim.program.problems import Problems
from warpsim.program.program import (
    Addr,
    Function,
    FunctionRef,
    Instruction,
    LabelRef,
    Param,
    Program,
    Targets,
    Variable,
)
from warpsim.program.resolve import OF_INSTRUCTIONS, FunctionBuilder, Prototype, Resolver, Scope, VectorRegister
from warpsim.program.typecheck import Checker
from warpsim.ptx import ast
from warpsim.ptx.parser import read

KEPT = 1 << 16
"""Texts of so many characters are not read twice while they are among the last; longer ones would hold too much memory."""


def program_of(text: str, file: str = "<ptx>") -> Program:
    """The typed program of a text; nothing changes one.

    Raises:
        PtxError: with every problem; where the text cannot be read as a whole, those of what stands before that place.
    """
    return _kept_program(text, file) if len(text) <= KEPT else _program(text, file)


@functools.lru_cache(maxsize=32)
def _kept_program(text: str, file: str) -> Program:
    return _program(text, file)


@no_collection()
def _program(text: str, file: str) -> Program:
    module, findings = read(text, file)
    if module is not None and not findings:
        return load_program(module, text)
    early: list[Finding] = []
    if module is not None:
        try:
            load_program(module, text, link=False)
        except PtxError as error:
            first = min(f.line for f in findings)
            # A label may stand in what was not read; the head of a module is judged as a whole.
            early = [
                f for f in error.findings if f.line < first and not f.message.startswith(("label ", "PTX .version"))
            ]
    raise PtxError(findings=(*early, *findings))


def load_program(module: ast.Module, source: str = "", *, link: bool = True) -> Program:
    """The typed program of a module; without ``link``, names may be defined nowhere.

    Raises:
        PtxError: with every problem of the module.
    """
    problems = Problems(module.file, source or module.source)
    resolver = Resolver(module, problems)
    target = module.target[0] if module.target else ""
    if not _known_target(target):
        problems.add("target", _first_span(module), f"{target} is not a target", "for example sm_80, sm_90a")
    if module.address_size == 32:
        line = next((n for n, text in enumerate(problems.lines, 1) if ".address_size" in text), 1)
        span = Span(module.file, line, 1)
        problems.add("unsupported", span, "addresses of 32 bits are not simulated", "compile for .address_size 64")
    externs = {}
    bodies: list[tuple[int, ast.Function]] = []
    aliases: dict[str, str] = {}
    for number, item in enumerate(module.items):
        resolver.item = number
        if isinstance(item, ast.Variable):
            resolver.variables += resolver.variable(item, "", None)
        elif isinstance(item, ast.Function):
            _declare(item, resolver, problems)
            if item.body is not None:
                bodies.append((number, item))
        elif isinstance(item, ast.Directive):
            if item.name == "file":
                resolver.files[int(item.arguments[0])] = str(item.arguments[1]).strip('"')
            elif item.name == "alias":
                _alias(item, resolver, problems)
                aliases[str(item.arguments[0])] = str(item.arguments[1])
    _whole(module, resolver, problems)
    for name, symbol in resolver.globals.items():
        if isinstance(symbol, ast.Function) and symbol.body is None:
            externs[name] = (resolver.params(symbol.params), resolver.params(symbol.returns, "result"))
    functions = {}
    for resolver.item, body in bodies:
        functions[body.name] = _function(body, resolver, problems, module)
    problems.raise_any()
    if link:
        _linked(resolver, functions, problems)
        problems.raise_any()
    return Program(
        target,
        module.version,
        module.address_size,
        functions,
        tuple(v for v in resolver.variables if resolver.globals.get(v.name) is v or v.space.value != "global"),
        {k: v for k, v in externs.items() if k not in functions},
        aliases,
        module,
        module.file,
        problems.lines,
    )


MAX_PARAM_BYTES = 32764
MAX_CONST_BYTES = 65536
MAX_SHARED_BYTES = 227 * 1024
"""Of an sm_90 or sm_100, which have the most."""
LEAST_VERSION = {
    **{50: (4, 0), 52: (4, 1), 53: (4, 2), 60: (5, 0), 61: (5, 0), 62: (5, 0)},
    **{70: (6, 0), 72: (6, 1), 75: (6, 3), 80: (7, 0), 86: (7, 1), 87: (7, 4), 88: (9, 0), 89: (7, 8), 90: (7, 8)},
    **{100: (8, 6), 101: (8, 6), 103: (8, 8), 110: (9, 0), 120: (8, 7), 121: (8, 8)},
}
"""The PTX version that introduced a target."""


def _declare(item: ast.Function, resolver: Resolver, problems: Problems) -> None:
    """Enter a function, and hold it against an earlier declaration."""
    place = item.span if item.entry else item.heading
    known = resolver.globals.get(item.name)
    if known is not None and not isinstance(known, ast.Function):
        problems.add("redeclared", place, f"{item.name} is a variable before")
        return
    if known is not None:
        if known.entry != item.entry:
            problems.add("redeclared", item.span, f"{item.name} is once an .entry and once a .func")
        elif known.body is not None:
            problems.add("redeclared", place, f"{item.name} is declared again after its body")
        elif _heading(known) != _heading(item):
            problems.add("redeclared", place, f"{item.name} is declared before with other parameters")
        elif item.linkage != known.linkage and (item.linkage is not None or known.linkage == "extern"):
            problems.add("redeclared", place, f"{item.name} is declared before with another linkage")
        elif item.body is not None:
            resolver.globals[item.name] = item
    else:
        resolver.globals[item.name] = item
        resolver.order[item.name] = resolver.item
    if item.body is not None and item.linkage == "extern":
        problems.add("linkage", item.body.end, f"{item.name} is .extern, and has a body here", "remove one of them")


def _heading(item: ast.Function) -> object:
    """What the declarations of a function must agree in."""
    return [
        [(p.space, p.type, p.vector, p.align, p.declarators[0].dimensions) for p in side]
        for side in (item.params, item.returns)
    ]


def _alias(item: ast.Directive, resolver: Resolver, problems: Problems) -> None:
    """Check ``.alias name, function;``."""
    name, aliasee = map(str, item.arguments)
    one, other = resolver.globals.get(name), resolver.globals.get(aliasee)
    if name == aliasee:
        problems.add("linkage", item.span, f"{name} cannot be an alias of itself")
    elif name in resolver.aliases:
        problems.add("redeclared", item.span, f"{name} is an alias already")
    elif not isinstance(one, ast.Function) or not isinstance(other, ast.Function):
        missing = name if not isinstance(one, ast.Function) else aliasee
        problems.add("undeclared", item.span, f"{missing} of .alias is not a function declared before it")
    elif one.body is not None:
        problems.add("redeclared", item.span, f"{name} has a body: it cannot be an alias")
    elif _heading(one) != _heading(other):
        problems.add("linkage", item.span, f"{name} and {aliasee} have other parameters")
    resolver.aliases.add(name)


def _whole(module: ast.Module, resolver: Resolver, problems: Problems) -> None:
    """What only the whole module shows: its target against its version, its constant memory, its aliases."""
    target = module.target[0] if module.target else ""
    if _known_target(target):
        least = LEAST_VERSION.get(int(target[3:].rstrip("af")), (1, 0))
        if target.endswith("a"):
            least = max(least, (8, 0))
        if target.endswith("f"):
            least = max(least, (8, 8))
        if module.version < least:
            line = next((n for n, text in enumerate(problems.lines, 1) if text.lstrip().startswith(".target")), 1)
            have = f"{module.version[0]}.{module.version[1]}"
            message = f"PTX .version {have} does not know {target}"
            problems.add("target", Span(module.file, line, 1), message, f"it needs .version {least[0]}.{least[1]}")
    constant = sum(v.size for v in resolver.variables if v.space.value == "const")
    if constant > MAX_CONST_BYTES:
        message = f"{constant} bytes of .const variables; {MAX_CONST_BYTES} is the limit"
        problems.add("directive", _first_span(module), message, "use .global")


def _linked(resolver: Resolver, functions: dict[str, Function], problems: Problems) -> None:
    """What a link finds: names that are used and defined nowhere, and too much shared memory."""
    for name, item in resolver.globals.items():
        if isinstance(item, ast.Function):
            extern = item.body is not None or name in resolver.aliases or item.linkage == "extern" or name in BUILTINS
            if not extern:
                advice = "define it, or declare it .extern"
                problems.add("linkage", item.span, f"{name} has no body in this module", advice)
        elif item.linkage == "extern" and item.space.value != "shared" and not item.size:
            problems.add("linkage", item.span, f"{name} is defined nowhere in this module", "link its definition in")
    for function in functions.values():
        static: dict[str, int] = {v.unique: v.size for v in function.variables if v.space.value == "shared"}
        for instruction in function.code:
            for operand in instruction.operands:
                if isinstance(operand, FunctionRef) and instruction.traits.ending is Ending.CALL:
                    callee = resolver.globals[operand.name]
                    if callee.body is None and operand.name not in resolver.aliases and operand.name not in BUILTINS:
                        message = f"{operand.name} has no body in this module"
                        problems.add("linkage", instruction.span, message, "link its definition in")
                symbol = operand.base if isinstance(operand, Addr) else getattr(operand, "symbol", None)
                if not isinstance(symbol, Variable) or symbol.unique in static or not symbol.size:
                    continue
                if symbol.space.value == "shared" and (symbol.linkage != "extern" or symbol.size < 1 << 32):
                    static[symbol.unique] = symbol.size
                elif symbol.linkage == "extern" and isinstance(operand, Addr):
                    message = f"{symbol.name} is defined nowhere in this module"
                    problems.add("linkage", instruction.span, message, "link its definition in")
        if function.entry and sum(static.values()) > MAX_SHARED_BYTES:
            message = (
                f"{function.name} has {sum(static.values())} bytes of shared memory; {MAX_SHARED_BYTES} is the limit"
            )
            problems.add("directive", function.span, message)


def _known_target(name: str) -> bool:
    return name.startswith("sm_") and name[3:].rstrip("af").isdigit() and len(name) < 10


def _first_span(module: ast.Module) -> Span:
    return Span(module.file, 1, 1)


def _function(node: ast.Function, resolver: Resolver, problems: Problems, module: ast.Module) -> Function:
    builder = FunctionBuilder(node.name, entry=node.entry)
    outer = Scope(None)
    builder.results = frozenset(p.declarators[0].name for p in node.returns)
    params, returns = [
        tuple([_parameter(declared, made, node, builder, resolver, outer) for declared, made in zip(a, b, strict=True)])
        for a, b in (
            (node.params, resolver.params(node.params, "entry" if node.entry else "func")),
            (node.returns, resolver.params(node.returns, "result")),
        )
    ]
    _sizes(node, params, problems)
    assert node.body is not None
    _block(node.body, outer, builder, resolver, [None])
    for name, directive, scope in builder.pending:
        labels = []
        for argument in directive.arguments:
            found = _label(scope, str(argument))
            if found is None:
                problems.add(
                    "undeclared", directive.span, f"label {argument} of .branchtargets is not defined in this function"
                )
            else:
                labels.append(found)
        scope.labels[name] = Targets(labels=tuple(labels))
        scope.lists[name] = directive.span
    checker = Checker(resolver, builder, problems, module)
    code = []
    for number, (instruction, scope, source) in enumerate(builder.code):
        if problems.full:
            break
        builder.at = number
        checked = checker.check(instruction, scope, source)
        if checked is not None:
            code.append(checked)
    # Control that comes to the closing brace returns; a label there, and a function without code, need something to run.
    if not problems.findings and (not code or len(builder.code) in builder.labels.values()):
        ret = matching.candidates("ret", ())[0]
        code.append(Instruction(ret.form, ret.op, ret.traits, (), None, node.body.span))
    directives = {d.name: d.arguments for d in node.directives}
    return Function(
        node.name,
        node.entry,
        params,
        returns,
        tuple(builder.registers),
        tuple(builder.variables),
        tuple(code),
        builder.labels,
        directives,
        node.span,
        node.linkage,
        "noreturn" in directives,
    )


def _parameter(
    declared: ast.Variable, made: Param, node: ast.Function, builder: FunctionBuilder, resolver: Resolver, scope: Scope
) -> Param:
    """Declare a parameter in its function's scope; one in ``.reg`` becomes registers."""
    if declared.space == "param":
        resolver.declare(made.name, made, declared.span, scope)
        if node.entry and not all(declared.declarators[0].dimensions):
            resolver.problems.add("directive", declared.span, f"{made.name}: a kernel's parameter needs a size")
        return made
    if node.entry:
        resolver.problems.add("directive", declared.span, f"parameter {made.name} of a kernel must be a .param")
    symbol = builder.declared(made.name, made.type, declared.vector)
    resolver.declare(made.name, symbol, declared.span, scope)
    return attrs.evolve(made, registers=symbol.elements if isinstance(symbol, VectorRegister) else (symbol,))


def _sizes(node: ast.Function, params: tuple[Param, ...], problems: Problems) -> None:
    """Limits of a kernel's parameters and of its directives' arguments."""
    assert node.body is not None
    end, names = node.body.end, {d.name for d in node.directives}
    used = params[-1].offset + params[-1].size if params else 0
    if node.entry and used > MAX_PARAM_BYTES:
        problems.add("directive", end, f"{node.name} has {used} bytes of parameters; {MAX_PARAM_BYTES} is the limit")
    if len(node.returns) > 1 and any(p.space == "param" for p in node.returns):
        problems.add("directive", node.body.span, "several results of a function must lie in registers", "use .reg")
    if {"maxntid", "reqntid"} <= names:
        problems.add("directive", end, ".maxntid and .reqntid exclude each other")
    if "blocksareclusters" in names and not {"reqntid", "reqnctapercluster"} <= names:
        problems.add("directive", end, ".blocksareclusters needs .reqntid and .reqnctapercluster")


def _label(scope: Scope, name: str) -> LabelRef | None:
    at: Scope | None = scope
    while at is not None:
        found = at.labels.get(name)
        if isinstance(found, LabelRef):
            return found
        at = at.outer
    return None


def _block(
    node: ast.Block, scope: Scope, builder: FunctionBuilder, resolver: Resolver, loc: list[tuple[str, int] | None]
) -> None:
    """Flatten a block, whose names are those of ``scope``; labels are known before its instructions are checked."""
    problems = resolver.problems
    previous: str | None = None
    for statement in node.statements:
        label, previous = previous, None
        if isinstance(statement, ast.Instruction):
            builder.code.append((statement, scope, loc[0]))
        elif isinstance(statement, ast.Label):
            if statement.name in scope.labels:
                problems.add("redeclared", statement.span, f"label {statement.name} is defined twice in this scope")
                continue
            if statement.name in scope.symbols:
                problems.add(
                    "redeclared", statement.span, f"{statement.name} is declared in this scope, and a label here"
                )
            scope.labels[statement.name] = LabelRef(statement.name, len(builder.code))
            builder.labels[
                f"{statement.name}" if statement.name not in builder.labels else f"{statement.name}#{len(builder.code)}"
            ] = len(builder.code)
            previous = statement.name
        elif isinstance(statement, ast.Variable):
            if statement.space == "reg":
                _registers(statement, scope, builder, resolver)
            else:
                builder.variables += resolver.variable(statement, builder.name, scope, len(builder.code))
        elif isinstance(statement, ast.Block):
            _block(statement, Scope(scope), builder, resolver, loc)
        elif isinstance(statement, ast.CallPrototype) and label is not None:
            scope.labels[label] = Prototype(statement.params, statement.returns)
            if len(statement.returns) > 1 and any(p.space == "param" for p in statement.returns):
                problems.add("directive", statement.span, "several results lie in registers", "use .reg")
            scope.since.setdefault(label, len(builder.code))
        elif isinstance(statement, ast.Directive):
            if statement.name == "loc":
                number, line = map(int, statement.arguments[:2])
                loc[0] = resolver.files.get(number, str(number)), line
            elif statement.name == "branchtargets" and label is not None:
                builder.pending.append((label, statement, scope))
            elif statement.name == "calltargets" and label is not None:
                for name in map(str, statement.arguments):
                    function = resolver.globals.get(name)
                    if not isinstance(function, ast.Function):
                        problems.add("undeclared", statement.span, f"{name} of .calltargets is not a function")
                scope.since.setdefault(label, len(builder.code))
                scope.labels[label] = Targets(functions=tuple(str(a) for a in statement.arguments))


def _registers(node: ast.Variable, scope: Scope, builder: FunctionBuilder, resolver: Resolver) -> None:
    type = resolver.type_of(node.type, node.span)
    for item in node.declarators:
        if item.initialiser is not None:
            resolver.problems.add("initialiser", item.span, "a .reg variable cannot have an initialiser")
        if node.vector > 1 and type.kind == "p":
            resolver.problems.add("directive", item.span, "a .pred register cannot be a vector")
        elif node.vector > 1 and node.vector * type.bits > 128:
            resolver.problems.add("directive", item.span, f"a vector of {node.vector} .{type.name} is over 128 bits")
        if type.name in OF_INSTRUCTIONS or type.bits == 4:
            resolver.problems.add(
                "directive", node.span, f"no register can be declared .{type.name}", f"use .b{max(type.bits, 8)}"
            )
        if item.dimensions:
            resolver.problems.add(
                "directive",
                item.span,
                f"{item.name} is an array: it cannot lie in registers",
                "use %name<N>, or .local",
            )
        if item.count is not None:
            known = min(scope.numbers.get(item.name, ()), default=item.count) < item.count
            if known or item.name in scope.ranges.by_prefix:
                resolver.problems.add(
                    "redeclared", item.span, f"{item.name}<{item.count}> is declared twice in this scope"
                )
            scope.ranges.by_prefix[item.name] = (item.count, type, node.vector)
            scope.since[item.name + "<"] = len(builder.code)
        elif scope.ranges.find(item.name) is not None:
            resolver.problems.add("redeclared", item.span, f"{item.name} is declared twice in this scope")
        else:
            symbol = builder.declared(item.name, type, node.vector)
            resolver.declare(item.name, symbol, item.span, scope, len(builder.code))


__all__ = ["Variable", "load_program", "program_of"]
