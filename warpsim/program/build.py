"""Builds a typed program from a syntax tree: resolves every name and matches every instruction to a form."""

from __future__ import annotations

import functools
from contextlib import suppress

import attrs

from warpsim.errors import Finding, PtxError
from warpsim.isa import matching
from warpsim.isa.data_movement import even_of_pair
from warpsim.isa.spec import Form
from warpsim.program.blocks import Blocks
from warpsim.program.late import Late, ended, grouped
from warpsim.program.lines import Reading, Unusual
from warpsim.program.linking import check_links, check_target
from warpsim.program.names import FunctionBuilder, Scope, VectorRegister
from warpsim.program.problems import LAST, Problems
from warpsim.program.program import (
    MAX_PARAM_BYTES,
    Body,
    Function,
    Instruction,
    Param,
    Program,
    Variable,
    once,
)
from warpsim.program.resolve import Resolver
from warpsim.program.typecheck import Checker
from warpsim.ptx import ast
from warpsim.ptx.outline import Outline, outline_of
from warpsim.ptx.parser import read
from warpsim.ptx.tokens import SyntaxProblem


def read_program(text: str, file: str) -> Program:
    """Read a text.

    Raises:
        PtxError: with every problem; if the text cannot be parsed to its end, with the problems before that place.
    """
    found = outline_of(text, file, matching.is_name)
    if found is not None:
        with suppress(PtxError, SyntaxProblem, Unusual):  # it is read again below, which says what is wrong where
            return load_program(found.module, text, outline=found)
    module, findings = read(text, file, matching.is_name)
    if module is not None and not findings:
        return load_program(module, text)
    early: list[Finding] = []
    if module is not None:
        try:
            load_program(module, text, link=False, before=min(f.line for f in findings))
        except PtxError as error:
            early = list(error.findings)
    raise PtxError(findings=(*early, *findings))


def load_program(
    module: ast.Module, source: str = "", *, link: bool = True, before: int = LAST, outline: Outline | None = None
) -> Program:
    """Load a module as a typed program; without ``link``, names may be undefined. Problems from the line ``before`` on do not
    count. With an ``outline``, the bodies of functions are read in it.

    Raises:
        PtxError: with every problem of the module.
        SyntaxProblem, Unusual: a body of the outline has to be parsed as a whole.
    """
    problems = Problems(module.file, source or module.source, before)
    resolver = Resolver(module, problems)
    check_target(module, problems)
    bodies = _enter(module, resolver)
    externs = {}
    for name, symbol in resolver.globals.items():
        if isinstance(symbol, ast.Function) and symbol.body is None:
            here = symbol.linkage != "extern"
            externs[name] = (
                resolver.params(symbol.params, here=here),
                resolver.params(symbol.returns, "result", here=here),
            )
    functions = {}
    for resolver.item, body in bodies:
        functions[body.name] = _function(body, resolver, problems, module, outline)
    if outline is not None:
        outline.end()
    problems.raise_any()
    if link:
        check_links(resolver, functions, problems)
        problems.raise_any()
    return Program(
        module.target[0] if module.target else "",
        module.version,
        module.address_size,
        functions,
        tuple(v for v in resolver.variables if resolver.globals.get(v.name) is v or v.space.value != "global"),
        {k: v for k, v in externs.items() if k not in functions},
        resolver.aliases,
        module.source,
        "debug" in module.target,
        resolver.files,
        tuple([item for item in module.items if isinstance(item, ast.Section)]),
        module.file,
        problems.source,
    )


def _enter(module: ast.Module, resolver: Resolver) -> list[tuple[int, ast.Function]]:
    """Declare everything in a module; returns the functions with a body and their places in the module."""
    bodies = []
    for number, item in enumerate(module.items):
        resolver.item = number
        match item:
            case ast.Variable():
                resolver.variables += resolver.variable(item, "", None)
            case ast.Function():
                _declare(item, resolver, resolver.problems)
                if item.body is not None:
                    bodies.append((number, item))
            case ast.Directive(name="file"):
                resolver.files[int(item.arguments[0])] = str(item.arguments[1]).strip('"')
            case ast.Directive(name="alias"):
                _alias(item, resolver, resolver.problems)
    return bodies


MOST_BEFORE = 4352
"""The limit before PTX 8.1."""


def _declare(item: ast.Function, resolver: Resolver, problems: Problems) -> None:
    """Declare a function, and check it against an earlier declaration."""
    place = item.span if item.entry else item.heading
    known = resolver.globals.get(item.name)
    if known is not None and not isinstance(known, ast.Function):
        problems.add("redeclared", place, f"{item.name} is already declared as a variable")
        return
    if known is not None:
        if known.entry != item.entry:
            problems.add("redeclared", item.span, f"{item.name} is declared as both .entry and .func")
        elif known.body is not None:
            problems.add("redeclared", place, f"{item.name} is declared again after its body")
        elif _heading(known) != _heading(item):
            problems.add("redeclared", place, f"{item.name} was declared before with different parameters")
        elif item.linkage != known.linkage and (item.linkage is not None or known.linkage == "extern"):
            problems.add("redeclared", place, f"{item.name} was declared before with a different linkage")
        elif item.body is not None:
            resolver.globals[item.name] = item
    else:
        resolver.globals[item.name] = item
        resolver.order[item.name] = resolver.item
    if item.body is not None and item.linkage == "extern":
        problems.add("linkage", item.body.end, f"{item.name} is .extern, but has a body here", "remove one of them")


