"""Steps of per-thread instructions: fetch, compute, commit, over all threads of a group at once.

Plain loads and stores of whole registers at affine addresses of shared or global memory do what the port does when
nobody watches it (or loads of shared memory), in a third of the calls. What an instruction asks of memory is learned from its body.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from warpsim.isa.spec import Body, Op
from warpsim.isa.traits import Access
from warpsim.machine.binding.operand_slots import Guard, commit_of, destination, guard_of, parameter_of, source_getter
from warpsim.machine.binding.ports import PORTS
from warpsim.machine.hooks import READ, MemoryAccess
from warpsim.machine.machine import Machine
from warpsim.machine.memory.access import Memory
from warpsim.machine.memory.addresses import WINDOWS, Extent, last_along, space_of
from warpsim.machine.memory.global_access import in_one_allocation
from warpsim.machine.memory.word_access import I64, in_rows, rows_view
from warpsim.machine.plan import ATTEND, FunctionPlan, Step
from warpsim.machine.selection import Rect, Selection
from warpsim.machine.state.group import Group
from warpsim.machine.values import FLAT, Affine, Array, DType, NotAffine, Value, as_array, extend, retype, stays_affine
from warpsim.program.program import Instruction, Operand
from warpsim.types import ScalarType


def bind_parameter_load(plan: FunctionPlan, instruction: Instruction) -> Step | None:
    """Bind loads of kernel parameters by name, which are constants of the launch."""
    param = parameter_of(plan, instruction)
    if param is None:
        return None
    address = instruction.inputs[0]
    offset, target = param.offset + address.offset, instruction.operands[0]
    setters, type = [destination(r) for r in target.parts], target.type

    def step(machine: Machine, group: Group) -> None:
        for k, setter in enumerate(setters):
            setter(machine, group, machine.param(offset + k * type.bytes, type), None)

    return step


def bind_plain(plan: FunctionPlan, instruction: Instruction) -> Step | None:
    """Bind the common case: registers in, one register out, no ports, no guard."""
    form = instruction.form
    if form.ports or instruction.guard is not None or form.n_dest != 1:
        return None
    result, *sources = instruction.operands
    register = result.register
    if register is None or not 1 <= len(sources) <= 3:
        return None
    slots = [plan.slot(s) if s.register is None else s.register.index for s in sources]
    if None in slots or True in [s.negated for s in sources]:
        return None
    types = [s.type.dtype for s in sources]
    width, signed = register.type.dtype.itemsize, result.type.signed
    if len(slots) == 2:
        made = _of_two(instruction.op, form.function, types[0], types[1], width, signed=signed)
        return made(register.index, *slots)
    return _plain(instruction.op, form.function, tuple(types), width, signed=signed)(register.index, tuple(slots))


@functools.lru_cache(maxsize=4096)
def _of_two(  # noqa: C901  where launches spend their time: no calls
    op: Op, function: Body, one: DType, other: DType, width: int, *, signed: bool
) -> Callable[..., Step]:
    """What makes the step from two registers to one, where most launches spend their time, for places: defaults, which take a tenth of
    cells. (`FunctionType` would make the same, but CPython 3.12 gives such functions the numbers of others, and crashes.) Arrays of
    one shape, an array with a uniform integer, and two affine values go straight to the body; anything else takes the ``general`` step.
    """
    linear = stays_affine(function, op, (one, other))
    general = _plain(op, function, (one, other), width, signed=signed)(0, ())
    one_size, other_size = one.itemsize, other.itemsize

    def made(d: int, i: int, j: int) -> Step:  # noqa: C901  likewise
        def step(machine: Machine, group: Group, d: int = d, i: int = i, j: int = j) -> object:  # noqa: C901  likewise
            env = group.env
            a, b = env[i], env[j]
            if a is None:
                a = group.fetch(i)
            if b is None:
                b = group.fetch(j)
            if type(a) is np.ndarray:
                if a.size == 1:
                    return general(machine, group, d, (i, j))
                if type(b) is np.ndarray:
                    if b.size == 1:
                        return general(machine, group, d, (i, j))
                elif type(b) is Affine and b.strides == FLAT:
                    b = b.point()
                else:
                    return general(machine, group, d, (i, j))
                if a.dtype is not one:
                    a = a.view(one) if a.itemsize == one_size else retype(a, one)
                if b.dtype is not other:
                    b = b.view(other) if b.itemsize == other_size else retype(b, other)
                result = function(op, a, b)
                if result.dtype.itemsize != width:
                    result = extend(result, width, signed=signed)
            elif linear and type(a) is Affine and type(b) is Affine:
                try:
                    result = function(
                        op, a if a.dtype is one else a.view(one), b if b.dtype is other else b.view(other)
                    )
                except NotAffine:
                    return general(machine, group, d, (i, j))
            else:
                return general(machine, group, d, (i, j))
            env[d] = result
            group.dirty.add(d)
            return None

        return step

    return made


@functools.lru_cache(maxsize=4096)
def _plain(  # noqa: C901  where launches spend their time: no calls
    op: Op, function: Body, types: tuple[DType, ...], width: int, *, signed: bool
) -> Callable[..., Step]:
    """The step from registers to one. A value without axes is passed to NumPy without axes if others have some."""
    linear = stays_affine(function, op, types)
    known = known_results(op, function, types, width, signed=signed)

    def made(d: int, slots: tuple[int, ...]) -> Step:  # noqa: C901  likewise
        def step(machine: Machine, group: Group, d: int = d, slots: tuple[int, ...] = slots) -> object:  # noqa: C901  likewise
            env = group.env
            values = []
            affine, lifted, wide, narrow = linear, True, False, False
            for slot, dtype in zip(slots, types, strict=True):
                value = env[slot]
                if value is None:
                    value = group.fetch(slot)
                if type(value) is Affine:
                    narrow = True
                    if value.strides != FLAT:
                        wide = True
                    if value.dtype is not dtype:
                        lifted = False
                else:
                    if value.dtype is not dtype:
                        value = retype(value, dtype)
                    if value.size > 1:
                        wide, affine = True, False
                    else:
                        narrow, lifted = True, False
                values.append(value)
            if affine:
                try:
                    if not lifted:
                        for k, dtype in enumerate(types):
                            values[k] = _lift(values[k], dtype)
                    result = function(op, *values)
                except NotAffine:
                    pass
                else:
                    if result.dtype.itemsize != width:
                        result = extend(as_array(result), width, signed=signed)
                    env[d] = result
                    group.dirty.add(d)
                    return None
            asked: tuple[int, ...] | None = None
            if narrow and not wide:
                asked = _bases(values)
                found = None if asked is None else known.get(asked)
                if found is not None:
                    env[d] = found
                    group.dirty.add(d)
                    return None
            if narrow:
                for k, value in enumerate(values):
                    if type(value) is Affine:
                        array = value.point() if wide and value.strides == FLAT else value.array()
                        values[k] = array if array.dtype is types[k] else retype(array, types[k])
                    elif wide and value.size == 1:
                        values[k] = value.reshape(())
            result = function(op, *values)
            if result.ndim == 0:
                result = np.asarray(result).reshape(1)
            if result.dtype.itemsize != width:
                result = extend(result, width, signed=signed)
            if asked is not None:
                if result.dtype.kind in "iu":
                    result = Affine.constant(result.item(), result.dtype)
                if len(known) >= MOST_KNOWN:
                    known.clear()
                known[asked] = result
            env[d] = result
            group.dirty.add(d)
            return None

        return step

    return made


def _bases(values: list[Value]) -> tuple[int, ...] | None:
    """Numbers that are the same in all threads; None if there are others. One counts twice."""
    found = [value.base for value in values if type(value) is Affine]
    if len(found) < len(values):
        return None
    return (found[0], found[0]) if len(found) == 1 else tuple(found)


MOST_KNOWN = 1024
"""Results of a form that are kept."""


@functools.lru_cache(maxsize=4096)
def known_results(
    op: Op, function: Body, types: tuple[DType, ...], width: int, *, signed: bool
) -> dict[tuple[int, ...], Value]:
    """The results of a form by numbers that are the same in all threads: loops compute the same addresses again."""
    return {}


def _lift(value: Value, dtype: DType) -> Affine:
    """Convert an integer value to an affine one of a type; one-element arrays become uniform."""
    if type(value) is Affine:
        return value if value.dtype is dtype else value.view(dtype)
    return Affine.constant(int(value.reshape(-1)[0]), dtype)


def bind_thread(plan: FunctionPlan, instruction: Instruction, *, unread: bool) -> Step:
    """Bind any per-thread instruction, with ports and guard."""
    form, op, function = instruction.form, instruction.op, instruction.form.function
    single = all(plan.slot(o) is not None or plan.in_frame(o) is not None for o in instruction.inputs)
    types = tuple([o.type.dtype for o in instruction.inputs])
    linear = single and not form.ports and instruction.guard is None and stays_affine(function, op, types)
    getters = [source_getter(plan, o, linear=linear, within=plan.within(instruction, o)) for o in instruction.inputs]
    commit = commit_of(instruction)
    guard = guard_of(instruction)
    ports = [(name, _unread if unread and name == "memory" else PORTS[name]) for name in sorted(form.ports)]
    loads = not form.ports.isdisjoint(("memory", "async_groups", "textures"))
    name, port = ports[0] if len(ports) == 1 else ("", None)

    def step(machine: Machine, group: Group) -> object:
        active = None if guard is None else guard(machine, group)
        if active is False:
            return None
        arguments = [get(machine, group) for get in getters]
        if port is not None:
            result = function(op, *arguments, **{name: port(machine, group, active)})
        elif ports:
            result = function(op, *arguments, **{p: make(machine, group, active) for p, make in ports})
        elif linear:
            try:
                result = function(op, *arguments)
            except NotAffine:
                result = function(op, *[a.array() if type(a) is Affine else a for a in arguments])
        else:
            result = function(op, *arguments)
        if commit is not None and result is not None:
            commit(machine, group, result, active)
        if loads and machine.attention:
            machine.attention = False
            return ATTEND
        return None

    return step


def _unread(machine: Machine, group: Group, active: Array | None) -> Memory:
    """The memory of a step whose result is never read."""
    return Memory(machine, group, active, unused=True)


class Elements(NamedTuple):
    """Consecutive elements of memory behind a register's address plus an offset, within a variable, and their registers."""

    at: int
    offset: int
    within: Extent | None
    dtype: DType
    slots: tuple[int, ...]


