"""Running a unit on a group between two step boundaries: what it reads is described, and what it leaves becomes the
group's registers and place. A unit that gives up leaves no trace."""

from __future__ import annotations

import ctypes
import enum
import hashlib
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from warpsim.machine.control import _compact, _fork
from warpsim.machine.selection import Lanes, split
from warpsim.machine.values import FLAT, Affine, retype
from warpsim.native.compiler import compiler
from warpsim.native.emit import Emitter
from warpsim.native.forms import Effect, Key
from warpsim.native.helpers import CONTEXT, LOG_FULL, PARTED
from warpsim.native.tables import WarpTables, tables_of
from warpsim.native.units import Kinds, Known, Shape, live_at
from warpsim.types import TYPES

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group

LOG_BYTES = 32 << 20
FIRST, LAST = np.iinfo(np.int64).max, np.iinfo(np.int64).min
_INTEGERS = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


class Outcome(enum.Enum):
    """How a unit ended."""

    DONE = "done"
    PARTED = "lanes of a warp were missing"
    CONFLICT = "warps may have met in memory"
    REFUSED = "an access that the interpreter has to look at"
    UNREADY = "a register that nothing has written"
    OVER = "the budget ends within"


class Scratch:
    """What every call needs: the context, the log of stores and the counts."""

    def __init__(self) -> None:
        self.context = np.zeros(len(CONTEXT), np.int64)
        self.log = np.empty(LOG_BYTES, np.uint8)
        self.context[CONTEXT["log"]] = self.log.ctypes.data
        self.context[CONTEXT["log_size"]] = LOG_BYTES
        self.pointer = self.context.ctypes.data
        self.kept: dict[str, Any] = {}

    def array(self, name: str, size: int, dtype: Any) -> Any:
        """Room of at least a size, kept from call to call."""
        found = self.kept.get(name)
        if found is None or len(found) < size:
            found = self.kept[name] = np.empty(max(size, 256), dtype)
            self.context[CONTEXT[name]] = found.ctypes.data
        return found


@attrs.define(eq=False)
class Code:
    """A compiled unit for one choice of what its lanes share."""

    shape: Shape
    kinds: Kinds
    function: Any
    effects: list[Effect]
    once: list[bool]
    """Which of them each warp does at most once."""
    tables: Any
    blocks: list[int]
    alone: bool


def compile_unit(known: Known, shape: Shape, kinds: Kinds, alone: bool) -> Code:
    """Machine code of a unit."""
    emitter = Emitter(known, shape, kinds, alone)
    text = emitter.text("unit")
    name = "unit_" + hashlib.sha256(text.encode()).hexdigest()[:24]
    text = text.replace("define i32 @unit(", f"define i32 @{name}(")
    helpers = sorted(n for n in emitter.code.declared if n.startswith("ws_"))
    function = compiler().function(text, name, helpers)
    tables = np.array([t.ctypes.data for t in emitter.code.tables] or [0], np.int64)
    return Code(
        shape,
        kinds,
        function,
        emitter.ordered,
        emitter.once,
        (tables, emitter.code.tables),
        sorted(shape.pieces),
        alone,
    )


def value_of(machine: Machine, group: Group, key: Key, dtype: Any) -> Any:
    """What a key holds; None where nothing ever was written."""
    if isinstance(key, int):
        value = group.env[key]
        if value is None:
            if group.frame.values[key] is None:
                return None
            value = group.fetch(key)
        return value
    kind = key[0]
    if isinstance(kind, int):
        value = group.env[kind]
        if value is None:
            value = group.fetch(kind)
        if value.dtype.itemsize != dtype.itemsize:
            value = retype(value.array() if type(value) is Affine else value, dtype)
        return value
    if kind == "param":
        return machine.param(key[1], TYPES[key[2]])
    if kind == "frame":
        return group.local_base + key[1]
    return machine.launch.param_address + key[1] if kind == "parameters" else key[1]


