"""Changes registers and memory of a stopped launch."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike

from warpsim.debug import expressions as ex
from warpsim.debug.breakpoints import resolve
from warpsim.debug.errors import DebugError
from warpsim.debug.evaluation import Context
from warpsim.debug.position import Position, context_of
from warpsim.debug.threads import peek, places
from warpsim.debug.timeline import Timeline
from warpsim.debug.values import Location, Value, as_bits, integers, numbers
from warpsim.errors import shown
from warpsim.host.cases import is_float
from warpsim.machine.values import Array
from warpsim.program.c_types import Scalar, Struct, elements, size, text
from warpsim.program.program import Register, line_column
from warpsim.types import ELEMENTS, ScalarType, bits_type


def assign(position: Position, what: str, value: object) -> None:
    """Assign to a register, a variable or memory; recorded as a change of the launch at this position."""
    context, node = position.context, ex.parse(what)
    name = node.text if isinstance(node, ex.Name) and node.text.startswith("$") else None
    keeps = name is not None and context.variable(name) is None
    if position.timeline.ended and not keeps:
        raise DebugError("the launch has ended; go back first")
    given = context.evaluate(ex.parse(value)) if isinstance(value, str) else _value(value)
    if name is not None and keeps:
        position.kept.name(name, given)
    else:
        _assign(position, context, what, node, given)


def _assign(position: Position, context: Context, what: str, node: ex.Node, given: Value) -> None:
    base = node.base if isinstance(node, ex.Index) else node
    register = context.register_named(base.text) if isinstance(base, ex.Name) else None
    if isinstance(base, ex.Name) and register is not None:
        lane = _lane(context, node) if isinstance(node, ex.Index) else None
        type = _held_as(context, base.text, register)
        data = _as_type(what, given, type, context.lanes() if lane is None else np.arange(32) == lane)
        _set_register(position, context, register, lane, data)
        return
    at = _in_memory(context, what, node)
    data = _as_type(what, given, at.type, context.lanes())
    count = 1 if at.count is None else at.count
    pairs = []
    if isinstance(at.address, np.ndarray):
        for lane in np.flatnonzero(context.lanes()).tolist():
            pairs.append((int(at.address[lane]), lane, np.broadcast_to(data, 32)[lane : lane + 1].tobytes()))
    elif data.ndim and data.size not in (1, count):
        raise DebugError(f"{what} has {count} elements, not {data.size}")
    else:
        pairs.append((int(at.address), context.focus.lane, np.broadcast_to(data, count).tobytes()))
    for address, lane, raw in pairs:
        context.place(at.space, address, lane).read(len(raw))  # raises before anything has changed

    focus, space, frame = context.focus, at.space, position.frame

    def act(timeline: Timeline) -> None:
        there = context_of(timeline, focus, frame)
        for address, lane, raw in pairs:
            there.place(space, address, lane).write(raw)

    position.timeline.change(("set", what), act)


def _in_memory(context: Context, what: str, node: ex.Node) -> Location:
    """Where what is changed is in memory."""
    at = context.lvalue(node)
    if at is None or at.space == "param":
        raise DebugError(f"{what} cannot be changed: name a register, a variable, or memory such as shared.u32[64]")
    if at.of is not None and isinstance(struct := elements(at.of), Struct):
        members = ", ".join(member.name for member in struct.members if member.name)
        raise DebugError(f"{what} is of type {text(at.of)}: set a member, {members}")
    return at


def jump(position: Position, place: int | str) -> None:
    """Move the threads that stand with the one in focus to another place of their function, executing nothing; recorded
    as a change of the launch at this position."""
    at = position.group_state()
    if at is None or at.waits:
        raise DebugError(f"{position.thread} {'is not running' if at is None else at.state}, so it cannot jump")
    plan = at.group.plan
    places = resolve(position.program, place, plan.function.name)
    found = [
        (block.index, number)
        for block in plan.blocks
        for number, instruction in enumerate(block.instructions)
        if line_column(instruction) in places
    ]
    if not found:
        raise DebugError(f"{place} is not in {plan.function.name}: threads can jump within their function only")
    focus = position.thread

    def act(timeline: Timeline) -> None:
        group = context_of(timeline, focus).group
        assert group is not None
        group.block, group.at = found[0]
        group.seen, group.turn = (), None

    position.timeline.change(("jump", *found[0]), act)


def _value(value: Any) -> Value:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Value(np.array(value, object if isinstance(value, int) else np.float64))
    try:
        data = np.ma.getdata(value)
    except Exception:  # whatever an object of the caller's raises
        raise DebugError(f"{shown(value)} is not a number") from None
    if data.dtype.kind not in "iufb" and (
        data.dtype.kind != "V" or data.dtype.itemsize > 2
    ):  # V: the types of ml_dtypes
        raise DebugError(f"{shown(value)} is not a number")
    if data.ndim > 1:
        raise DebugError("give one number, or one per lane or element")
    return Value(data, lanes=data.shape == (32,))


def _as_type(what: str, value: Value, type: ScalarType, lanes: Array) -> Array:
    """Convert a value to the type of ``what``: numbers to floats, integers that fit to integers and predicates. Untyped
    bits also take those of a float of at most their width. ``lanes`` are those that are set.

    Raises:
        DebugError: it does not fit; the message says what does.
    """
    data, bits = value.data, type.bits
    if value.packed:
        raise DebugError("packed bits have parts: write .lo, .hi or [i]")
    element = type.dtype if type.kind == "f" else ELEMENTS.get(type.name, type.dtype)
    if data.dtype == element and (bits == 8 * data.dtype.itemsize or type.kind == "p"):
        return data
    here = lanes if value.lanes and data.ndim else np.ones(data.shape, np.bool_)

    def fit(good: ArrayLike, expected: str, advice: str = "") -> None:
        bad = here & ~np.asarray(good, np.bool_)
        if bad.any():
            at = tuple(np.argwhere(bad)[0])
            wrong, lane = shown(np.asarray(data[at]).item()), f" in lane {at[0]}" if value.lanes else ""
            raise DebugError(f"{what} is .{type.name}, which takes {expected}, not {wrong}{lane}{advice.format(wrong)}")

    if is_float(element):
        values, largest = numbers(value), float(ml_dtypes.finfo(element).max)  # type: ignore[no-untyped-call]
        expected = f"numbers up to {largest:g}"
        if values.dtype == object:
            fit(abs(values) <= int(largest), expected)
        with np.errstate(all="ignore"):
            wide = values.astype(np.float64)
            found = wide.astype(element)
            same = (wide == found.astype(np.float64)) | np.isnan(wide) & np.isnan(found.astype(np.float64))
        fit(np.where(np.isfinite(wide), np.abs(wide) <= largest, same), expected)
        return np.asarray(found)
    plain = bits_type(8 * type.bytes)
    whole = "0 or 1" if type.kind == "p" else f"integers of {bits} bits"
    if is_float(data.dtype):
        if type.kind == "b" and data.dtype.itemsize <= type.bytes:
            return as_bits(value, plain).data
        width = {16: "f16", 32: "f32", 64: "f64"}.get(bits)
        named = re.split(r"[.[]", what)[0]
        view = "" if type.kind == "p" else f"; for a float, name a view of memory such as {named}.f32[0]"
        fit(~here, whole, f"; write {type.name}({width}({{}})) for the bits of a float" if width else view)
    exact = integers(value)
    if type.kind == "p":
        fit((exact == 0) | (exact == 1), whole)
        return np.asarray(exact == 1, np.bool_)
    fit((-(1 << bits - 1) <= exact) & (exact < 1 << bits), whole, f"; write {type.name}({{}}) for its low bits")
    return as_bits(Value(np.asarray(exact & (1 << bits) - 1, object), value.lanes), plain).data


def _held_as(context: Context, name: str, register: Register) -> ScalarType:
    """The type of a register, or of the variable of C++ in it."""
    symbol = None if register.name == name else context.symbol(name)
    if symbol is None or not isinstance(symbol.type, Scalar) or size(symbol.type) != register.type.bytes:
        return register.type
    return symbol.type.type


def _lane(context: Context, node: ex.Index) -> int:
    number = int(np.asarray(context.evaluate(node.index).data).reshape(-1)[0])
    if not 0 <= number < 32 or not context.lanes()[number]:
        raise DebugError(f"lane {number} does not stand here")
    return number


def _set_register(position: Position, context: Context, register: Register, lane: int | None, data: Array) -> None:
    if data.ndim and data.shape != (32,):
        raise DebugError(f"a register takes 1 or 32 values, not {data.size}")
    focus, frame = context.focus, position.frame

    def act(timeline: Timeline) -> None:
        there = context_of(timeline, focus, frame)
        group, machine = there.group, there.machine
        assert group is not None
        assert machine is not None
        at = places(machine, group, focus)
        chosen = at >= 0 if lane is None else np.arange(32) == lane
        old = peek(group, register.index)
        values = np.array(old)
        full = np.broadcast_to(data, 32)[chosen]
        values[at[chosen]] = full.view(values.dtype) if full.dtype.itemsize == values.dtype.itemsize else full
        group.set(register.index, values.reshape(group.selection.shape))
        if there.level:
            group.flush(None)

    position.timeline.change(("set", register.name), act)