def _heading(item: ast.Function) -> object:
    """What the declarations of a function must agree on."""
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
        problems.add("redeclared", item.span, f"{name} has a body, so it cannot be an alias")
    elif _heading(one) != _heading(other):
        problems.add("linkage", item.span, f"{name} and {aliasee} have different parameters")
    resolver.aliases[name] = aliasee


def _function(
    node: ast.Function, resolver: Resolver, problems: Problems, module: ast.Module, outline: Outline | None
) -> Function:
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
    _sizes(node, params, resolver.module.version, problems)
    assert node.body is not None
    builder.end = node.body.end.line
    blocks = Blocks(builder, resolver)
    checker = Checker(resolver, builder, problems, module)
    if outline is None:
        blocks.add(node.body.statements, outer)
        blocks.branch_targets()
        body = paired(ended(builder, list(checker.all()), node.body.span), module.target[0] if module.target else "")
        made, samples = (lambda: body), None
    else:
        reading = Reading(outline.bodies[node.name], blocks, outer, outline.parser, functools.partial(grouped, checker))
        blocks.branch_targets()
        late = Late(checker, outer, reading, node.body.span)
        target = module.target[0] if module.target else ""
        made, samples = once(lambda: paired(late.body(), target)), late.samples
    directives = {d.name: d.arguments for d in node.directives}
    return Function(
        node.name,
        node.entry,
        params,
        returns,
        tuple(builder.variables),
        made,
        directives,
        node.span,
        node.linkage,
        "noreturn" in directives,
        samples,
    )


def _parameter(
    declared: ast.Variable, made: Param, node: ast.Function, builder: FunctionBuilder, resolver: Resolver, scope: Scope
) -> Param:
    """Declare a parameter in its function's scope; one in ``.reg`` becomes registers."""
    if declared.space == "param":
        resolver.declare(made.name, made, declared.span, scope)
        if node.entry and not all(declared.declarators[0].dimensions):
            resolver.problems.add("directive", declared.span, f"kernel parameter {made.name} needs a size")
        return made
    if node.entry:
        resolver.problems.add("directive", declared.span, f"kernel parameter {made.name} must be in .param")
    symbol = builder.declared(made.name, made.type, declared.vector)
    resolver.declare(made.name, symbol, declared.span, scope)
    return attrs.evolve(made, registers=symbol.elements if isinstance(symbol, VectorRegister) else (symbol,))


def _sizes(node: ast.Function, params: tuple[Param, ...], version: tuple[int, int], problems: Problems) -> None:
    """Check limits on a kernel's parameters and on its directives' arguments."""
    assert node.body is not None
    end, names = node.body.end, {d.name for d in node.directives}
    used = params[-1].offset + params[-1].size if params else 0
    if node.entry and used > MAX_PARAM_BYTES:
        problems.add("directive", end, f"{node.name} has {used} bytes of parameters; the limit is {MAX_PARAM_BYTES}")
    elif node.entry and used > MOST_BEFORE and version < (8, 1):
        message = f"{node.name} has {used} bytes of parameters; the limit before PTX .version 8.1 is {MOST_BEFORE}"
        problems.add("directive", end, message)
    if len(node.returns) > 1 and any(p.space == "param" for p in node.returns):
        problems.add("directive", node.body.span, "multiple results of a function must be in registers", "use .reg")
    if {"maxntid", "reqntid"} <= names:
        problems.add("directive", end, ".maxntid and .reqntid exclude each other")
    if "blocksareclusters" in names and not {"reqntid", "reqnctapercluster"} <= names:
        problems.add("directive", end, ".blocksareclusters needs .reqntid and .reqnctapercluster")


__all__ = ["Variable", "load_program", "read_program"]


WITHOUT_PEER_BIT, OFFSET = 0xFEFFFFFF, 0xFFFF
"""The mask, and bits that compilers clear with it because they know them to be zero."""


def paired(body: Body, target: str) -> Body:
    """The code of a function for a target; that of one for pairs of CTAs has its own meaning of clearing the peer bit.

    On a GPU, a shared address holds the rank of its CTA in the cluster from bit 24 on, and a kernel that clears this bit (CUTLASS:
    ``Sm100MmaPeerBitMask``) names the same place in the even CTA of the pair. Here addresses of a CTA's own shared memory hold no
    rank, so that such an instruction does here what it is for.
    """
    if int("".join(filter(str.isdigit, target)) or 0) < 100 or not any(
        "cta_group::2" in i.op.modifiers for i in body.code
    ):
        return body
    code = tuple([attrs.evolve(i, form=_of_pairs(i.form)) if _clears(i) else i for i in body.code])
    return attrs.evolve(body, code=code)


def _clears(instruction: Instruction) -> bool:
    if instruction.op.text != "and.b32":
        return False
    constant = instruction.operands[2].constant
    return constant is not None and (constant | OFFSET) & 0xFFFFFFFF == WITHOUT_PEER_BIT


@functools.cache
def _of_pairs(form: Form) -> Form:
    return form.replaced(function=even_of_pair, ports=frozenset({"cluster"}))
