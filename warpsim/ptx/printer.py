"""Prints a syntax tree as PTX text that parses back to the same tree."""

from __future__ import annotations

from warpsim.ptx import ast


def print_module(module: ast.Module) -> str:
    """Print a module."""
    lines = [
        f".version {module.version[0]}.{module.version[1]}",
        f".target {', '.join(module.target)}",
        f".address_size {module.address_size}",
        "",
    ]
    for item in module.items:
        if isinstance(item, ast.Function):
            lines += _function(item)
        elif isinstance(item, ast.Variable):
            lines.append(_variable(item) + ";")
        elif isinstance(item, ast.Section):
            lines += [f".section {item.name}", "{", *ast.statements(item.data), "}"]
        else:
            lines.append(_directive(item, module_level=True))
    return "\n".join(lines) + "\n"


def _linkage(linkage: str | None) -> str:
    return f".{linkage} " if linkage else ""


def _attributes(attributes: tuple[str, ...]) -> str:
    return f".attribute({','.join(attributes)}) " if attributes else ""


def _function(node: ast.Function) -> list[str]:
    head = _linkage(node.linkage) + (".entry " if node.entry else ".func ") + _attributes(node.attributes)
    if node.returns:
        head += f"({', '.join(_variable(v) for v in node.returns)}) "
    head += node.name
    head += "(" + ", ".join(_variable(v) for v in node.params) + ")" if node.params or not node.entry else "()"
    lines = [head] + [_performance(d) for d in node.directives]
    if node.body is None:
        lines[-1] += ";"
        return lines
    return lines + _block(node.body, "")


def _performance(node: ast.Directive) -> str:
    text = f".{node.name}" + (" " + ", ".join(str(a) for a in node.arguments) if node.arguments else "")
    return text + (";" if node.name == "pragma" else "")


def _block(node: ast.Block, indent: str) -> list[str]:
    lines = [indent + "{"]
    inner = indent + "\t"
    for statement in node.statements:
        if isinstance(statement, ast.Instruction):
            lines.append(inner + instruction(statement))
        elif isinstance(statement, ast.Label):
            lines.append(f"{statement.name}:")
        elif isinstance(statement, ast.Variable):
            lines.append(inner + _variable(statement) + ";")
        elif isinstance(statement, ast.Block):
            lines += _block(statement, inner)
        elif isinstance(statement, ast.CallPrototype):
            lines.append(inner + _prototype(statement))
        elif isinstance(statement, ast.Directive):
            lines.append(inner + _directive(statement, module_level=False))
        else:
            lines += [f".section {statement.name}", "{", *ast.statements(statement.data), "}"]
    lines.append(indent + "}")
    return lines


def _prototype(node: ast.CallPrototype) -> str:
    text = ".callprototype "
    if node.returns:
        text += f"({', '.join(_variable(v) for v in node.returns)}) "
    text += f"_ ({', '.join(_variable(v) for v in node.params)})"
    return text + (" .noreturn;" if node.noreturn else ";")


def _directive(node: ast.Directive, *, module_level: bool) -> str:
    words = [str(a) for a in node.arguments]
    if node.name in ("b8", "b16", "b32", "b64") and module_level:
        return f".{node.name} {' '.join(words)}"
    if node.name in ("loc", "loc_intermediate"):
        return f".{node.name} {' '.join(words)}"
    if node.name == "file":
        return f".file {words[0]} {', '.join(words[1:])}"
    return f".{node.name} {', '.join(words)};"


def _variable(node: ast.Variable) -> str:
    text = _linkage(node.linkage) + f".{node.space} "
    if node.attributes:
        text += _attributes(node.attributes)
    if node.align is not None:
        text += f".align {node.align} "
    if node.vector > 1:
        text += f".v{node.vector} "
    text += f".{node.type} "
    if node.pointer is not None:
        text += ".ptr "
        if node.pointer[0]:
            text += f".{node.pointer[0]} "
        if node.pointer[1] is not None:
            text += f".align {node.pointer[1]} "
    return text + ", ".join(_declarator(d) for d in node.declarators)


def _declarator(node: ast.Declarator) -> str:
    text = node.name
    if node.count is not None:
        text += f"<{node.count}>"
    for dimension in node.dimensions:
        text += f"[{'' if dimension is None else dimension}]"
    if node.initialiser is not None:
        text += " = " + _initialiser(node.initialiser)
    return text


def _initialiser(tree: ast.InitialiserTree) -> str:
    if isinstance(tree, tuple):
        return "{" + ", ".join(_initialiser(part) for part in tree) + "}"
    if isinstance(tree, ast.Field):
        return f"{tree.name} = {operand(tree.value)}"
    if isinstance(tree, ast.Numbers):
        form = {0: "{}", 32: "0f{:08X}", 64: "0d{:016X}"}[tree.width]
        return ", ".join(map(form.format, tree.values))
    if isinstance(tree, ast.Addresses):
        return ", ".join([_leaf(leaf) for leaf in tree.values])
    if tree.value is not None:
        return operand(tree.value)
    assert tree.symbol is not None
    return _leaf(ast.Leaf(tree.symbol.text, tree.offset, tree.generic, tree.mask))


def _leaf(leaf: ast.Leaf) -> str:
    symbol, offset, generic, mask = leaf
    if symbol is None:
        return str(offset)
    text = f"generic({symbol})" if generic else symbol
    if offset:
        text += f"+{offset}"
    return f"0x{mask:X}({text})" if mask is not None else text


def instruction(node: ast.Instruction) -> str:
    """Print an instruction."""
    guard = f"@{'!' if node.guard.negated else ''}{node.guard.register.text} " if node.guard else ""
    opcode = ".".join((node.opcode, *node.modifiers))
    operands = ", ".join(operand(o) for o in node.operands)
    return f"{guard}{opcode}{' ' + operands if operands else ''};"


def operand(node: ast.Operand) -> str:
    """Print an operand."""
    match node:
        case ast.Negated():
            return f"!{node.operand.text}"
        case ast.Negative():
            return f"-{operand(node.operand)}"
        case ast.Pair():
            return f"{operand(node.first)}|{operand(node.second)}"
        case ast.Vector():
            return "{" + ", ".join(operand(e) for e in node.elements) + "}"
        case ast.Group():
            return "(" + ", ".join(operand(e) for e in node.elements) + ")"
        case ast.Address():
            base = node.base.text if node.base else ""
            inside = base + (f"+{node.offset}" if base and node.offset else "") or str(node.offset)
            return "[" + ", ".join([inside, *(operand(e) for e in node.extra)]) + "]"
    return _alone(node)


def _alone(node: ast.Integer | ast.Float | ast.Name | ast.Sink | ast.SymbolOffset | ast.Component) -> str:
    """An operand without others in it."""
    match node:
        case ast.Integer():
            return f"{node.value}{'U' if node.unsigned else ''}"
        case ast.Float():
            return f"0f{node.bits:08X}" if node.width == 32 else f"0d{node.bits:016X}"
        case ast.Name():
            return node.text
        case ast.Sink():
            return "_"
        case ast.SymbolOffset():
            return f"{node.symbol.text}+{node.offset}"
        case ast.Component():
            return f"{node.base.text}.{node.component}"
