"""Evaluates expressions for a thread, and reads and writes bytes of any state space as it sees them.

Integers are exact and never wrap. A per-lane value has 32 elements; only those of lanes that stand with the thread are
meaningful.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import attrs
import ml_dtypes
import numpy as np

from warpsim.debug import expressions as ex
from warpsim.debug.errors import DebugError
from warpsim.debug.threads import Focus, column_of, of_type, peek, places
from warpsim.machine.machine import Machine
from warpsim.machine.memory.addresses import CLUSTER_SHIFT
from warpsim.machine.plan import FunctionPlan
from warpsim.machine.specials import READING
from warpsim.machine.state.global_memory import CONST_ADDRESS, LOCAL_WINDOW, SHARED_WINDOW, WINDOW
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.word_space import WordSpace
from warpsim.machine.values import Array, as_array
from warpsim.numerics.arrays import DType
from warpsim.program.names import SPECIALS
from warpsim.program.program import Param, Register, Variable
from warpsim.records import frozen
from warpsim.types import ELEMENTS, TYPES, ScalarType, StateSpace

CUDA = {"threadIdx": "tid", "blockIdx": "ctaid", "blockDim": "ntid", "gridDim": "nctaid"}
FIELDS = {"lo": 0, "hi": 1, "x": 0, "y": 1, "z": 2, "w": 3}
MOST = 1 << 24
"""Most elements of an array that an expression gives."""
LARGEST = 1 << 30
"""Most bytes that are read at once."""


@frozen(eq=False)
class Value:
    """The value of an expression.

    ``data`` holds one element, one per lane (``lanes``), or the elements of an array; for packed bits its last axis
    holds the parts (``packed``). ``at`` is the location of an object in memory.
    """

    data: Array
    lanes: bool = False
    packed: bool = False
    at: Location | None = None


@frozen(eq=False)
class Location:
    """Elements of a type in a state space: at one address, or at one address per lane."""

    space: str
    address: Any
    type: ScalarType
    count: int | None = None

    @property
    def each(self) -> int:
        """Size of an element in bytes."""
        return self.type.bytes


@frozen(eq=False)
class Context:
    """The thread for which expressions are evaluated. ``group`` is None if the thread does not stand anywhere."""

    launch: LaunchState
    machine: Machine | None
    group: Group | None
    focus: Focus
    kept: Callable[[str], Value | None] = lambda name: None
    """Looks up a value that the user keeps, such as ``$1``."""

    def value(self, text: str) -> Any:
        """Parse and evaluate an expression; returns what `result` does."""
        return self.result(self.evaluate(ex.parse(text)))

    # ---- names -------------------------------------------------------------------------------

    def lanes(self) -> Array:
        """A mask of the warp's lanes that stand with the thread."""
        if self.group is None or self.machine is None:
            return np.zeros(32, np.bool_)
        return places(self.machine, self.group, self.focus) >= 0

    def register(self, name: str) -> Register | None:
        """Look up a register of the thread's current function."""
        if self.group is None:
            return None
        return next((r for r in self.group.plan.function.registers if r.name == name), None)

    def held(self, register: Register) -> Array:
        """A register's value in each lane of the warp; undefined for lanes that stand elsewhere."""
        assert self.group is not None
        assert self.machine is not None
        at = places(self.machine, self.group, self.focus)
        return of_type(peek(self.group, register.index)[at], register.type.dtype)

    def special(self, name: str) -> Array:
        """A special register's value in each lane of the warp."""
        machine = self.machine
        if name.startswith(("clock", "globaltimer")):
            now = self.launch.now + READING
            wide = self.launch.memory.nanoseconds + now if name.startswith("globaltimer") else now
            return np.full(32, wide >> 32 if name.endswith("_hi") else wide, object)
        if machine is None or self.group is None:
            raise DebugError(f"{self.focus} is not running, so it has no %{name}")
        at = places(machine, self.group, self.focus)
        whole = np.broadcast_to(as_array(machine.special(name)), machine.batch.shape.extents).reshape(-1)
        return whole[self.group.selection.positions.reshape(-1)[at]]

    def variable(self, name: str) -> Location | None:
        """Look up a variable or parameter by name."""
        plan = self.group.plan if self.group is not None else self.launch.plan.main
        for param in [*plan.function.params, *plan.function.returns]:
            if param.name == name and not param.registers:
                return self._param(param, plan)
        own, others = plan.function.variables, self.launch.plan.program.variables
        named = (v for v in (*reversed(own), *others) if name in (v.name, v.unique))  # an inner block's come last
        found = next(named, None)
        return None if found is None else self._variable(found, plan)

    def _param(self, param: Param, plan: FunctionPlan) -> Location:
        count = param.size // param.type.bytes if param.array else None
        if plan.function.entry:
            return Location("param", param.offset, param.type, count)
        return Location("local", self._frame() + plan.offset(param), param.type, count)

    def _variable(self, variable: Variable, plan: FunctionPlan) -> Location:
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
            raise DebugError(f"{self.focus} is not running, so it has no local memory")
        return self.group.local_base

    # ---- memory ------------------------------------------------------------------------------

    def place(self, space: str, address: int, lane: int | None = None) -> Place:
        """A place in memory, addressed as a lane of the warp addresses it."""
        machine = self.machine
        column = column_of(machine, self.focus.cta) if machine is not None else None
        thread = self.focus.warp * 32 + (self.focus.lane if lane is None else lane)
        return Place(self.launch, space, int(address), machine, column or 0, thread)

    def load(self, at: Location) -> Value:
        """Load the elements at a location."""
        if at.count is not None:
            if at.count > MOST:
                raise DebugError(f"{at.count} elements are too many to show; take a slice, such as name[0:64]")
            raw = self.place(at.space, at.address).read(at.count * at.each)
            return unpacked(np.frombuffer(raw, plain_type(at.type)), at.type, at, lanes=False)
        if not isinstance(at.address, np.ndarray):
            raw = self.place(at.space, at.address).read(at.each)
            return unpacked(np.frombuffer(raw, plain_type(at.type))[0:1].reshape(()), at.type, at, lanes=False)
        here = self.lanes()
        data = np.zeros(32, plain_type(at.type))
        for lane in np.flatnonzero(here).tolist():
            raw = self.place(at.space, at.address[lane], lane).read(at.each)
            data[lane] = np.frombuffer(raw, data.dtype)[0]
        return unpacked(data, at.type, at, lanes=True)

    # ---- expressions -------------------------------------------------------------------------

    def evaluate(self, node: ex.Node) -> Value:
        """Evaluate an expression tree."""
        match node:
            case ex.Number(value):
                return Value(np.array(value, object if isinstance(value, int) else None))
            case ex.Name(text):
                return self._name(text)
            case ex.Field(base, name):
                return self._field(base, name)
            case ex.Index(base, index, stop):
                return self._index(base, index, stop)
            case ex.Bits(type, operand):
                return as_bits(self.evaluate(operand), TYPES[type])
            case ex.Operation("&", operand, None):
                return self._address(operand)
            case ex.Operation(sign, operand, None):
                return unary(sign, self.evaluate(operand))
            case ex.Operation(sign, left, right) if right is not None:
                return binary(sign, self.evaluate(left), self.evaluate(right))
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
        if text == "$pc" and self.group is not None:
            return Value(np.array(self.group.instruction.span.line, object))
        kept = self.kept(text)
        if kept is not None:
            return kept
        where = f" in {self.group.plan.function.name}" if self.group is not None else ""
        raise DebugError(f"no register, variable or parameter {text}{where}")

    def _field(self, base: ex.Node, name: str) -> Value:
        if isinstance(base, ex.Name):
            root = CUDA.get(base.text, base.text[1:] if base.text.startswith("%") else "")
            if f"{root}.{name}" in SPECIALS:
                return Value(self.special(f"{root}.{name}"), lanes=True)
        value = self.evaluate(base)
        if not value.packed or name not in FIELDS or FIELDS[name] >= value.data.shape[-1]:
            raise DebugError(f"no field .{name} here: only packed bits have parts, as in f16x2(%r5).hi")
        return Value(np.asarray(value.data[..., FIELDS[name]]), value.lanes)

    def _index(self, base: ex.Node, index: ex.Node, stop: ex.Node | None) -> Value:
        first = self.evaluate(index)
        at = self.location(base, first, self.evaluate(stop) if stop is not None else None)
        if at is not None:
            return self.load(at)
        value, number = self.evaluate(base), one(first)
        if value.packed:
            size = value.data.shape[-1]
            if not 0 <= number < size or stop is not None:
                raise DebugError(f"index one part, 0 to {size - 1}")
            return Value(np.asarray(value.data[..., number]), value.lanes)
        if value.data.ndim:  # one value per lane, or the elements of an array that the user keeps
            last = number + 1 if stop is None else one(self.evaluate(stop))
            here = self.lanes() if value.lanes else np.ones(len(value.data), np.bool_)
            if not 0 <= number <= last <= len(here) or not here[number:last].all():
                raise DebugError(
                    f"{'lane' if value.lanes else 'element'} {number} does not stand here"
                    if stop is None
                    else f"not all of {number} to {last - 1} stand here"
                )
            return Value(np.asarray(value.data[number] if stop is None else value.data[number:last]))
        raise DebugError("only arrays, registers (indexed by lane) and packed bits can be indexed")

    def location(self, base: ex.Node, first: Value | None, stop: Value | None) -> Location | None:
        """The location of elements in memory; None if ``base`` is not in memory."""
        type: ScalarType | None = None
        if isinstance(base, ex.Memory):
            type = TYPES[base.type]
            if base.base in ex.SPACES and self.variable(base.base) is None:
                assert first is not None
                address = integers(first)
                each = Location(base.base, address if first.lanes else int(address), type)
                count = None if stop is None else max(one(stop) - one(first), 0) // type.bytes
                return attrs.evolve(each, count=count)
            found = self.variable(base.base)
            if found is None:
                raise DebugError(f"no variable or state space {base.base}")
        else:
            found = self.variable(base.text) if isinstance(base, ex.Name) and not self.register(base.text) else None
            if found is None:
                return None
            type = found.type
        start = found.address
        total = found.each * (1 if found.count is None else found.count) // type.bytes
        if first is None:
            return attrs.evolve(found, type=type)
        numbers = integers(first)
        used = numbers[self.lanes()] if first.lanes else numbers.reshape(-1)
        last = one(stop) if stop is not None else None
        for number in [*used.tolist(), *([last - 1] if last is not None and last > 0 else [])]:
            if not 0 <= number < total:
                raise DebugError(f"element {number} is out of range: there are {total} elements")
        address = start + numbers * type.bytes
        if last is not None:
            return Location(found.space, int(address), type, max(last - one(first), 0))
        return Location(found.space, address if first.lanes else int(address), type)

    def _address(self, node: ex.Node) -> Value:
        if isinstance(node, ex.Index):
            at = self.location(node.base, self.evaluate(node.index), None)
        else:
            at = self.location(node, None, None) if isinstance(node, ex.Name) else None
        if at is None:
            raise DebugError("only objects in memory have an address")
        lanes = isinstance(at.address, np.ndarray)
        return Value(np.asarray(at.address, object), lanes)

    def result(self, value: Value) -> Any:
        """Convert a value for callers: one that differs by lane becomes an array ``[32]``, masked for lanes that stand
        elsewhere.
        """
        data = value.data
        if data.dtype == object:
            data = narrowed(data)
        if value.lanes:
            mask = ~self.lanes()
            return np.ma.MaskedArray(
                data, mask if data.ndim == 1 else np.broadcast_to(mask[:, None], data.shape).copy()
            )
        return data[()] if data.ndim == 0 else data


