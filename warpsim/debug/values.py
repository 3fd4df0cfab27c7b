"""The values of expressions, and arithmetic on them. Integers are exact and never wrap."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import attrs
import ml_dtypes
import numpy as np

from warpsim.debug.errors import DebugError
from warpsim.debug.threads import of_type
from warpsim.machine.values import Array
from warpsim.numerics.arrays import DType
from warpsim.program.c_types import CType, Pointer, Scalar, elements, size
from warpsim.program.c_types import text as type_text
from warpsim.records import frozen
from warpsim.types import ELEMENTS, TYPES, ScalarType


@frozen(eq=False)
class Value:
    """The value of an expression.

    ``data`` holds one element, one per lane (``lanes``), or the elements of an array; for packed bits its last axis
    holds the parts (``packed``). ``at`` is the location of an object in memory, ``type`` its type in C, if it has one.
    """

    data: Array
    lanes: bool = False
    packed: bool = False
    at: Location | None = None
    type: CType | None = None


@frozen(eq=False)
class Location:
    """Elements of a type in a state space: at one address, or at one address per lane. ``of`` is their type in C, if they
    have one; then ``type`` is that of its numbers, or bytes."""

    space: str
    address: Any
    type: ScalarType
    count: int | None = None
    of: CType | None = None

    @property
    def each(self) -> int:
        """Size of an element in bytes."""
        return self.type.bytes

    @property
    def nbytes(self) -> int:
        """Size of all elements in bytes."""
        return self.each * (1 if self.count is None else self.count)


def typed(space: str, address: object, of: CType) -> Location:
    """The location of an object of a type of C."""
    if of.dtype.itemsize == 0:
        raise DebugError(f"{type_text(of)} has no size: cast it to a pointer to another type, such as (float*)")
    inner = elements(of)
    count = None if inner is of else size(of) // size(inner)
    match inner:
        case Scalar():
            return Location(space, address, inner.type, count, of)
        case Pointer():
            return Location(space, address, TYPES["u64"], count, of)
    return Location(space, address, TYPES["u8"], size(of), of)


PACKED = {
    name: (name.rpartition("x")[0], int(name.rpartition("x")[2]))
    for name in TYPES
    if "x" in name and name.rpartition("x")[2].isdigit()
}
"""Packed types: element type and number of elements."""
_INTEGER: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def plain_type(type: ScalarType) -> DType:
    """The NumPy dtype of a type in memory."""
    return np.dtype(np.uint8) if type.kind == "p" else type.dtype


def unpacked(data: Array, type: ScalarType, at: Location | None = None, *, lanes: bool) -> Value:
    """Make a value from bits; packed types and narrow floats are decoded."""
    if type.name in PACKED:
        part, count = PACKED[type.name]
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8).reshape(-1, type.bytes)
        if part == "e2m1":
            raw = np.stack([raw & 15, raw >> 4], axis=-1).reshape(len(raw), -1)
            found = raw.astype(np.uint8).view(ml_dtypes.float4_e2m1fn)
        else:
            found = np.ascontiguousarray(raw).view(ELEMENTS.get(part, TYPES[part].dtype))
        return Value(found.reshape(*data.shape, count), lanes, packed=True, at=at)
    if type.name in ELEMENTS and type.kind == "b" and type.bits in (8, 32):
        data = data.view(ELEMENTS[type.name])
    return Value(data, lanes, at=at)


def as_bits(value: Value, type: ScalarType) -> Value:
    """Reinterpret the bits of a value as a type, truncated or zero-extended. Floats of one width are converted to
    another."""
    data = value.data
    if value.packed:
        raise DebugError("packed bits have parts: write .lo, .hi or [i]")
    floating = data.dtype.kind == "f" or data.dtype.name.startswith(("bfloat", "float"))
    if floating and type.kind == "f" and type.dtype.itemsize != data.dtype.itemsize:
        with np.errstate(all="ignore"):
            return Value(data.astype(type.dtype), value.lanes)
    size = type.bytes
    mask = (1 << type.bits) - 1
    if data.dtype.names is not None:
        raise DebugError("128-bit registers cannot be reinterpreted")
    plain = data if data.dtype == object else of_type(data, np.dtype(f"u{data.dtype.itemsize}")).astype(object)
    bits = np.asarray(plain & mask, object)
    if type.bits == 128:
        wide = np.zeros(data.shape, type.dtype)
        wide["lo"], wide["hi"] = bits & (2**64 - 1), bits >> 64
        return Value(wide, value.lanes)
    raw = bits.reshape(-1).astype(f"u{size}").reshape(data.shape)
    if type.kind == "p":
        return Value(raw != 0, value.lanes)
    return unpacked(raw.view(type.dtype) if raw.dtype.itemsize == type.dtype.itemsize else raw, type, lanes=value.lanes)


def as_c(value: Value, type: CType) -> Value:
    """The bits of a register as a type of C: the low ones, if the register is wider."""
    data = of_type(value.data, np.dtype(f"u{value.data.dtype.itemsize}"))
    if value.data.dtype.names is not None or not isinstance(type, (Scalar, Pointer)):
        raise DebugError(f"a value of {type_text(type)} is in several registers, which nothing here tells apart")
    bits = np.asarray(data).astype(f"u{size(type)}")
    return Value(bits.view(type.dtype), value.lanes, type=type)


def cast(value: Value, type: CType) -> Value:
    """A number as another type of C; an address as a pointer."""
    data = numbers(value)
    if isinstance(type, Pointer):
        space = value.type.space if isinstance(value.type, Pointer) else type.space
        return Value(np.asarray(integers(value)), value.lanes, type=attrs.evolve(type, space=space))
    if not isinstance(type, Scalar):
        raise DebugError(f"a cast to {type_text(type)} needs a star: ({type_text(type)} *)")
    if type.type.kind == "f":
        with np.errstate(all="ignore"):
            return Value(np.asarray(data.astype(np.float64).astype(type.dtype)), value.lanes, type=type)
    whole = data if data.dtype == object else np.trunc(data).astype(object)
    bits = np.asarray(np.frompyfunc(lambda n: int(n) & (1 << type.type.bits) - 1, 1, 1)(whole), object)
    return Value(bits.astype(f"u{size(type)}").view(type.dtype), value.lanes, type=type)


def numbers(value: Value) -> Array:
    """Data for arithmetic: exact integers, or float64."""
    data = value.data
    if value.packed or data.dtype.names is not None:
        raise DebugError("arithmetic on packed bits needs a part: write .lo, .hi or [i]")
    if data.dtype == object:
        return data
    if data.dtype.kind in "iub":
        return data.astype(object) if data.dtype.kind != "b" else data.astype(np.uint8).astype(object)
    with np.errstate(all="ignore"):
        return data.astype(np.float64)


def integers(value: Value) -> Array:
    """The value as exact integers.

    Raises:
        DebugError: it is a float.
    """
    data = numbers(value)
    if data.dtype != object:
        raise DebugError("an integer is needed here, not a float")
    return data


def one(value: Value) -> int:
    """The value as a single integer."""
    data = integers(value)
    if data.size != 1:
        raise DebugError("one number is needed here, not one per lane")
    return int(data.reshape(-1)[0])


def unary(sign: str, value: Value) -> Value:
    """Apply a unary operator."""
    data = numbers(value)
    if sign == "!":
        return Value(np.asarray(data == 0, np.bool_), value.lanes)
    if sign == "~":
        return Value(np.asarray(-1 - integers(value), object), value.lanes)
    return Value(np.asarray(-data if sign == "-" else data, data.dtype), value.lanes)


def binary(sign: str, left: Value, right: Value) -> Value:
    """Apply a binary operator."""
    a, b = numbers(left), numbers(right)
    pointer = next((v.type for v in (left, right) if isinstance(v.type, Pointer) and v.type.scaled), None)
    if pointer is not None and sign in ("+", "-"):
        return _moved(sign, left, right, pointer)
    if a.ndim and b.ndim and (left.lanes != right.lanes or a.shape != b.shape):
        raise DebugError(f"operands have different sizes: {len(a)} and {len(b)} elements")
    lanes = left.lanes or right.lanes
    if sign in ("&&", "||"):
        truth = (a != 0) & (b != 0) if sign == "&&" else (a != 0) | (b != 0)
        return Value(np.asarray(truth, np.bool_), lanes)
    if sign in _COMPARE:
        return Value(np.asarray(_COMPARE[sign](a, b), np.bool_), lanes)
    exact = a.dtype == object and b.dtype == object
    if not exact:
        if sign not in ("+", "-", "*", "/"):
            raise DebugError(f"{sign} needs integers")
        with np.errstate(all="ignore"):
            x, y = a.astype(np.float64), b.astype(np.float64)
            return Value(np.asarray(x / y if sign == "/" else _INTEGER[sign](x, y)), lanes)
    if sign in _INTEGER:
        return Value(np.asarray(_INTEGER[sign](a, b), object), lanes)
    return Value(np.asarray(np.frompyfunc(_DIVIDED[sign], 2, 1)(a, b), object), lanes)


def _moved(sign: str, left: Value, right: Value, type: Pointer) -> Value:
    """A sum of a pointer and a number of elements, or the number of elements between two pointers."""
    step = size(type.to) or 1
    both = isinstance(left.type, Pointer) and isinstance(right.type, Pointer)
    plain = [attrs.evolve(each, type=None) for each in (left, right)]
    if both:
        return binary("/", binary(sign, *plain), Value(np.array(step, object)))
    scaled = [
        p if isinstance(v.type, Pointer) else binary("*", p, Value(np.array(step, object)))
        for p, v in zip(plain, (left, right), strict=True)
    ]
    return attrs.evolve(binary(sign, *scaled), type=type)


def _quotient(a: int, b: int) -> int:
    """Divide toward zero, as C does."""
    if b == 0:
        raise DebugError("division by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _left(a: int, b: int) -> int:
    if not 0 <= b <= 128:
        raise DebugError("a shift count must be 0 to 128")
    return a << b


_DIVIDED: dict[str, Callable[[int, int], int]] = {
    "/": _quotient,
    "%": lambda a, b: a - b * _quotient(a, b),
    "<<": _left,
    ">>": lambda a, b: a >> b if 0 <= b <= 1 << 20 else _left(a, -1),
}


def narrowed(data: Array) -> Array:
    """Exact integers in int64 or uint64 if one of them can hold all, else unchanged."""
    low, high = (min(data.reshape(-1)), max(data.reshape(-1))) if data.size else (0, 0)
    if low >= -(2**63) and high < 2**63:
        return data.astype(np.int64)
    return data.astype(np.uint64) if low >= 0 and high < 2**64 else data
