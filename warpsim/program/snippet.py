"""Makes a program of bare instructions: one kernel, in which undeclared registers get their type from use."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

import warpsim.isa  # noqa: F401  declares the instructions
from warpsim.errors import Finding, PtxError
from warpsim.isa import matching
from warpsim.isa.matching import Candidate, TypedOperand
from warpsim.program.build import load_program
from warpsim.program.names import SPECIALS
from warpsim.program.program import Program, Register
from warpsim.ptx import ast
from warpsim.ptx.parser import parse
from warpsim.ptx.words import NEWEST
from warpsim.records import frozen
from warpsim.types import TYPES, ScalarType

KERNEL = "snippet"
_END = "ret"
_RESERVED = frozenset(("smem", "WARP_SZ"))


@frozen
class Snippet:
    """A program whose only kernel, ``snippet``, is the given code; its registers by name."""

    program: Program
    registers: dict[str, Register]


def snippet_program(code: str, *, target: str = "sm_90a", shared_bytes: int = 0) -> Snippet:
    """Make a program of bare instructions; ``smem`` is a shared array of ``shared_bytes``.

    Raises:
        PtxError: with every problem of the code.
    """
    header = (
        f".version {NEWEST[0]}.{NEWEST[1]} .target {target} .address_size 64 "
        f".shared .align 1024 .b8 smem[{max(shared_bytes, 16)}]; .visible .entry {KERNEL}() {{ "
    )
    try:
        module = parse(f"{header}{code}\n{_END}; }}\n", "<ptx>", matching.is_name)
        items = tuple(_declared(item) if isinstance(item, ast.Function) else item for item in module.items)
        program = load_program(attrs.evolve(module, items=items), code)
    except PtxError as error:
        lines = code.split("\n")
        raise PtxError(findings=tuple(_moved(finding, len(header), lines) for finding in error.findings)) from None
    kernel = program.functions[KERNEL]
    placed = tuple(
        attrs.evolve(i, span=i.span._replace(column=i.span.column - len(header))) if i.span.line == 1 else i
        for i in kernel.code
    )
    kernel = kernel.with_code(placed)
    program = attrs.evolve(program, functions={**program.functions, KERNEL: kernel})
    return Snippet(program, {register.name: register for register in kernel.registers})


def _moved(finding: Finding, header: int, lines: list[str]) -> Finding:
    """Move a finding to its place in the code alone; a place after the code becomes its end."""
    if finding.line > len(lines):
        message = finding.message.replace(f"'{_END}'", "the end of the code")
        return attrs.evolve(finding, line=len(lines), column=len(lines[-1]) + 1, text=lines[-1], message=message)
    text = lines[finding.line - 1] if finding.line > 0 else ""
    column = max(finding.column - header, 1) if finding.line == 1 else finding.column
    return attrs.evolve(finding, column=column, text=text)


# ---- types from use ------------------------------------------------------------------------------


def _declared(function: ast.Function) -> ast.Function:
    """The kernel with a declaration for every undeclared register."""
    assert function.body is not None
    known: set[str] = set()
    prefixes: list[tuple[str, int]] = []
    for statement in _statements(function.body):
        if isinstance(statement, ast.Variable):
            for item in statement.declarators:
                known.add(item.name)
                if item.count is not None:
                    prefixes.append((item.name, item.count))
        elif isinstance(statement, ast.Label):
            known.add(statement.name)
    uses: dict[str, list[ScalarType]] = {}
    for statement in _statements(function.body):
        if isinstance(statement, ast.Instruction):
            for name, type in _uses(statement):
                if name.text not in known and name.text not in _RESERVED and not _covered(name.text, prefixes):
                    uses.setdefault(name.text, []).append(type)
    made = tuple(
        ast.Variable("reg", _joined(types).name, (ast.Declarator(name, None, (), None, function.span),), function.span)
        for name, types in uses.items()
    )
    return attrs.evolve(function, body=attrs.evolve(function.body, statements=(*made, *function.body.statements)))


def _statements(block: ast.Block) -> Iterator[ast.Statement]:
    for statement in block.statements:
        if isinstance(statement, ast.Block):
            yield from _statements(statement)
        else:
            yield statement


def _covered(name: str, prefixes: list[tuple[str, int]]) -> bool:
    return any(name.startswith(p) and name[len(p) :].isdigit() and int(name[len(p) :]) < count for p, count in prefixes)


def _uses(node: ast.Instruction) -> Iterator[tuple[ast.Name, ScalarType]]:
    """The names in register position, with the type that the instruction gives them."""
    if node.guard is not None:
        yield node.guard.register, TYPES["pred"]
    operands: list[ast.Operand] = []
    for operand in node.operands:
        operands += [operand.first, operand.second] if isinstance(operand, ast.Pair) else [operand]
    for candidate in matching.candidates(node.opcode, node.modifiers):
        if _alike(candidate, operands):
            short = len(operands) < len(candidate.operands)
            specs = [typed for typed in candidate.operands if not (short and typed.spec.optional)]
            for typed, operand in zip(specs, operands, strict=True):
                yield from _names(typed, operand)
            return


def _alike(candidate: Candidate, operands: list[ast.Operand]) -> bool:
    specs = list(candidate.operands)
    if len(operands) < len(specs):
        specs = [typed for typed in specs if not typed.spec.optional]
    return len(specs) == len(operands) and all(
        isinstance(operand, ast.Address) == (typed.spec.kind == "address")
        and isinstance(operand, ast.Vector) == (typed.count is not None and (typed.count != 1 or typed.spec.braces))
        for typed, operand in zip(specs, operands, strict=True)
    )


def _names(typed: TypedOperand, operand: ast.Operand) -> Iterator[tuple[ast.Name, ScalarType]]:
    if isinstance(operand, ast.Address):
        narrow = not {"shared", "tensor"}.isdisjoint(typed.spaces or ())
        if operand.base is not None:
            yield operand.base, TYPES["u32" if narrow else "u64"]
        for extra in operand.extra:
            for element in extra.elements if isinstance(extra, ast.Vector) else (extra,):
                if isinstance(element, ast.Name):
                    yield element, TYPES["s32"]
    elif typed.spec.kind == "value" and typed.type is not None:
        type = typed.type
        if isinstance(operand, ast.Vector) and typed.count == 0:
            type = TYPES[f"b{type.bits // max(len(operand.elements), 1)}"]
        for element in operand.elements if isinstance(operand, ast.Vector) else (operand,):
            name = element.operand if isinstance(element, ast.Negated) else element
            if isinstance(name, ast.Name) and name.text.removeprefix("%") not in SPECIALS:
                yield name, type


def _joined(types: list[ScalarType]) -> ScalarType:
    """One declaration for all uses: the widest type, and a more specific one than ``.bN`` if the uses agree."""
    widest = max(type.bits for type in types)
    same = [type for type in types if type.bits == widest]
    if widest < 16 and same[0].kind != "p":
        return TYPES["s16" if same[0].kind == "s" else "u16"]
    plain = [type for type in same if type.name in ("f16", "f32", "f64") or type.kind in "usp"]
    kinds = {"i" if type.kind in "us" else type.kind for type in plain}
    bare = any((type not in plain and not type.name.startswith("b")) or type.name.startswith("bf") for type in same)
    if len(kinds) != 1 or bare:
        return TYPES[f"b{widest}"]
    return plain[0]
