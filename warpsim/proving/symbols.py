"""What instructions compute, as terms of the solver: their graphs, walked over bit-vectors."""

from __future__ import annotations

import z3

from warpsim.graph.evaluate import Walk
from warpsim.graph.nodes import Node, Untraceable
from warpsim.numerics.arrays import DType

FRACTION = {16: 10, 32: 23, 64: 52}
"""Bits of the fraction of floats, by their bits."""
ORDERED = {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}


def width_of(dtype: DType) -> int:
    """The bits of a value; 0 for a predicate.

    Raises:
        Untraceable: it has no bits that could be computed with.
    """
    if dtype.names:
        raise Untraceable(f"values of {dtype}")
    return 0 if dtype.kind == "b" else 8 * dtype.itemsize


class Names:
    """Makes symbols, and remembers those that differ from thread to thread."""

    def __init__(self) -> None:
        self.own: list[z3.ExprRef] = []
        self._count = 0

    def fresh(self, bits: int, name: str = "v") -> z3.ExprRef:
        """A value of a thread of which nothing is known: of so many bits, 0 for a predicate."""
        self._count += 1
        named = f"{name}!{self._count}"
        made = z3.BitVec(named, bits) if bits else z3.Bool(named)
        self.own.append(made)
        return made


def resized(value: z3.ExprRef, bits: int, *, signed: bool) -> z3.ExprRef:
    """A value in so many bits (0: as a predicate)."""
    if z3.is_bool(value):
        return value if bits == 0 else z3.If(value, z3.BitVecVal(1, bits), z3.BitVecVal(0, bits))
    if bits == 0:
        return value != 0
    size = value.size()
    if bits <= size:
        return value if bits == size else z3.Extract(bits - 1, 0, value)
    return (z3.SignExt if signed else z3.ZeroExt)(bits - size, value)


class Terms(Walk[z3.ExprRef]):
    """The terms of a graph's nodes. What memory gives and what floats become is a fresh symbol."""

    def __init__(self, inputs: list[z3.ExprRef], names: Names) -> None:
        super().__init__()
        self.inputs, self.names = inputs, names

    def operation(self, node: Node, arguments: list[z3.ExprRef]) -> z3.ExprRef:
        """The term of one operation."""
        bits = width_of(node.dtype)
        if node.op == "input":
            return self.inputs[node.value]
        if node.op == "const":
            raw = node.value.reshape(1)
            return z3.BoolVal(bool(raw[0])) if not bits else z3.BitVecVal(int(raw.view(f"u{bits // 8}")[0]), bits)
        if not arguments:
            return self.names.fresh(bits)
        kinds = [n.dtype.kind for n in node.args]
        if node.op == "bits":
            return arguments[0]
        if node.op == "where":
            return z3.If(*arguments)
        if node.op == "cast":
            if "f" in (kinds[0], node.dtype.kind) or "V" in (kinds[0], node.dtype.kind):
                return self.names.fresh(bits)
            return resized(arguments[0], bits, signed=kinds[0] == "i")
        made = self._made(node.op, arguments, set(kinds), bits, signed=kinds[0] == "i")
        if made is None or z3.is_bool(made) != (bits == 0):
            return self.names.fresh(bits)
        return made

    @staticmethod
    def _made(op: str, arguments: list[z3.ExprRef], kinds: set[str], bits: int, *, signed: bool) -> z3.ExprRef | None:
        if kinds == {"f"} and all(a.size() in FRACTION for a in arguments):
            return floating(op, arguments)
        if not kinds <= set("iub"):
            return None
        return logical(op, arguments) if bits == 0 and "b" in kinds else integer(op, arguments, signed=signed)


