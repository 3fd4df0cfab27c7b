"""Evaluates expressions for a thread: names of PTX and of C++, objects in memory, registers.

A per-lane value has 32 elements; only those of lanes that stand with the thread are meaningful.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from warpsim.debug import expressions as ex
from warpsim.debug.debug_info import Symbol
from warpsim.debug.errors import DebugError
from warpsim.debug.memory import Place
from warpsim.debug.symbols import Symbols, symbols_of
from warpsim.debug.threads import Focus, is_written, of_type, peek, places
from warpsim.debug.values import (
    Location,
    Value,
    as_bits,
    as_c,
    binary,
    cast,
    integers,
    narrowed,
    one,
    plain_type,
    typed,
    unary,
    unpacked,
)
from warpsim.machine.machine import Machine
from warpsim.machine.plan import FunctionPlan
from warpsim.machine.specials import READING
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.values import Array, as_array
from warpsim.program.c_types import SCALARS, VOID, CType, Pointer, Struct, scalar_of, size
from warpsim.program.c_types import Array as ArrayType
from warpsim.program.c_types import text as type_text
from warpsim.program.names import SPECIALS
from warpsim.program.program import Function, Param, Register, Variable
from warpsim.records import frozen
from warpsim.types import TYPES, StateSpace

CUDA = {"threadIdx": "tid", "blockIdx": "ctaid", "blockDim": "ntid", "gridDim": "nctaid"}
FIELDS = {"lo": 0, "hi": 1, "x": 0, "y": 1, "z": 2, "w": 3}
MOST = 1 << 24
"""Most elements of an array that an expression gives."""


@frozen(eq=False)
class Context:
    """The thread for which expressions are evaluated. ``group`` is None if the thread does not stand anywhere."""

    launch: LaunchState
    machine: Machine | None
    group: Group | None
    focus: Focus
    level: int = 0
    """Calls between the thread and the function that ``group`` executes."""
    depth: int = 0
    """Calls of inlined functions between that function and the one whose variables are meant."""
    kept: Callable[[str], Value | None] = lambda name: None
    """Looks up a value that the user keeps, such as ``$1``."""

    def value(self, text: str) -> Any:
        """Parse and evaluate an expression; returns what `result` does."""
        return self.result(self.evaluate(ex.parse(text)))

    def typed(self, text: str) -> tuple[Any, CType | None]:
        """The value of an expression, and its type in C, if it has one."""
        value = self.evaluate(ex.parse(text))
        return self.result(value), value.type

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

    def register_named(self, name: str) -> Register | None:
        """A register by its own name, or by that of the variable of C++ that is in it."""
        register = self.register(name)
        symbol = self.symbol(name) if register is None else None
        place = symbol.place(self.number) if symbol is not None else None
        return self.register(place.of) if place is not None and place.register else register

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

    @property
    def symbols(self) -> Symbols:
        """The variables of C++."""
        return symbols_of(self.launch.plan.program)

    @property
    def function(self) -> Function:
        """The function that the thread executes; the kernel, if it is not running."""
        return (self.group.plan if self.group is not None else self.launch.plan.main).function

    @property
    def number(self) -> int:
        """The number in its function of the instruction that comes next."""
        return 0 if self.group is None else self.symbols.number(self.function, self.group.instruction)

    def symbol(self, name: str) -> Symbol | None:
        """Look up a variable of C++; None for names of PTX."""
        found = self.symbols.find(name, self.function, self.number, self.depth)
        return None if found is None or found.is_plain else found

    def variable(self, name: str) -> Location | None:
        """Look up a variable or parameter by name; those of C++ in registers have no location."""
        symbol = self.symbol(name)
        return self.plain_variable(name) if symbol is None else self.located(symbol)

    def located(self, symbol: Symbol) -> Location | None:
        """Where a variable of C++ is in memory; None if it is in a register.

        Raises:
            DebugError: it is nowhere when this instruction comes next.
        """
        place = symbol.place(self.number)
        if place is None:
            raise DebugError(f"{symbol.name} has no value here: the compiler keeps it nowhere")
        at = None if place.register else self.plain_variable(place.of)
        if at is None:
            return None
        of = symbol.type
        if isinstance(of, ArrayType) and not of.count:  # of dynamic size
            of = ArrayType(of.of, at.nbytes // size(of.of))
        return typed(at.space, at.address + place.offset, of)

    def plain_variable(self, name: str) -> Location | None:
        """Look up a variable or parameter of PTX."""
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
        column = machine.column_of(self.focus.cta) if machine is not None else None
        thread = self.focus.warp * 32 + (self.focus.lane if lane is None else lane)
        return Place(self.launch, space, int(address), machine, column or 0, thread)

    def load(self, at: Location) -> Value:
        """Load the elements at a location."""
        if at.of is None and at.type.kind == "o":  # its handle is its address
            handles = np.uint64(at.address) + np.arange(at.count or 1, dtype=np.uint64) * np.uint64(at.each)
            return Value(handles if at.count else handles[0])
        if (at.count or 0) > MOST:
            raise DebugError(f"{at.count} elements are too many to show; take a slice, such as name[0:64]")
        dtype, lanes = plain_type(at.type) if at.of is None else at.of.dtype, isinstance(at.address, np.ndarray)
        if lanes:
            data = np.zeros(32, dtype)
            for lane in np.flatnonzero(self.lanes()).tolist():
                raw = self.place(at.space, int(at.address[lane]), lane).read(at.nbytes)
                data[lane] = np.frombuffer(raw, dtype)[0]
        else:
            data = np.frombuffer(self.place(at.space, at.address).read(at.nbytes), dtype)
            if at.of is not None or at.count is None:
                data = np.asarray(data[0])
        return unpacked(data, at.type, at, lanes=lanes) if at.of is None else Value(data, lanes, at=at, type=at.of)

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
            case ex.Cast(name, stars, inner):
                of = self._type(name, stars)
                return _count(size(of)) if inner is None else cast(self.evaluate(inner), of)
            case ex.Operation():
                return self._operation(node)
        raise DebugError(f"{node} has no value of its own")

    def _operation(self, node: ex.Operation) -> Value:
        at = self.lvalue(node)
        if at is not None:
            return self.load(at)
        if node.right is not None:
            return binary(node.operator, self.evaluate(node.left), self.evaluate(node.right))
        if node.operator == "&":
            return self._address(node.left)
        return self._size(node.left) if node.operator == "sizeof" else unary(node.operator, self.evaluate(node.left))

    def _name(self, text: str) -> Value:
        register = self.register(text)
        if register is not None:
            return Value(self.held(register), lanes=True)
        if text.startswith("%") and text[1:] in SPECIALS:
            return Value(self.special(text[1:]), lanes=True)
        symbol = self.symbol(text)
        at = self.variable(text)
        if at is not None:
            return self.load(at)
        if symbol is not None:
            return self._in_register(symbol)
        if text in CUDA and self.group is not None:
            parts = [self.special(f"{CUDA[text]}.{part}")[self.focus.lane] for part in "xyz"]
            return Value(np.array(parts))
        if text == "$pc" and self.group is not None:
            return Value(np.array(self.group.instruction.span.line, object))
        kept = self.kept(text)
        if kept is not None:
            return kept
        where = f" in {self.group.plan.function.name}" if self.group is not None else ""
        raise DebugError(f"no register, variable or parameter {text}{where}")

    def _in_register(self, symbol: Symbol) -> Value:
        """The value of a variable of C++ that is in a register."""
        register = self.register_named(symbol.name)
        if register is None or self.group is None or not is_written(self.group, register.index):
            raise DebugError(f"{symbol.name} has no value yet")
        return as_c(Value(self.held(register), lanes=True), symbol.type)

    def _field(self, base: ex.Node, name: str) -> Value:
        if isinstance(base, ex.Name):
            root = CUDA.get(base.text, base.text[1:] if base.text.startswith("%") else "")
            if f"{root}.{name}" in SPECIALS:
                return Value(self.special(f"{root}.{name}"), lanes=True)
        at = self.lvalue(ex.Field(base, name))
        if at is not None:
            return self.load(at)
        value = self.evaluate(base)
        if not value.packed or name not in FIELDS or FIELDS[name] >= value.data.shape[-1]:
            raise DebugError(f"no field .{name} here: only packed bits have parts, as in f16x2(%r5).hi")
        return Value(np.asarray(value.data[..., FIELDS[name]]), value.lanes)

    def _index(self, base: ex.Node, index: ex.Node, stop: ex.Node | None) -> Value:
        at = self.lvalue(ex.Index(base, index, stop))
        if at is not None:
            return self.load(at)
        value, number = self.evaluate(base), one(self.evaluate(index))
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
            of = value.type.of if isinstance(value.type, ArrayType) and not value.lanes else value.type
            if stop is None:
                return Value(np.asarray(value.data[number]), type=of)
            return Value(value.data[number:last], type=None if of is None else ArrayType(of, last - number))
        raise DebugError("only arrays, registers (indexed by lane) and packed bits can be indexed")

    # ---- objects -----------------------------------------------------------------------------

    def lvalue(self, node: ex.Node) -> Location | None:
        """The location of an object in memory; None if an expression names none."""
        match node:
            case ex.Name(text):
                return self.variable(text) if self.register(text) is None else None
            case ex.Index(base, index, stop):
                last = self.evaluate(stop) if stop is not None else None
                return self._indexed(base, self.evaluate(index), last)
            case ex.Field(base, name):
                whole = self.lvalue(base)
                return None if whole is None or whole.of is None else _member(whole, whole.of, name)
            case ex.Operation("*", operand, None):
                return self._target(operand)
            case ex.Operation("@", operand, count) if count is not None:
                return self._several(self.lvalue(operand), one(self.evaluate(count)))
        return None

    def _indexed(self, base: ex.Node, first: Value, stop: Value | None) -> Location | None:
        """Elements of an array, or from the one on that a pointer points to."""
        whole = None if isinstance(base, ex.Memory) else self.lvalue(base)
        if whole is not None and isinstance(whole.of, ArrayType):
            return self._element(whole, whole.of, first, stop)
        if isinstance(base, ex.Memory) or whole is None or whole.of is None:
            plain = self.location(base, first, stop)
            if plain is not None or isinstance(base, ex.Memory):
                return plain
        pointer = self.evaluate(base)
        return self._pointed(pointer, pointer.type, first, stop) if isinstance(pointer.type, Pointer) else None

    def _target(self, node: ex.Node) -> Location:
        """What a pointer points to, or the first element of an array."""
        whole = self.lvalue(node)
        if whole is not None and isinstance(whole.of, ArrayType):
            return self._element(whole, whole.of, _count(0), None)
        if whole is not None and whole.of is None and whole.count is not None:
            return attrs.evolve(whole, count=None)
        pointer = self.evaluate(node)
        if not isinstance(pointer.type, Pointer):
            raise DebugError("only pointers and arrays have a *; cast an address first, such as *(float*)%rd1")
        return self._pointed(pointer, pointer.type, _count(0), None)

    def _several(self, first: Location | None, count: int) -> Location:
        if first is None or count < 1:
            raise DebugError("write OBJECT@COUNT, such as *tile@8 or tile[4]@8, with an object in memory")
        if first.of is not None:
            return typed(first.space, first.address, ArrayType(first.of, count))
        return attrs.evolve(first, count=count)

    def _element(self, whole: Location, of: ArrayType, first: Value, stop: Value | None) -> Location:
        numbers = self._checked(first, stop, of.count)
        address = whole.address + numbers * size(of.of)
        return self._elements(whole.space, address, of.of, first, stop)

    def _pointed(self, pointer: Value, type: Pointer, first: Value, stop: Value | None) -> Location:
        """Elements from the one on that a pointer points to."""
        address = integers(pointer) + integers(first) * size(type.to)
        lanes = Value(np.asarray(address, object), pointer.lanes or first.lanes)
        return self._elements(type.space, lanes.data, type.to, attrs.evolve(lanes, data=integers(first)), stop)

    def _elements(self, space: str, address: Any, of: CType, first: Value, stop: Value | None) -> Location:
        many = of if stop is None else ArrayType(of, max(one(stop) - one(first), 1))
        return typed(space, address if np.ndim(address) else int(address), many)

    def _checked(self, first: Value, stop: Value | None, total: int) -> Any:
        """The numbers of elements, which are among ``total``."""
        numbers = integers(first)
        used = numbers[self.lanes()] if first.lanes else numbers.reshape(-1)
        last = one(stop) if stop is not None else None
        for number in [*used.tolist(), *([last - 1] if last is not None and last > 0 else [])]:
            if not 0 <= number < total:
                raise DebugError(f"element {number} is out of range: there are {total} elements")
        return numbers

    def location(self, base: ex.Node, first: Value, stop: Value | None) -> Location | None:
        """The location of elements of PTX types in memory; None if ``base`` is not in memory."""
        if isinstance(base, ex.Memory):
            type = TYPES[base.type]
            if base.base in ex.SPACES and self.variable(base.base) is None:
                address = integers(first)
                each = Location(base.base, address if first.lanes else int(address), type)
                count = None if stop is None else max(one(stop) - one(first), 0) // type.bytes
                return attrs.evolve(each, count=count)
            found = self.variable(base.base)
            if found is None:
                raise DebugError(f"no variable or state space {base.base}")
        else:
            found = self.variable(base.text) if isinstance(base, ex.Name) and not self.register(base.text) else None
            if found is None or found.of is not None:
                return None
            type = found.type
        numbers = self._checked(first, stop, found.nbytes // type.bytes)
        address = found.address + numbers * type.bytes
        if stop is not None:
            return Location(found.space, int(address), type, max(one(stop) - one(first), 0))
        return Location(found.space, address if first.lanes else int(address), type)

    def _address(self, node: ex.Node) -> Value:
        at = self.lvalue(node)
        if at is None:
            raise DebugError("only objects in memory have an address")
        lanes, of = isinstance(at.address, np.ndarray), at.of
        pointer = None if of is None else Pointer(lambda: of, space=at.space)
        return Value(np.asarray(at.address, object), lanes, type=pointer)

    # ---- types of C --------------------------------------------------------------------------

    def _type(self, name: str, stars: int) -> CType:
        words = name.split()
        if "unsigned" in words and not {"int", "short", "char", "long"} & {*words}:
            words.append("int")
        long = [word for word in words if word != "int"] if len(words) > 1 and words != ["unsigned", "int"] else words
        found: CType | None = SCALARS.get(" ".join(long)) or SCALARS.get({"half": "__half"}.get(name, ""))
        if found is None and name in TYPES:
            found = scalar_of(TYPES[name])
        found = VOID if name == "void" else found or self.symbols.types.get(name)
        if found is None:
            raise DebugError(
                f"no type {name}; C's own types and the structs of a module with debug information are known"
            )
        for _ in range(stars):
            found = Pointer(lambda to=found: to)  # type: ignore[misc]
        return found

    def _size(self, node: ex.Node) -> Value:
        if isinstance(node, ex.Name) and node.text in self.symbols.types and self.symbol(node.text) is None:
            return _count(size(self.symbols.types[node.text]))
        at = self.lvalue(node)
        if at is not None:
            return _count(at.nbytes)
        value = self.evaluate(node)
        return _count(value.data.dtype.itemsize if value.type is None else size(value.type))

    def result(self, value: Value) -> Any:
        """Convert a value for callers: one that differs by lane becomes an array ``[32]``, masked for lanes that stand
        elsewhere."""
        data = value.data
        if data.dtype == object:
            data = narrowed(data)
        if value.lanes:
            mask = ~self.lanes()
            wide = np.broadcast_to(mask.reshape(32, *(1,) * (data.ndim - 1)), data.shape)
            return np.ma.MaskedArray(data, wide.copy())
        return data[()] if data.ndim == 0 else data


def _count(number: int) -> Value:
    return Value(np.array(number, object))


def _member(whole: Location, of: CType, name: str) -> Location:
    found = of.find(name) if isinstance(of, Struct) else None
    if found is None:
        there = [member.name for member in of.members if member.name] if isinstance(of, Struct) else []
        raise DebugError(f"no member {name} in {type_text(of)}" + (f"; members: {', '.join(there)}" if there else ""))
    return typed(whole.space, whole.address + found[1], found[0])