View = Callable[["Machine", Group, Affine, Elements], "list[Array] | None"]
"""Views of such elements at affine addresses; None if the general step is needed."""


class _Asked:
    """In place of memory: notes what a body asks of it."""

    def __init__(self) -> None:
        self.accesses: list[tuple[Access, str, object, ScalarType, tuple[object, ...]]] = []

    def load(self, space: str, address: object, type: ScalarType, count: int = 1) -> tuple[object, ...]:
        """Note a load."""
        loaded = tuple([object() for _ in range(count)])
        self.accesses.append((Access.LOAD, space, address, type, loaded))
        return loaded

    def store(self, space: str, address: object, type: ScalarType, values: tuple[object, ...]) -> None:
        """Note a store."""
        self.accesses.append((Access.STORE, space, address, type, values))


def bind_access(plan: FunctionPlan, instruction: Instruction, general: Step) -> Step:
    """The step of an access: the ``general`` one, or one that first tries the shorter way."""
    form, operands, access = instruction.form, instruction.operands, instruction.traits.access
    if form.ports != {"memory"} or len(operands) != 2 or access not in (Access.LOAD, Access.STORE):
        return general
    data, address = operands if access is Access.LOAD else operands[::-1]
    start = address.base.register if address.base is not None else None
    if start is None or start.type.bits < 32 or address.coordinates:
        return general
    registers = [part.register for part in data.parts if part.register is not None and not part.negated]
    moved = _moved(instruction, data)
    if moved is None:
        return general
    space, kind, count = moved
    view = _VIEWS.get((access, space_of(space)))
    if view is None or len(registers) != count or any(r.type.dtype.itemsize != kind.bytes for r in registers):
        return general
    slots = tuple([r.index for r in registers])
    offset = address.offset + WINDOWS.get(space, 0)
    elements = Elements(start.index, offset, plan.within(instruction, address), kind.dtype, slots)
    step = (_load if access is Access.LOAD else _store)(view, elements, general)
    guard = guard_of(instruction)
    return step if guard is None else _guarded(guard, step, general)


