"""The mutants of a file: each changes one point of it."""

from __future__ import annotations

import ast
from typing import NamedTuple

COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
OPERATORS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "//", ast.LShift: ">>", ast.RShift: "<<",
    ast.BitAnd: "|", ast.BitOr: "&", ast.BitXor: "|", ast.Pow: "*",
}  # fmt: skip


class Mutant(NamedTuple):
    """``text`` in place of what stands between two offsets (in bytes of UTF-8) of a file."""

    path: str
    line: int
    kind: str
    start: int
    end: int
    text: str


class Points(ast.NodeVisitor):
    """The mutants of a file."""

    def __init__(self, path: str, source: str) -> None:
        self.path, self.lines = path, source.encode().splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.data = source.encode()
        self.found: list[Mutant] = []
        self.visit(ast.parse(source))

    def offset(self, line: int, column: int) -> int:
        """In the file."""
        return self.starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Where a node stands."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def text(self, node: ast.expr | ast.stmt) -> str:
        """What stands there."""
        start, end = self.span(node)
        return self.data[start:end].decode()

    def put(self, node: ast.expr | ast.stmt, kind: str, text: str) -> None:
        """A mutant in place of a node."""
        self.found.append(Mutant(self.path, node.lineno, kind, *self.span(node), text))

    def between(self, left: ast.expr, right: ast.expr, kind: str, text: str) -> None:
        """A mutant in place of the operator between two operands, where no parenthesis or comment stands beside it."""
        start, end = self.span(left)[1], self.span(right)[0]
        if not set("()#\n") & set(self.data[start:end].decode()):
            self.found.append(Mutant(self.path, left.lineno, kind, start, end, f" {text} "))

    # ---- expressions ----

    def visit_Compare(self, node: ast.Compare) -> None:
        """The opposite, or the bound itself."""
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            self.between(left, right, "comparison", COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """One operand fewer; or the other operator."""
        self.put(node, "operand", f"({self.text(node.values[0])})")
        if len(node.values) == 2:
            self.between(*node.values, "boolean", "or" if isinstance(node.op, ast.And) else "and")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Another operator."""
        words = any(isinstance(x, ast.JoinedStr) or (isinstance(x, ast.Constant) and isinstance(x.value, str)) for x in (node.left, node.right))  # fmt: skip
        if type(node.op) in OPERATORS and not words:
            self.between(node.left, node.right, "operator", OPERATORS[type(node.op)])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Nothing before the operand."""
        self.put(node, "operator", f"({self.text(node.operand)})")
        if not isinstance(node.operand, ast.Constant):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """The next number; the other truth."""
        if isinstance(node.value, bool):
            self.put(node, "constant", str(not node.value))
        elif isinstance(node.value, int | float):
            self.put(node, "constant", repr(node.value + 1))

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """One of the two."""
        self.put(node, "condition", f"({self.text(node.body)})")
        self.put(node, "condition", f"({self.text(node.orelse)})")
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """A bound fewer."""
        if isinstance(node.slice, ast.Slice):
            for bound in (node.slice.lower, node.slice.upper):
                if bound is not None:
                    self.put(bound, "slice", "")
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Messages are left alone."""

    # ---- statements ----

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """An end before the last statement; annotations and decorators are left alone."""
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        for statement in body[1:]:
            self.put(statement, "early return", f"return; {self.first(statement)}")
        for default in [*node.args.defaults, *[d for d in node.args.kw_defaults if d is not None]]:
            self.visit(default)
        for statement in body:
            self.visit(statement)

    def first(self, statement: ast.stmt) -> str:
        """A statement that may stand behind a semicolon."""
        compound = isinstance(
            statement, ast.If | ast.For | ast.While | ast.With | ast.Try | ast.FunctionDef | ast.ClassDef
        )
        return "pass" if compound else self.text(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """What it holds."""
        for statement in node.body:
            self.visit(statement)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Gone."""
        if not isinstance(node.value, ast.Constant):
            self.put(node, "statement", "pass")
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Gone."""
        self.put(node, "statement", "pass")
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Its value."""
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Gone; its message is left alone."""
        self.put(node, "statement", "pass")

    def visit_Assert(self, node: ast.Assert) -> None:
        """Invariants are left alone."""

    def visit_Continue(self, node: ast.Continue) -> None:
        """Gone."""
        self.put(node, "statement", "pass")

    def visit_If(self, node: ast.If) -> None:
        """Always, and never."""
        self.put(node.test, "condition", "True")
        self.put(node.test, "condition", "False")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        """Nothing."""
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self.put(node, "return", "return None")
            self.generic_visit(node)
