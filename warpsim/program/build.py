"""From a syntax tree to a typed program: every name resolved, every instruction matched to a form."""

from __future__ import annotations

import attrs

from warpsim.errors import Span
from warpsim.isa import matching
from warpsim.program.problems import Problems
from warpsim.program.program import Function, Instruction, LabelRef, Param, Program, Targets, Variable
from warpsim.program.resolve import FunctionBuilder, Prototype, Resolver, Scope, VectorRegister
from warpsim.program.typecheck import Checker
from warpsim.ptx import ast


def load_program(module: ast.Module, source: str = "") -> Program:
    """The typed program of a module.

    Raises:
        PtxError: with every problem of the module.
    """
    problems = Problems(module.file, source or module.source)
    resolver = Resolver(module, problems)
    target = module.target[0] if module.target else ""
    if not _known_target(target):
        problems.add("target", _first_span(module), f"{target} is no target", "for example sm_80, sm_90a")
    if module.address_size == 32:
        problems.add(
            "unsupported", _first_span(module), "addresses of 32 bits are not simulated", "compile for .address_size 64"
        )
    elif module.address_size != 64:
        problems.add("directive", _first_span(module), f".address_size {module.address_size} is neither 32 nor 64")
    externs = {}
    bodies: list[ast.Function] = []
    aliases: dict[str, str] = {}
    for item in module.items:
        if isinstance(item, ast.Variable):
            resolver.variables += resolver.variable(item, "", None)
        elif isinstance(item, ast.Function):
            known = resolver.globals.get(item.name)
            if known is not None and (
                not isinstance(known, ast.Function) or (known.body is not None and item.body is not None)
            ):
                problems.add("redeclared", item.span, f"{item.name} is declared twice")
            if known is None or item.body is not None:
                resolver.globals[item.name] = item
            if item.body is not None and item.linkage == "extern":
                problems.add(
                    "linkage", item.span, f"{item.name} is .extern, and has a body here", "leave one of them out"
                )
            if item.body is not None:
                bodies.append(item)
        elif isinstance(item, ast.Directive):
            if item.name == "file":
                if len(item.arguments) > 1 and isinstance(item.arguments[0], int):
                    resolver.files[item.arguments[0]] = str(item.arguments[1]).strip('"')
                else:
                    problems.add("directive", item.span, ".file takes a number and a name")
            elif item.name == "alias" and len(item.arguments) == 2:
                resolver.aliases.add(str(item.arguments[0]))
                aliases[str(item.arguments[0])] = str(item.arguments[1])
    _whole(module, resolver, problems)
    for name, symbol in resolver.globals.items():
        if isinstance(symbol, ast.Function) and symbol.body is None:
            externs[name] = (resolver.params(symbol.params), resolver.params(symbol.returns))
    functions = {}
    for body in bodies:
        functions[body.name] = _function(body, resolver, problems, module)
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
UNDECLARABLE = frozenset(("bf16", "bf16x2", "tf32", "e4m3", "e5m2"))
LEAST_VERSION = {
    **{70: (6, 0), 72: (6, 1), 75: (6, 3), 80: (7, 0), 86: (7, 1), 87: (7, 4), 88: (9, 0), 89: (7, 8), 90: (7, 8)},
    **{100: (8, 6), 101: (8, 6), 103: (8, 8), 110: (9, 0), 120: (8, 7), 121: (8, 8)},
}
"""The PTX version that introduced a target."""


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
    seen: set[str] = set()
    for item in module.items:
        if isinstance(item, ast.Function):
            seen.add(item.name)
        if isinstance(item, ast.Directive) and item.name == "alias":
            for name in item.arguments[:2]:
                if name not in seen:
                    problems.add("undeclared", item.span, f"{name} of .alias is no function declared before it")


def _known_target(name: str) -> bool:
    return name.startswith("sm_") and name[3:].rstrip("af").isdigit() and len(name) < 10


def _first_span(module: ast.Module) -> Span:
    return Span(module.file, 1, 1)


