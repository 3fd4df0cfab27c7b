"""A shadow in higher precision: beside every float value a launch computes, what it would be without the rounding of its type.

A register's shadow is the *error* of its value, in f64: value and error together are the companion, of about twice the precision
where the value is f64 itself. Exact values have no shadow. Where a value goes, its error goes: registers, selections, shuffles,
memory. In memory an error counts as long as the bits are those for which it was stored; an integer view of a float has none.

A form's body is its rounding, so the companion is not made by it but by the operation that it rounds: one of `EXACT`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from warpsim.isa.exact import (
    COMPARES,
    DOUBLED,
    DTYPES,
    EXACT,
    FUSED,
    HALVES,
    LEAST,
    PRECISION,
    SUMS,
    Halves,
    rounding_of,
)
from warpsim.layout import fragments
from warpsim.layout.fragment import gather, scatter
from warpsim.machine.binding.operand_slots import Guard, guard_of, value_getter
from warpsim.machine.binding.warp_steps import collect, spread, warp_ports
from warpsim.machine.hooks import MemoryAccess
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.values import as_array
from warpsim.machine.watcher import READ, Watcher
from warpsim.numerics.arrays import Array
from warpsim.numerics.matrix import decode
from warpsim.observe.accuracy_report import AccuracyReport, Birth
from warpsim.program.program import Instruction, Operand
from warpsim.records import frozen

TINY = 5e-324
Errors = dict[tuple[int, str], Array]
"""Errors of registers, by their numbers and the names of the errors."""


def _name(kind: str, half: int | None = None) -> str:
    return f"error of {kind}" if half is None else f"error of {kind}, half {half}"


OURS = frozenset(
    _name(kind, half) for kind in DTYPES for half in (None, 0, 1) if half is None or kind in HALVES.values()
)


def companion(value: Array, error: Array | None) -> Array:
    """Values with their errors, in f64. The error of what is not finite is the companion itself."""
    wide = value.astype(np.float64)
    if error is None:
        return wide
    whole = wide + error
    if not math.isfinite(whole.sum()):
        whole = np.where(np.isfinite(wide) | (error == 0), whole, error)
    return whole


def error_of(whole: Array, value: Array) -> Array:
    """The error of values with such companions."""
    wide = value.astype(np.float64)
    error = whole - wide
    if not math.isfinite(error.sum()):
        kept = np.where(np.isfinite(whole), np.where(whole == 0, TINY, whole), 0.0)
        error = np.where(np.isfinite(wide), error, np.where(np.isnan(whole), 0.0, kept))
    return error


@frozen(eq=False)
class Rule:
    """What an instruction does to companions: how, of which types, and what fetches its sources."""

    does: str
    kind: str
    to: str
    halves: Halves
    getters: tuple[Callable[[Machine, Group], Array], ...]
    guard: Guard | None


@frozen(eq=False)
class Pending:
    """A step that is about to run: its rule, its sources with their errors by half, and the lanes that run it."""

    group: Group
    instruction: Instruction
    rule: Rule
    values: list[Array]
    errors: list[dict[str, Array]]
    active: Array | None


class Accuracy(Watcher):
    """The companions of a launch."""

    def __init__(self) -> None:
        self.found = AccuracyReport()
        self._rules: dict[int, tuple[Instruction, Rule | None]] = {}
        self._pending: Pending | None = None
        self._loads: list[MemoryAccess] = []
        self._planes: dict[tuple[object, ...], tuple[Array, Array]] = {}

    def batch_ended(self, machine: Machine) -> None:
        """Forget what its memories held."""
        batch = id(machine.batch)
        self._planes = {key: plane for key, plane in self._planes.items() if key[0] != batch}

    # ---- steps -------------------------------------------------------------------------------

    def registers_read(self, machine: Machine, group: Group, registers: tuple[int, ...]) -> None:
        """Keep the sources, which the step may overwrite."""
        instruction = group.instruction
        known = self._rules.get(id(instruction))
        if known is None:
            known = self._rules[id(instruction)] = instruction, rule_of(group, instruction)
        rule = known[1]
        self._pending, self._loads = None, []
        if rule is None:
            return
        active = None if rule.guard is None else rule.guard(machine, group)
        if active is False:
            return
        errors = [self._errors(group, operand) for operand in _data(instruction)]
        if rule.does in ("move", "select", "shuffle") and not any(errors):
            return
        values = [as_array(get(machine, group)) for get in rule.getters]
        self._pending = Pending(group, instruction, rule, values, errors, active)

    def _errors(self, group: Group, operand: Operand) -> dict[str, Array]:
        if operand.register is None or not (group.shadows or group.frame.shadows):
            return {}
        slot = operand.register.index
        return {name: error for name in self._names(group) if (error := group.shadow(name, slot)) is not None}

    def _names(self, group: Group) -> set[str]:
        """The kinds of errors that a group's registers may have."""
        return set(OURS.intersection((*group.shadows, *group.frame.shadows)))

    def registers_written(self, machine: Machine, group: Group, registers: tuple[int, ...]) -> None:
        """Give the results their errors."""
        pending, self._pending = self._pending, None
        instruction = group.instruction
        made: Errors = {}
        if pending is not None and not (pending.group is group and pending.instruction is instruction):
            pending = None  # of a store before an instruction that reads no register
        if pending is not None:
            rule = pending.rule
            made = getattr(self, f"_{rule.does}")(machine, group, instruction, pending)
        names = self._names(group)
        names.update(name for _, name in made)
        for name in names:
            for slot in registers:
                new, old = made.get((slot, name)), group.shadow(name, slot)
                if new is None and (old is None or (pending is None and instruction.guard is not None)):
                    continue
                if pending is not None and pending.active is not None:
                    zero = np.zeros(1)
                    new = np.where(pending.active, zero if new is None else new, zero if old is None else old)
                if new is not None and new.any():
                    group.set_shadow(name, slot, new)
                elif old is not None:
                    group.set_shadow(name, slot, None)

    # ---- arithmetic --------------------------------------------------------------------------

    def _compute(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Errors:
        slot = instruction.outputs[0].registers[0]
        made: Errors = {}
        root, rule = instruction.form.root, p.rule
        result = as_array(group.read(slot))
        signs = getattr(instruction.form.function, "keywords", {})
        contracted = "negative_product" in signs
        if contracted and (len(p.values) != 3 or instruction.form.function.args[1] is not None):  # type: ignore[attr-defined]
            return made
        for half in rule.halves:
            values = [_part(v, rule.kind, half) for v in p.values]
            errors = [e.get(_name(rule.kind, half)) for e in p.errors]
            if contracted:
                root = FUSED
                for place, name in ((0, "negative_product"), (2, "negative_sum")):
                    error = errors[place]
                    if signs[name]:
                        values[place], errors[place] = -values[place], None if error is None else -error
            got = _part(result, rule.to, half)
            error = _error(root, values, errors, got, rule)
            made[slot, _name(rule.to, half)] = error
            self._note(machine, group, instruction, values, errors, got, error, p.active, rule.to)
        return made

    def _convert(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Errors:
        slot, made, rule = instruction.outputs[0].registers[0], {}, p.rule
        result = as_array(group.read(slot))
        for number, half in enumerate(rule.halves):
            source = len(p.values) - 1 - number if half is not None else 0
            value, error = p.values[source], p.errors[source].get(_name(rule.kind))
            got = _part(result, rule.to, half)
            new = error_of(companion(value, error), got)
            if rule.to == "f64" and error is not None and rule.kind != "f64":
                new = error
            made[slot, _name(rule.to, half)] = new
            self._note(machine, group, instruction, [value], [error], got, new, p.active, rule.to)
        return made

    def _compare(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Errors:
        errors = [e.get(_name(p.rule.kind)) for e in p.errors[:2]]
        if all(e is None for e in errors):
            return {}
        left, right = (companion(v, e) for v, e in zip(p.values[:2], errors, strict=True))
        compare = COMPARES[p.rule.to]
        otherwise = compare(left, right) != compare(p.values[0], p.values[1])
        if p.active is not None:
            otherwise = otherwise & p.active
        lanes = int(np.count_nonzero(np.broadcast_to(otherwise, group.selection.shape)))
        if lanes:
            self._birth(group, instruction, "pred").kinds["decided otherwise"] += lanes
        return {}

    def _move(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Errors:
        made: Errors = {}
        outputs = [o.registers[0] for o in _elements(instruction.outputs) if o.register is not None]
        sources = p.errors
        if p.rule.does == "select":
            chosen = as_array(p.values[2]).astype(np.bool_)
            for name in {*sources[0], *sources[1]}:
                a, b = (sources[k].get(name, np.zeros(1)) for k in (0, 1))
                made[outputs[0], name] = np.where(chosen, a, b)
        elif p.rule.does == "shuffle":
            for name, error in sources[0].items():
                made[outputs[0], name] = self._shuffled(machine, group, instruction, p, error)
        elif len(outputs) == len(sources) == 1:
            made = {(outputs[0], name): error for name, error in sources[0].items()}
        elif len(sources) == 2 and len(outputs) == 1:
            for half, errors in enumerate(sources):
                made |= {(outputs[0], _name(k, half)): errors[_name(k)] for k in ("f16", "bf16") if _name(k) in errors}
        elif len(sources) == 1 and len(outputs) == 2:
            for half, slot in enumerate(outputs):
                found = ((k, sources[0].get(_name(k, half))) for k in ("f16", "bf16"))
                made |= {(slot, _name(k)): error for k, error in found if error is not None}
        return made

    def _shuffled(self, machine: Machine, group: Group, instruction: Instruction, p: Pending, error: Array) -> Array:
        """The errors that lanes get from others: their bits in two halves take the way of the value's."""
        warps, form = group.warps, instruction.form
        words = np.ascontiguousarray(np.broadcast_to(error, group.selection.shape)).view(np.uint32)
        moved = []
        for k in (0, 1):
            word = np.ascontiguousarray(words[..., k::2])
            arguments = [spread(warps, v, wide=False) for v in (word, *p.values[1:])]
            result = form.function(instruction.op, *arguments, **warp_ports(machine, group, p.active, form))
            got = collect(warps, result[0] if isinstance(result, tuple) else result, wide=False)
            moved.append(np.broadcast_to(as_array(got), group.selection.shape))  # type: ignore[arg-type]
        both = np.stack(moved, axis=-1).astype(np.uint32)
        return np.ascontiguousarray(both).view(np.float64)[..., 0]

    def _multiply(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Errors:
        """The product of matrices, without rounding of products or sums."""
        op, warps = instruction.op, group.warps
        m, _, k = (int(x) for x in str(op.shape)[1:].replace("n", " ").replace("k", " ").split())
        named = {name: list(_elements((instruction.named[name],))) for name in "abc"}
        count, parts, at = warps.n, {}, 0
        for name in "abc":
            size = len(named[name])
            parts[name] = p.values[at : at + size], p.errors[at : at + size]
            at += size

        def spread_all(arrays: Sequence[Array]) -> tuple[Array, ...]:
            shape = (count, 32, warps.m)
            return tuple([np.ascontiguousarray(np.broadcast_to(spread(warps, a, wide=False), shape)) for a in arrays])

        kind = p.rule.kind

        def matrix(name: str, rows: int) -> Array:
            values, errors = parts[name]
            held = tuple([v.view(np.uint32) for v in spread_all(values)])
            bits = gather(fragments.multiplicand(rows, k, 32 if kind == "tf32" else 16), held, count, warps.m)
            exact = decode(bits, kind).values.astype(np.float64)
            if kind == "tf32":
                lost = [e.get(_name("f32"), np.zeros(1)) for e in errors]
                if any(e.any() for e in lost):
                    exact = exact + gather(fragments.multiplicand(rows, k, 32), spread_all(lost), count, warps.m)
                return exact
            for half in (0, 1):
                lost = [e.get(_name(kind, half), np.zeros(1)) for e in errors]
                if any(e.any() for e in lost):
                    words = fragments.multiplicand(rows, k // 2, 32)
                    exact[half::2] = exact[half::2] + gather(words, spread_all(lost), count, warps.m)
            return exact

        left, right = matrix("a", m), matrix("b", 8)
        sums = np.matmul(left.transpose(2, 1, 0), right.transpose(2, 0, 1)).transpose(1, 2, 0)
        place = fragments.accumulator(m, 8, 32)
        added = scatter(place, np.ascontiguousarray(sums), count, warps.m, row_major=True)
        made: Errors = {}
        slots = [o.registers[0] for o in _elements(instruction.outputs)]
        for slot, total, value, errors in zip(slots, added, parts["c"][0], parts["c"][1], strict=True):
            product = as_array(collect(warps, total, wide=False))  # type: ignore[arg-type]
            addend = value.view(np.float32)
            error = errors.get(_name("f32"))
            got = as_array(group.read(slot)).view(np.float32)
            new = error_of(product + companion(addend, error), got)
            made[slot, _name("f32")] = new
            self._note(machine, group, instruction, [product, addend], [None, error], got, new, p.active, "f32")
        return made

    _select = _shuffle = _move

    # ---- memory ------------------------------------------------------------------------------

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Keep the addresses of loads; store the errors of what is stored."""
        pending = self._pending
        known = self._rules.get(id(group.instruction))
        rule = None if known is None else known[1]
        if rule is None or rule.does != "load":
            if pending is not None and pending.group is group and pending.rule.does == "store" and access.kind != READ:
                self._store(machine, group, access, pending)
            return
        self._loads.append(access)

    def _plane(self, machine: Machine, access: MemoryAccess, kind: str, *, make: bool) -> tuple[Array, Array] | None:
        size = DTYPES[kind].itemsize
        if access.allocation is not None:
            key: tuple[object, ...] = ("global", access.allocation.start, kind)
            shape: tuple[int, ...] = (-((access.allocation.start - access.allocation.end) // size),)
        else:
            memory = machine.batch.local if access.space == "local" else machine.batch.shared
            key = id(machine.batch), access.space.split(":")[0], kind
            shape = -(-memory.size // size), memory.n_columns
        if key not in self._planes and make:
            self._planes[key] = np.zeros(shape, f"u{size}"), np.zeros(shape)
        return self._planes.get(key)

    def _cells(self, group: Group, access: MemoryAccess, size: int, k: int) -> tuple[Array, ...]:
        start = access.places - (0 if access.allocation is None else access.allocation.start)
        at = np.broadcast_to(start // size + k, group.selection.shape)
        if access.allocation is not None:
            return (at,)
        return at, np.broadcast_to(access.columns, group.selection.shape)

    def _store(self, machine: Machine, group: Group, access: MemoryAccess, p: Pending) -> None:
        count = len(p.values)
        width = access.nbytes // count
        instruction = group.instruction
        for k, (value, errors) in enumerate(zip(p.values, p.errors, strict=True)):
            for name, error in errors.items():
                kind, half = _kind_of(name)
                size = DTYPES[kind].itemsize
                if size * (1 if half is None else 2) != width:
                    continue
                plane = self._plane(machine, access, kind, make=True)
                assert plane is not None
                part = np.broadcast_to(_part(value, kind, half), group.selection.shape)
                lost = np.broadcast_to(error, group.selection.shape)
                at = self._cells(group, access, size, k * (1 if half is None else 2) + (half or 0))
                chosen = slice(None) if access.active is None else np.broadcast_to(access.active, group.selection.shape)
                where = tuple([a[chosen] for a in at])
                plane[0][where], plane[1][where] = np.ascontiguousarray(part).view(f"u{size}")[chosen], lost[chosen]
                if access.allocation is not None:
                    self._note(
                        machine, group, instruction, [part], [error], part, lost, access.active, kind, stored=True
                    )

    def _load(self, machine: Machine, group: Group, instruction: Instruction, p: Pending) -> Errors:
        made: Errors = {}
        loads, self._loads = self._loads, []
        outputs = list(_elements(instruction.outputs))
        for access in loads if self._planes else ():
            for kind, half in ((k, h) for k in DTYPES for h in ((None, 0, 1) if DTYPES[k].itemsize == 2 else (None,))):
                size, plane = DTYPES[kind].itemsize, self._plane(machine, access, kind, make=False)
                if plane is None or size * (1 if half is None else 2) != access.nbytes // len(outputs):
                    continue
                for k, output in enumerate(outputs):
                    if output.register is None:
                        continue
                    slot = output.registers[0]
                    at = self._cells(group, access, size, k * (1 if half is None else 2) + (half or 0))
                    inside = [np.clip(a, 0, n - 1) for a, n in zip(at, plane[0].shape, strict=True)]
                    value = np.broadcast_to(_part(as_array(group.read(slot)), kind, half), group.selection.shape)
                    same = np.ascontiguousarray(value).view(f"u{size}") == plane[0][tuple(inside)]
                    if access.active is not None:
                        same = same & access.active
                    error = np.where(same, plane[1][tuple(inside)], 0.0)
                    before = made.get((slot, _name(kind, half)))
                    made[slot, _name(kind, half)] = error if before is None else before + error
        return made

    # ---- what is reported --------------------------------------------------------------------

    def _birth(self, group: Group, instruction: Instruction, kind: str) -> Birth:
        key = group.plan.name, instruction.span.line, instruction.text
        found = self.found.births.get(key)
        if found is None:
            source = instruction.source or ("", 0)
            found = self.found.births[key] = Birth(instruction.text, kind, instruction.span.line, source[0], source[1])
        return found

    def _note(
        self,
        machine: Machine,
        group: Group,
        instruction: Instruction,
        values: Sequence[Array],
        errors: Sequence[Array | None],
        got: Array,
        error: Array,
        active: Array | None,
        kind: str,
        *,
        stored: bool = False,
    ) -> None:
        """Count the errors of results, and look at the largest."""
        birth = self._birth(group, instruction, kind)
        birth.stored = stored
        relative = np.maximum(np.abs(got.astype(np.float64)), math.ldexp(1.0, LEAST[kind] + PRECISION[kind] - 1))
        relative = np.abs(np.divide(error, relative, out=relative if relative.shape == error.shape else None))
        if active is not None:
            relative = np.where(active, relative, 0.0)
        total = float(relative.sum())
        if not math.isfinite(total + float(got.sum())):
            relative = np.where(
                np.isfinite(got) | (error == 0), np.nan_to_num(relative, nan=0.0, posinf=np.inf), np.inf
            )
        birth.lanes += relative.size
        birth.total += total if math.isfinite(total) else 0.0
        top = int(relative.argmax()) if total else 0
        largest = float(relative.reshape(-1)[top])
        if not stored:
            self.found.step(largest)
        if instruction.form.root in SUMS and len(values) > 1 and not stored:
            birth.kinds["absorption"] += _absorbed(instruction.form.root, values, got)
        if largest > birth.largest:
            one = [float(np.broadcast_to(v, relative.shape).reshape(-1)[top]) for v in values]
            lost = [0.0 if e is None else float(np.broadcast_to(e, relative.shape).reshape(-1)[top]) for e in errors]
            value = float(np.broadcast_to(got, relative.shape).reshape(-1)[top])
            wrong = float(np.broadcast_to(error, relative.shape).reshape(-1)[top])
            birth.record(largest, value, wrong, one, lost, instruction.form.root)


def _absorbed(root: str, values: Sequence[Array], got: Array) -> int:
    """How many sums equal one of their terms although the other is not zero."""
    if len(values) == 3:
        terms = values[2], (values[0] != 0) & (values[1] != 0)
        same = (got == terms[0]) & terms[1] & (got != 0)
    else:
        a, b = values[0], values[1]
        same = ((got == a) & (b != 0) & (got != 0)) | (
            (np.abs(got) == np.abs(b)) & (a != 0) & (got != 0) & (np.abs(a) < np.abs(b))
        )
    return int(np.count_nonzero(same & np.isfinite(got.astype(np.float64))))


def _part(value: Array, kind: str, half: int | None) -> Array:
    """Values of a type, or of one half of the words that hold two."""
    dtype = DTYPES[kind]
    if half is None:
        return value if value.dtype == dtype else value.view(dtype)
    words = value if value.dtype == np.uint32 else value.view(np.uint32)
    return (words >> np.uint32(16 * half)).astype(np.uint16).view(dtype)


def _kind_of(name: str) -> tuple[str, int | None]:
    kind, _, half = name.removeprefix("error of ").partition(", half ")
    return kind, int(half) if half else None


def _error(root: str, values: list[Array], errors: list[Array | None], got: Array, rule: Rule) -> Array:
    """The error of a result: exact operands through the exact operation, less the result."""
    if rule.to != "f64":
        return error_of(EXACT[root](*[companion(v, e) for v, e in zip(values, errors, strict=True)]), got)
    lost = [np.zeros(1) if e is None else e for e in errors]
    doubled = DOUBLED.get(root)
    if doubled is None:
        return EXACT[root](*[companion(v, e) for v, e in zip(values, errors, strict=True)]) - got
    error = doubled(*values, *lost, got)
    return np.where(np.isfinite(error), error, 0.0)


def _elements(operands: Sequence[Operand]) -> list[Operand]:
    """Single operands, those of vectors one by one."""
    return [part for o in operands for part in (o.elements if o.elements is not None else (o,))]


def _data(instruction: Instruction) -> list[Operand]:
    """The sources that are values, one by one; of a store those stored."""
    return [o for o in _elements(instruction.inputs) if o.base is None]


def rule_of(group: Group, instruction: Instruction) -> Rule | None:
    """What an instruction does to companions; None where its results have none."""
    found = rounding_of(instruction.form, instruction.text, instruction.traits.access)
    if found is None:
        return None
    data = [] if found.does == "load" else _data(instruction)
    return Rule(
        found.does,
        found.kind,
        found.to,
        found.halves,
        tuple([value_getter(group.plan, o) for o in data]),
        guard_of(instruction),
    )