def _moved(instruction: Instruction, data: Operand) -> tuple[str, ScalarType, int] | None:
    """The space, type and number of elements that an instruction loads or stores, if that is all it does."""
    asked, place, access = _Asked(), object(), instruction.traits.access
    value: object = object() if data.elements is None else tuple([object() for _ in data.elements])
    given = () if access is Access.LOAD else (value,)
    found = instruction.form.function(instruction.op, place, *given, memory=asked)
    if len(asked.accesses) != 1:
        return None
    kind, space, where, type, values = asked.accesses[0]
    whole = found if access is Access.LOAD else value
    if kind is not access or where is not place or (whole if isinstance(whole, tuple) else (whole,)) != values:
        return None
    return space, type, len(values)


def _guarded(guard: Guard, step: Step, general: Step) -> Step:
    def guarded(machine: Machine, group: Group) -> object:
        active = guard(machine, group)
        if active is False:
            return None
        return step(machine, group) if active is None else general(machine, group)

    return guarded


def _load(view: View, elements: Elements, general: Step) -> Step:
    at, slots, shared = elements.at, elements.slots, view is _shared
    nbytes = elements.dtype.itemsize * len(slots)
    told: tuple[Affine, Selection, MemoryAccess] | None = None  # the last access: loops repeat it

    def step(machine: Machine, group: Group) -> object:
        nonlocal told
        start, notify = group.env[at], machine.hooks.memory_accessed
        if type(start) is Affine and (notify is None or (shared and start.strides != FLAT)):
            found = view(machine, group, start, elements)
            if found is not None:
                if notify is not None:
                    last, selection = told, group.selection
                    if last is None or last[0] is not start or last[1] is not selection:
                        assert isinstance(selection, Rect), "it has all CTAs"
                        first = Affine(start.base + elements.offset, start.strides, start.extents, I64)
                        given = READ, "shared", first, nbytes, None, selection.columns, None
                        last = told = start, selection, MemoryAccess(*given, everywhere=True)
                    notify(machine, group, last[2])
                flat = start.strides == FLAT and len(group.selection.shape) == 1
                for slot, one in zip(slots, found, strict=True):
                    group.env[slot] = one.copy().reshape(1) if flat else one.copy()
                group.dirty.update(slots)
                if machine.attention:
                    machine.attention = False
                    return ATTEND
                return None
        return general(machine, group)

    return step


