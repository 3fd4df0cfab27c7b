"""Groups of threads in lockstep, and the batch-wide storage through which they split and merge.

A group caches the registers it uses in ``env``. When it splits, parks or merges, its live registers are written to the
batch's `Frame`, from which the continuing groups read them again. A thread belongs to exactly one group at a time, so
no two groups write the same place.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import ClassVar

import attrs
import numpy as np

from warpsim.machine.plan import FunctionPlan, literal
from warpsim.machine.selection import Rect, Selection, Warps
from warpsim.machine.values import Affine, Array, DType, Value, as_array, reduced
from warpsim.program.program import Instruction, Operand
from warpsim.records import define

KEPT = 16
"""Selections whose registers a frame keeps."""


class Known:
    """What some threads have left in a frame, or read last: ``env`` is that of their next group. Registers that have shadows are
    ``shadowed``, with these by name; those known to have none there are ``plain``."""

    __slots__ = ("dirty", "env", "plain", "shadowed", "stacked")

    def __init__(self, n: int) -> None:
        self.env: list[Value | None] = [None] * n
        self.dirty: set[int] = set()
        """Those that the group has changed since, which are not in the frame."""
        self.shadowed: dict[int, tuple[Value, dict[str, Array]]] = {}
        self.plain: set[int] = set()
        self.stacked: tuple[Array, list[Array]] | None = None
        """As of `Group`."""

    def forget(self, registers: Iterable[int]) -> None:
        """Others have changed some registers."""
        self.plain.difference_update(registers)
        for index in registers:
            if index not in self.dirty:  # these others may have no thread of that group
                self.env[index] = None
            if self.shadowed:
                self.shadowed.pop(index, None)


class Frame:
    """Registers of one activation depth of one function, for all threads of a batch. ``owned`` registers are exclusive. What threads
    that part and meet again leave is stored when others ask for it, which is often never.

    ``shadows`` are register files beside it, by name: data that follows values wherever they go, unsigned or
    boolean, 0 in threads that have none. Watchers fill and read them; their meaning is unknown here.
    """

    __slots__ = ("_left", "_values", "known", "owned", "shadows")

    def __init__(self, values: list[Value | None]) -> None:
        self._values = values
        self._left: dict[Rect, dict[int, Value]] = {}
        """What is not stored yet, by the threads that left it: no thread is in two of those that left the same register."""
        self.owned: set[int] = set()
        self.shadows: dict[str, dict[int, Array]] = {}
        self.known: dict[Selection, Known | None] = {}
        """What some threads have left here or read last, and no other group has changed since: in loops the same groups
        part and meet. None for threads that were a group once: many never are again."""

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        return None, {"_values": self.values, "_left": {}, "owned": self.owned, "shadows": self.shadows, "known": {}}

    def __len__(self) -> int:
        return len(self._values)

    @property
    def values(self) -> list[Value | None]:
        """All registers."""
        self._settle()
        return self._values

    def _settle(self) -> None:
        for index in {index for left in self._left.values() for index in left}:
            self.stored(index)
        self._left.clear()

    def stored(self, index: int) -> Value | None:
        """One register."""
        for selection, left in self._left.items():
            if index in left:
                self._store(index, selection, left.pop(index))
        return self._values[index]

    def holds(self, index: int) -> bool:
        """Whether any thread has written a register."""
        return self._values[index] is not None or any(index in left for left in self._left.values())

    def store(self, selection: Selection, values: dict[int, Value], *, later: bool) -> None:
        """Store registers of some threads, or keep them until somebody asks."""
        whole = selection.n == selection.batch_shape.n
        if whole:
            self.owned.clear()
        given = values.keys()
        for other, left in self._left.items():
            again = left.keys() & given
            for index in again if whole or other is selection else ():
                del left[index]
            if again and not (whole or other is selection or other.disjoint(selection)):
                for index in again:
                    self.stored(index)
        if later and type(selection) is Rect and not whole:
            if len(self._left) >= KEPT and selection not in self._left:
                self._settle()
            self._left.setdefault(selection, {}).update(values)
            return
        for index, value in values.items():
            if whole:
                self._values[index] = value if type(value) is Affine or value.ndim == 4 else value.reshape(1, 1, 1, 1)
            else:
                self._store(index, selection, value)

    def _store(self, index: int, selection: Selection, value: Value) -> None:
        array, target = as_array(value), self._values[index]
        if index not in self.owned:
            target = self._values[index] = _private(target, selection.batch_shape.extents, array.dtype)
            self.owned.add(index)
        elif target.dtype != array.dtype and target.dtype.itemsize == array.dtype.itemsize:  # type: ignore[union-attr]
            target = self._values[index] = target.view(array.dtype)  # type: ignore[union-attr]
        selection.write(target, array)  # type: ignore[arg-type]

    def grouped(self, selection: Selection) -> None:
        """Threads have become a group: the second time, what they know is kept from then on."""
        if type(selection) is not Rect:
            return
        if selection not in self.known:
            if len(self.known) >= KEPT:
                del self.known[next(iter(self.known))]
            self.known[selection] = None
        elif self.known[selection] is None:
            self.known[selection] = Known(len(self._values))

    def changed(self, selection: Selection, registers: Iterable[int]) -> None:
        """Forget what others know of registers that some threads change."""
        for other, known in self.known.items():
            if known is not None and other is not selection and not other.disjoint(selection):
                known.forget(registers)

    def __deepcopy__(self, memo: dict[int, object]) -> Frame:
        """Copies share values, which either side replaces before writing."""
        copied = Frame(list(self.values))
        self.owned.clear()
        copied.shadows = copy.deepcopy(self.shadows, memo)
        return copied


def _private(old: Value | None, shape: tuple[int, ...], dtype: DType) -> Array:
    if old is None:
        return np.zeros(shape, dtype)
    out = np.empty(shape, dtype)
    array = as_array(old)
    out[...] = array.view(dtype) if array.dtype.itemsize == dtype.itemsize else array
    return out


NONE: dict[str, Array] = {}

Stack = tuple[tuple["FunctionPlan", int, int, int], ...]
"""Return places, outermost first: (caller, block, step, the caller's frame base in local memory)."""


@define(eq=False)
class Visit:
    """A group's last visit to the head of a loop; it has slept there for ``waited`` cycles.

    ``anchor`` is the memory and the state of an earlier visit, which stays for a ``span`` of visits, each time for twice as
    many: whatever the period of what repeats, a later visit repeats it (Brent's algorithm). ``age`` is its age in visits.
    ``idle``: for how many laps the group has changed nothing in memory. ``since``: its back edges when it was first seen there.
    ``followed``: it is looked at at every back edge from then on, until it leaves the loop.
    """

    plan: FunctionPlan
    stack: Stack
    block: int
    memory: tuple[int, int]
    state: list[Value]
    waited: int = 0
    anchor: tuple[tuple[int, int], list[Value]] | None = None
    age: int = 0
    span: int = 1
    idle: int = 0
    since: int = 0
    followed: bool = False

    def encloses(self, group: Group) -> bool:
        """Whether the group is still in this loop, possibly in a function called from it."""
        depth = len(self.stack)
        if group.stack[:depth] != self.stack:
            return False
        inside = self.plan.loop(self.block).blocks
        if len(group.stack) > depth:
            caller, block = group.stack[depth][:2]
            return caller is self.plan and block in inside
        return group.plan is self.plan and group.block in inside


@define(eq=False)
class Group:
    """Threads at one place, given by ``block`` and ``at``; ``generation`` orders groups that wait for others."""

    CACHES: ClassVar[frozenset[str]] = frozenset({"stacked", "turn"})

    frame: Frame
    selection: Selection
    plan: FunctionPlan
    stack: Stack
    block: int
    at: int
    local_base: int
    generation: int = 0
    number: int = 0
    """Unique within a launch."""
    back_edges: int = 0
    seen: tuple[Visit, ...] = ()
    """Its visits to the heads of the enclosing loops, outermost first."""
    wakes: int | None = None
    """When it reads a clock again, while it sleeps."""
    arrives_in_parts: bool = False
    """Stands at an aligned barrier, and may arrive with part of its warps."""
    stacked: tuple[Array, list[Array]] | None = None
    """Accumulators as wgmma left them, and the registers that are its rows."""
    turn: tuple[int, tuple[int, ...]] | None = None
    """`order`, while it is runnable."""
    asks: Callable[[], None] | None = None
    """Called before a register is fetched, while another group has it (`warpsim.machine.aside`)."""
    chain: object = None
    """The chain of wgmma (`warpsim.machine.binding.wgmma_chains`) whose first products wait for its last."""
    env: list[Value | None] = attrs.field(init=False)
    dirty: set[int] = attrs.field(factory=set)
    shadows: dict[str, dict[int, Array]] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.env = [None] * len(self.frame)
        self.frame.grouped(self.selection)

    def __deepcopy__(self, memo: dict[int, object]) -> Group:
        """Copies share register values, which are never modified in place."""
        copied = memo[id(self)] = copy.copy(self)
        copied.frame = copy.deepcopy(self.frame, memo)
        copied.seen = copy.deepcopy(self.seen, memo)
        copied.env, copied.dirty = list(self.env), set(self.dirty)
        copied.shadows = {name: dict(file) for name, file in self.shadows.items()}
        return copied

    # ---- place -------------------------------------------------------------------------------

    @property
    def key(self) -> tuple[int, ...]:
        """Scheduling order: the blocks of the call stack, then this one, then the step."""
        if not self.stack:
            return self.block, self.at
        return (*[entry[1] for entry in self.stack], self.block, self.at)

    @property
    def order(self) -> tuple[int, tuple[int, ...]]:
        """When a runnable group's turn comes, found once: it stays where it is until it is taken."""
        if self.turn is None:
            self.turn = self.generation, self.key
        return self.turn

    @property
    def instruction(self) -> Instruction:
        """The instruction at which the threads stand."""
        instructions = self.plan.blocks[self.block].instructions
        try:
            return instructions[self.at]
        except IndexError:
            return instructions[-1]

    def same_place(self, other: Group) -> bool:
        """Whether both could run as one group."""
        return (
            self.block == other.block
            and self.at == other.at
            and self.plan is other.plan
            and self.stack == other.stack
            and self.local_base == other.local_base  # above allocations of other sizes
        )

    def follow(self, other: Group) -> None:
        """Continue in the loops of a group that called this one's function, or returns from it."""
        self.back_edges, self.seen = other.back_edges, other.seen

    def lanes(self, active: Array | None) -> Array:
        """Flat positions of its threads: of all (None), or of the active ones."""
        positions = self.selection.positions
        if active is None:
            return positions.reshape(-1)
        chosen: Array = positions[np.broadcast_to(active, positions.shape)]
        return chosen

    # ---- registers ---------------------------------------------------------------------------

    def recall(self) -> None:
        """Go on with what the last group of its threads has left."""
        known = self.frame.known.get(self.selection)
        if known is not None:
            self.env, known.dirty = known.env, self.dirty

    def fetch(self, index: int) -> Value:
        """A register's value from the batch, cached; zero if it was never written."""
        if self.asks is not None and index < self.plan.n_registers:  # nobody writes constants and special registers
            self.asks()
        frame = self.frame
        known = frame.known.get(self.selection)
        if known is not None and index in known.shadowed:
            value, parts = known.shadowed[index]
        else:
            stored, parts = frame.stored(index), {}
            value = self.plan.zeros[index] if stored is None else reduced(self.selection.fetch(stored))
            for name, file in frame.shadows.items():
                if index in file:
                    part = as_array(self.selection.fetch(file[index]))
                    if np.logical_or.reduce(part, axis=None):
                        parts[name] = part.copy() if part is file[index] else part  # files are written in place
            if known is not None:
                if parts:
                    known.shadowed[index] = value, parts
                else:
                    known.plain.add(index)
        self.env[index] = value
        for name, part in parts.items():
            self.shadows.setdefault(name, {})[index] = part
        return value

    def stacked_before(self, registers: Iterable[int]) -> tuple[Array, list[Array]] | None:
        """Accumulators as wgmma left them before the threads parted and met again, the registers read again."""
        known = self.frame.known.get(self.selection)
        if known is None or known.stacked is None:
            return None
        for index in registers:
            if self.env[index] is None:
                self.fetch(index)
        return known.stacked

    def read(self, index: int) -> Value:
        """A register's value."""
        value = self.env[index]
        return self.fetch(index) if value is None else value

    def value(self, operand: Operand) -> Value:
        """The value of a register or an immediate, in the register's or the operand's type."""
        if operand.register is not None:
            return self.read(operand.register.index)
        assert operand.constant is not None, "not a single value"
        return literal(operand.constant, operand.type)

    def set(self, index: int, value: Value) -> None:
        """Set a register."""
        self.env[index] = value
        self.dirty.add(index)

    def flush(self, live: frozenset[int] | None = None) -> None:
        """Write changed registers (those in ``live``) to the batch."""
        frame, env = self.frame, self.env
        if not (self.dirty or self.shadows):
            return
        known = frame.known.get(self.selection)
        written = self.dirty if live is None else self.dirty & live
        if written:
            frame.changed(self.selection, written)
        if self.has_shadows:
            self._flush_shadows(written, known)
        values = {index: value for index in written if (value := env[index]) is not None}
        assert len(values) == len(written), "a changed register has a value"
        if known is not None:
            self._leave_known(known, values)
        if values:
            frame.store(self.selection, values, later=known is not None)
        self.dirty.clear()

    def _leave_known(self, known: Known, values: dict[int, Value]) -> None:
        """Leave what the frame has now to the next group of these threads; ``values`` are the registers written to it."""
        env, dropped = known.env, self.dirty - values.keys()
        known.stacked = self.stacked or known.stacked
        for index in dropped:
            env[index] = None
        if env is not self.env:
            for index, value in values.items():
                env[index] = value
        known.plain |= values.keys()
        if self.shadows or known.shadowed:
            for index in (values.keys() | {i for file in self.shadows.values() for i in file}) - dropped:
                parts = {name: file[index] for name, file in self.shadows.items() if index in file}
                if parts and (kept := self.env[index]) is not None:
                    known.shadowed[index], env[index] = (kept, parts), None
                    known.plain.discard(index)
                else:
                    known.shadowed.pop(index, None)

    def _flush_shadows(self, changed: AbstractSet[int], known: Known | None) -> None:
        """Write the shadows of changed registers, of which these were ``known`` before."""
        plain: AbstractSet[int] = frozenset() if known is None else known.plain
        for name, kept in list(self.frame.shadows.items()):
            for index in (changed & kept.keys() - self.shadows.get(name, NONE).keys()) - plain:
                self.selection.write(kept[index], np.zeros(1, kept[index].dtype))
                if not kept[index].any():
                    del kept[index]
            if not kept:
                del self.frame.shadows[name]
        for name, file in self.shadows.items():
            for index in changed & file.keys():
                kept = self.frame.shadows.setdefault(name, {})
                if index not in kept:
                    kept[index] = np.zeros(self.selection.batch_shape.extents, file[index].dtype)
                self.selection.write(kept[index], file[index])

    # ---- shadows --------------------------------------------------------------------------

    @property
    def has_shadows(self) -> bool:
        """Whether its register values may have shadows."""
        return bool(self.shadows or self.frame.shadows)

    def may_read_shadows(self, names: frozenset[str] | None) -> bool:
        """Whether it may read a value that has a shadow before the end of its block; given ``names``, one of those."""
        if names is not None and names.isdisjoint(self.shadows) and names.isdisjoint(self.frame.shadows):
            return False
        if self.shadows or not self.frame.shadows:
            return bool(self.shadows)
        block = self.plan.blocks[self.block]
        if self.at:
            return self.shadowed(block.touched)
        for file in self.frame.shadows.values():
            if not (block.consulted.isdisjoint(file) or block.examined.isdisjoint(file)):
                return self.shadowed(block.examined)
        return False

    def shadowed(self, registers: frozenset[int]) -> bool:
        """Whether any of these registers has a shadow."""
        for file in self.frame.shadows.values():
            for index in registers & file.keys():
                if self.env[index] is None:
                    self.fetch(index)
        return not all(map(registers.isdisjoint, self.shadows.values()))

    def files(self) -> list[dict[int, Array]]:
        """The shadows of its registers, by their indices."""
        return [*self.shadows.values(), *self.frame.shadows.values()]

    def shadow(self, name: str, index: int) -> Array | None:
        """The shadow of a register's value under a name; None if there is none."""
        if self.env[index] is None and index in self.frame.shadows.get(name, {}):
            self.fetch(index)
        file = self.shadows.get(name)
        return None if file is None else file.get(index)

    def set_shadow(self, name: str, index: int, value: Array | None) -> None:
        """Set the shadow of a register's value (None: remove it)."""
        file = self.shadows.get(name)
        if value is None:
            if file is not None and file.pop(index, None) is not None:
                self.dirty.add(index)
                if not file:
                    del self.shadows[name]
            return
        self.read(index)
        self.dirty.add(index)
        self.shadows.setdefault(name, {})[index] = value

    def hand_on(self, index: int, target: Group, to: int) -> None:
        """Copy a register's value, with its shadows, to a register of another group."""
        target.set(to, self.read(index))
        for name, file in self.shadows.items():
            if index in file:
                target.shadows.setdefault(name, {})[to] = file[index]

    def leave(self, keep: Array, child: Group, registers: Iterable[int]) -> None:
        """Copy registers to ``child``, which has the lanes ``keep`` of this list of lanes."""

        def part(array: Array) -> Array:
            return array if array.size == 1 else array.take(keep, mode="clip")  # all are there: test none

        for index in registers:
            value = self.env[index]
            if value is not None:
                child.env[index] = value if type(value) is Affine else part(value)
        for name, file in self.shadows.items():
            kept = {i: part(v) for i, v in file.items() if child.env[i] is not None}
            if kept:
                child.shadows[name] = kept

    # ---- warps -------------------------------------------------------------------------------

    @property
    def warps(self) -> Warps:
        """The arrangement of this group's lanes in whole warps."""
        return self.selection.warps