def floating(op: str, a: list[z3.ExprRef]) -> z3.ExprRef | None:
    """An operation on the bits of floats; None where it is not one that is known."""
    size = a[0].size()
    magnitude = [x & ((1 << (size - 1)) - 1) for x in a]
    if op in ("absolute", "negative"):
        return magnitude[0] if op == "absolute" else a[0] ^ (1 << (size - 1))
    if op in ("signbit", "copysign"):
        return a[0] < 0 if op == "signbit" else magnitude[0] | a[1] & (1 << (size - 1))
    infinity = z3.BitVecVal((1 << (size - 1)) - (1 << FRACTION[size]), size)
    numbers = [z3.ULE(m, infinity) for m in magnitude]
    if op == "isnan":
        return z3.Not(numbers[0])
    keys = [z3.If(x < 0, -m, m) for x, m in zip(a, magnitude, strict=True)]
    if op == "not_equal":
        return z3.Or(*map(z3.Not, numbers), keys[0] != keys[1])
    if op not in ORDERED and op != "equal":
        return None
    ordered = keys[0] == keys[1] if op == "equal" else integer(op, keys, signed=True)
    return z3.And(*numbers, ordered)


def logical(op: str, a: list[z3.ExprRef]) -> z3.ExprRef | None:
    """An operation on predicates; None where it is not one that is known."""
    if any(not z3.is_bool(x) for x in a):
        return None
    if op in ("bitwise_and", "logical_and"):
        return z3.And(*a)
    if op in ("bitwise_or", "logical_or"):
        return z3.Or(*a)
    if op in ("bitwise_xor", "logical_xor", "not_equal"):
        return z3.Xor(*a)
    if op == "equal":
        return a[0] == a[1]
    return z3.Not(a[0]) if op in ("invert", "logical_not") else None


def integer(op: str, a: list[z3.ExprRef], *, signed: bool) -> z3.ExprRef | None:
    """An operation on integers; None where it is not one that is known."""
    if any(z3.is_bool(x) for x in a):
        return None
    if op in ORDERED:
        less, equal = (z3.ULT, z3.ULE) if not signed else (lambda x, y: x < y, lambda x, y: x <= y)
        x, y = a if op in ("less", "less_equal") else reversed(a)
        return (equal if op.endswith("equal") else less)(x, y)
    if op == "right_shift":
        return a[0] >> a[1] if signed else z3.LShR(*a)
    if op in ("floor_divide", "fmod"):
        return _divided(op, a, signed=signed)
    if op == "byteswap":
        return z3.Concat(*(z3.Extract(at + 7, at, a[0]) for at in range(0, a[0].size(), 8)))
    if op == "absolute":
        return z3.If(a[0] < 0, -a[0], a[0]) if signed else a[0]
    if op in ("minimum", "maximum"):
        less = a[0] < a[1] if signed else z3.ULT(*a)
        return z3.If(less, *(a if op == "minimum" else reversed(a)))
    table = {
        "add": lambda: a[0] + a[1],
        "subtract": lambda: a[0] - a[1],
        "multiply": lambda: a[0] * a[1],
        "bitwise_and": lambda: a[0] & a[1],
        "bitwise_or": lambda: a[0] | a[1],
        "bitwise_xor": lambda: a[0] ^ a[1],
        "left_shift": lambda: a[0] << a[1],
        "invert": lambda: ~a[0],
        "negative": lambda: -a[0],
        "equal": lambda: a[0] == a[1],
        "not_equal": lambda: a[0] != a[1],
    }
    return table[op]() if op in table else None


def _divided(op: str, a: list[z3.ExprRef], *, signed: bool) -> z3.ExprRef:
    """NumPy's quotient, which is rounded down, or its rest, which has the dividend's sign."""
    if not signed:
        return z3.UDiv(*a) if op == "floor_divide" else z3.URem(*a)
    rest = z3.SRem(*a)
    if op == "fmod":
        return rest
    return a[0] / a[1] - z3.If(z3.And(rest != 0, (a[0] ^ a[1]) < 0), z3.BitVecVal(1, rest.size()), 0)
