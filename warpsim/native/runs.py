"""Running a unit on a group between two step boundaries: what it reads is described, and what it leaves becomes the
group's registers and place. A unit that gives up leaves no trace."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from warpsim.machine.values import Affine, retype
from warpsim.native import logged, private
from warpsim.native.codes import Code
from warpsim.native.context import CALL, CONTEXT, LOG_FULL, MET, PARTED, REFUSED, CallWords
from warpsim.native.extents import Noted, tell
from warpsim.native.forms import Key
from warpsim.native.memories import Memories, address_of, changed
from warpsim.native.options import Outcome
from warpsim.native.order import conflicts
from warpsim.native.parting import all_leave, first_stop, leave
from warpsim.native.tables import WarpTables, tables_of
from warpsim.types import TYPES

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group

LOG_BYTES = 32 << 20
_INTEGERS = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


_OUTCOMES = {
    LOG_FULL: Outcome.CONFLICT,
    MET: Outcome.CONFLICT,
    PARTED: Outcome.PARTED,
    REFUSED: Outcome.DOUBT,
}


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
        """An array of at least a size, kept from call to call."""
        found = self.kept.get(name)
        if found is None or len(found) < size:
            found = self.kept[name] = np.empty(max(size, 256), dtype)
            self.context[CONTEXT[name]] = found.ctypes.data
        return found

    def words(self, size: int) -> tuple[Any, int]:
        """So many words for what a call reads, leaves and counts, and their address."""
        found = self.kept.get("words")
        if found is None or len(found[0]) < size:
            array = np.empty(max(size, 1024), np.int64)
            found = self.kept["words"] = array, array.ctypes.data
        return found[0][:size], found[1]

    def put(self, name: str, value: int) -> None:
        """A word of the context."""
        self.context[CONTEXT[name]] = value


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


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _describe(value: Any, how: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The descriptor of a value."""
    if type(value) is int:
        return _signed(value), 0, 0, 0, 0, 0
    if type(value) is Affine:
        return (_signed(value.base), *value.strides, 0)
    if how == "same":
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


@attrs.define(eq=False)
class _Call:
    """One call of a unit: where its memory begins, and what it has left there."""

    tables: WarpTables
    n_groups: int
    words: Any
    """What it reads, what it leaves, and its counts."""
    outs_at: int
    counts_at: int
    results: list[Any]
    exits: Any
    lanes: Any
    ranges: Any
    own: private.Private | None
    found: CallWords
    """Those of the context: as they are given, then as they are left."""
    counts: list[int] = attrs.field(factory=list)


