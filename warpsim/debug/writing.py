"""Changes registers and memory of a stopped launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsim.debug import expressions as ex
from warpsim.debug.evaluation import Scene
from warpsim.debug.given import DebugError
from warpsim.debug.places import peek, places
from warpsim.debug.standpoint import Standpoint
from warpsim.debug.values import Value, as_bits
from warpsim.debug.watching import location_of
from warpsim.errors import shown
from warpsim.program.program import Register
from warpsim.types import ScalarType

if TYPE_CHECKING:
    from warpsim.debug.timeline import Timeline

Array = NDArray[Any]


def assign(session: Standpoint, what: str, value: Any) -> None:
    """Assign to a register, a variable or memory; recorded as a change of the launch at this position."""
    scene, node = session.scene, ex.parse(what)
    if session.timeline.ended:
        raise DebugError("the launch has ended; go back first")
    given = scene.evaluate(ex.parse(value)) if isinstance(value, str) else _value(value)
    base = node.base if isinstance(node, ex.Index) else node
    register = scene.register(base.text) if isinstance(base, ex.Name) else None
    if register is not None:
        lane = _lane(scene, node) if isinstance(node, ex.Index) else None
        data = _as_type(given, register.type)
        _set_register(session, scene, register, lane, data)
        return
    at = location_of(scene, node)
    if at is None or at.space == "param":
        raise DebugError(f"{what} cannot be changed: name a register, a variable, or memory such as shared.u32[64]")
    data = _as_type(given, at.type)
    count = 1 if at.count is None else at.count
    pairs = []
    if isinstance(at.address, np.ndarray):
        for lane in np.flatnonzero(scene.lanes()).tolist():
            pairs.append((int(at.address[lane]), lane, np.broadcast_to(data, 32)[lane : lane + 1].tobytes()))
    elif data.ndim and data.size not in (1, count):
        raise DebugError(f"{what} has {count} elements, not {data.size}")
    else:
        pairs.append((int(at.address), scene.focus.lane, np.broadcast_to(data, count).tobytes()))
    for address, lane, raw in pairs:
        scene.place(at.space, address, lane).read(len(raw))  # raises before anything has changed

    focus, space, frame = scene.focus, at.space, session.frame

    def act(timeline: Timeline) -> None:
        there = session.scene_of(timeline, focus, frame)
        for address, lane, raw in pairs:
            there.place(space, address, lane).write(raw)

    session.timeline.change(("set", what), act)


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


def _as_type(value: Value, type: ScalarType) -> Array:
    """Convert data to a type: numbers are converted, bits of registers and integers are kept."""
    data = value.data
    if type.kind == "f":
        if data.dtype == object:
            data = data.astype(np.float64)
        with np.errstate(all="ignore"):
            return data if data.dtype == type.dtype else data.astype(np.float64).astype(type.dtype)
    found = as_bits(value, type).data
    dtype = np.dtype(np.uint8) if type.kind == "p" and found.dtype != np.bool_ else type.dtype
    return found if found.dtype == dtype or found.dtype.itemsize != dtype.itemsize else found.view(dtype)


def _lane(scene: Scene, node: ex.Index) -> int:
    number = int(np.asarray(scene.evaluate(node.index).data).reshape(-1)[0])
    if not 0 <= number < 32 or not scene.lanes()[number]:
        raise DebugError(f"lane {number} does not stand here")
    return number


def _set_register(session: Standpoint, scene: Scene, register: Register, lane: int | None, data: Array) -> None:
    if data.ndim and data.shape != (32,):
        raise DebugError(f"a register takes 1 or 32 values, not {data.size}")
    focus, frame = scene.focus, session.frame

    def act(timeline: Timeline) -> None:
        there = session.scene_of(timeline, focus, frame)
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
        if frame:
            group.flush(None)

    session.timeline.change(("set", register.name), act)
