"""Equality of states: the same values in the same places, regardless of caches."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from warpsim.machine.plan import BoundBlock, FunctionPlan, KernelPlan
from warpsim.machine.selection import Selection, Shape
from warpsim.machine.state.group import Frame, Group
from warpsim.machine.values import Affine, Array
from warpsim.program.program import Instruction


def equal(a: object, b: object) -> bool:
    """Whether two states (or records of states) are equal."""
    return difference(a, b) is None


def difference(a: object, b: object) -> str | None:
    """The first difference between two states, as a path of fields and keys; None if they are equal."""
    return _Comparison().differ(a, b, "")


class _Comparison:
    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], tuple[object, object]] = {}

    def differ(self, a: object, b: object, path: str) -> str | None:
        if a is b:
            return None
        if type(a) is not type(b):
            return f"{path}: {type(a).__name__} and {type(b).__name__}"
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            return None if _same_array(a, b) else path or "."
        name = _name(a)
        if name is not None:
            return None if name == _name(b) else path or "."
        if isinstance(a, (dict, Sequence, set, frozenset)) or _fields(a):
            if (id(a), id(b)) in self._seen:
                return None
            self._seen[id(a), id(b)] = a, b  # kept, so that its identity is not reused
        if isinstance(a, dict) and isinstance(b, dict):
            return self._mappings(a, b, path)
        if isinstance(a, Sequence) and isinstance(b, Sequence) and not isinstance(a, (str, bytes)):
            return self._sequences(a, b, path)
        if isinstance(a, Group) and isinstance(b, Group):  # the rest is what the frames have, or nothing
            ours, theirs = ({index: group.env[index] for index in group.dirty} for group in (a, b))
            if (found := self.differ(ours, theirs, f"{path}.env")) is not None:
                return found
        fields = _fields(a)
        if fields and not isinstance(a, (set, frozenset)):
            return self._first((getattr(a, f, None), getattr(b, f, None), f"{path}.{f}") for f in fields)
        return None if a == b or (a != a and b != b) else f"{path}: {a!r} and {b!r}"

    def _first(self, pairs: Iterable[tuple[object, object, str]]) -> str | None:
        found = (self.differ(*pair) for pair in pairs)
        return next((f for f in found if f), None)

    def _sequences(self, a: Sequence[object], b: Sequence[object], path: str) -> str | None:
        if len(a) != len(b):
            return f"{path}: {len(a)} and {len(b)} elements"
        return self._first((x, y, f"{path}[{i}]") for i, (x, y) in enumerate(zip(a, b, strict=True)))

    def _mappings(self, a: dict[Hashable, object], b: dict[Hashable, object], path: str) -> str | None:
        ours, theirs = ({_name(k) or k: v for k, v in x.items()} for x in (a, b))
        if ours.keys() != theirs.keys():
            return f"{path}: keys {sorted(map(str, ours.keys() ^ theirs.keys()))[:3]}"
        return self._first((v, theirs[k], f"{path}[{k!r}]") for k, v in ours.items())


def _same_array(a: Array, b: Array) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.hasobject:
        return all(equal(x, y) for x, y in zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True))
    if a.flags.c_contiguous and b.flags.c_contiguous:
        return bool(np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8)))
    return bool(a.tobytes() == b.tobytes())


def _name(value: object) -> tuple[object, ...] | None:
    """The identity of a part of the plan, or of an immutable object."""
    if isinstance(value, Instruction):
        return "instruction", value.span, value.text
    if isinstance(value, (KernelPlan, FunctionPlan)):
        return "plan", value.entry.name if isinstance(value, KernelPlan) else value.name
    if isinstance(value, BoundBlock):
        return "block", value.function, value.index
    if isinstance(value, Affine):
        return "affine", value.base, value.strides, value.extents, value.dtype.str
    if isinstance(value, Shape):
        return "shape", value.extents
    if isinstance(value, Selection):
        return "selection", value.batch_shape.extents, value.shape, value.positions.tobytes()
    return None


def _fields(value: object) -> list[str]:
    """The attributes to compare."""
    if isinstance(value, Frame):
        return ["shadows", "values"]  # whether these are stored yet does not count
    names: list[str] = [*getattr(value, "__dict__", ())] if not isinstance(value, type) else []
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    caches = getattr(type(value), "CACHES", frozenset()) | {"__weakref__", "__dict__"}
    caches |= {"env"} if isinstance(value, Group) else set()  # but for what has changed, which `differ` compares
    return [name for name in names if name not in caches]


def seen(session):
    """What a user can see: where warps stand, what memory and registers hold. A register that nothing has written is left
    out or 0."""
    state, warps = session.timeline.state, session.warps()
    memory = [allocation.data.tobytes() for allocation in state.memory.allocations]
    shared = [batch.shared.words.tobytes() for batch in state.batches]
    registers = {}
    for at in warps:
        session.focus(at.cta, at.warp, int(at.lanes.replace(",", "-").split("-")[0]))
        values = {name: np.ma.getdata(v)[~_hidden(v)].tobytes() for name, v in session.registers.items()}
        registers[at] = {name: data for name, data in values.items() if any(data)}
    return warps, memory, shared, registers


def _hidden(value):
    """Which lanes of a value are masked: values of 128 bits have a mask for each of their fields, all the same."""
    mask = np.ma.getmaskarray(value)
    return mask if mask.dtype.names is None else mask[mask.dtype.names[0]]
