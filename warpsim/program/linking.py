"""Checks what depends on the whole module: its target, its constant memory, and what a linker would find."""

from __future__ import annotations

from collections.abc import Mapping

from warpsim.errors import Span
from warpsim.isa.traits import Ending
from warpsim.program.names import BUILTINS, Symbol
from warpsim.program.problems import Problems, lines_of
from warpsim.program.program import Function, Instruction, Variable
from warpsim.program.resolve import Resolver
from warpsim.ptx import ast
from warpsim.ptx.directives import OF_MODULES
from warpsim.ptx.words import TILE_IR

MAX_CONST_BYTES = 65536
MAX_SHARED_BYTES = 48 * 1024
"""Of a kernel's variables; a launch may ask for more (``shared_mem=``)."""
LEAST_VERSION = {
    **{50: (4, 0), 52: (4, 1), 53: (4, 2), 60: (5, 0), 61: (5, 0), 62: (5, 0)},
    **{70: (6, 0), 72: (6, 1), 75: (6, 3), 80: (7, 0), 86: (7, 1), 87: (7, 4), 88: (9, 0), 89: (7, 8), 90: (7, 8)},
    **{100: (8, 6), 101: (8, 6), 103: (8, 8), 107: (9, 4), 110: (9, 0), 120: (8, 7), 121: (8, 8)},
}
"""The PTX version that introduced a target."""
LEAST_OF_SUFFIX = {"a": (8, 0), "f": (8, 8)}
"""The same for targets of one architecture or family."""


def check_target(module: ast.Module, problems: Problems) -> None:
    """Check a module's target."""
    target = module.target[0] if module.target else ""
    if not _known_target(target):
        problems.add("target", _first_span(module), f"{target} is not a target", "for example sm_80, sm_90a")


def check_module(module: ast.Module, resolver: Resolver, problems: Problems) -> None:
    """Check what depends on the whole module, which the assembler does at the end: version and size of addresses,
    pragmas, what a debugger needs, constant memory."""
    target = module.target[0] if module.target else ""
    if _known_target(target):
        least = max(LEAST_VERSION.get(int(target[3:].rstrip("af")), (1, 0)), LEAST_OF_SUFFIX.get(target[-1], (1, 0)))
        if module.version < least:
            have = f"{module.version[0]}.{module.version[1]}"
            message = f"PTX .version {have} does not support {target}"
            problems.add("target", _target_span(module, problems), message, f"it needs .version {least[0]}.{least[1]}")
    if module.address_size == 32:
        line = next((n for n, text in enumerate(lines_of(problems.source), 1) if ".address_size" in text), 1)
        span = Span(module.file, line, 1)
        message = "addresses of 32 bits are not simulated"
        problems.add("unsupported", span, message, "compile for .address_size 64")
    for item in module.items:
        strange = set(item.arguments) - OF_MODULES if isinstance(item, ast.Directive) and item.name == "pragma" else ()
        if strange:
            message = f"{' and '.join(sorted(map(str, strange)))}: a module has no such pragma"
            problems.add("directive", item.span, message, 'it takes "nounroll"')
    if "debug" in module.target and not any(isinstance(item, ast.Section) for item in module.items):
        message = ".target has the option debug, but the module has no .section for debuggers"
        problems.add("directive", _target_span(module, problems), message, "remove the option, or compile with -G")
    constant = sum(v.size for v in resolver.variables if v.space.value == "const")
    if constant > MAX_CONST_BYTES:
        message = f"{constant} bytes of .const variables; the limit is {MAX_CONST_BYTES}"
        problems.add("directive", _first_span(module), message, "use .global")


def check_links(resolver: Resolver, functions: Mapping[str, Function], problems: Problems) -> None:
    """Check what a linker would: undefined names, and too much shared memory."""
    for name, item in resolver.globals.items():
        if isinstance(item, ast.Function):
            if _lacks_body(name, item, resolver) and item.linkage != "extern":
                advice = "define it, or declare it .extern"
                problems.add("linkage", item.span, f"{name} has no body in this module", advice)
        elif isinstance(item, Variable) and item.linkage == "extern" and not item.size and item.space.value != "shared":
            span = item.span or _first_span(resolver.module)
            problems.add("linkage", span, f"{name} is not defined in this module", "link the module that defines it")
    check_module(resolver.module, resolver, problems)
    for declared in resolver.module.items:
        if not isinstance(declared, (ast.Function, ast.Variable)):
            continue
        if any(attribute.startswith(".unified") for attribute in declared.attributes):
            message = ".unified is for modules that are linked, and this is a whole program"
            problems.add("linkage", declared.span, message, "remove .attribute(.unified(...))")
    for function in functions.values():
        _check_function(function, resolver, problems)
    _check_addresses(resolver, problems)
    groups = {op.get("cta_group") for op in {i.op for function in functions.values() for i in function.kinds}}
    for function in functions.values() if len(groups - {None}) > 1 else ():
        _check_groups(function, functions, problems)