class Runner:
    """Runs units for one launch."""

    def __init__(self, scratch: Scratch, noted: Noted | None = None) -> None:
        self.scratch, self.noted = scratch, noted
        self._memories = Memories()
        self.ahead = 0
        """The block before which warps have to wait for others, after `Outcome.AHEAD`."""
        self.ended, self.stored = False, 0
        """Of the last unit that was done: whether all threads of the batch are about to leave, and how much it has stored."""

    def run(
        self,
        machine: Machine,
        group: Group,
        code: Code,
        values: list[Any],
        limit: int,
        back_edges: int,
        *,
        through: bool = False,
    ) -> Outcome:
        """One call; the group's registers, place and counts are then those after it. ``back_edges``: how often it may go back;
        ``through``: all threads have to come to the end."""
        call = self._prepare(machine, group, code, values, limit, back_edges, through=through)
        status = code.function(self.scratch.pointer)
        if status:
            outcome = _OUTCOMES.get(status, Outcome.REFUSED)
        else:
            outcome = self._looked_at(machine, group, code, call, limit, through=through)
        if outcome is Outcome.DONE:
            self._settle(machine, group, code, call)
        else:
            logged.take_back(self.scratch.pointer)
        return outcome

    def _prepare(
        self,
        machine: Machine,
        group: Group,
        code: Code,
        values: list[Any],
        limit: int,
        back_edges: int,
        *,
        through: bool,
    ) -> _Call:
        """Describe what the unit is given."""
        shape, scratch, selection, context = code.shape, self.scratch, group.selection, self.scratch.context
        tables = tables_of(selection)
        per_group = tables.n // tables.n_ctas if shape.barriers else 1
        n_groups = tables.n // per_group
        context[0], context[1:11] = n_groups, tables.pointers
        if shape.touching:
            self._memories.describe(machine, code, context)
        lives: list[int] = []
        for given, value in zip(code.given, values, strict=True):
            lives += _describe(value, given.how, selection.shape)
        outs_at, counts_at = len(lives), len(lives) + 6 * len(shape.outs)
        words, address = scratch.words(counts_at + 2 * len(code.blocks) + 1)
        words[:outs_at], words[counts_at:] = lives, 0
        results = [self._left_behind(selection, words, outs_at + 6 * out[0], out) for out in code.outs]
        frame = code.written.frame_bytes
        found = context[CALL] = CallWords(
            lives=address,
            outs=address + 8 * outs_at,
            counts=address + 8 * counts_at,
            back_edges=back_edges,
            limit=limit,
            log_used=0,
            longest=0,
            per_group=per_group,
            passed=0,
            stored=0,
            suspect=0,
            common_exit=0,
            tables=code.tables,
            batch_columns=machine.batch.shape.n_ctas,
            frame_bytes=frame,
        )
        exits = scratch.array("exits", tables.n, np.int32)[: tables.n]
        lanes = scratch.array("exit_lanes", tables.n * 32, np.int32)
        if shape.barriers:
            scratch.array("states", per_group, np.int32)
            scratch.array("frames", per_group * frame, np.uint8)
        ranges = None
        if code.written.outer:
            size = n_groups * len(code.written.effects) * 2
            ranges = scratch.array("ranges", size, np.int64)[:size].reshape(n_groups, len(code.written.effects), 2)
        own = None
        if code.manner.private:
            own = private.enter(machine, group, shape, tables, scratch, one_by_one=through and bool(shape.barriers))
        return _Call(tables, n_groups, words, outs_at, counts_at, results, exits, lanes, ranges, own, found)

    def _looked_at(
        self, machine: Machine, group: Group, code: Code, call: _Call, limit: int, *, through: bool
    ) -> Outcome:
        """Whether what the unit did is what the interpreter would have done."""
        shape = code.shape
        found = call.found = CallWords(*self.scratch.context[CALL].tolist())
        call.counts = call.words[call.counts_at :].tolist()
        first = first_stop(shape, found.common_exit, call.exits, call.lanes)
        self.ended = all_leave(machine, group, shape, found.common_exit)
        if through and not self.ended:
            return Outcome.PARTED
        if _ahead(code, call.counts, first):
            # Where warps part, those at the lowest place go on before others touch memory: run up to there only.
            self.ahead = max(first + 1, shape.entry.block + 1)
            return Outcome.AHEAD if limit > self.ahead else Outcome.PARTED
        if call.ranges is not None and found.suspect and self._met(machine, code, call):
            return Outcome.CONFLICT
        return Outcome.DONE if self._count(machine, code, call.counts) else Outcome.OVER

    def _settle(self, machine: Machine, group: Group, code: Code, call: _Call) -> None:
        """What the unit has left becomes the machine's and the group's."""
        shape, found = code.shape, call.found
        if self.noted is not None and call.ranges is not None:
            mark = partial(logged.mark_stored, self.scratch.pointer)
            tell(self.noted, machine.launch.memory, code.written.effects, call.ranges, mark)
        self.stored = found.log_used
        if call.own is not None and not self.ended:
            call.own.leave()
        self._commit(group, code, call.words[call.outs_at :], call.results)
        if found.log_used or found.stored:
            changed(machine, shape.stored, ended=self.ended)
        group.back_edges += found.longest
        if found.passed:
            machine.batch.barriers_passed[call.tables.columns] += -(-found.passed // call.n_groups)
        leave(machine, group, shape, found.common_exit, call.exits, call.lanes, call.tables)

    def _met(self, machine: Machine, code: Code, call: _Call) -> bool:
        """Whether the order of warps or CTAs may have been seen."""
        written, chosen, suspect = code.written, code.written.outer, call.found.suspect
        distinct = partial(logged.distinct, self.scratch.pointer, machine.launch.memory)
        if suspect & 2:
            stores = [k for k in chosen if written.effects[k].kind == "store" and written.effects[k].space == "global"]
            low, high = call.ranges[:, stores, 0], call.ranges[:, stores, 1]
            there = low < high
            if not distinct(int(low[there].min()), int(high[there].max())):
                return True
        if not suspect & 1:
            return False
        effects, once = [written.effects[k] for k in chosen], [written.once[k] for k in chosen]
        ranges, warps = call.ranges[:, chosen], not code.shape.barriers
        return conflicts(effects, once, ranges, call.tables, distinct, warps=warps)

    def _left_behind(self, selection: Any, words: Any, at: int, out: tuple[int, int, bool, Any]) -> Any:
        """Where a register is left whose lanes differ, described in ``words``: lanes of a warp side by side."""
        _, _, varying, dtype = out
        if not varying:
            return None
        size = dtype.itemsize
        if len(selection.shape) == 1:
            array = np.empty(selection.n, dtype)
            words[at : at + 6] = address_of(array), 0, size, 0, 0, 2
            return array
        n1, n0, m1, m0 = selection.shape
        array = np.empty((m1, m0, n1, n0), dtype)
        threads = n1 * n0 * size
        words[at : at + 6] = address_of(array), n0 * size, size, m0 * threads, threads, 1
        return array.transpose(2, 3, 0, 1)

    # ---- what comes of it -------------------------------------------------------------------------

    def _count(self, machine: Machine, code: Code, counts: list[int]) -> bool:
        """Count what was executed; False where that is over the budget, and nothing is counted."""
        state = machine.launch
        found = [(block, counts[2 * k], counts[2 * k + 1]) for k, (_, block) in enumerate(code.blocks) if counts[2 * k]]
        total = sum([len(block.instructions) * warps for block, warps, _ in found])
        budget = state.settings.max_instructions
        if budget is not None and state.instructions + total > budget:
            return False
        for block, warps, threads in found:
            state.counts[block] = state.counts.get(block, 0) + warps
            state.thread_instructions += len(block.instructions) * threads
        state.instructions += total
        return True

    def _commit(self, group: Group, code: Code, words: Any, results: list[Any]) -> None:
        env = group.env
        for (number, slot, _, dtype), array in zip(code.outs, results, strict=True):
            if array is None:
                raw = int(words[6 * number]) & ((1 << 8 * dtype.itemsize) - 1)
                if dtype.kind in "iu":
                    array = Affine.constant(raw, dtype)
                elif dtype.kind == "b":
                    array = np.array([bool(raw & 1)])
                else:
                    array = np.array([raw], _INTEGERS[dtype.itemsize]).view(dtype)
            env[slot] = array
            group.dirty.add(slot)


def _ahead(code: Code, counts: list[int], block: int) -> bool:
    """Whether any warp has touched memory in a block behind one in which others have stopped."""
    touching = code.shape.touching
    if not touching or block >= max(touching):
        return False
    return any(b > block and b in touching and counts[2 * k] for k, (b, _) in enumerate(code.blocks))