def _store(view: View, elements: Elements, general: Step) -> Step:
    at, slots, dtype = elements.at, elements.slots, elements.dtype

    def step(machine: Machine, group: Group) -> object:
        env, hooks, stored = group.env, machine.hooks, []
        start = env[at]
        if type(start) is not Affine or start.strides == FLAT:
            return general(machine, group)
        for slot in slots:
            value = env[slot]
            if value is None:
                return general(machine, group)
            stored.append(as_array(value))
        if hooks.memory_accessed is not None or hooks.memory_written is not None:
            return general(machine, group)
        found = view(machine, group, start, elements)
        if found is None:
            return general(machine, group)
        machine.launch.memory.version += 1
        for one, array in zip(found, stored, strict=True):
            one[...] = last_along(array if array.dtype is dtype else array.view(dtype), one.shape)
        return None

    return step


def _shared(
    machine: Machine, group: Group, start: Affine, elements: Elements, *, write: bool = False
) -> list[Array] | None:
    _, offset, within, dtype, slots = elements
    space, selection = machine.batch.shared, group.selection
    if dtype.itemsize != 4 or not selection.all_ctas or (space.shadow is not None and not space.shadow.settled):
        return None
    if write and space.shared:
        space.own()
    first, count = start.base + offset, len(slots)
    asked = first, start.strides, start.extents, dtype.char, count, write, within and within.low
    found = space.views.get(asked)
    if found is None and in_rows(space, start, offset, 4 * count, within, write=write):
        extents = machine.batch.shape.extents
        found = space.keep(asked, [rows_view(space, start, first + 4 * k, extents, dtype) for k in range(count)])
    return found


def _global(
    machine: Machine, group: Group, start: Affine, elements: Elements, *, write: bool = False
) -> list[Array] | None:
    _, offset, within, dtype, slots = elements
    if start.dtype.itemsize != 8 or (start.strides != FLAT and len(group.selection.shape) == 1):
        return None
    found = in_one_allocation(machine.launch.memory, start, offset, dtype.itemsize * len(slots), within)
    if found is None:
        return None
    allocation, pattern = found
    if allocation.shadow is not None:
        return None
    if write:
        if allocation.read_only or not pattern.disjoint:
            return None
        allocation.own()
    data, first, strides = allocation.data, start.base + offset - allocation.start, start.strides
    return [np.ndarray(pattern.shape, dtype, data, first + k * dtype.itemsize, strides) for k in range(len(slots))]


_VIEWS: dict[tuple[Access, str], View] = {
    (Access.LOAD, "shared"): _shared,
    (Access.LOAD, "global"): _global,
    (Access.STORE, "shared"): partial(_shared, write=True),
    (Access.STORE, "global"): partial(_global, write=True),
}
