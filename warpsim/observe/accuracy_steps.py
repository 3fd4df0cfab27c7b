"""Steps with shadows: nearly all instructions take a short way of their own, bound once for each launch.

Most launches compute on a few thousand lanes at a time, where calls cost more than arithmetic: an instruction that concerns no
floats pays one test, a plain operation (one element in each register, of all threads) a dozen calls of NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from warpsim.isa.exact import COMPARES, DTYPES, EXACT
from warpsim.isa.spec import Scope
from warpsim.machine.machine import Machine
from warpsim.machine.plan import Step
from warpsim.machine.state.group import Group
from warpsim.machine.values import as_array
from warpsim.numerics.arrays import F64, Array
from warpsim.observe.accuracy_values import (
    DECISION,
    NAMES,
    PARTS,
    Part,
    Pass,
    Passes,
    Recycled,
    Results,
    Rule,
    elements,
    part_of,
    shadow_value,
)
from warpsim.program.program import Instruction

MOVES = frozenset(("move", "select", "choose", "shuffle", "transpose", "decide", "compare"))
"""What gives no error where its sources have none."""
Decided = Callable[[Group, Instruction, Array], None]
"""Counts the threads that the shadow decides otherwise."""
NO_FILE: dict[int, Array] = {}
Note = Callable[[Results, Array, None, Array], "Array | None"]
"""Counts the errors of results, and gives them; None if there are none."""
Operated = Callable[[Results, Pass], "Array | None"]
"""Computes them before that."""


class Notes(NamedTuple):
    """What counts errors, and gives them; what computes them before that, by a pass."""

    counted: Note
    operated: Operated
    passes: Passes | None


Kept = dict[int, tuple[object, Array, Array]]
"""By register: what it holds, the errors of that, and the shadows."""


class Wholes:
    """The shadows of registers, values and errors together, each made once."""

    def __init__(self) -> None:
        self.arrays = Recycled()
        self.endless = False
        """Whether a value that is not finite may have had an error."""
        self._kept: dict[Part, Kept] = {}

    def of(self, part: Part) -> Kept:
        """Those of elements."""
        return self._kept.setdefault(part, {})

    def forget(self) -> None:
        """Forget all registers."""
        for kept in self._kept.values():
            kept.clear()


def _shadow(wholes: Wholes, kept: Kept, slot: int, held: object, value: Array, error: Array | None) -> Array:
    """The shadow of a register's element; the register holds ``held``."""
    if error is None:
        return value
    known = kept.get(slot)
    if known is None or known[0] is not held or known[1] is not error:
        plain = not wholes.endless and value.shape == error.shape
        whole = np.add(value, error, out=wholes.arrays.take(error.shape), dtype=F64) if plain else None
        known = kept[slot] = held, error, shadow_value(value, error) if whole is None else whole
    return known[2]


def plain_step(
    rule: Rule, instruction: Instruction, step: Step, usual: Step, notes: Notes, wholes: Wholes
) -> Step | None:
    """The step of a plain operation; None for another one."""
    rounding, root, rounded = rule.rounding, rule.root, rule.rounding.kind
    signs = getattr(instruction.form.function, "keywords", {})
    one = rounding.does == "compute" and rounding.count == len(instruction.outputs) == 1 and rule.guard is None
    if not one or rounded == "f64" or "negative_product" in signs or rule.rounds or rounding.limits is not None:
        return None
    part, slot, exactly, dtype = (rounded, 0), instruction.outputs[0].registers[0], EXACT[root], DTYPES[rounded]
    name, getters, kept = NAMES[part], rule.getters, wholes.of(part)
    slots = [-1 if o.register is None else o.register.index for o in rule.data]
    note, operated, passes = notes.counted, notes.operated, notes.passes
    upper, others = NAMES["bf16", 1], PARTS.keys() - {name}

    def computed(machine: Machine, group: Group) -> object:
        values = [get(machine, group) for get in getters]
        shadows, env = group.shadows, group.env
        if rounded == "f32" and upper in shadows:
            return usual(machine, group)  # a bf16 may stand in an f32
        file = shadows.get(name, NO_FILE)
        errors, held = [file.get(k) for k in slots], [env[k] for k in slots]
        step(machine, group)
        result = env[slot]
        got = result if isinstance(result, np.ndarray) else as_array(group.read(slot))
        if got.dtype != dtype:
            got = part_of(got, part)
        compiled, shadow = passes and passes.of(root, rounded, got.size), None
        if compiled:
            noted = operated(Results(group, instruction, values, errors, got, rounded), compiled)
        else:
            sources = [_shadow(wholes, kept, *one) for one in zip(slots, held, values, errors, strict=True)]
            shadow, error = _exact(exactly, sources, got, wholes)
            noted = note(Results(group, instruction, values, errors, got, rounded), error, None, shadow)
        if len(shadows) > 1 and not others.isdisjoint(shadows):
            without_errors(group, (slot,))
        if noted is None:
            group.set_shadow(name, slot, None)
            return None
        shadows.setdefault(name, {})[slot] = noted  # the register is there, and dirty: the step has written it
        if shadow is not None and noted.shape == shadow.shape:
            kept[slot] = result, noted, shadow
        return None

    return computed


