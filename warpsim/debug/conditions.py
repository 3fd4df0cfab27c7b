"""Conditions as graphs, so that compiled code tests them: expressions on registers, and accesses of a place in memory.

An expression has the meaning that `warpsim.debug.evaluation` gives it: integers are exact, so each has the bounds within
which it lies, and what 64 bits might not hold has no graph.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from warpsim.debug import expressions as ex
from warpsim.debug.debug_info import Place
from warpsim.debug.evaluation import CUDA
from warpsim.debug.symbols import symbols_of
from warpsim.graph.nodes import Node, Untraceable, bits, cast, constant, operate
from warpsim.machine.state.global_memory import SHARED_WINDOW
from warpsim.native.regions.options import Condition
from warpsim.numerics.arrays import DType
from warpsim.program.c_types import CType, Scalar
from warpsim.program.names import SPECIALS
from warpsim.records import frozen
from warpsim.types import TYPES, ScalarType

if TYPE_CHECKING:
    from warpsim.native.regions.forms import Effect, Reader
    from warpsim.program.program import Instruction

I64, U64, F64, BOOL = np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.float64), np.dtype(np.bool_)
PLAIN = frozenset({*(f"{kind}{n}" for kind in "usb" for n in (8, 16, 32, 64)), "f16", "bf16", "f32", "f64", "pred"})
"""Types whose bits are one number."""
NEVER = constant(0, BOOL)
EXACT = 1 << 53
"""Integers up to this size are the same in 64 bits of floating point."""


def any_of(conditions: Sequence[Condition]) -> Condition:
    """Holds where any of these does."""
    if len(conditions) == 1:
        return conditions[0]

    def holds(reader: Reader, instruction: Instruction, effects: tuple[Effect, ...]) -> Node:
        return _either(condition.holds(reader, instruction, effects) for condition in conditions)

    return Condition(" or ".join(sorted({c.text for c in conditions})), holds)


def accesses(kinds: frozenset[str], space: str, number: int, nbytes: int) -> Condition:
    """Holds for instructions that may access bytes of a state space, in whichever CTA; ``kinds`` are "load", "store" and
    "atomic". The first byte is that of `LaunchState.watched` with a ``number``, so that all addresses have the same code."""

    def holds(reader: Reader, instruction: Instruction, effects: tuple[Effect, ...]) -> Node:
        first = reader.read(("watched", number), U64)
        return _either(_touches(effect, space, first, nbytes) for effect in effects if effect.kind in kinds)

    return Condition(f"{'/'.join(sorted(kinds))} {space} of {number}+{nbytes}", holds)


def _either(nodes: Iterable[Node]) -> Node:
    return functools.reduce(lambda a, b: operate(np.bitwise_or, [a, b], BOOL), nodes, NEVER)


def _touches(effect: Effect, space: str, first: Node, nbytes: int) -> Node:
    if effect.space not in (space, "generic"):
        return NEVER
    if effect.space == "generic" and space == "local":
        return constant(1, BOOL)
    # the distance from the lowest address of an access that touches the first byte, modulo 2^64
    size = effect.count * effect.type.bytes
    window = SHARED_WINDOW if effect.space == "generic" and space == "shared" else 0
    lowest = operate(np.subtract, [first, constant((size - 1 - window) % (1 << 64), U64)], U64)
    distance = operate(np.subtract, [effect.address, lowest], U64)
    return operate(np.less, [distance, constant(size - 1 + nbytes, U64)], BOOL)


def condition_of(text: str) -> Condition:
    """The condition that an expression is not 0. It is untraceable unless evaluating it can neither fail nor overflow."""

    def holds(reader: Reader, instruction: Instruction, effects: tuple[Effect, ...]) -> Node:
        return _truth(_Expression(reader, instruction).value(ex.parse(text)))

    return Condition(text, holds)


@frozen(eq=False)
class _Value:
    """Data of some type; of an integer, the bounds within which it lies."""

    node: Node
    low: int = 0
    high: int = 0

    @property
    def floating(self) -> bool:
        """Whether it is a float."""
        return self.node.dtype.kind not in "iub"


def _integer(node: Node) -> _Value:
    """An integer or a predicate with the bounds of its type."""
    if node.dtype.kind == "b":
        return _Value(cast(node, I64), 0, 1)
    found = np.iinfo(node.dtype)
    return _bounded(node, int(found.min), int(found.max))


def _bounded(node: Node, low: int, high: int) -> _Value:
    """An integer in 64 bits that hold all between its bounds."""
    return _Value(cast(node, _holding(low, high)), low, high)


def _holding(low: int, high: int) -> DType:
    if low >= -(1 << 63) and high < 1 << 63:
        return I64
    if low >= 0 and high < 1 << 64:
        return U64
    raise Untraceable("an integer of more than 64 bits")


def _number(value: _Value) -> _Value:
    """What arithmetic takes: integers of 64 bits, or float64."""
    return _Value(cast(value.node, F64)) if value.floating else value


def _float(value: _Value) -> Node:
    """An operand of floating-point arithmetic or of a comparison with a float."""
    if not value.floating and not -EXACT <= value.low <= value.high <= EXACT:
        raise Untraceable("an integer that floating point does not hold exactly")
    return cast(value.node, F64)


def _truth(value: _Value) -> Node:
    """Whether a value is not 0."""
    if value.node.dtype == BOOL:
        return value.node
    found = _number(value).node
    return operate(np.not_equal, [found, constant(0, found.dtype)], BOOL)


class _Expression:
    """Expressions over the registers that a reader reads before an instruction."""

    def __init__(self, reader: Reader, instruction: Instruction) -> None:
        self.reader, self.instruction = reader, instruction

    def value(self, node: ex.Node) -> _Value:
        """The value of an expression."""
        match node:
            case ex.Number(int(number)):
                return _bounded(constant(number, _holding(number, number)), number, number)
            case ex.Number(number):
                return _Value(constant(number, np.asarray(number).dtype))
            case ex.Name(text):
                return self._name(text)
            case ex.Field(ex.Name(text), name) if text in CUDA or text.startswith("%"):
                return self._special(f"{CUDA.get(text, text[1:])}.{name}")
            case ex.Bits(type, operand) if type in PLAIN:
                return _reinterpreted(self.value(operand), TYPES[type])
            case ex.Operation(sign, operand, None) if sign in "+-~!":
                return _unary(sign, self.value(operand))
            case ex.Operation(sign, left, right) if right is not None:
                return _binary(sign, self.value(left), self.value(right))
        raise Untraceable(f"{node} in a condition")

    def _name(self, text: str) -> _Value:
        plan = self.reader.plan
        register = next((r for r in plan.function.registers if r.name == text), None)
        if register is not None:
            return _of_type(self.reader.read(register.index, register.type.dtype), register.type)
        if text.startswith("%"):
            return self._special(text[1:])
        symbols, function = symbols_of(plan.kernel.program), plan.function
        number = symbols.number(function, self.instruction)
        symbol = symbols.find(text, function, number, 0)
        if symbol is not None and not symbol.is_plain:
            return self._in_register(symbol.place(number), symbol.type)
        param = next((p for p in plan.function.params if p.name == text and not p.registers), None)
        if param is None or param.array or not plan.function.entry:
            raise Untraceable(f"{text} in memory")
        key = "param", param.offset, param.type.name
        return _of_type(self.reader.read(key, param.type.dtype), param.type)

    def _in_register(self, place: Place | None, type: CType) -> _Value:
        """A variable of C++ that is in a register."""
        name = place.of if place is not None and place.register else ""
        register = next((r for r in self.reader.plan.function.registers if r.name == name), None)
        if register is None or not isinstance(type, Scalar) or type.dtype != type.type.dtype:
            raise Untraceable(f"a {type} in a condition")
        raw = self.reader.read(register.index, register.type.dtype)
        return _of_type(cast(raw, np.dtype(f"u{type.type.bytes}")), type.type)

    def _special(self, name: str) -> _Value:
        """A special register that the function reads, too."""
        slot = next((slot for slot, known in self.reader.plan.specials.items() if known == name), None)
        if slot is None or SPECIALS.get(name) != "u32":
            raise Untraceable(f"%{name} in a condition")
        return _integer(self.reader.read((slot, "u32"), TYPES["u32"].dtype))


def _of_type(node: Node, type: ScalarType) -> _Value:
    if type.name not in PLAIN:
        raise Untraceable(f"{type} in a condition")
    node = bits(node, type.dtype)
    return _Value(node) if type.kind == "f" else _integer(node)


def _reinterpreted(value: _Value, type: ScalarType) -> _Value:
    """The bits of a value as a type, truncated or extended by zeros; floats of one width are converted to another."""
    node = value.node
    if value.floating and type.kind == "f" and node.dtype.itemsize != type.dtype.itemsize:
        if type.bits < 32:
            raise Untraceable(f"a float as {type}")
        return _Value(cast(node, type.dtype))
    raw = bits(node, np.dtype(f"u{node.dtype.itemsize}")) if value.floating else cast(node, U64)
    raw = cast(raw, np.dtype(f"u{type.bytes}"))
    if type.kind == "p":
        one = operate(np.bitwise_and, [raw, constant(1, raw.dtype)], raw.dtype)
        return _Value(operate(np.not_equal, [one, constant(0, raw.dtype)], BOOL))
    return _of_type(raw, type)


def _unary(sign: str, value: _Value) -> _Value:
    if sign == "!":
        return _Value(operate(np.logical_not, [_truth(value)], BOOL), 0, 1)
    value = _number(_plain(value))
    if sign == "+":
        return value
    if value.floating:
        if sign == "~":
            raise Untraceable("the complement of a float")
        return _Value(operate(np.negative, [value.node], F64))
    less = int(sign == "~")
    low, high = -value.high - less, -value.low - less
    if _holding(low, high) != I64 or value.node.dtype != I64:
        raise Untraceable("an integer of more than 64 bits")
    return _Value(operate(np.invert if less else np.negative, [value.node], I64), low, high)


def _plain(value: _Value) -> _Value:
    """A predicate as a number."""
    return _integer(value.node) if value.node.dtype == BOOL else value


_ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
_INTEGER: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_BITS = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}
_COMPARE = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


def _binary(sign: str, left: _Value, right: _Value) -> _Value:
    if sign in ("&&", "||"):
        both = [_truth(left), _truth(right)]
        return _Value(operate(np.bitwise_and if sign == "&&" else np.bitwise_or, both, BOOL))
    left, right = _number(_plain(left)), _number(_plain(right))
    if left.floating or right.floating:
        operands = [_float(left), _float(right)]
        if sign in _COMPARE:
            return _Value(operate(_COMPARE[sign], operands, BOOL))
        if sign not in _ARITHMETIC:
            raise Untraceable(f"{sign} of floats")
        return _Value(operate(_ARITHMETIC[sign], operands, F64))
    if sign in _COMPARE:
        dtype = _holding(min(left.low, right.low), max(left.high, right.high))
        return _Value(operate(_COMPARE[sign], [cast(left.node, dtype), cast(right.node, dtype)], BOOL))
    if sign in _BITS:
        return _bitwise(sign, left, right)
    if sign in ("/", "%", "<<", ">>"):
        return _by_constant(sign, left, right)
    if sign not in _INTEGER:
        raise Untraceable(f"{sign} in a condition")
    ends = [_INTEGER[sign](a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    low, high = min(ends), max(ends)
    dtype = _holding(low, high)
    return _Value(operate(_ARITHMETIC[sign], [cast(left.node, dtype), cast(right.node, dtype)], dtype), low, high)


def _bitwise(sign: str, left: _Value, right: _Value) -> _Value:
    low, high = min(left.low, right.low), max(left.high, right.high)
    dtype = _holding(low, high)
    bound = (1 << max(abs(low), high).bit_length()) - 1
    node = operate(_BITS[sign], [cast(left.node, dtype), cast(right.node, dtype)], dtype)
    return _Value(node, 0 if low >= 0 else -bound - 1, bound)


def _by_constant(sign: str, left: _Value, right: _Value) -> _Value:
    """A division or shift; by a constant, which cannot fail."""
    by = right.low
    if by != right.high or by < (0 if sign in ("<<", ">>") else 1) or by > (62 if sign in ("<<", ">>") else 1 << 62):
        raise Untraceable(f"{sign} by what may not be possible")
    if sign == "<<":
        return _binary("*", left, _bounded(constant(1 << by, I64), 1 << by, 1 << by))
    dtype = left.node.dtype
    if sign == ">>":
        node = operate(np.right_shift, [left.node, constant(by, dtype)], dtype)
        return _Value(node, left.low >> by, left.high >> by)
    divisor = constant(by, dtype)
    rest = operate(np.fmod, [left.node, divisor], dtype)
    largest = max(abs(left.low), abs(left.high))
    if sign == "%":
        most = min(by - 1, largest)
        return _Value(rest, -most if left.low < 0 else 0, most)
    whole = operate(np.subtract, [left.node, rest], dtype)
    return _Value(operate(np.floor_divide, [whole, divisor], dtype), -largest if left.low < 0 else 0, largest)