def _function(node: ast.Function, resolver: Resolver, problems: Problems, module: ast.Module) -> Function:
    builder = FunctionBuilder(node.name, node.entry)
    outer = Scope(None)
    params, returns = [
        tuple([_parameter(declared, made, node, builder, resolver, outer) for declared, made in zip(a, b, strict=True)])
        for a, b in ((node.params, resolver.params(node.params)), (node.returns, resolver.params(node.returns)))
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
    for instruction, scope, source in builder.code:
        if problems.full:
            break
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
        if node.entry and None in declared.declarators[0].dimensions:
            resolver.problems.add("directive", declared.span, f"{made.name}: a kernel's parameter needs a size")
        return made
    if node.entry:
        resolver.problems.add("directive", declared.span, f"parameter {made.name} of a kernel must be a .param")
    symbol = builder.declared(made.name, made.type, declared.vector)
    resolver.declare(made.name, symbol, declared.span, scope)
    return attrs.evolve(made, registers=symbol.elements if isinstance(symbol, VectorRegister) else (symbol,))


def _sizes(node: ast.Function, params: tuple[Param, ...], problems: Problems) -> None:
    """Limits of a kernel's parameters and of its directives' arguments."""
    used = params[-1].offset + params[-1].size if params else 0
    if node.entry and used > MAX_PARAM_BYTES:
        problems.add(
            "directive", node.span, f"{node.name} has {used} bytes of parameters; {MAX_PARAM_BYTES} is the limit"
        )
    for directive in node.directives:
        if directive.name in ("maxntid", "reqntid", "reqnctapercluster") and not 1 <= len(directive.arguments) <= 3:
            problems.add(
                "directive",
                directive.span,
                f".{directive.name} takes one to three numbers, not {len(directive.arguments)}",
            )


def _label(scope: Scope, name: str) -> LabelRef | None:
    at: Scope | None = scope
    while at is not None:
        found = at.labels.get(name)
        if isinstance(found, LabelRef):
            return found
        at = at.outer
    return None


def _block(
    node: ast.Block, outer: Scope, builder: FunctionBuilder, resolver: Resolver, loc: list[tuple[str, int] | None]
) -> None:
    """Flatten a block; labels and declarations of the whole block are known before its instructions are checked."""
    scope = Scope(outer)
    problems = resolver.problems
    previous: str | None = None
    for statement in node.statements:
        label, previous = previous, None
        if isinstance(statement, ast.Instruction):
            builder.code.append((statement, scope, loc[0]))
        elif isinstance(statement, ast.Label):
            if statement.name in scope.labels:
                problems.add("redeclared", statement.span, f"label {statement.name} is defined twice in this scope")
            scope.labels[statement.name] = LabelRef(statement.name, len(builder.code))
            builder.labels[
                f"{statement.name}" if statement.name not in builder.labels else f"{statement.name}#{len(builder.code)}"
            ] = len(builder.code)
            previous = statement.name
        elif isinstance(statement, ast.Variable):
            if statement.space == "reg":
                _registers(statement, scope, builder, resolver)
            else:
                builder.variables += resolver.variable(statement, builder.name, scope)
        elif isinstance(statement, ast.Block):
            _block(statement, scope, builder, resolver, loc)
        elif isinstance(statement, ast.CallPrototype) and label is not None:
            scope.labels[label] = Prototype(resolver.params(statement.params), resolver.params(statement.returns))
        elif isinstance(statement, ast.Directive):
            if statement.name == "loc":
                numbers = [a for a in statement.arguments[:2] if isinstance(a, int)]
                if len(numbers) == 2:
                    loc[0] = resolver.files.get(numbers[0], str(numbers[0])), numbers[1]
                else:
                    resolver.problems.add("directive", statement.span, ".loc takes a file, a line and a column")
            elif statement.name == "branchtargets" and label is not None:
                builder.pending.append((label, statement, scope))
            elif statement.name == "calltargets" and label is not None:
                scope.labels[label] = Targets(functions=tuple(str(a) for a in statement.arguments))


def _registers(node: ast.Variable, scope: Scope, builder: FunctionBuilder, resolver: Resolver) -> None:
    type = resolver.type_of(node.type, node.span)
    for item in node.declarators:
        if node.vector > 1 and type.kind == "p":
            resolver.problems.add("directive", item.span, "a .pred register cannot be a vector")
        elif node.vector > 1 and node.vector * type.bits > 128:
            resolver.problems.add("directive", item.span, f"a vector of {node.vector} .{type.name} is over 128 bits")
        if type.name in UNDECLARABLE or type.bits == 4:
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
        elif scope.ranges.find(item.name) is not None:
            resolver.problems.add("redeclared", item.span, f"{item.name} is declared twice in this scope")
        else:
            resolver.declare(item.name, builder.declared(item.name, type, node.vector), item.span, scope)


__all__ = ["Variable", "load_program"]