class Place:
    """A run of bytes in a state space, as a thread sees it. ``machine`` is the batch of its CTA, ``column`` the CTA's
    column, ``thread`` the thread's number in the CTA.
    """

    def __init__(
        self, launch: LaunchState, space: str, address: int, machine: Machine | None, column: int, thread: int
    ) -> None:
        self.launch, self.machine = launch, machine
        self.column, self.thread = column, thread
        self.space, self.address = self._resolved(space, address)

    def _resolved(self, space: str, address: int) -> tuple[str, int]:
        if space not in ex.SPACES:
            raise DebugError(f"{space!r} is not a state space; state spaces: {', '.join(ex.SPACES)}")
        if space == "generic":
            if SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW:
                return "shared", address - SHARED_WINDOW
            if LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW:
                return "local", address - LOCAL_WINDOW
            return "global", address
        if space == "const" and address < 1 << 32:
            return "global", address + CONST_ADDRESS
        return ("global", address) if space == "const" else (space, address)

    def read(self, nbytes: int) -> bytes:
        """Read bytes from here on.

        Raises:
            DebugError: they are not all in memory.
        """
        if not 0 <= nbytes <= LARGEST:
            raise DebugError(f"{nbytes} bytes are too many to read at once")
        if self.space == "param":
            return self._param(nbytes)
        if self.space == "global":
            return self._allocated(nbytes).tobytes()
        space, column, address, first, last = self._words(nbytes)
        raw = np.ascontiguousarray(space.words[first:last, column]).view(np.uint8)
        return raw[address - 4 * first :][:nbytes].tobytes()

    def write(self, data: bytes) -> None:
        """Write bytes from here on."""
        if self.space == "param":
            raise DebugError("kernel parameters are read-only")
        if self.space == "global":
            self._allocated(len(data), write=True)[:] = np.frombuffer(data, np.uint8)
            self.launch.memory.version += 1
            return
        space, column, address, first, last = self._words(len(data))
        space.own()
        words = np.ascontiguousarray(space.words[first:last, column])
        words.view(np.uint8)[address - 4 * first :][: len(data)] = np.frombuffer(data, np.uint8)
        space.words[first:last, column] = words
        self.launch.memory.version += 1

    def _param(self, nbytes: int) -> bytes:
        params = self.launch.params
        if not 0 <= self.address <= len(params) - nbytes:
            raise DebugError(f"out of range: the kernel has {len(params)} bytes of parameters")
        return params[self.address : self.address + nbytes]

    def _allocated(self, nbytes: int, *, write: bool = False) -> Array:
        memory, address = self.launch.memory, self.address
        found = memory.find(address, address + nbytes) if address >= 0 else None
        if found is None:
            nearest = memory.nearest(max(address, 0))
            near = (
                f"; the nearest is {nearest[0].name} [0x{nearest[0].start:x}, 0x{nearest[0].end:x})" if nearest else ""
            )
            raise DebugError(f"{nbytes} bytes at 0x{address:x} are outside any allocation of global memory{near}")
        if write:
            found.own()
        return found.data[address - found.start : address - found.start + nbytes]

    def of_whom(self, nbytes: int) -> tuple[int, int]:
        """The column and the offset of bytes in the shared memory of a CTA: the thread's own, or another of its cluster."""
        _, column, address, _, _ = self._words(nbytes)
        return column, address

    def _words(self, nbytes: int) -> tuple[WordSpace, int, int, int, int]:
        """The memory, column and address, and the first and one-past-last word of a run of bytes."""
        machine = self.machine
        if machine is None:
            raise DebugError(f"the CTA is not running, so it has no {self.space} memory")
        address, column, batch = self.address, self.column, machine.batch
        if self.space == "shared":
            rank = address >> CLUSTER_SHIFT
            if rank > 0:
                column = int(machine.cluster_peer(np.array([column]), np.array([rank - 1]))[0])
                address &= (1 << CLUSTER_SHIFT) - 1
            space, size = batch.shared, self.launch.shared_size
        else:
            column = self.thread * batch.shape.n_ctas + column
            space, size = batch.local, batch.local.size
        if column < 0 or not 0 <= address <= size - nbytes:
            raise DebugError(f"{nbytes} bytes at 0x{address:x} are outside the {size} bytes of {self.space} memory")
        return space, column, address, address >> 2, -(-(address + nbytes) >> 2)


# ---- arithmetic ---------------------------------------------------------------------------------

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
    another.
    """
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
