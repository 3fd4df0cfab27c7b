"""From a syntax tree to a typed program: every name resolved, every instruction matched to a form."""

from __future__ import annotations

from warpsim.program.problems import Problems
from warpsim.program.program import Function, LabelRef, Program, Targets, Variable
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
    externs = {}
    bodies: list[ast.Function] = []
    aliases: dict[str, str] = {}
    for item in module.items:
        if isinstance(item, ast.Variable):
            resolver.variables += resolver.variable(item, "", None)
        elif isinstance(item, ast.Function):
            known = resolver.globals.get(item.name)
            if known is not None and (not isinstance(known, ast.Function) or (known.body is not None and item.body is not None)):
                problems.add("redeclared", item.span, f"{item.name} is declared twice")
            if known is None or item.body is not None:
                resolver.globals[item.name] = item
            if item.body is not None:
                bodies.append(item)
        elif isinstance(item, ast.Directive):
            if item.name == "file" and len(item.arguments) > 1:
                resolver.files[int(item.arguments[0])] = str(item.arguments[1]).strip('"')
            elif item.name == "alias" and len(item.arguments) == 2:
                aliases[str(item.arguments[0])] = str(item.arguments[1])
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


def _known_target(name: str) -> bool:
    return name.startswith("sm_") and name[3:].rstrip("af").isdigit()


def _first_span(module: ast.Module) -> ast.Span:
    return ast.Span(module.file, 1, 1)


def _function(node: ast.Function, resolver: Resolver, problems: Problems, module: ast.Module) -> Function:
    builder = FunctionBuilder(node.name)
    outer = Scope(None)
    params, returns = resolver.params(node.params), resolver.params(node.returns)
    for declared, made in zip((*node.returns, *node.params), (*returns, *params), strict=True):
        if declared.space == "reg":
            resolver.declare(made.name, builder.register(made.name, made.type), declared.span, outer)
        else:
            resolver.declare(made.name, made, declared.span, outer)
    assert node.body is not None
    _block(node.body, outer, builder, resolver, [None])
    for name, directive, scope in builder.pending:
        labels = []
        for argument in directive.arguments:
            found = _label(scope, str(argument))
            if found is None:
                problems.add("undeclared", directive.span, f"label {argument} of .branchtargets is not defined in this function")
            else:
                labels.append(found)
        scope.labels[name] = Targets(labels=tuple(labels))
    checker = Checker(resolver, builder, problems, module)
    code = []
    for instruction, scope, source in builder.code:
        checked = checker.check(instruction, scope, source)
        if checked is not None:
            code.append(checked)
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


def _label(scope: Scope, name: str) -> LabelRef | None:
    at: Scope | None = scope
    while at is not None:
        found = at.labels.get(name)
        if isinstance(found, LabelRef):
            return found
        at = at.outer
    return None


def _block(node: ast.Block, outer: Scope, builder: FunctionBuilder, resolver: Resolver, loc: list[tuple[str, int] | None]) -> None:
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
            builder.labels[f"{statement.name}" if statement.name not in builder.labels else f"{statement.name}#{len(builder.code)}"] = len(builder.code)
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
            if statement.name == "loc" and len(statement.arguments) >= 2 and isinstance(statement.arguments[0], int):
                loc[0] = (resolver.files.get(statement.arguments[0], str(statement.arguments[0])), int(statement.arguments[1]))
            elif statement.name == "branchtargets" and label is not None:
                builder.pending.append((label, statement, scope))
            elif statement.name == "calltargets" and label is not None:
                scope.labels[label] = Targets(functions=tuple(str(a) for a in statement.arguments))


def _registers(node: ast.Variable, scope: Scope, builder: FunctionBuilder, resolver: Resolver) -> None:
    type = resolver.type_of(node.type, node.span)
    for item in node.declarators:
        if item.count is not None:
            known = scope.ranges.by_prefix.get(item.name)
            if known is not None:
                resolver.problems.add("redeclared", item.span, f"{item.name}<{item.count}> is declared twice in this scope")
            scope.ranges.by_prefix[item.name] = (item.count, type)
        elif node.vector > 1:
            elements = tuple(builder.register(f"{item.name}.{c}", type) for c in "xyzw"[: node.vector])
            resolver.declare(item.name, VectorRegister(elements), item.span, scope)
        else:
            resolver.declare(item.name, builder.register(item.name, type), item.span, scope)


__all__ = ["Variable", "load_program"]