def _exact(exactly: Callable[..., Array], sources: Sequence[Array], got: Array, wholes: Wholes) -> tuple[Array, Array]:
    """The shadows of results, and what results lack of them."""
    take, shape = wholes.arrays.take, got.shape
    for source in sources:
        if source.shape != shape:
            shape = np.broadcast_shapes(shape, source.shape)
    shadow = exactly(*sources, out=take(shape), dtype=F64)
    return shadow, np.subtract(shadow, got, out=take(shape), dtype=F64)


def compare_step(
    rule: Rule, instruction: Instruction, step: Step, usual: Step, decided: Decided, wholes: Wholes
) -> Step | None:
    """The step of a comparison of all threads, without a third operand; None for another one."""
    kind, compare = rule.rounding.kind, COMPARES.get(rule.rounding.to)
    if rule.rounding.does != "compare" or compare is None or rule.guard is not None or len(rule.data) != 2:
        return None
    part, name, getters = (kind, 0), NAMES[kind, 0], rule.getters
    slots = [-1 if o.register is None else o.register.index for o in rule.data]
    kept, outputs = wholes.of(part), [o.registers[0] for o in elements(instruction.outputs) if o.registers]
    others = PARTS.keys() - {name, NAMES[DECISION]}

    def compared(machine: Machine, group: Group) -> object:
        values = [get(machine, group) for get in getters]
        shadows, env = group.shadows, group.env
        if not others.isdisjoint(shadows):
            return usual(machine, group)  # a bf16 may stand in an f32
        file = shadows.get(name, NO_FILE)
        wide = [_shadow(wholes, kept, k, env[k], v, file.get(k)) for k, v in zip(slots, values, strict=True)]
        otherwise = None
        if wide[0] is not values[0] or wide[1] is not values[1]:
            otherwise = compare(*wide) ^ compare(*values)
            if otherwise.item(otherwise.argmax()):
                decided(group, instruction, otherwise)
            else:
                otherwise = None
        step(machine, group)
        for slot in outputs:
            group.set_shadow(NAMES[DECISION], slot, otherwise)
        return None

    return compared


def other_step(rule: Rule | None, instruction: Instruction, step: Step, usual: Step) -> Step:
    """The step of an operation that makes no errors of its own."""
    written = frozenset(instruction.writes)
    alone = instruction.form.scope is Scope.THREAD and not instruction.traits.access
    if instruction.guard is not None or (rule is None and not alone) or (rule and rule.rounding.does not in MOVES):
        return usual

    def exact(machine: Machine, group: Group) -> object:
        suspended = step(machine, group)
        for file in group.shadows.values():
            if not written.isdisjoint(file):
                without_errors(group, written)
                break
        return suspended

    def moved(machine: Machine, group: Group) -> object:
        return usual(machine, group) if group.has_shadows else step(machine, group)

    return exact if rule is None else moved


def without_errors(group: Group, registers: Iterable[int]) -> None:
    """Registers have no errors from now on."""
    for name in [name for name in group.shadows if name in PARTS]:
        for slot in registers:
            group.set_shadow(name, slot, None)
