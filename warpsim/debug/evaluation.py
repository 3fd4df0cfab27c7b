"""What an expression is worth where a thread stands.

Integers are exact: nothing wraps. A value of lanes has 32 elements, of which those count that stand with the thread."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import attrs
import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from warpsim.debug import expressions as ex
from warpsim.debug.memory import Place
from warpsim.debug.places import DebugError, Focus, column_of, of_type, peek, places
from warpsim.machine.clocks import READING
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.values import as_array
from warpsim.program.names import SPECIALS
from warpsim.program.program import Param, Register, Variable
from warpsim.types import ELEMENTS, TYPES, ScalarType, StateSpace

Array = NDArray[Any]
CUDA = {"threadIdx": "tid", "blockIdx": "ctaid", "blockDim": "ntid", "gridDim": "nctaid"}
FIELDS = {"lo": 0, "hi": 1, "x": 0, "y": 1, "z": 2, "w": 3}
PACKED = {
    name: (name.rpartition("x")[0], int(name.rpartition("x")[2]))
    for name in TYPES
    if "x" in name and name.rpartition("x")[2].isdigit()
}
"""Packed types: what they consist of, and how many."""
MOST = 1 << 24
_INTEGER: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
_COMPARE: dict[str, Callable[..., Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@attrs.frozen(eq=False)
class Value:
    """``data``: one element, one for each lane (``lanes``), or those of an array. ``packed``: the parts of packed bits, last
    axis. ``at``: where it lies in memory, for what has an address."""

    data: Array
    lanes: bool = False
    packed: bool = False
    at: Location | None = None


@attrs.frozen(eq=False)
class Location:
    """Elements of a type in a state space: one address, or one for each lane."""

    space: str
    address: Any
    type: ScalarType
    count: int | None = None

    @property
    def each(self) -> int:
        """Bytes of an element."""
        return self.type.bytes


@attrs.frozen(eq=False)
class Scene:
    """The thread in whose place expressions are read; ``group`` is None where it does not stand anywhere."""

    launch: LaunchState
    machine: Machine | None
    group: Group | None
    focus: Focus

    # ---- names -------------------------------------------------------------------------------

    def lanes(self) -> Array:
        """Which lanes of the warp stand with the thread."""
        if self.group is None or self.machine is None:
            return np.zeros(32, np.bool_)
        return places(self.machine, self.group, self.focus) >= 0

    def register(self, name: str) -> Register | None:
        """A register of the function in which the thread is."""
        if self.group is None:
            return None
        return next((r for r in self.group.plan.function.registers if r.name == name), None)

    def held(self, register: Register) -> Array:
        """What a register holds in the lanes of the warp; elsewhere anything."""
        assert self.group is not None
        assert self.machine is not None
        at = places(self.machine, self.group, self.focus)
        return of_type(peek(self.group, register.index)[at], register.type.dtype)

    def special(self, name: str) -> Array:
        """A special register in the lanes of the warp."""
        machine = self.machine
        if name.startswith(("clock", "globaltimer")):
            now = self.launch.now + READING
            wide = self.launch.memory.nanoseconds + now if name.startswith("globaltimer") else now
            return np.full(32, wide >> 32 if name.endswith("_hi") else wide, object)
        if machine is None or self.group is None:
            raise DebugError(f"%{name} is of a thread that runs, and {self.focus} does not")
        at = places(machine, self.group, self.focus)
        whole = np.broadcast_to(as_array(machine.special(name)), machine.batch.shape.extents).reshape(-1)
        return whole[self.group.selection.positions.reshape(-1)[at]]

    def variable(self, name: str) -> Location | None:
        """A variable or parameter by name."""
        plan = self.group.plan if self.group is not None else self.launch.plan.main
        for param in [*plan.function.params, *plan.function.returns]:
            if param.name == name and not param.registers:
                return self._param(param, plan)
        found = [v for v in plan.function.variables if name in (v.name, v.unique)]
        found += [v for v in self.launch.plan.program.variables if name in (v.name, v.unique)]
        return self._variable(found[-1] if plan.function.variables and found else found[0], plan) if found else None

    def _param(self, param: Param, plan: Any) -> Location:
        count = param.size // param.type.bytes if param.array else None
        if plan.function.entry:
            return Location("param", param.offset, param.type, count)
        return Location("local", self._frame() + plan.offset(param), param.type, count)

    def _variable(self, variable: Variable, plan: Any) -> Location:
        kernel, space = self.launch.plan, variable.space
        size = variable.size
        if space in (StateSpace.LOCAL, StateSpace.PARAM):
            name, address = "local", self._frame() + plan.offset(variable)
        elif space is StateSpace.SHARED:
            name, address = "shared", kernel.address(variable)
            size = size or max(self.launch.shared_size - address, 0)
        else:
            name, address = "global", kernel.address(variable)
        many = variable.array or size > variable.type.bytes
        return Location(name, address, variable.type, size // variable.type.bytes if many else None)

    def _frame(self) -> int:
        if self.group is None:
            raise DebugError(f"{self.focus} does not run: it has no local memory now")
        return self.group.local_base

    # ---- memory ------------------------------------------------------------------------------

    def place(self, space: str, address: int, lane: int | None = None) -> Place:
        """A place in memory as a lane of the warp sees it."""
        machine = self.machine
        column = column_of(machine, self.focus.cta) if machine is not None else None
        thread = self.focus.warp * 32 + (self.focus.lane if lane is None else lane)
        return Place(self.launch, space, int(address), machine, column or 0, thread)

    def load(self, at: Location) -> Value:
        """What lies at a location."""
        if at.count is not None:
            if at.count > MOST:
                raise DebugError(f"{at.count} elements are too many to show: write for example name[0:64]")
            raw = self.place(at.space, at.address).read(at.count * at.each)
            return _unpacked(np.frombuffer(raw, _plain(at.type)), at.type, False, at)
        if not isinstance(at.address, np.ndarray):
            raw = self.place(at.space, at.address).read(at.each)
            return _unpacked(np.frombuffer(raw, _plain(at.type))[0:1].reshape(()), at.type, False, at)
        here = self.lanes()
        data = np.zeros(32, _plain(at.type))
        for lane in np.flatnonzero(here).tolist():
            raw = self.place(at.space, at.address[lane], lane).read(at.each)
            data[lane] = np.frombuffer(raw, data.dtype)[0]
        return _unpacked(data, at.type, True, at)

    # ---- expressions -------------------------------------------------------------------------

    def evaluate(self, node: ex.Node) -> Value:
        """The value of an expression."""
        match node:
            case ex.Number(value):
                return Value(np.array(value, object if isinstance(value, int) else np.float64))
            case ex.Name(text):
                return self._name(text)
            case ex.Field(base, name):
                return self._field(base, name)
            case ex.Index(base, index, stop):
                return self._index(base, index, stop)
            case ex.Bits(type, operand):
                return as_bits(self.evaluate(operand), TYPES[type])
            case ex.Unary("&", operand):
                return self._address(operand)
            case ex.Unary(sign, operand):
                return _unary(sign, self.evaluate(operand))
            case ex.Binary(sign, left, right):
                return _binary(sign, self.evaluate(left), self.evaluate(right))
        raise DebugError(f"{node} has no value of its own")

    def _name(self, text: str) -> Value:
        register = self.register(text)
        if register is not None:
            return Value(self.held(register), lanes=True)
        if text.startswith("%") and text[1:] in SPECIALS:
            return Value(self.special(text[1:]), lanes=True)
        at = self.variable(text)
        if at is not None:
            return self.load(at)
        where = f" in {self.group.plan.function.name}" if self.group is not None else ""
        raise DebugError(f"no register, variable or parameter {text}{where}")

    def _field(self, base: ex.Node, name: str) -> Value:
        if isinstance(base, ex.Name):
            root = CUDA.get(base.text, base.text[1:] if base.text.startswith("%") else "")
            if f"{root}.{name}" in SPECIALS:
                return Value(self.special(f"{root}.{name}"), lanes=True)
        value = self.evaluate(base)
        if not value.packed or name not in FIELDS or FIELDS[name] >= value.data.shape[-1]:
            raise DebugError(f"no field .{name} here: parts are of packed bits, as in f16x2(%r5).hi")
        return Value(np.asarray(value.data[..., FIELDS[name]]), value.lanes)

    def _index(self, base: ex.Node, index: ex.Node, stop: ex.Node | None) -> Value:
        first = self.evaluate(index)
        at = self.location(base, first, self.evaluate(stop) if stop is not None else None)
        if at is not None:
            return self.load(at)
        value, number = self.evaluate(base), _one(first)
        if value.packed:
            size = value.data.shape[-1]
            if not 0 <= number < size or stop is not None:
                raise DebugError(f"a part is 0 to {size - 1}")
            return Value(np.asarray(value.data[..., number]), value.lanes)
        if value.lanes and stop is None:
            if not 0 <= number < 32 or not self.lanes()[number]:
                raise DebugError(f"lane {number} does not stand here")
            return Value(np.asarray(value.data[number]))
        raise DebugError("only arrays, registers (by lane) and packed bits have elements")

    def location(self, base: ex.Node, first: Value | None, stop: Value | None) -> Location | None:
        """Where elements lie in memory; None where ``base`` is no memory."""
        type: ScalarType | None = None
        start: Any = 0
        if isinstance(base, ex.Memory):
            type = TYPES[base.type]
            if base.base in ex.SPACES and self.variable(base.base) is None:
                if first is None:
                    raise DebugError("an address is missing")
                address = _integers(first)
                each = Location(base.base, address if first.lanes else int(address), type)
                count = None if stop is None else max(_one(stop) - _one(first), 0) // type.bytes
                return attrs.evolve(each, count=count)
            found = self.variable(base.base)
            if found is None:
                raise DebugError(f"no variable {base.base}, nor a state space of that name")
        else:
            found = self.variable(base.text) if isinstance(base, ex.Name) and not self.register(base.text) else None
            if found is None:
                return None
            type = found.type
        start = found.address
        total = found.each * (found.count or 1) // type.bytes
        if first is None:
            return attrs.evolve(found, type=type)
        numbers = _integers(first)
        used = numbers[self.lanes()] if first.lanes else numbers.reshape(-1)
        last = _one(stop) if stop is not None else None
        for number in [*used.tolist(), *([last - 1] if last is not None and last > 0 else [])]:
            if not 0 <= number < total:
                raise DebugError(f"element {number} is outside the {total} elements")
        address = start + numbers * type.bytes
        if last is not None:
            return Location(found.space, int(address), type, max(last - _one(first), 0))
        return Location(found.space, address if first.lanes else int(address), type)

    def _address(self, node: ex.Node) -> Value:
        if isinstance(node, ex.Index):
            at = self.location(node.base, self.evaluate(node.index), None)
        else:
            at = self.location(node, None, None) if isinstance(node, ex.Name) else None
        if at is None:
            raise DebugError("only what lies in memory has an address")
        lanes = isinstance(at.address, np.ndarray)
        return Value(np.asarray(at.address, object), lanes)

    def result(self, value: Value) -> Any:
        """A value as callers get it: of lanes an array ``[32]``, masked where a lane stands elsewhere; else as it is."""
        data = value.data
        if data.dtype == object:
            data = _narrowed(data)
        if value.lanes:
            mask = ~self.lanes()
            return np.ma.MaskedArray(
                data, mask if data.ndim == 1 else np.broadcast_to(mask[:, None], data.shape).copy()
            )
        return data[()] if data.ndim == 0 else data


def _plain(type: ScalarType) -> np.dtype[Any]:
    """What elements of a type are in memory."""
    return np.dtype(np.uint8) if type.kind == "p" else type.dtype


def _unpacked(data: Array, type: ScalarType, lanes: bool, at: Location | None = None) -> Value:
    """Elements of a type from their bits, those of packed types and of the narrow floats with their meaning."""
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
    """The bits of a value as a type: its low part, or zeros above it. Floats of one width become those of another."""
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
        raise DebugError("registers of 128 bits have no other type")
    plain = data if data.dtype == object else of_type(data, np.dtype(f"u{data.dtype.itemsize}")).astype(object)
    if data.dtype == np.bool_:
        plain = data.astype(np.uint8).astype(object)
    bits = (plain & mask) if type.bits < 128 else plain
    raw = np.asarray(bits, object).reshape(-1).astype(f"u{size}").reshape(data.shape)
    if type.kind == "p":
        return Value(raw != 0, value.lanes)
    return _unpacked(raw.view(type.dtype) if raw.dtype.itemsize == type.dtype.itemsize else raw, type, value.lanes)


def _number(value: Value) -> Array:
    """Data to compute with: exact integers, or float64."""
    data = value.data
    if value.packed or data.dtype.names is not None:
        raise DebugError("nothing can be computed with packed bits as a whole: write .lo, .hi or [i]")
    if data.dtype == object:
        return data
    if data.dtype.kind in "iub":
        return data.astype(object) if data.dtype.kind != "b" else data.astype(np.uint8).astype(object)
    with np.errstate(all="ignore"):
        return data.astype(np.float64)


def _integers(value: Value) -> Array:
    data = _number(value)
    if data.dtype != object:
        raise DebugError("an integer is needed here, not a float")
    return data


def _one(value: Value) -> int:
    data = _integers(value)
    if data.size != 1:
        raise DebugError("one number is needed here, not one for each lane")
    return int(data.reshape(-1)[0])


def _unary(sign: str, value: Value) -> Value:
    data = _number(value)
    if sign == "!":
        return Value(np.asarray(data == 0, np.bool_), value.lanes)
    if sign == "~":
        return Value(np.asarray(-1 - _integers(value), object), value.lanes)
    return Value(np.asarray(-data if sign == "-" else data, data.dtype), value.lanes)


def _binary(sign: str, left: Value, right: Value) -> Value:
    a, b = _number(left), _number(right)
    if a.ndim and b.ndim and (left.lanes != right.lanes or a.shape != b.shape):
        raise DebugError(f"values of {len(a)} and of {len(b)} elements do not go together")
    lanes = left.lanes or right.lanes
    if sign in ("&&", "||"):
        truth = (a != 0) & (b != 0) if sign == "&&" else (a != 0) | (b != 0)
        return Value(np.asarray(truth, np.bool_), lanes)
    if sign in _COMPARE:
        return Value(np.asarray(_COMPARE[sign](a, b), np.bool_), lanes)
    exact = a.dtype == object and b.dtype == object
    if not exact:
        if sign not in ("+", "-", "*", "/"):
            raise DebugError(f"{sign} is for integers")
        with np.errstate(all="ignore"):
            x, y = a.astype(np.float64), b.astype(np.float64)
            return Value(np.asarray(x / y if sign == "/" else _INTEGER[sign](x, y)), lanes)
    if sign in _INTEGER:
        return Value(np.asarray(_INTEGER[sign](a, b), object), lanes)
    return Value(np.asarray(np.frompyfunc(_DIVIDED[sign], 2, 1)(a, b), object), lanes)


def _quotient(a: int, b: int) -> int:
    """As in C: towards zero."""
    if b == 0:
        raise DebugError("division by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _left(a: int, b: int) -> int:
    if not 0 <= b <= 128:
        raise DebugError("a shift is by 0 to 128 bits")
    return a << b


_DIVIDED: dict[str, Callable[[int, int], int]] = {
    "/": _quotient,
    "%": lambda a, b: a - b * _quotient(a, b),
    "<<": _left,
    ">>": lambda a, b: a >> b if 0 <= b <= 1 << 20 else _left(a, -1),
}


def _narrowed(data: Array) -> Array:
    """Exact integers in the narrowest of int64 and uint64 that holds them all; as they are where none does."""
    low, high = (min(data.reshape(-1)), max(data.reshape(-1))) if data.size else (0, 0)
    if low >= -(2**63) and high < 2**63:
        return data.astype(np.int64)
    return data.astype(np.uint64) if low >= 0 and high < 2**64 else data