def _check_function(function: Function, resolver: Resolver, problems: Problems) -> None:
    """Check a function's calls and accesses, and a kernel's shared memory."""
    shared = {v.unique: v.size for v in function.variables if v.space.value == "shared"}
    for instruction in function.kinds:
        for operand in instruction.operands:
            name = operand.function
            if not name:
                symbol = (operand.base or operand).variable
                if symbol is not None:
                    _check_access(instruction, symbol, shared, problems, addressed=operand.base is not None)
            elif _lacks_body(name, resolver.globals[name], resolver, called=instruction.traits.ending is Ending.CALL):
                advice = "link the module that defines it"
                if name.startswith("__cuda"):
                    advice = "it is a function of CUDA's device runtime that is not simulated"
                problems.add("linkage", instruction.span, f"{name} has no body in this module", advice)
    used = sum(shared.values())
    if function.entry and used > MAX_SHARED_BYTES and TILE_IR not in function.directives.get("language", ()):
        message = f"{function.name} has {used} bytes of shared variables; the limit is {MAX_SHARED_BYTES}"
        problems.add("directive", function.span, message, "declare .extern .shared, and pass shared_mem= to the launch")


def _check_addresses(resolver: Resolver, problems: Problems) -> None:
    """Check that functions whose addresses are initial values of the module's variables have a body."""
    for variable in resolver.variables:
        for name in dict.fromkeys(relocation.symbol for relocation in variable.relocations):
            if _lacks_body(name, resolver.globals.get(name), resolver, called=False):
                span = variable.span or _first_span(resolver.module)
                message = f"{name}, whose address is an initial value, has no body in this module"
                problems.add("linkage", span, message, "link the module that defines it")


def _check_groups(function: Function, functions: Mapping[str, Function], problems: Problems) -> None:
    """Check that tcgen05 instructions of a function, and of what it calls, are all for one CTA, or all for a pair."""
    seen: dict[str, Instruction] = {}
    reached, left = {function.name}, [function]
    for one in left:
        for instruction in one.kinds:
            group = instruction.op.get("cta_group")
            if group is not None and not instruction.form.ports.isdisjoint(("tensor", "tensor_core")):
                seen.setdefault(group, instruction)
            names = {o.function for o in instruction.operands if o.function in functions} - reached
            reached |= names
            left += [functions[name] for name in sorted(names)]
    if len(seen) > 1:
        (group, first), (other, second) = seen.items()
        message = f"{function.name} has tcgen05 instructions with .{group} (line {first.span.line}) and with .{other}"
        problems.add("illegal-form", second.span, message, "use the same .cta_group in all tcgen05 of a kernel")


def _check_access(
    instruction: Instruction, symbol: Variable, shared: dict[str, int], problems: Problems, *, addressed: bool
) -> None:
    """Count a shared module variable that a function uses, once; an access needs a definition."""
    if symbol.unique in shared or not symbol.size:
        return
    if symbol.space.value == "shared" and (symbol.linkage != "extern" or symbol.size < 1 << 32):
        shared[symbol.unique] = symbol.size
    elif symbol.linkage == "extern" and addressed:
        message = f"{symbol.name} is not defined in this module"
        problems.add("linkage", instruction.span, message, "link the module that defines it")


def _lacks_body(name: str, function: Symbol, resolver: Resolver, *, called: bool = True) -> bool:
    """Whether a function has no body here; those of the system may be called, but have no address."""
    defined = name in resolver.aliases or (called and name in BUILTINS)
    return isinstance(function, ast.Function) and function.body is None and not defined


def _known_target(name: str) -> bool:
    return name.startswith("sm_") and name[3:].rstrip("af").isdigit() and len(name) < 10


def _target_span(module: ast.Module, problems: Problems) -> Span:
    line = next((n for n, text in enumerate(lines_of(problems.source), 1) if text.lstrip().startswith(".target")), 1)
    return Span(module.file, line, 1)


def _first_span(module: ast.Module) -> Span:
    return Span(module.file, 1, 1)
