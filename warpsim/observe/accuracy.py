"""A shadow in higher precision: beside every float value that a launch computes, what it would be without the rounding of its type.

Kept is the *error* of each value, in f64: the value plus its error is its shadow, of about twice the precision where the value is
an f64 itself. Exact values have no error. Where a value goes, its error goes: registers, selections, shuffles, memory, asynchronous
copies. In memory an error counts as long as the bits are those for which it was stored; an integer view of a float has none.

A form's body is its rounding, so the shadow comes not from it but from the operation that it rounds: one of `EXACT`, or the
product of matrices. Of a predicate it is kept where the shadow decides otherwise.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import attrs
import numpy as np

from warpsim.isa.exact import (
    COMPARES,
    DIFFERENCE,
    DOUBLED,
    DTYPES,
    EXACT,
    FUSED,
    HALF,
    LEAST_NORMAL,
    LOGIC,
    SMALL,
    SUMS,
    two_sum,
)
from warpsim.isa.traits import Ending
from warpsim.machine.binding.warp_steps import spread, warp_ports
from warpsim.machine.hooks import READ, MemoryAccess
from warpsim.machine.machine import Machine
from warpsim.machine.plan import Step
from warpsim.machine.reporting import finding_at
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.transfers import BoxStore, RunStore, Transfer, Which
from warpsim.machine.values import as_array
from warpsim.machine.watcher import Watcher
from warpsim.numerics.arrays import F32, F64, WORKSPACE, Array, DType, halves
from warpsim.observe import accuracy_matrices as matrices
from warpsim.observe import accuracy_tensor as tensor
from warpsim.observe.accuracy_memory import (
    FIRST,
    BulkSum,
    Region,
    ShadowMemory,
    Sum,
    accessed,
    bits_at,
    bulk_sum,
    global_of,
    in_order,
    shared_of,
    summed,
)
from warpsim.observe.accuracy_report import AccuracyReport, Birth
from warpsim.observe.accuracy_steps import MOVES, Notes, Wholes, compare_step, other_step, plain_step
from warpsim.observe.accuracy_values import (
    DECISION,
    HIGH,
    LOW,
    NAMES,
    NONE,
    NOTHING,
    PARTS,
    Made,
    Part,
    Pass,
    Passes,
    Pending,
    Results,
    Rule,
    elements,
    error_in,
    error_of,
    errors_of,
    in_binade_of_one,
    part_of,
    rule_of,
    shadow_value,
)
from warpsim.program.program import Instruction, Operand
from warpsim.records import define

LOADS = frozenset(("load", "load_fragment"))


@define(eq=False)
class Known:
    """What is known of an instruction, which is kept alive with it; ``births`` are what is found at it, of results and stores."""

    instruction: Instruction
    rule: Rule | None
    table: matrices.Table
    adds: bool
    """Whether its results are sums, in which a term may be absorbed."""
    births: list[Birth | None] = attrs.field(factory=lambda: [None, None])


class Places:
    """Where the bits that an instruction moves come to stand, and the errors that its results get."""

    def __init__(self, outputs: list[Operand]) -> None:
        self.outputs = outputs
        self.ends: list[int] = np.cumsum([o.type.bits for o in outputs]).tolist()
        self.made: Made = {}

    def put(self, kind: str, at: int, width: int, error: Array | None) -> bool:
        """Give the errors of an element to the register in which all its bits stand; False if there is none."""
        number = bisect.bisect(self.ends, at)
        start = self.ends[number - 1] if number else 0
        fits = number < len(self.outputs) and at + width <= self.ends[number]
        if fits and self.outputs[number].register is not None:
            self.made[self.outputs[number].registers[0], (kind, (at - start) // width)] = error
        return fits

    def alone(self, at: int) -> bool:
        """Whether a word has a register for itself."""
        return at + 32 in self.ends and (at == 0 or at in self.ends)


class Sizes(NamedTuple):
    """Errors (None if there are none), of a ``shape``: the sum of the relative ones, the ``largest``, and where that is."""

    error: Array | None
    shape: tuple[int, ...]
    total: float
    largest: float
    top: int


class Accuracy(Watcher):
    """The shadows of a launch."""

    def __init__(self, passes: Passes | None = None) -> None:
        self.found = AccuracyReport()
        self._known: dict[int, Known] = {}
        self._pending: Pending | None = None
        self._accesses: list[MemoryAccess] = []
        self._memory = ShadowMemory()
        self._expected: list[tensor.Expected] = []
        self._bulk: BulkSum | None = None
        self._found: list[tuple[int, Sum]] = []
        self._sums: list[tuple[Group, Instruction, Sum]] = []
        self._exchanged: list[tuple[MemoryAccess, Region, str, list[Array]]] = []
        """What a step makes of memory: known before it, compared with what is there after it."""
        self._passes = passes
        self._wholes = Wholes()

    def batch_ended(self, machine: Machine) -> None:
        """Forget what its memories held."""
        self._settle(machine)
        self._memory.forget(machine.batch)
        self._wholes.forget()

    # ---- steps -------------------------------------------------------------------------------

    def _of(self, group: Group, instruction: Instruction) -> Known:
        known = self._known.get(id(instruction))
        if known is None:
            rule = rule_of(group, instruction)
            make = None if rule is None else matrices.TABLES.get(rule.rounding.does)
            table = [] if make is None else make(instruction)
            adds = instruction.form.root in SUMS and (rule is None or rule.rounding.limits is None)
            known = self._known[id(instruction)] = Known(instruction, rule, table, adds)
        return known

    def registers_read(self, machine: Machine, group: Group, registers: tuple[int, ...]) -> None:
        """Keep the sources, which the step may overwrite."""
        instruction = group.instruction
        known = self._known.get(id(instruction)) or self._of(group, instruction)
        self._pending = None
        if self._accesses:
            self._accesses, self._found = [], []
        if self._sums or self._exchanged:
            self._settle(machine)
        if instruction.guard is not None and group.has_shadows:
            self._guarded(group, instruction)
        rule = known.rule
        if rule is None:
            return
        active = None if rule.guard is None else rule.guard(machine, group)
        if active is False:
            return
        values = [as_array(get(machine, group)) for get in rule.getters]
        errors = [errors_of(group, o) for o in rule.data] if group.shadows else [NOTHING] * len(values)
        if rule.rounding.does in MOVES and not (any(errors) or (group.shadows and rule.guard is not None)):
            return
        self._pending = Pending(group, instruction, rule, values, errors, active)
        if rule.cells is not None:
            self._pending.address = rule.cells(machine, group)
            if rule.rounding.does == "store_cells":
                tensor.store_cells(machine, group, self._pending, self._memory)

    def _guarded(self, group: Group, instruction: Instruction) -> None:
        """Count the threads that the shadow would branch, or execute, otherwise."""
        assert instruction.guard is not None
        slot = instruction.guard[0].index
        group.read(slot)
        otherwise = group.shadow(NAMES[DECISION], slot)
        if otherwise is not None:
            word = "branches otherwise" if instruction.traits.ending is Ending.BRANCH else "executed otherwise"
            lanes = int(np.count_nonzero(np.broadcast_to(otherwise, group.selection.shape)))
            self._birth(group, instruction, "pred").kinds[word] += lanes

    def registers_written(self, machine: Machine, group: Group, registers: tuple[int, ...]) -> None:
        """Give the results their errors."""
        pending, self._pending = self._pending, None
        instruction, shadows = group.instruction, group.shadows
        made: Made = {}
        if not instruction.reads:
            pending = self._of_constants(machine, group, instruction) or pending
        if pending is not None and pending.group is group and pending.instruction is instruction:
            does: Callable[..., Made] = getattr(self, f"_{pending.rule.rounding.does}")
            made = does(machine, group, instruction, pending)
            active = pending.active
        elif not shadows or instruction.guard is not None:
            return
        else:
            active = None
        for name in [name for name in shadows if name in PARTS]:
            part = PARTS[name]
            for slot in registers:
                if slot in shadows.get(name, NOTHING) and (slot, part) not in made:
                    made[slot, part] = None
        for (slot, part), new in made.items():
            name = NAMES[part]
            if active is not None:
                old = group.shadow(name, slot)
                if old is None and new is None:
                    continue
                zero: Array = np.zeros(1, np.bool_ if part is DECISION else np.float64)
                new = np.where(active, zero if new is None else new, zero if old is None else old)
                new = new if new.any() else None
            group.set_shadow(name, slot, new)

    def collective_joined(self, machine: Machine, joint: Group, instruction: Instruction) -> None:
        """Lanes at several places execute a collective together."""
        self.registers_read(machine, joint, instruction.reads)
        self.registers_written(machine, joint, instruction.writes)

    def _of_constants(self, machine: Machine, group: Group, instruction: Instruction) -> Pending | None:
        """A step that has read no register."""
        rule = self._of(group, instruction).rule
        if rule is None or rule.rounding.does in MOVES or not rule.data:
            return None
        values = [as_array(get(machine, group)) for get in rule.getters]
        return Pending(group, instruction, rule, values, [NOTHING] * len(values), None)

    # ---- arithmetic --------------------------------------------------------------------------

    def step_wrapped(self, group: Group, instruction: Instruction, step: Step, usual: Step) -> Step:
        """Give what runs in place of a step."""
        rule = self._of(group, instruction).rule
        found = None
        if rule is not None:
            notes = Notes(self._note, self._operated, self._passes)
            found = plain_step(rule, instruction, step, usual, notes, self._wholes)
            found = found or compare_step(rule, instruction, step, usual, self._decided, self._wholes)
        return found or other_step(rule, instruction, step, usual)

    def _compute(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Made:
        slot = instruction.outputs[0].registers[0]
        made: Made = {}
        root, rounding = p.rule.root, p.rule.rounding
        result = as_array(group.read(slot))
        signs = getattr(instruction.form.function, "keywords", {})
        contracted = "negative_product" in signs
        if contracted and (len(p.values) != 3 or instruction.form.function.args[1] is not None):  # type: ignore[attr-defined]
            return made
        for k in range(rounding.count):
            part = rounding.kind, k
            values = [part_of(v, part) for v in p.values]
            errors = [error_in(e, part, v) if e else None for e, v in zip(p.errors, p.values, strict=True)]
            if contracted:
                root = FUSED
                for place, name in ((0, "negative_product"), (2, "negative_sum")):
                    error = errors[place]
                    if signs[name]:
                        values[place], errors[place] = -values[place], None if error is None else -error
            got = part_of(result, part)
            if rounding.to == "f64":
                error, whole = _doubled(root, values, errors, got), None
            else:
                sources = [shadow_value(v, e) for v, e in zip(values, errors, strict=True)]
                shape = np.broadcast_shapes(*[each.shape for each in sources])
                whole = rounding.applied(EXACT[root](*sources, out=self._wholes.arrays.take(shape), dtype=F64))
                error = self._less(whole, got)
            active = p.active
            if p.rule.rounds:
                others = ~in_binade_of_one(np.abs(got), rounding.kind)
                error, active = np.where(others, error, 0.0), others if active is None else others & active
            results = Results(group, instruction, values, errors, got, rounding.to)
            made[slot, part] = self._note(results, error, active, whole)
        factors = [e for o, e in zip(p.rule.data, p.errors, strict=True) if o.register is not None]
        for output, kept in zip(instruction.outputs[1:], factors, strict=False):  # what a fused sum needs later
            made.update({(output.registers[0], part): error for part, error in kept.items()})
        return made

    def _less(self, whole: Array, got: Array) -> Array:
        """Shadows less results."""
        shape = whole.shape if whole.shape == got.shape else np.broadcast_shapes(whole.shape, got.shape)
        return np.subtract(whole, got, out=self._wholes.arrays.take(shape), dtype=F64)

    def _convert(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Made:
        slot, rounding = instruction.outputs[0].registers[0], p.rule.rounding
        made: Made = {}
        result = as_array(group.read(slot))
        for k in range(rounding.count):
            source = len(p.values) - 1 - k if rounding.count > 1 else 0
            value = p.values[source]
            error = error_in(p.errors[source], (rounding.kind, 0), value) if rounding.kind in DTYPES else None
            value = part_of(value, (rounding.kind, 0)) if rounding.kind in DTYPES else value
            got = part_of(result, (rounding.to, k))
            whole = rounding.applied(shadow_value(value, error))
            if rounding.to != "f64" or error is None or rounding.integral:
                new = self._less(whole, got)
            elif rounding.limits is None:
                new = error
            else:
                least, most = (limit - got for limit in rounding.limits)
                new = np.clip((value - got) + error, least, most)
            results = Results(group, instruction, [value], [error], got, rounding.to)
            made[slot, (rounding.to, k)] = self._note(results, new, p.active, whole)
        return made

    # ---- decisions ---------------------------------------------------------------------------

    def _compare(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Made:
        kind, compare = p.rule.rounding.kind, COMPARES[p.rule.rounding.to]
        values = [part_of(v, (kind, 0)) for v in p.values[:2]]
        errors = [error_in(e, (kind, 0), v) for e, v in zip(p.errors[:2], values, strict=True)]
        left, right = (v if e is None else shadow_value(v, e) for v, e in zip(values, errors, strict=True))
        whole, got = compare(left, right), compare(*values)
        third = p.values[2:]
        mask = p.errors[2].get(DECISION) if third else None
        otherwise = whole ^ got if p.active is None else (whole ^ got) & p.active
        lanes = int(np.count_nonzero(otherwise))
        made: Made = {}
        if not lanes and mask is None:
            return made
        join = next((LOGIC[w] for w in instruction.text.split(".") if w in LOGIC), None)
        for k, operand in enumerate(elements(instruction.outputs)):
            a, b = (whole, got) if k == 0 else (~whole, ~got)
            if join is not None:
                a, b = join(a, third[0] if mask is None else third[0] ^ mask), join(b, third[0])
            if operand.register is not None:
                made[operand.registers[0], DECISION] = _some(a ^ b)
        if lanes:
            self._decided(group, instruction, otherwise)
        return made

    def _decided(self, group: Group, instruction: Instruction, otherwise: Array) -> None:
        lanes = int(np.count_nonzero(np.broadcast_to(otherwise, group.selection.shape)))
        self._birth(group, instruction, "pred").kinds["decided otherwise"] += lanes

    def _decide(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Made:
        masks = [e.get(DECISION) for e in p.errors]
        turned = [v if m is None else v ^ m for v, m in zip(p.values, masks, strict=True)]
        function, slot = instruction.form.function, instruction.outputs[0].registers[0]
        otherwise = function(instruction.op, *turned) ^ function(instruction.op, *p.values)
        return {(slot, DECISION): _some(otherwise)}

    # ---- moves -------------------------------------------------------------------------------

    def _move(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Made:
        """Elements keep their place among all bits of the sources, one after another."""
        first, places = 0, Places(elements(instruction.outputs))
        halves: dict[tuple[Part, int], Array] = {}
        for operand, errors in zip(p.rule.data, p.errors, strict=True):
            for part, error in errors.items():
                if part == DECISION:
                    places.made[places.outputs[0].registers[0], DECISION] = error
                elif part in (LOW, HIGH):
                    halves[part, first] = error
                else:
                    width = 8 * DTYPES[part[0]].itemsize
                    at = first + part[1] * width
                    if not places.put(part[0], at, width, error) and width == 64:
                        halves.update({(LOW, at): error, (HIGH, at + 32): error})
            first += operand.type.bits
        for (part, at), error in halves.items():
            other = halves.get((HIGH, at + 32)) if part == LOW else None
            whole = other is not None and places.put("f64", at, 64, _some(np.where(error == other, error, 0.0)))
            if not whole and places.alone(at):
                places.put(part[0], at, 32, error)
        return places.made

    def _select(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Made:
        return self._selected(group, instruction, p, p.values[2].astype(np.bool_), p.errors[2].get(DECISION))

    def _choose(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Made:
        """A choice by sign, which the shadow may decide otherwise."""
        yes, no, kind = np.ones(1, np.bool_), np.zeros(1, np.bool_), p.rule.rounding.to
        chosen = instruction.form.function(instruction.op, yes, no, p.values[2])
        error, mask = p.errors[2].get((kind, 0)), None
        if error is not None:
            mask = _some(chosen ^ (shadow_value(p.values[2], error) >= 0))
            if mask is not None:
                self._decided(group, instruction, mask if p.active is None else mask & p.active)
        return self._selected(group, instruction, p, chosen, mask)

    def _selected(self, group: Group, instruction: Instruction, p: Pending, chosen: Array, mask: Array | None) -> Made:
        """The errors of the sources that lanes choose; ``mask``: their shadows choose the other."""
        made: Made = {}
        slot, kind = instruction.outputs[0].registers[0], p.rule.rounding.kind
        for part in {*p.errors[0], *p.errors[1]}:
            a, b = (p.errors[k].get(part, NONE) for k in (0, 1))
            made[slot, part] = _some(np.where(chosen, a, b))
        if mask is not None and kind in DTYPES:
            part, self._wholes.endless = (kind, 0), True
            a, b = (shadow_value(part_of(p.values[k], part), error_in(p.errors[k], part, p.values[k])) for k in (0, 1))
            made[slot, part] = _some(error_of(np.where(chosen ^ mask, a, b), part_of(as_array(group.read(slot)), part)))
        return made

    def _shuffle(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Made:
        """The errors that lanes get from others take the way of their values."""
        slot = elements(instruction.outputs)[0].registers[0]
        warps, form = group.warps, instruction.form
        others = [spread(warps, v, wide=False) for v in p.values[1:]]
        ports = warp_ports(machine, group, p.active, form)
        made: Made = {}
        for part, error in p.errors[0].items():
            found = form.function(instruction.op, spread(warps, error, wide=False), *others, **ports)
            made[slot, part] = _some(warps.collect(found[0] if isinstance(found, tuple) else found))
        return made

    def _transpose(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Made:
        slot, table = instruction.outputs[0].registers[0], self._of(group, instruction).table[0]
        made: Made = {}
        for kind in HALF:
            if (held := matrices.in_warps(group, p.errors[:1], kind)) is not None:
                for k in (0, 1):
                    element = table[:, k]
                    new = group.warps.collect(held[0][element % 2, :, element // 2].transpose(1, 0, 2))
                    made[slot, (kind, k)] = _some(new)
        return made

    # ---- products ----------------------------------------------------------------------------

    def _multiply(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Made:
        return self._product(group, instruction, p, matrices.product_of_warps(machine, group, p))

    def _multiply_in_groups(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Made:
        if machine.launch.settings.async_effects == "at_wait":
            return {}  # the results are not there yet
        return self._product(group, instruction, p, matrices.product_of_warpgroups(machine, group, p, self._memory))

    def _product(self, group: Group, instruction: Instruction, p: Pending, product: matrices.Product) -> Made:
        """The sums of an exact product and what it is added to, less the results."""
        shape = group.selection.shape

        def stacked(values: Sequence[Array]) -> Array:
            return np.stack([np.broadcast_to(v, shape) for v in values])

        kind = product.places[0][1][0]
        got = stacked([part_of(as_array(group.read(slot)), part) for slot, part in product.places])
        parts = [part for _, part in product.places]
        held = [at for at in product.addend for _ in range(len(parts) // len(product.addend))]
        addend = stacked([part_of(p.values[at], part) for at, part in zip(held, parts, strict=True)])
        lost = [p.errors[at].get(part) for at, part in zip(held, parts, strict=True)]
        error = None if all(e is None for e in lost) else stacked([NONE if e is None else e for e in lost])
        if product.scale is not None and not (scale := p.values[product.scale].astype(np.bool_)).all():
            addend = np.where(scale, addend, addend.dtype.type(0))
            error = None if error is None else np.where(scale, error, 0.0)
        if product.rest is None:
            whole = product.sums + shadow_value(addend, error)
            new = self._less(whole, got)
        else:
            whole = product.sums + addend
            new = two_sum(product.sums, addend, whole) + product.rest + (whole - got)
            new = new if error is None else new + error
        results = Results(group, instruction, [product.sums, addend], [None, error], got, kind)
        noted = self._note(results, new, p.active, whole)
        if noted is None:
            return dict.fromkeys(product.places)
        return {place: _some(row) for place, row in zip(product.places, noted, strict=True)}

    # ---- memory ------------------------------------------------------------------------------

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Keep the addresses of loads; store the errors of what is stored."""
        self._settle(machine)
        pending = self._pending
        if pending is None or pending.group is not group or pending.instruction is not group.instruction:
            pending = self._pending = self._without_registers(machine, group, group.instruction)
            if pending is None:
                return
        does = pending.rule.rounding.does
        if does == "store" and access.kind != READ:
            self._store(machine, group, access, pending)
        elif does in LOADS:
            self._accesses.append(access)
        elif does == "exchange":
            self._exchanges(machine, group, access, pending)
        elif does == "add_to":
            self._add(machine, group, access, pending)
        elif does == "store_fragment":
            self._accesses.append(access)
            number, half = divmod(len(self._accesses) - 1, 2 if pending.rule.rounding.kind in HALF else 1)
            part = pending.rule.rounding.kind, half
            if access.active is None or access.active.all():  # of memory in several allocations there are several
                value, error = part_of(pending.values[number], part), pending.errors[number].get(part)
                one = NOTHING if error is None else {(part[0], 0): error}
                self._store(machine, group, access, attrs.evolve(pending, values=[value], errors=[one]))

    def _without_registers(self, machine: Machine, group: Group, instruction: Instruction) -> Pending | None:
        """An access that reads no register."""
        rule = self._of(group, instruction).rule
        self._accesses, self._found = [], []
        if rule is not None and rule.rounding.does in LOADS:
            return Pending(group, instruction, rule, [], [], None)
        adds = rule is not None and rule.rounding.does == "add_to"
        return self._of_constants(machine, group, instruction) if adds else None

    def rows_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """The same for rows of matrices."""
        pending = self._pending
        if pending is None or pending.group is not group:
            return
        does = pending.rule.rounding.does
        if does == "load_matrices":
            self._accesses.append(access)
        elif does == "store_matrices":
            self._accesses.append(access)
            self._store_rows(machine, group, access, pending)

    def _store(self, machine: Machine, group: Group, access: MemoryAccess, p: Pending) -> None:
        region, width = accessed(machine, access)[0], access.nbytes // len(p.values)
        held = self._memory.kinds(region)
        for number, (value, errors) in enumerate(zip(p.values, p.errors, strict=True)):
            for kind in {*held, *(kind for kind, _ in errors if kind in DTYPES)}:
                size = DTYPES[kind].itemsize
                for k in range(width // size):
                    offset, error = number * width + k * size, errors.get((kind, k))
                    got = None if error is None else part_of(value, (kind, k))
                    bits = None if got is None else got.view(f"u{size}")
                    self._memory.write_lanes(group, access, region, kind, offset, bits, error)
                    if got is not None and error is not None and access.allocation is not None:
                        results = Results(group, p.instruction, [got], [error], got, kind, stored=True)
                        self._note(results, error, access.active)

    def _store_rows(self, machine: Machine, group: Group, access: MemoryAccess, p: Pending) -> None:
        table = self._of(group, p.instruction).table[len(self._accesses) - 1]
        region = shared_of(machine)
        if access.active is not None and not access.active.all():
            return
        place, columns = (array[:, :, None, None, :] for array in (access.places, access.columns))
        offset = (4 * np.arange(4)[:, None] + 2 * np.arange(2))[..., None]
        warps = group.warps
        register, lane, half = table // 64, table // 2 % 32, table % 2
        words = np.stack([np.broadcast_to(warps.spread(v.view(np.uint32)), (warps.n, 32, warps.m)) for v in p.values])
        bits = np.stack(halves(words, "u2"), axis=1)
        for kind in HALF:
            held = matrices.in_warps(group, p.errors, kind)
            if held is None and kind not in self._memory.kinds(region):
                continue
            some = (
                [None, None]
                if held is None
                else [array[register, half, :, lane].transpose(3, 0, 1, 2, 4) for array in (bits, held)]
            )
            self._memory.write(region, kind, place + offset, columns, *some)

    def _load(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Made:
        made: Made = {}
        outputs = elements(instruction.outputs)
        for access in self._accesses:
            region, width = accessed(machine, access)[0], access.nbytes // len(outputs)
            for kind in self._memory.kinds(region):
                size = DTYPES[kind].itemsize
                for number, output in enumerate(outputs if size <= width else ()):
                    if output.register is None:
                        continue
                    slot = output.registers[0]
                    for k in range(width // size):
                        part = kind, k
                        bits = part_of(as_array(group.read(slot)), part).view(f"u{size}")
                        error = self._memory.read_lanes(access, region, kind, number * width + k * size, bits)
                        if error is None:
                            continue
                        if access.active is not None:
                            error = np.where(access.active, error, 0.0)
                        before = made.get((slot, part))
                        made[slot, part] = _some(error if before is None else before + error)
        return made

    _exchange = _load

    def _load_matrices(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Made:
        made: Made = {}
        region, table = shared_of(machine), self._of(group, instruction).table
        kinds = [kind for kind in self._memory.kinds(region) if DTYPES[kind].itemsize < 8]
        if not kinds or not self._accesses:
            return made
        place, columns = (
            np.concatenate(arrays, axis=1) for arrays in zip(*map(partial(_rows, group), self._accesses), strict=True)
        )
        for slot, element in zip([o.registers[0] for o in elements(instruction.outputs)], table, strict=True):
            value = as_array(group.read(slot))
            for kind in kinds:
                size = DTYPES[kind].itemsize
                for k in range(4 // size):
                    row, offset = element[:, k] // 8, 2 * (element[:, k] % 8)
                    if size == 4 and (element[:, 1] != element[:, 0] + 1).any():
                        continue
                    at, owners = (group.warps.collect(a) for a in (place[:, row] + offset[:, None], columns[:, row]))
                    bits = part_of(value, (kind, k)).view(f"u{size}")
                    made[slot, (kind, k)] = _some(self._memory.read(region, kind, at, owners, bits))
        return made

    def _add(self, machine: Machine, group: Group, access: MemoryAccess, p: Pending) -> None:
        """Keep the sums that lanes are about to make in memory."""
        self._accesses.append(access)
        number, kind = self._element(group, access), p.rule.rounding.kind
        for k in range(p.rule.rounding.count):
            part = kind, k
            given = part_of(p.values[number], part), p.errors[number].get(part, NONE)
            made = summed(self._memory, machine, group, access, part, given)
            if made is not None:
                self._sums.append((group, p.instruction, made))
                self._found.append((number, made))

    def _element(self, group: Group, access: MemoryAccess) -> int:
        """Which element of the lanes' vectors an access is for: there is one for each element and allocation."""
        shape = group.selection.shape
        lane = 0 if access.active is None else int(np.broadcast_to(access.active, shape).argmax())
        place, begin = (np.broadcast_to(a.places, shape).reshape(-1)[lane] for a in (access, self._accesses[0]))
        return int(place - begin) // access.nbytes

    def _add_to(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Made:
        """What lanes find where they add."""
        made: Made = {}
        for number, each in self._found:
            if not instruction.outputs or elements(instruction.outputs)[number].register is None:
                continue
            slot = elements(instruction.outputs)[number].registers[0]
            got = part_of(as_array(group.read(slot)), each.part)
            high, rest = (group.selection.from_order(a) for a in each.found)
            error = _finite(each.lost(high, rest, got))
            error = error if each.access.active is None else np.where(each.access.active, error, 0.0)
            before = made.get((slot, each.part))
            made[slot, each.part] = _some(error if before is None else before + error)
        return made

    def _exchanges(self, machine: Machine, group: Group, access: MemoryAccess, p: Pending) -> None:
        """Keep what lanes are about to put into memory, if it has errors."""
        self._accesses.append(access)
        number = 1 if "c" in p.instruction.named else 0
        (region, columns), value = accessed(machine, access), p.values[number]
        for (kind, k), error in p.errors[number].items():
            if kind in DTYPES:
                size = DTYPES[kind].itemsize
                bits = part_of(value, (kind, k)).view(f"u{size}")
                lanes = in_order(group, access, access.places + k * size, columns, bits, error)[1]
                self._exchanged.append((access, region, kind, lanes))

    def _settle(self, machine: Machine) -> None:
        """Memory has what the step before has made of it."""
        if not self._sums and not self._exchanged:
            return
        sums, self._sums = self._sums, []
        for group, instruction, made in sums:
            kind, _ = made.part
            bits = bits_at(machine, made.access, made.place, made.columns, DTYPES[kind].itemsize)
            got = bits.view(DTYPES[kind])
            error = _finite(made.lost(made.high, made.rest, got))
            stored = made.access.allocation is not None
            noted = self._note(Results(group, instruction, [got], [None], got, kind, stored), error)
            self._memory.write(made.region, kind, made.place, made.columns, bits, noted)
        exchanged, self._exchanged = self._exchanged, []
        for access, region, kind, (place, columns, bits, error) in exchanged:
            there = bits == bits_at(machine, access, place, columns, bits.dtype.itemsize)
            self._memory.write(region, kind, place[there], columns[there], bits[there], error[there])

    def _load_fragment(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Made:
        """Elements come one after another, register by register; a register may hold what another does."""
        made: Made = {}
        kind, outputs = p.rule.rounding.kind, [o.registers[0] for o in elements(instruction.outputs)]
        per = 2 if kind in HALF else 1
        for number, access in enumerate(self._accesses):
            if access.active is not None and not access.active.all():
                return {}
            region, columns = accessed(machine, access)
            part = kind, number % per
            if kind not in self._memory.kinds(region):
                continue
            for slot in outputs[number // per :: len(self._accesses) // per]:
                bits = part_of(as_array(group.read(slot)), part).view(f"u{DTYPES[kind].itemsize}")
                made[slot, part] = _some(self._memory.read(region, kind, access.places, columns, bits))
        return made

    def _load_cells(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Made:
        return tensor.load_cells(machine, group, p, self._memory)

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """What a product of tensor memory reads is there now; copies are kept until they have acted, so that `async_delivered` comes
        for each."""
        self._settle(machine)
        self._bulk = None
        if machine.launch.settings.async_effects != "at_wait" and machine.launch.schedule is None:
            self._expected = tensor.products(machine, transfer, self._memory)
            self._bulk = bulk_sum(self._memory, machine, transfer)

    def async_delivered(
        self, machine: Machine, group: Group, active: Array | None, transfer: Transfer, which: Which
    ) -> None:
        """Errors travel with what copies move; what they store to global memory is reported, and what products leave."""
        work = transfer.work
        bulk, self._bulk = self._bulk, None
        if bulk is not None:
            bits, instruction = bulk.there(), transfer.place or group.instruction
            got = bits.view(DTYPES[bulk.kind])
            error = _finite((bulk.high - got.astype(np.float64)) + bulk.rest)
            noted = self._note(Results(group, instruction, [got], [None], got, bulk.kind, stored=True), error)
            self._memory.write(global_of(bulk.allocation), bulk.kind, bulk.place, FIRST, bits, noted)
        expected, self._expected = self._expected, []
        for each in expected:
            got, place, columns = tensor.results(machine, each)
            error = self._less(each.whole, got)
            kept = None if each.kept is None else np.broadcast_to(each.kept, got.shape)
            instruction = transfer.place or group.instruction
            results = Results(group, instruction, [each.whole], [None], got, each.kind)
            noted = self._note(results, error, kept, each.whole)
            some = np.ones(got.shape, np.bool_) if kept is None else kept
            place, columns = (np.broadcast_to(a, got.shape)[some] for a in (place, columns))
            bits, lost = got.view(f"u{got.dtype.itemsize}")[some], None if noted is None else noted[some]
            self._memory.write(tensor.tensor_of(machine), each.kind, place, columns, bits, lost)
        for region, place, size in self._memory.deliver(machine, transfer, which):
            allocation = machine.launch.memory.find(region.first, region.first + 1)
            if allocation is None or not isinstance(work, BoxStore | RunStore):
                continue
            for kind, plane in self._memory.kinds(region).items():
                width = DTYPES[kind].itemsize
                if size % width:
                    continue
                at = (place[..., None] + np.arange(0, size, width) - region.first) // width
                got = allocation.data[: len(allocation.data) // width * width].view(f"u{width}")[at]
                error = np.where(plane[0][at] == got, plane[1][at], 0.0)
                if error.any():
                    values, instruction = got.view(DTYPES[kind]), transfer.place or group.instruction
                    self._note(Results(group, instruction, [values], [error], values, kind, stored=True), error)

    # ---- what is reported --------------------------------------------------------------------

    def _birth(self, group: Group, instruction: Instruction, kind: str, *, stored: bool = False) -> Birth:
        births = self._of(group, instruction).births
        found = births[stored]
        if found is None:
            key = group.plan.name, instruction.span.line, instruction.text, stored
            found = self.found.births.get(key)
            if found is None:
                source = instruction.source or ("", 0)
                found = Birth(instruction.text, kind, instruction.span.line, *source, stored=stored)
                found.inlined_at = instruction.inlined_at
                self.found.births[key] = found
            births[stored] = found
        return found

    def _note(
        self, results: Results, error: Array, active: Array | None = None, whole: Array | None = None
    ) -> Array | None:
        """Count the errors of results, look at the largest, and give the errors; None if there are none. ``whole`` are their
        shadows, from which what is not finite begins anew."""
        group, instruction, values, _, got, kind, stored = results
        known = self._known.get(id(instruction)) or self._of(group, instruction)
        birth = known.births[stored] or self._birth(group, instruction, kind, stored=stored)
        if known.adds and not stored and len(values) > 1:
            birth.kinds["absorption"] += _absorbed(values, got, active, subtracts=instruction.form.root == DIFFERENCE)
        shape = got.shape if got.shape == error.shape else np.broadcast_shapes(got.shape, error.shape)
        return self._counted(birth, results, self._measured(results, error, active, shape, whole))

    def _measured(
        self, results: Results, error: Array, active: Array | None, shape: tuple[int, ...], whole: Array | None
    ) -> Sizes:
        """How large errors are, by NumPy."""
        got, kind = results.got, results.kind
        if not error.item(0) and not error.any():
            return Sizes(None, shape, 0.0, 0.0, 0)
        relative = _relative(got, error, kind, active)
        if whole is None and self._wholes.endless:
            relative = np.where(np.isinf(got) & (error != 0), math.inf, relative)
        top = int(relative.argmax())
        largest = relative.item(top)
        if not largest < math.inf:
            if error.shape != relative.shape:
                error = np.broadcast_to(error, relative.shape).copy()
            self._wholes.endless = True
            endless = _mend(got, error, relative, whole, LEAST_NORMAL[kind])
            top = int(relative.argmax()) if endless is None else endless
            largest = relative.item(top) if endless is None else math.inf
        total = float(np.add.reduce(relative, axis=None, dtype=F64)) if largest else 0.0
        return Sizes(error, relative.shape, total, largest, top)

    def _counted(self, birth: Birth, results: Results, found: Sizes) -> Array | None:
        """Count errors of such sizes, and give them; None if there are none."""
        birth.lanes += math.prod(found.shape)
        if not results.stored:
            self.found.step(found.largest)
        if not found.largest or found.error is None:
            return None
        birth.total += found.total
        if found.largest > birth.largest:
            birth.type = results.kind
            _example(birth, results, found.error, found)
        return found.error

    def _operated(self, results: Results, compiled: Pass) -> Array | None:
        """Compute the shadows of results, count their errors, and give them; None if there are none."""
        group, instruction, values, errors, got, kind, _ = results
        known = self._known.get(id(instruction)) or self._of(group, instruction)
        birth = known.births[False] or self._birth(group, instruction, kind)
        shape = got.shape
        for array in errors:
            if array is not None and array.shape != shape:
                shape = np.broadcast_shapes(shape, array.shape)
        out = self._wholes.arrays.take(shape)
        out = np.empty(shape) if out is None else out
        sources = list(zip(values, errors, strict=True))
        total, largest, top, first, absorbed, bits = compiled(got, sources, out, shape)
        if bits > 1:
            self._wholes.endless = True
        if known.adds:
            birth.kinds["absorption"] += absorbed
        worst = (math.inf, first) if first >= 0 else (largest, top)
        return self._counted(birth, results, Sizes(out if bits else None, shape, total, *worst))

    def launch_ended(self, launch: LaunchState) -> None:
        """Note where error is born, if the launch checks for it."""
        if RULE not in launch.settings.checks:
            return
        places = {
            (known.instruction.span.line, known.instruction.text): known.instruction for known in self._known.values()
        }
        for birth in self.found.rows:
            if birth.kinds.total():
                instruction = places[birth.line, birth.instruction]
                key = RULE, birth.line, instruction.span.column, "note"
                finding = attrs.evolve(
                    finding_at(launch, instruction), rule=RULE, message=birth.sentence, severity="note"
                )
                launch.findings[key] = attrs.evolve(finding, count=birth.copies)


SIZES = {F32: "sizes of f32", F64: "sizes of f64"}
RULE = "accuracy"
"""In the set of checks: make a note at each instruction at which something happened to the shadows."""


def _example(birth: Birth, results: Results, error: Array, found: Sizes) -> None:
    """Note the largest error, and what it is computed from."""

    def one(array: Array) -> float:
        full = array if array.shape == found.shape else np.broadcast_to(array, found.shape)
        return float(full.item(found.top) if array.size > 1 else array.item(0))

    value, wrong = one(results.got), one(error)
    largest = abs(wrong) / max(abs(value), LEAST_NORMAL[birth.type]) if math.isfinite(value) else math.inf
    lost = [0.0 if e is None else one(e) for e in results.errors]
    birth.record(largest, value, wrong, [one(v) for v in results.values], lost, results.instruction.form.root)


def _relative(got: Array, error: Array, kind: str, active: Array | None) -> Array:
    """Relative errors; those of inactive lanes are 0."""
    dtype: DType = F64 if kind == "f64" or got.dtype.itemsize > 4 else F32
    shape = got.shape if got.shape == error.shape else np.broadcast_shapes(got.shape, error.shape)
    relative: Array = WORKSPACE.take(SIZES[dtype], shape, dtype)
    np.abs(got, out=relative, casting="unsafe")
    near = None
    if not relative.item(relative.argmin()) >= SMALL[kind]:
        near = np.flatnonzero(relative < SMALL[kind])
        sizes = np.maximum(relative.take(near), LEAST_NORMAL[kind], dtype=F64)
    np.divide(error, relative, out=relative, dtype=dtype, casting="unsafe")
    np.abs(relative, out=relative)
    if near is not None and near.size:
        exact = np.abs(_taken(error, shape, near) / sizes)
        largest = exact.item(exact.argmax())
        if largest and not 2.0**-100 < largest < 2.0**127:
            relative = relative.astype(F64)
        relative.put(near, exact)
    return relative if active is None else np.where(active, relative, relative.dtype.type(0))


def _mend(got: Array, error: Array, relative: Array, whole: Array | None, least: float) -> int | None:
    """Mend the errors, the relative errors and the shadows, of one shape, of results among which some, or some shadows, are not
    finite. Gives the first whose relative error is infinite; there it counts as 0."""
    shape = relative.shape
    wrong = (~(relative < math.inf)).reshape(-1).nonzero()[0]
    values = _taken(got, shape, wrong).astype(np.float64)
    if np.isinf(_taken(error, shape, wrong)).all() and np.isfinite(values).all():
        relative.put(wrong, 0.0)
        return wrong.item(0)  # the shadows have been infinite before
    there = None if whole is None else _taken(whole, shape, wrong)
    lost = _taken(error, shape, wrong) if there is None else there - values
    lost[np.isnan(lost)] = 0.0
    size = np.abs(lost / np.maximum(np.abs(values), least)).astype(relative.dtype)
    if not math.isfinite(np.add.reduce(values)):
        finite = np.isfinite(values)
        if there is not None:
            lost = error_of(there, values)
        size[~finite] = np.where(lost != 0, math.inf, 0.0)[~finite]
    top = int(size.argmax())
    endless = size.item(top) == math.inf
    if endless:
        size[size == math.inf] = 0.0
    error.put(wrong, lost)
    relative.put(wrong, size)
    if whole is not None and whole.shape == shape:
        whole.put(wrong, shadow_value(values, lost))
    return wrong.item(top) if endless else None


def _taken(array: Array, shape: tuple[int, ...], places: Array) -> Array:
    """Elements of an array that broadcasts to a shape."""
    return (array if array.shape == shape else np.broadcast_to(array, shape)).take(places)


def _rows(group: Group, access: MemoryAccess) -> tuple[Array, Array]:
    """Addresses and columns of rows of matrices, ``[n, rows, m]``."""
    shape = group.warps.n, access.places.shape[1], group.warps.m
    return np.broadcast_to(access.places, shape), np.broadcast_to(access.columns, shape)


def _some(error: Array) -> Array | None:
    return error if error.item(0) or error.any() else None


def _finite(error: Array) -> Array:
    """Errors; those that are no numbers begin anew."""
    return np.where(np.isfinite(error), error, 0.0)


def _absorbed(values: Sequence[Array], got: Array, active: Array | None, *, subtracts: bool) -> int:
    """How many sums, of active lanes, equal one of their terms although the other, or each factor of the other, is not zero."""
    if len(values) == 3:
        terms = [(values[2], values[:2])]
    else:
        first, second = values[0], -values[1] if subtracts else values[1]
        terms = [(first, [second]), (second, [first])] if second is not first else []
    count = 0
    for term, others in terms:
        same = got == term
        for other in others if same.item(same.argmax()) else ():
            same = same & (other != 0)
        if same.item(same.argmax()):
            same = same & (got != 0) & np.isfinite(got)
            count += int(np.count_nonzero(same if active is None else same & active))
    return count


def _doubled(root: str, values: list[Array], errors: list[Array | None], got: Array) -> Array:
    """The error of an f64 result: exact operands through the exact operation, less the result."""
    doubled = DOUBLED.get(root)
    if doubled is None:
        return EXACT[root](*[shadow_value(v, e) for v, e in zip(values, errors, strict=True)]) - got
    error = doubled(*values, *[NONE if e is None else e for e in errors], got)
    return np.where(np.isfinite(error), error, 0.0)
