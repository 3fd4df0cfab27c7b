"""Graphs of lanes as LLVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from warpsim.graph.evaluate import Walk
from warpsim.graph.nodes import LANES, Node
from warpsim.native.lowering.affine import compared, linear
from warpsim.native.lowering.operations import cast, operate
from warpsim.native.lowering.values import FLOATS, IRBuilder, Unlowerable, Val, bits_of, element, memory, scalar, width

ROUNDING = {"rz": 0, "rp": 2, "rm": 3}
"""LLVM's numbers of rounding modes."""


class Lowering(Walk[Val]):
    """The code of graphs over the same inputs."""

    def __init__(self, code: IRBuilder, inputs: Sequence[Val], results: Callable[[Node], Val] | None = None) -> None:
        super().__init__()
        self.code = code
        self.inputs = inputs
        self.results = results

    def operation(self, node: Node, arguments: list[Val]) -> Val:
        """The value of one operation in the code."""
        code = self.code
        if node.op == "input":
            return self.inputs[node.value]
        if node.op == "const":
            return code.number(bits_of(node.value), element(node.dtype))
        if node.op == "lanes":
            return _lanes(code, node)
        if node.op in ("load", "atomic", "product"):
            assert self.results is not None
            return self.results(node)
        found = linear(code, node, arguments)
        if found is None:
            found = compared(code, node, arguments)
        if found is not None:
            return found
        arguments = [code.flat(a) for a in arguments]
        if node.op == "cast":
            return cast(code, arguments[0], node.args[0].dtype, node.dtype)
        if node.op == "bits":
            return _reinterpret(code, arguments[0], element(node.dtype))
        if node.op == "where":
            return code.select(*arguments)
        if node.op in ("fma", "divide") and node.value not in (None, "rn"):
            return _directed(code, node, arguments)
        if node.op == "fma":
            return code.intrinsic("fma", *arguments)
        if node.op == "byteswap":
            return code.intrinsic("bswap", *arguments)
        if node.op == "table":
            return _table(code, node, arguments[0])
        if node.op == "gather":
            return _gather(code, node, *arguments)
        if node.op == "lane":
            return _broadcast_lane(code, arguments[0], node.value)
        if node.op == "reduce":
            return _reduce(code, node, arguments[0])
        return operate(code, node.op, arguments, node.args[0].dtype)


def _lanes(code: IRBuilder, node: Node) -> Val:
    type = element(node.dtype)
    if type in FLOATS:
        raise Unlowerable("a vector of floating-point constants")
    values = [int(v) for v in node.value]
    texts = ", ".join(f"{type} {str(bool(v)).lower() if type == 'i1' else v}" for v in values)
    return Val(type, f"<{texts}>", uniform=False)


def _reinterpret(code: IRBuilder, value: Val, type: str) -> Val:
    if value.type == "i1" and type == "i8":
        return code.convert("zext", value, "i8")
    if value.type == "i8" and type == "i1":
        return code.op("icmp ne", value, code.number(0, "i8"), type="i1")
    return code.convert("bitcast", value, type)


def _table(code: IRBuilder, node: Node, index: Val) -> Val:
    array = np.ascontiguousarray(node.value)
    number = next((k for k, known in enumerate(code.tables) if known is node.value), len(code.tables))
    if number == len(code.tables):
        code.tables.append(array)
    type = element(node.dtype)
    table = code.load("ptr", code.at("%tables", "ptr", number))
    if index.uniform:
        place = code.at(table, type, index.text)
        return scalar(type, code.load(type, place))
    where, out = code.spill(index), code.slot(f"[{LANES} x {type}]")
    code.call(f"ws_table_{width(type) // 8}", "void", f"ptr {table}", f"ptr {where}", f"ptr {out}")
    return code.filled(out, type)


def _directed(code: IRBuilder, node: Node, values: list[Val]) -> Val:
    """An operation that does not round to nearest, computed where the processor's rounding mode may change."""
    type = values[0].type
    out = code.slot(f"[{LANES} x {type}]")
    op = {"fma": "fma", "divide": "fdiv"}[node.op]
    places = [f"ptr {place}" for place in [*map(code.spill, values), out]]
    code.call(f"ws_{op}_{type}", "void", *places, f"i32 {ROUNDING[node.value]}")
    lanes = code.filled(out, type)
    if not all(v.uniform for v in values):
        return lanes
    return scalar(type, code.make(f"extractelement {code.of(lanes)}, i32 0"))


def _gather(code: IRBuilder, node: Node, value: Val, index: Val) -> Val:
    value = code.splat(value)
    source = node.args[1]
    if source.op == "lanes":
        order = [int(i) & 31 for i in source.value]
        return Val(value.type, code.pick(value.type, LANES, value.text, order), uniform=False)
    inner = memory(value.type)
    place, where = code.spill(value), code.spill(code.op("and", index, code.number(31, "i32")))
    out = code.slot(f"[{LANES} x {inner}]")
    code.call(f"ws_permute_{width(inner) // 8}", "void", f"ptr {place}", f"ptr {where}", f"ptr {out}")
    return code.filled(out, value.type)


def _broadcast_lane(code: IRBuilder, value: Val, lane: int) -> Val:
    value = code.splat(value)
    whole = f"<{LANES} x {value.type}>"
    return Val(
        value.type,
        code.make(f"shufflevector {whole} {value.text}, {whole} poison, <{LANES} x i32> splat (i32 {lane})"),
        uniform=False,
    )


def _reduce(code: IRBuilder, node: Node, value: Val) -> Val:
    value = code.splat(value)
    kind = node.dtype.kind
    if kind == "f":
        raise Unlowerable("a sum of floating-point lanes")
    name = node.value
    if name in ("minimum", "maximum"):
        name = ("u" if kind in "ub" else "s") + name[:3]
    full = f"llvm.vector.reduce.{name}.v{LANES}{value.type}"
    found = scalar(value.type, code.call(full, value.type, code.of(value)))
    # lanes of a warp share it, not those of the group
    return found if code.speculate is not None else code.splat(found)