def is_uniform(value: Any) -> bool:
    """Whether all lanes share a value, told without looking at its elements."""
    if type(value) is int:
        return True
    return value.strides == FLAT if type(value) is Affine else value.size == 1


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _describe(value: Any, uniform: bool, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The descriptor of a value."""
    if type(value) is int:
        return _signed(value), 0, 0, 0, 0, 0
    if type(value) is Affine:
        return (_signed(value.base), *value.strides, 0)
    if uniform:
        flat = value.reshape(-1)
        return _signed(int(flat.view(_INTEGERS[flat.dtype.itemsize])[0])), 0, 0, 0, 0, 0
    address, size, strides = value.ctypes.data, value.dtype.itemsize, value.strides
    if value.size == 1:
        return address, 0, 0, 0, 0, 2
    if value.ndim == 1:
        return address, 0, strides[0], 0, 0, 2
    s1, s0, c1, c0 = [s if e > 1 else 0 for s, e in zip(strides, value.shape, strict=True)]
    n1, n0 = shape[:2]
    row = s0 == size and (n1 == 1 or s1 == n0 * size)
    return address, s1, s0, c1, c0, 1 if row else 2


class Runner:
    """Runs units for one launch."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        self._allocations: Any = None
        self._allocations_key: Any = None

    def run(self, machine: Machine, group: Group, code: Code, values: list[Any], limit: int, laps: int) -> Outcome:
        """One call; the group's registers, place and counts are then those after it. ``laps``: how often it may go back."""
        shape, scratch = code.shape, self.scratch
        context, selection = scratch.context, group.selection
        tables = tables_of(selection)
        varying = code.kinds.varying
        lives: list[int] = []
        for key, value in zip(shape.reads, values, strict=True):
            lives += _describe(value, key not in varying, selection.shape)
        registers = shape.plan.function.registers
        outs: list[int] = []
        results: list[Any] = []
        for slot in shape.outs:
            if slot in varying:
                array, descriptor = self._room(selection, registers[slot].type.dtype)
                results.append(array)
                outs += descriptor
            else:
                results.append(None)
                outs += (0, 0, 0, 0, 0, 0)
        described = np.array(lives or [0], np.int64), np.array(outs or [0], np.int64)
        counts = np.empty(2 * len(code.blocks) + 1, np.int64)
        context[0] = tables.n
        context[1:11] = tables.pointers
        self._spaces(machine, code, context)
        context[CONTEXT["lives"]] = described[0].ctypes.data
        context[CONTEXT["outs"]] = described[1].ctypes.data
        context[CONTEXT["counts"]] = counts.ctypes.data
        context[CONTEXT["laps"]] = laps
        context[CONTEXT["limit"]] = limit
        context[CONTEXT["log_used"]] = 0
        context[CONTEXT["tables"]] = code.tables[0].ctypes.data
        exits = scratch.array("exits", tables.n, np.int32)
        lanes = scratch.array("exit_lanes", tables.n * 32, np.int32)
        ranges = None
        if code.effects and not code.alone and shape.stores:
            size = tables.n * len(code.effects) * 2
            ranges = scratch.array("ranges", size, np.int64)[:size].reshape(tables.n, len(code.effects), 2)
            ranges[..., 0], ranges[..., 1] = FIRST, LAST
        status = code.function(scratch.pointer)
        if not status:
            first = self._first_stop(code, exits[: tables.n], lanes)
            if self._ahead(code, counts, first):
                # Where warps part, those at the lowest place go on before others touch memory: run up to there only.
                self._rollback()
                context[CONTEXT["limit"]] = max(first + 1, shape.entry.block + 1)
                if ranges is not None:
                    ranges[..., 0], ranges[..., 1] = FIRST, LAST
                status = code.function(scratch.pointer)
                if not status and self._ahead(code, counts, self._first_stop(code, exits[: tables.n], lanes)):
                    status = PARTED
        if status:
            self._rollback()
            return {LOG_FULL: Outcome.CONFLICT, PARTED: Outcome.PARTED}.get(status, Outcome.REFUSED)
        if ranges is not None and conflicts(code.effects, code.once, ranges, tables):
            self._rollback()
            return Outcome.CONFLICT
        if not self._count(machine, group, code, counts):
            self._rollback()
            return Outcome.OVER
        self._commit(machine, group, code, described[1], results)
        group.back_edges += int(context[CONTEXT["longest"]])
        self._leave(machine, group, code, exits[: tables.n], lanes, tables)
        return Outcome.DONE

    def _first_stop(self, code: Code, exits: Any, lanes: Any) -> int:
        """The lowest block in which any lane has stopped."""
        least = int(exits.min())
        if least < 0:  # lanes of a warp are at several places
            mixed = np.flatnonzero(exits < 0)
            each = lanes[: len(exits) * 32].reshape(-1, 32)[mixed].min()
            whole = exits[exits >= 0]
            least = min(int(each), int(whole.min()) if len(whole) else int(each))
        return code.shape.exits[least][0]

    def _ahead(self, code: Code, counts: Any, block: int) -> bool:
        """Whether any warp has touched memory in a block behind one in which others have stopped."""
        return any(b > block and b in code.shape.touching and counts[2 * k] for k, b in enumerate(code.blocks))

    def _rollback(self) -> None:
        function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(compiler().helper("ws_rollback"))
        function(self.scratch.pointer)

    def _room(self, selection: Any, dtype: Any) -> tuple[Any, tuple[int, ...]]:
        """Where a register is left: lanes of a warp side by side."""
        size = dtype.itemsize
        if len(selection.shape) == 1:
            array = np.empty(selection.n, dtype)
            return array, (array.ctypes.data, 0, size, 0, 0, 2)
        n1, n0, m1, m0 = selection.shape
        array = np.empty((m1, m0, n1, n0), dtype)
        threads = n1 * n0 * size
        return array.transpose(2, 3, 0, 1), (array.ctypes.data, n0 * size, size, m0 * threads, threads, 1)

    def _spaces(self, machine: Machine, code: Code, context: Any) -> None:
        if not code.effects:
            return
        memory, batch = machine.launch.memory, machine.batch
        if code.shape.stores:
            self._own(machine)
        key = len(memory._starts), memory._next, memory._next_const, sum(memory._starts)
        if key != self._allocations_key:
            self._allocations_key = key
            table = [
                (
                    a.start,
                    a.end,
                    a.data.ctypes.data,
                    0 if a.companion is None else a.companion.data.ctypes.data,
                    int(a.read_only),
                )
                for a in memory._allocations
            ]
            self._allocations = np.array(table or [(0, 0, 0, 0, 1)], np.int64)
        at = CONTEXT["n_allocations"]
        context[at : at + 2] = len(memory._starts), self._allocations.ctypes.data
        context[CONTEXT["memo"]] = self._allocations.ctypes.data
        for name, space in (("shared_words", batch.shared), ("local_words", batch.local)):
            written: Any = space.companion
            tracked = 0 if written is None or not written.open else written.words.ctypes.data
            at = CONTEXT[name]
            context[at : at + 4] = space.words.ctypes.data, space.size, space.n_columns, tracked

    def _own(self, machine: Machine) -> None:
        """Before a unit stores: no copy of the state has the same bytes."""
        memory, batch = machine.launch.memory, machine.batch
        every = [b for a in memory._allocations for b in (a, a.companion) if b is not None and b.is_shared]
        for one in every:
            one.own()
            self._allocations_key = None
        for space in (batch.shared, batch.local):
            space.own()
            if space.companion is not None:
                space.companion.own()
            if space.companion is not None:
                space.companion.own()

    # ---- what comes of it -------------------------------------------------------------------------

    def _count(self, machine: Machine, group: Group, code: Code, counts: Any) -> bool:
        """Count what was executed; False where that is over the budget, and nothing is counted."""
        state, blocks = machine.launch, code.shape.plan.blocks
        listed = counts.tolist()
        found = [(blocks[b], listed[2 * k], listed[2 * k + 1]) for k, b in enumerate(code.blocks) if listed[2 * k]]
        total = sum(len(block.instructions) * warps for block, warps, _ in found)
        budget = state.settings.max_instructions
        if budget is not None and state.instructions + total > budget:
            return False
        for block, warps, threads in found:
            state.counts[block] = state.counts.get(block, 0) + warps
            state.thread_instructions += len(block.instructions) * threads
        state.instructions += total
        return True

    def _commit(self, machine: Machine, group: Group, code: Code, outs: Any, results: list[Any]) -> None:
        env, registers = group.env, code.shape.plan.function.registers
        for number, (slot, array) in enumerate(zip(code.shape.outs, results, strict=True)):
            if array is None:
                dtype = registers[slot].type.dtype
                raw = int(outs[6 * number]) & ((1 << 8 * dtype.itemsize) - 1)
                if dtype.kind in "iu":
                    array = Affine.constant(raw, dtype)
                elif dtype.kind == "b":
                    array = np.array([bool(raw & 1)])
                else:
                    array = np.array([raw], _INTEGERS[dtype.itemsize]).view(dtype)
            env[slot] = array
        group.dirty.update(code.shape.outs)
        if self.scratch.context[CONTEXT["log_used"]]:  # something was stored
            memory = machine.launch.memory
            kinds = {e.space for e in code.effects if e.kind != "load"}
            if kinds != {"local"}:
                memory.version += 1
            if "local" in kinds:
                memory.private += 1
            for name, space in (("shared", machine.batch.shared), ("local", machine.batch.local)):
                written: Any = space.companion
                if (name in kinds or "generic" in kinds) and written is not None and written.open:
                    written.look_again()

    def _leave(self, machine: Machine, group: Group, code: Code, exits: Any, lanes: Any, tables: WarpTables) -> None:
        """The group stands where its lanes have left; where these are several places, the parts are made runnable."""
        places = code.shape.exits
        first = int(exits[0])
        if first >= 0 and (len(exits) == 1 or bool((exits == first).all())):
            group.block, group.at = places[first]
            return
        ids = _ids(group, exits, lanes, tables)
        numbers = np.unique(ids).tolist()
        live = frozenset().union(*(live_at(group.plan, *places[n]) for n in numbers))
        whole = isinstance(group.selection, Lanes)
        if not whole:
            group.flush(live)
        for number in numbers:
            if whole:
                part = _compact(machine, group, np.flatnonzero(ids == number), live)
            else:
                part = _fork(machine, group, split(group.selection, ids == number)[0])
                part.back_edges, part.idle = group.back_edges, group.idle
            part.block, part.at = places[number]
            machine.push(part)
        group.block = -1


def _ids(group: Group, exits: Any, lanes: Any, tables: WarpTables) -> Any:
    """Where each lane has left, in the group's shape."""
    n = tables.n
    every = np.where(exits[:, None] >= 0, exits[:, None], lanes[: n * 32].reshape(n, 32))
    present = (tables.masks[tables.rows][:, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1) != 0
    t1, t0 = (t.reshape(-1, 32)[tables.rows] for t in (tables.t1, tables.t0))
    shape = group.selection.shape
    if len(shape) == 1:
        out = np.empty(shape, np.int32)
        out[t0[present]] = every[present]
        return out
    n1, n0, m1, m0 = shape
    out = np.empty((n1 * n0, m1 * m0), np.int32)
    columns = np.broadcast_to((tables.c1 * m0 + tables.c0)[tables.ctas][:, None], present.shape)
    out[(t1 * n0 + t0)[present], columns[present]] = every[present]
    return out.reshape(shape)


# ---- the order of warps ---------------------------------------------------------------------------


def conflicts(effects: list[Effect], once: list[bool], ranges: Any, tables: WarpTables) -> bool:
    """Whether the order of warps may have been seen: one may have stored where another looked or stored."""
    for space in ("global", "shared"):
        chosen = [k for k, e in enumerate(effects) if e.space in (space, "generic")]
        if not any(effects[k].kind != "load" for k in chosen):
            continue
        starts = tables.cta_starts if space == "shared" else np.zeros(1, np.int64)
        if _meet(
            [effects[k] for k in chosen], [once[k] for k in chosen], ranges[:, chosen, 0], ranges[:, chosen, 1], starts
        ):
            return True
    return False


def _meet(effects: list[Effect], once: list[bool], low: Any, high: Any, starts: Any) -> bool:
    """The same within one space; warps of one CTA lie between two ``starts``."""
    first, last = np.minimum.reduceat(low, starts, axis=0), np.maximum.reduceat(high, starts, axis=0)
    seen: set[tuple[int, ...]] = set()
    for k, effect in enumerate(effects):
        if effect.kind == "load":
            continue
        over: Any = ((first < last[:, k : k + 1]) & (first[:, k : k + 1] < last)).any(axis=0)
        over[k] = True
        together = tuple(np.flatnonzero(over).tolist())
        if together in seen:
            continue
        seen.add(together)
        if together == (k,) and once[k]:
            continue  # its lanes store in the order CTA, warp, lane, as in a step
        kinds = {effects[i].commutes for i in together}
        if len(kinds) == 1 and kinds != {""}:
            continue  # atomics that commute
        if not _apart(low[:, together].min(axis=1), high[:, together].max(axis=1), starts):
            return True
    return False


def _apart(low: Any, high: Any, starts: Any) -> bool:
    """Whether no two warps of a CTA have bytes in common between their extremes."""
    cta = np.zeros(len(low), np.int64)
    cta[starts[1:]] = 1
    cta = np.cumsum(cta)
    here = high > low
    low, high, cta = low[here], high[here], cta[here]
    same = cta[1:] == cta[:-1]
    if not (same & (low[1:] < high[:-1])).any():
        return True
    order = np.lexsort((low, cta))
    low, high, cta = low[order], high[order], cta[order]
    return not ((cta[1:] == cta[:-1]) & (low[1:] < np.maximum.accumulate(high)[:-1])).any()
