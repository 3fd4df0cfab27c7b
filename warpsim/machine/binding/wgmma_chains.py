"""Chains of ``wgmma``: between a fence and a commit compilers emit several products on the same accumulators, with nothing but the
arithmetic of their descriptors between them.

A group runs these steps without yielding, and nothing between them reads what they change, so nobody can tell whether they start one
by one: all but the last do nothing, and the last starts them all. Where somebody follows single steps or has something to report,
each starts by itself, at its own place.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsim.isa.spec import Scope
from warpsim.isa.wgmma import STORAGE, columns, mma_float
from warpsim.machine.asynchrony import wgmma
from warpsim.machine.asynchrony.wgmma_chains import Chain, Tiles
from warpsim.machine.binding.operand_slots import value_getter
from warpsim.machine.binding.warp_steps import Accumulators, spread
from warpsim.machine.machine import Machine
from warpsim.machine.plan import ATTEND, FunctionPlan, Issue, Step
from warpsim.machine.selection import Warps
from warpsim.machine.state.batch import Wgmma
from warpsim.machine.state.group import Group
from warpsim.machine.values import FLAT, Affine, Array, Value, as_array
from warpsim.program.program import Instruction

SIGNED = "imm_scale_a", "imm_scale_b"
IMMEDIATES = (*SIGNED, "imm_trans_a", "imm_trans_b")
KEPT = 1 << 22
"""How many addresses a chain keeps; a set of descriptors counts for `LEAST` at least."""
LEAST = 1024
_LOW = (1 << 64) - 1


def chain_products(plan: FunctionPlan, instructions: tuple[Instruction, ...], steps: list[Step]) -> None:
    """Replace the steps of the chains among instructions of a block."""
    for places in _runs(plan, instructions):
        all = frozenset().union(*(i.registers for i in instructions[places[0] : places[-1] + 1]))
        link = Links(plan, tuple(places), [instructions[k] for k in places], [steps[k] for k in places], all)
        for place in places[:-1]:
            steps[place] = link.waiting(steps[place], first=place == places[0])
        steps[places[-1]] = link.last


def _runs(plan: FunctionPlan, instructions: tuple[Instruction, ...]) -> Iterator[list[int]]:
    """The places of the products of each chain."""
    run: list[int] = []
    used: set[int] = set()
    """Registers that a product of the chain reads, except its accumulators."""
    for place, instruction in enumerate(instructions):
        product = _may_chain(instruction)
        if run and not (
            (product and _alike(instructions[run[0]], instruction))
            or (not product and is_plain(instruction, plan, used))
        ):
            if len(run) > 1:
                yield run
            run, used = [], set()
        if product:
            run.append(place)
            used.update(set(instruction.reads) - set(instruction.operands[0].registers))
    if len(run) > 1:
        yield run


def _may_chain(instruction: Instruction) -> bool:
    function = instruction.form.function
    if getattr(function, "__wrapped__", function) is not mma_float or "sp" in instruction.op.modifiers:
        return False
    named = instruction.named
    d, a = (set(instruction.operands[k].registers) for k in range(2))
    return (
        instruction.guard is None
        and d.isdisjoint(a)
        and all(name not in named or named[name].constant == 1 for name in SIGNED)
        and all(o.register is not None for name in ("a_desc", "b_desc") if (o := named.get(name)) is not None)
    )


def _alike(first: Instruction, other: Instruction) -> bool:
    """Whether a product continues a chain: only descriptors, scale-d and the registers of A may differ."""
    immediates = (
        (None if (o := i.named.get(name)) is None else o.constant for name in IMMEDIATES) for i in (first, other)
    )
    return (
        first.op.text == other.op.text
        and first.operands[0].registers == other.operands[0].registers
        and ("a" in first.named) == ("a" in other.named)
        and [*next(immediates)] == [*next(immediates)]
    )


def is_plain(instruction: Instruction, plan: FunctionPlan, used: set[int]) -> bool:
    """Whether it only computes registers from others, none of them any that products use."""
    form, traits = instruction.form, instruction.traits
    return (
        form.scope is Scope.THREAD
        and not form.ports
        and not any((traits.asynchronous, traits.fence, traits.ending, traits.stop, traits.access, traits.barrier))
        and not (traits.sleeps or traits.register_count or traits.synchronises)
        and not instruction.touches(plan.wgmma_rows.keys())
        and used.isdisjoint(instruction.writes)
    )


def _spread(warps: Warps, value: Value) -> Array:
    found = spread(warps, value, wide=True)
    assert not isinstance(found, tuple)
    return found


class Links:
    """The products of a chain."""

    def __init__(
        self, plan: FunctionPlan, places: tuple[int, ...], instructions: list[Instruction], steps: list[Step],
        registers: frozenset[int]
    ) -> None:  # fmt: skip
        self.places, self.instructions, self.steps = places, instructions, steps
        self.registers = registers
        """Those of the products and of what stands between them."""
        self.issues: tuple[Issue, ...] = tuple(plan.issues[id(i)] for i in instructions)
        self.slots = tuple({slot: None for issue in self.issues for slot in issue.slots_other})
        self.rows_a = np.concatenate([issue.rows_a for issue in self.issues])
        first = instructions[0]
        named = [i.named for i in instructions]
        self.by_registers = "a" in first.named
        names = ("b_desc",) if self.by_registers else ("a_desc", "b_desc")
        self.descriptors = [slot for each in named for name in names for slot in each[name].registers]
        self.scales = [value_getter(plan, each["scale_d"]) for each in named]
        self.lefts = [[value_getter(plan, e) for e in each["a"].elements or ()] for each in named if self.by_registers]
        self.accumulators = Accumulators(first.operands[0])
        self.dtype = np.dtype(STORAGE[first.op.atype.name])
        size = self.dtype.itemsize
        self.shapes = [
            (32 // size, extent, size, (t := first.named.get(f"imm_trans_{name[0]}")) is not None and t.constant == 1)
            for name, extent in (("a_desc", 64), ("b_desc", columns(first.op)))
            if name in names
        ]
        self._tiles: dict[object, Tiles] = {}
        self._kept = 0

    # ---- steps -------------------------------------------------------------------------------

    def waiting(self, step: Step, *, first: bool) -> Step:
        """The step of a product that is not the last."""

        def begins(machine: Machine, group: Group) -> object:
            if self._may_wait(machine, group):
                group.chain = self
                return None
            return step(machine, group)

        def follows(machine: Machine, group: Group) -> object:
            return None if group.chain is self else step(machine, group)

        return begins if first else follows

    def last(self, machine: Machine, group: Group) -> object:
        """The step of the last one."""
        if group.chain is not self:
            return self.steps[-1](machine, group)
        group.chain = None
        return None if self._start(machine, group) else self._one_by_one(machine, group)

    def _may_wait(self, machine: Machine, group: Group) -> bool:
        launch, selection = machine.launch, group.selection
        return (
            machine.hooks.chains
            and launch.schedule is None
            and launch.settings.async_effects != "at_wait"
            and not launch.settings.by_warp
            and selection.whole_warpgroups
            and group.warps.dense
            and not (group.has_shadows and group.shadowed(self.registers))
            and machine.bodies is not None
            and machine.bodies.chained(self.instructions[0], launch.device) is not None
        )

    def _one_by_one(self, machine: Machine, group: Group) -> object:
        """Start each at its own place, with the events of shadows around it that `Run` gives."""
        hooks, found = machine.hooks, None
        for place, instruction, step in zip(self.places, self.instructions, self.steps, strict=True):
            group.at = place
            shadowed = group.may_read_shadows(hooks.shadows)
            if shadowed and hooks.shadowed_before is not None:
                hooks.shadowed_before(machine, group, instruction)
            found = step(machine, group)
            if found is not None and found is not ATTEND:
                return found
            found = ATTEND if shadowed or found else None
            if found and hooks.shadowed_after is not None and place != self.places[-1]:
                hooks.shadowed_after(machine, group, instruction)
        return found

    # ---- together ----------------------------------------------------------------------------

    def _start(self, machine: Machine, group: Group) -> bool:
        """Start them together; False, with nothing done, if they have to start one by one."""
        warps, hooks, bodies = group.warps, machine.hooks, machine.bodies
        multiply = None if bodies is None else bodies.chained(self.instructions[0], machine.launch.device)
        tiles = self._read(machine, group)
        if multiply is None or tiles is None or tiles.tables is None:
            return False
        if max(high for _, high in tiles.limits) > machine.batch.shared.size:
            return False
        state, places = wgmma.state_of(machine), group.selection.warpgroup_places
        tickets = state.issued[places] + len(self.places)
        taken = np.zeros(state.n_columns, np.int64)
        taken[places] = tickets
        chain = Chain(self.issues, self.places, self.slots, self.rows_a, tiles, taken)
        if hooks.wgmma_chain_met is not None:
            hooks.wgmma_chain_met(machine, group, chain)
            if chain.followed:
                return False
        if hooks.wgmma_chain_started is not None:
            hooks.wgmma_chain_started(machine, group, chain)
        keep: Array = np.empty((len(self.places), warps.n // 4, warps.m), np.uint8)
        for k, scale in enumerate(self.scales):
            value = scale(machine, group)
            keep[k] = value.item() if value.size == 1 else _spread(warps, value)[:, 0]
        lefts = [tuple([_spread(warps, get(machine, group)) for get in each]) for each in self.lefts]
        given = self.accumulators.read(machine, group)
        result = multiply(given, lefts, tiles.tables, machine.batch.shared.flat, warps.owners, keep)
        self.accumulators.write(machine, group, result, None)
        state.issued[places] = tickets
        self._use(state, group, tickets)
        return True

    def _use(self, state: Wgmma, group: Group, tickets: Array) -> None:
        use, places = state.use(group.plan), group.selection.warpgroup_places
        use.accumulator[self.issues[0].accumulators(places)] = tickets
        if len(self.rows_a):
            for back, issue in enumerate(reversed(self.issues)):
                use.operand[issue.rows_a[:, None], group.selection.warpgroups] = tickets - back

    def _read(self, machine: Machine, group: Group) -> Tiles | None:
        """What the descriptors name; None if threads disagree."""
        warps, env, key = group.warps, group.env, tuple[object, ...]()
        arrays: list[Array] = []
        for slot in self.descriptors:
            value = env[slot]
            if value is None:
                value = group.fetch(slot)
            if type(value) is Affine and value.strides == FLAT:
                key += (value.base & _LOW,)
                continue
            full = _spread(warps, as_array(value).view(np.uint64))
            if full.strides[1] and (full != full[:, :1]).any():
                return None
            arrays.append(full[:, 0])
            key += ((arrays[-1].shape, arrays[-1].tobytes()),)
        extent, n_columns = (warps.n // 4, warps.m), machine.batch.shape.n_ctas
        whole = key, extent, n_columns
        found = self._tiles.get(whole)
        if found is None:
            rest = iter(arrays)
            bits = [np.array([[k]], np.uint64) if type(k) is int else next(rest) for k in key]
            found = Tiles.of(bits, self.shapes, n_columns, extent)
            size = max(LEAST, sum(chunks.size for chunks in found.chunks))
            if self._kept + size > KEPT:
                self._tiles.clear()
                self._kept = 0
            self._tiles[whole] = found
            self._kept += size
        return found
