"""How undefined bits pass through an instruction, with one rule per kind of instruction, and where they are reported."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import product
from typing import Any, cast

import numpy as np

from warpsim.analysis.undefined import deciding, moves_by, read_unwritten, scale_of
from warpsim.checks.difference import HIDDEN, WEAK, decide, hidden, in_grid, keep, leave, report_use
from warpsim.checks.undefined_memory import AtOnce, LeftMemory, UndefinedMemory, UndefinedTensor, anything_left, muted
from warpsim.checks.undefined_products import TILED, UndefinedMatrix, mma_rows, wgmma_rows
from warpsim.checks.undefined_registers import (
    CONTENTS,
    PADDING,
    RULE,
    lanes_of,
    ones,
    origins,
    travels,
    undefined,
    use_of,
    used_by,
)
from warpsim.graph.moves import Byte, Fate, Moves, dependence_of
from warpsim.graph.nodes import Untraceable
from warpsim.isa import integer, textures, warp
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Access, Ending, Family
from warpsim.machine.binding.operand_slots import commit_of, guard_of, source_getter, value_getter
from warpsim.machine.binding.ports import PORTS
from warpsim.machine.binding.warp_steps import collect, spread, warp_ports
from warpsim.machine.machine import Machine
from warpsim.machine.memory.addresses import Address
from warpsim.machine.plan import FunctionPlan
from warpsim.machine.reporting import present
from warpsim.machine.state.global_memory import LOCAL_WINDOW
from warpsim.machine.state.group import Group
from warpsim.machine.state.notes import Note
from warpsim.machine.state.word_space import WordSpace
from warpsim.machine.values import Array, Value, as_array, retype
from warpsim.program.program import Instruction, Operand
from warpsim.program.stored import derived
from warpsim.types import ScalarType

VOTES = (warp.vote_sync, warp.vote_ballot, warp.vote, warp.vote_unsynced_ballot)
SAMPLES = (textures.tex, textures.tld4)
Rule = Callable[["Machine", "Group", "Array | None"], dict[int, Array]]
"""Bits of the results of a step that are undefined, by destination register."""
KNOWN: Note[Known] = Note(RULE)
SCALE_D = "pass scale-d = false to the first wgmma of a sum, or zero the accumulators before its wgmma.fence"


class TransferFunction:
    """How undefined bits pass through one instruction; bound once per function."""

    def __init__(self, plan: FunctionPlan, instruction: Instruction) -> None:
        form, traits = instruction.form, instruction.traits
        self.plan, self.instruction, self.form = plan, instruction, form
        self.sources = instruction.inputs
        self.written = [r for o in instruction.outputs for r in o.registers]
        self.warps = form.scope is not Scope.THREAD
        self.wide = form.scope is Scope.WARPGROUP
        self.addresses = sorted({r for o in instruction.operands if o.base is not None for r in o.registers})
        self.decides = deciding(instruction)
        """The registers that decide what it does, and what they are used as."""
        data = {r for o in self.sources if o.base is None for r in o.registers}
        self.data = sorted(data - self.decides.keys())
        scale = scale_of(instruction)
        self.adds = None if scale is None else value_getter(plan, scale)
        """Of a wgmma: the threads that add to their accumulator."""
        self.guard = guard_of(instruction)
        self.guard_slot = instruction.guard[0].index if instruction.guard is not None else -1
        self.pure = not form.ports and not self.warps
        self.multiplies = traits.multiplies
        names = zip(form.operands, instruction.operands, strict=False)
        factors = {r for spec, o in names if spec.name in "abc" and not spec.dest for r in o.registers}
        self.factors = factors if traits.multiplies and (form.scope is Scope.WARP or self.adds) else set[int]()
        """Of a product: the registers of A, B and C, through which undefined bits pass."""
        self.tensor = "tensor" in form.ports
        self.surface = "textures" in form.ports and not form.n_dest
        self.stores = traits.stores or ((self.tensor or self.surface) and bool(self.data))
        self.metadata = _metadata(instruction)
        self.getters: list[Callable[[Machine, Group], Any]] = [source_getter(plan, o) for o in self.sources]
        self.commit = commit_of(instruction)
        self.moves_memory = traits.is_async(Family.CP_ASYNC) or (
            not form.ports.isdisjoint(("memory", "tensor", "textures")) and bool(form.n_dest)
        )
        """Whether what it reads from memory goes anywhere: to registers, or elsewhere in memory."""

    @cached_property
    def moves(self) -> Moves:
        """What it does with the bits of its sources."""
        return moves_by(self.instruction)

    @property
    def computes(self) -> bool:
        """Whether it does more than move bits, or combine those of the same place."""
        return self.commit is None or self.moves.fate is Fate.COMPUTED

    @cached_property
    def spread(self) -> Rule:
        """Its rule, found when something is undefined."""
        if self.form.function in TILED:
            return self._tiled
        if self.form.function in VOTES:
            return self._voted
        if self.stores or self.adds is not None or (self.multiplies and not self.factors):
            return lambda machine, group, active: {}
        if self.instruction.traits.access is Access.ATOMIC:
            return self._atomic
        if self.computes:
            return self._any
        return self._move if self.moves.fate is Fate.MOVED else self._bitwise

    def ports(
        self, machine: Machine, group: Group, active: Array | None, *, combines: bool = False, left: bool = False
    ) -> dict[str, Any]:
        """The ports of a body that is to move undefined bits: memory transfers such bits (``left``: by stores), and copies are done at
        once."""
        form, names = self.form, self.form.ports & {"memory", "async_groups", "bulk", "tensor", "textures"}
        ports = (
            warp_ports(machine, group, active, form)
            if self.warps
            else {p: PORTS[p](machine, group, active) for p in form.ports}
        )
        if not names:
            return ports
        if "tensor" in names:
            return {**ports, "tensor": UndefinedTensor(machine, group, active)}
        if "textures" in names:
            from warpsim.checks.undefined_textures import UndefinedTextures  # few programs have textures

            return {"textures": UndefinedTextures(machine, group, active, left=left)}
        kind = LeftMemory if left else UndefinedMemory
        memory = kind(machine, group, None if self.warps else active, combines=combines)
        return {**ports, **{name: memory if name == "memory" else AtOnce(memory) for name in names}}

    def committed(
        self, machine: Machine, group: Group, result: object, active: Array | None = None
    ) -> dict[int, Array]:
        """The undefined bits that a body gives to its destinations."""
        into = Into(group)
        if self.commit is not None:
            self.commit(machine, into, result, active)  # type: ignore[arg-type]
        found = into.bits(self.written)
        if self.form.function in SAMPLES:  # NaNs by now, where halves
            return {slot: ones(self.plan, slot, lanes_of(bits)) for slot, bits in found.items()}
        return found

    @cached_property
    def dependence(self) -> tuple[tuple[Byte, ...], ...] | None:
        """On which bytes of its sources each byte of its results depends; None if on all of them."""
        if not self.pure or any(o.elements is not None for o in self.sources):
            return None
        try:
            found = dependence_of(self.instruction.graph)
        except Untraceable:
            return None
        return found if found is not None and len(found) == len(self.written) else None

    def _by_bytes(self, group: Group, dependence: tuple[tuple[Byte, ...], ...]) -> dict[int, Array]:
        """A byte of a result is undefined if one on which it depends is."""
        held = [_unsigned(_bits_of(group, operand)) for operand in self.sources]
        bytes_of = [np.ascontiguousarray(bits)[..., None].view(np.uint8) != 0 for bits in held]
        made: dict[int, Array] = {}
        for slot, result in zip(self.written, dependence, strict=True):
            masks = [np.zeros(1, np.bool_)] * len(result)
            for at, (source, byte) in ((at, one) for at, depends in enumerate(result) for one in depends):
                masks[at] = masks[at] | bytes_of[source][..., byte]
            together = np.stack(np.broadcast_arrays(*masks), axis=-1)
            if together.any():
                kind = np.bool_ if self.plan.function.registers[slot].type.dtype.kind == "b" else f"u{len(result)}"
                made[slot] = (together * np.uint8(1 if kind is np.bool_ else 0xFF)).view(kind)[..., 0]
        return made

    def padding(self, group: Group, tainted: list[int]) -> Array | None:
        """A mask of the lanes in which what it moves from these registers may be padding of a structure; None if none is."""
        masks = [mask for slot in tainted if (mask := group.shadow(PADDING, slot)) is not None]
        if not masks or self.computes:
            return None
        found = functools.reduce(np.bitwise_or, masks)
        return np.ones(1, np.bool_) if self.warps else found

    def _any(self, machine: Machine, group: Group, active: Array | None) -> dict[int, Array]:
        """Any undefined bit makes all results undefined that depend on it."""
        if self.dependence is not None:
            return self._by_bytes(group, self.dependence)
        passing = [o for o in self.sources if not self.factors or self.factors.issuperset(o.registers)]
        mask = _lanes_with_any(group, tuple(passing))
        if mask is None:
            return {}
        if self.warps:
            warps = group.warps
            lanes = warps.spread(np.broadcast_to(mask, group.selection.shape)) & warps.active
            mask = as_array(warps.collect(np.broadcast_to(lanes.any(axis=1, keepdims=True), lanes.shape).copy()))
        return {slot: ones(self.plan, slot, mask) for slot in self.written}

    def _tiled(self, machine: Machine, group: Group, active: Array | None) -> dict[int, Array]:
        """Row by row and column by column."""
        held = [spread(group.warps, _bits_of(group, o), wide=False) for o in self.sources]
        result = collect(group.warps, mma_rows(self.instruction.op, *held), wide=False)  # type: ignore[arg-type]
        return self.committed(machine, group, result)

    def _voted(self, machine: Machine, group: Group, active: Array | None) -> dict[int, Array]:
        """What differs if all lanes whose vote is undefined say no, if all say yes, and if one does."""
        warps, everybody = group.warps, group.warps.active
        votes, *others = (spread(warps, get(machine, group), wide=False) for get in self.getters)
        unsure = (
            np.broadcast_to(spread(warps, _bits_of(group, self.sources[0]), wide=False), everybody.shape) & everybody
        )
        ports, defined = self.ports(machine, group, active), votes & ~unsure
        with muted(machine):
            none, every, one = (
                self.form.function(self.instruction.op, defined | yes, *others, **ports)
                for yes in (unsure & False, unsure, unsure & (unsure.cumsum(axis=1) == 1))
            )
        return self.committed(machine, group, collect(warps, (none ^ every) | (none ^ one), wide=False))

    def accumulated(self, machine: Machine, group: Group, written: WordSpace) -> dict[int, Array]:
        """The undefined bits of a wgmma's results."""
        warps = group.warps
        names = [spec.name for spec in self.form.operands if not spec.dest]
        given = [
            cast("Array", spread(warps, _bits_of(group, o) if name == "a" else get(machine, group), wide=True))
            for name, o, get in zip(names, self.sources, self.getters, strict=True)
        ]
        old = [undefined(group, slot) for slot in self.written]
        held = [spread(warps, np.zeros(1, np.uint32) if bits is None else bits, wide=True) for bits in old]
        stack = np.stack(np.broadcast_arrays(*held, np.zeros((warps.n // 4, 128, warps.m), np.uint32))[:-1])
        matrices = UndefinedMatrix(machine, group, written)
        bits = wgmma_rows(self.instruction.op, dict(zip(names, given, strict=True)), matrices, stack)
        new = [as_array(collect(warps, row, wide=True)) for row in bits]  # type: ignore[arg-type]
        return dict(zip(self.written, new, strict=True))

    def _move(self, machine: Machine, group: Group, active: Array | None) -> dict[int, Array]:
        """Run the body on the undefined bits, unless a source that decides where they go is undefined."""
        form, op, moved = self.form, self.instruction.op, self.moves.moved
        if _lanes_with_any(group, tuple(o for k, o in enumerate(self.sources) if k not in moved)) is not None:
            return self._any(machine, group, active)
        sources = enumerate(zip(self.sources, self.getters, strict=True))
        arguments = [_bits_of(group, o) if k in moved else get(machine, group) for k, (o, get) in sources]
        if form.scope is Scope.WARP:
            warps = group.warps
            ports: dict[str, Any] = {"active": warps.active, "report": lambda *_, **__: None}
            ports = {p: ports[p] for p in form.ports}
            result = form.function(op, *[warps.spread(a) for a in arguments], **ports)
            result = tuple([warps.collect(r) for r in result]) if isinstance(result, tuple) else warps.collect(result)
        else:
            result = form.function(op, *arguments, **{p: PORTS[p](machine, group, active) for p in form.ports})
        if isinstance(result, tuple) and form.n_dest == 2:  # d|p: the predicate depends only on what decides
            result = (result[0], np.zeros(1, np.bool_))
        return self.committed(machine, group, result)

    def _bitwise(self, machine: Machine, group: Group, active: Array | None) -> dict[int, Array]:
        """A result bit is undefined if flipping undefined source bits flips it."""
        form, op = self.form, self.instruction.op
        slots = [-1 if o.register is None else o.register.index for o in self.sources]
        values = [as_array(get(machine, group)) for get in self.getters]
        sources = list(zip(slots, values, [_bits_of(group, o) for o in self.sources], strict=True))
        unsure = list(dict.fromkeys(slot for slot, _, bits in sources if bits.any()))
        first, changed = form.function(op, *values), None
        for flips in product((False, True), repeat=len(unsure)):
            turned = {slot for slot, flip in zip(unsure, flips, strict=True) if flip}
            tried = [v ^ bits.view(v.dtype) if slot in turned else v for slot, v, bits in sources]
            differs = form.function(op, *tried) ^ first
            changed = differs if changed is None else changed | differs
        return self.committed(machine, group, changed)

    def _atomic(self, machine: Machine, group: Group, active: Array | None) -> dict[int, Array]:
        """Report an atomic's undefined operands in global memory; elsewhere they become part of memory, and of what is
        read from it. The result is the old value, however undefined the operands are."""
        address, operands = self.getters[0](machine, group), self.sources[1:]
        where = self._global_lanes(group, address)
        if where is not False:
            lanes = _both(where, active)
            moves = not {"exch", "cas"}.isdisjoint(self.instruction.op.modifiers)
            use = "the operand of an atomic on global memory"
            _report_value(machine, group, operands, lanes, use, moves=moves)
            self._keep(machine, group, address, operands, lanes)
        if where is None:
            return {}
        self._note_stored(machine, group, address, operands, _elsewhere(where, active))
        sources = zip(operands, self.getters[1:], strict=True)
        bits = [_bits_of(group, o) if o.base is None else get(machine, group) for o, get in sources]
        with muted(machine):
            ports = self.ports(machine, group, active, combines=True)
            old = self.form.function(self.instruction.op, address, *bits, **ports)
        return {} if old is None else self.committed(machine, group, old)

    def store(self, machine: Machine, group: Group, active: Array | None) -> Callable[[], None] | None:
        """Report a store of undefined bits to global memory. Returns what there is to do after the step: they are in shared and
        local memory. (Of matrices, the lanes of a warp store each other's bits.)"""
        if self.tensor:
            return self._store_tensor(machine, group, active)
        if self.surface:
            self._store_surface(machine, group, active)
            return None
        form, op, address, value = self.form, self.instruction.op, self.getters[0](machine, group), self.sources[1]
        where = False if self.warps else self._global_lanes(group, address)
        after = None
        if where is not False:
            lanes = _both(where, active)
            kind = "" if self.instruction.traits.order.strong else WEAK
            apart = hidden(machine, np.broadcast_to(address.places, group.selection.shape))
            _report_value(
                machine, group, (value,), lanes, "the value of a store to global memory", store=kind, apart=apart
            )
            after = functools.partial(self._keep, machine, group, address, (value,), lanes, apart)
            if apart is None:
                after = after()
        if where is None:
            return after
        parts = [_left_by(machine, group, part) for part in value.parts]
        leaves = parts[0] if value.elements is None else tuple(parts)
        computed = any(np.ascontiguousarray(part).view(np.uint8).any() for part in parts)
        given = [address, _bits_of(group, value), leaves, *(get(machine, group) for get in self.getters[2:])]
        if self.warps:
            given = [spread(group.warps, a, wide=False) for a in given]
        address, bits, aside, *others = given
        self._note_stored(machine, group, self.getters[0](machine, group), (value,), _elsewhere(where, active))

        def store() -> None:
            form.function(op, address, bits, *others, **self.ports(machine, group, active))
            if computed or anything_left(machine):
                form.function(op, address, aside, *others, **self.ports(machine, group, active, left=True))
            if after is not None:
                after()

        return store

    def _keep(
        self,
        machine: Machine,
        group: Group,
        address: Address,
        operands: tuple[Operand, ...],
        lanes: Array | None,
        apart: Array | None = None,
    ) -> None:
        """Note undefined bits that go to global memory, and leave them there where they stay undefined."""
        shape = group.selection.shape
        places, threads = np.broadcast_to(address.places, shape), in_grid(machine, group.selection.positions)
        for operand in operands:
            for k, part in enumerate(operand.parts):
                bits = None if part.register is None else undefined(group, part.register.index)
                if bits is not None and part.register is not None:
                    size = part.type.dtype.itemsize
                    read = np.broadcast_to(
                        bits if bits.dtype.kind in "bV" else retype(bits, np.dtype(f"u{size}")), shape
                    )
                    some = ... if lanes is None else np.broadcast_to(lanes, shape)
                    by = np.broadcast_to(threads, shape)[some]
                    padding = group.shadow(PADDING, part.register.index)
                    silent = None if padding is None else np.broadcast_to(padding, shape)[some]
                    moved = origins(machine).only_moved(group, part.register.index)
                    there = None if apart is None else apart[some]
                    keep(
                        machine,
                        self.instruction,
                        places[some] + k * size,
                        read[some],
                        by,
                        silent,
                        apart=there,
                        moved=moved,
                    )

    def _store_surface(self, machine: Machine, group: Group, active: Array | None) -> None:
        """Report a store of undefined bits to a surface, which is in global memory, by the lanes that are inside."""
        from warpsim.checks.undefined_textures import Storing

        port, moves = Storing(machine, group, active), self.form.function is not textures.sured
        with muted(machine):
            self.form.function(self.instruction.op, *(get(machine, group) for get in self.getters), textures=port)
        for lanes, address in port.stored:
            use = "the value of a store to a surface"
            _report_value(machine, group, self.sources[1:], lanes, use, moves=moves)
            self._keep(machine, group, address, self.sources[1:], lanes)

    def _store_tensor(self, machine: Machine, group: Group, active: Array | None) -> Callable[[], None]:
        """What there is to do after a store to tensor memory, whose data are the last operand."""
        arguments = [get(machine, group) for get in self.getters[:-1]]
        wide = [spread(group.warps, a, wide=False) for a in (*arguments, _bits_of(group, self.sources[-1]))]
        return lambda: self.form.function(self.instruction.op, *wide, **self.ports(machine, group, active))

    def _global_lanes(self, group: Group, address: Address) -> Any:
        """The lanes whose address is in global memory: None for all, False for none."""
        spaces = self.instruction.traits.spaces
        if "global" in spaces:
            return None
        if not {"shared", "local", "param"}.isdisjoint(spaces):
            return False
        mask = np.broadcast_to(address.places < LOCAL_WINDOW, group.selection.shape)
        return None if mask.all() else mask if mask.any() else False

    def _note_stored(
        self, machine: Machine, group: Group, address: Address, values: tuple[Operand, ...], lanes: Array | None
    ) -> None:
        """Note undefined registers that go to shared or local memory."""
        for slot, bits, _ in _undefined_parts(group, values):
            mask = lanes_of(bits) if lanes is None else lanes_of(bits) & lanes
            mask = np.broadcast_to(mask, group.selection.shape)
            origins(machine).stored(machine, group, self.instruction, address, mask, slot)

    def check_product(self, machine: Machine, group: Group, tainted: list[int], active: Array | None) -> None:
        """Report undefined operands of a product that do not pass through it; if none do, also an accumulator of wgmma, in the
        threads that add to it."""
        passing = self.factors if travels(machine.launch.settings.checks) else set[int]()
        for slot in (slot for slot in tainted if slot not in passing):
            bits = undefined(group, slot)
            assert bits is not None
            lanes = active
            if self.metadata is not None and self.metadata[0] == slot:
                warps = group.warps
                named = as_array(warps.collect(np.broadcast_to(self.metadata[1][:, None], warps.active.shape)))
                lanes = named if active is None else named & active
            report_use(machine, group, slot, bits, lanes, "a matrix operand")
        if self.adds is None or travels(machine.launch.settings.checks):
            return
        unwritten = [(slot, bits) for slot in self.written if (bits := undefined(group, slot)) is not None]
        if not unwritten:
            return
        adds = np.broadcast_to(as_array(self.adds(machine, group)).view(np.bool_), group.selection.shape)
        adds = adds if active is None else adds & active
        for slot, bits in unwritten:
            if (lanes_of(bits) & adds).any():
                report_use(machine, group, slot, bits, adds, "an accumulator of wgmma", SCALE_D)
                return


def _bits_of(group: Group, operand: Operand) -> Any:
    """A source operand's undefined bits, in the type with which the instruction reads it."""
    if operand.elements is not None:
        return tuple([_bits_of(group, e) for e in operand.elements])
    bits = None if operand.register is None else undefined(group, operand.register.index)
    dtype = operand.type.dtype
    if bits is None:
        return np.zeros(1, dtype)
    return bits if dtype.kind == "b" else retype(bits, dtype)


def _left_by(machine: Machine, group: Group, operand: Operand) -> Array:
    """The undefined bits of an element that are no padding of a structure. A byte may be, because loops copy structures by bytes, and what is
    moved from a register that nothing wrote: compilers make padding of it."""
    bits, register = as_array(_bits_of(group, operand)), operand.register
    if register is None or bits.itemsize == 1 or origins(machine).only_moved(group, register.index):
        return np.zeros(1, operand.type.dtype)
    mask = group.shadow(PADDING, register.index)
    return bits if mask is None else np.where(mask, np.zeros(1, bits.dtype), bits)


def _lanes_with_any(group: Group, operands: tuple[Operand, ...]) -> Array | None:
    """A mask of lanes in which any of these operands has an undefined bit; None if none has."""
    masks = [lanes_of(b) for o in operands for slot in o.registers if (b := undefined(group, slot)) is not None]
    return functools.reduce(np.bitwise_or, masks) if masks else None


class Into:
    """A group whose registers are replaced by their undefined bits."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.env: dict[int, Any] = {}
        self.dirty: set[int] = set()

    def read(self, slot: int) -> Array:
        """A register's undefined bits."""
        found = undefined(self.group, slot)
        if found is None:
            dtype = self.group.plan.function.registers[slot].type.dtype
            return np.zeros(1, f"u{dtype.itemsize}" if dtype.kind not in "bV" else dtype)
        return found

    def bits(self, slots: list[int]) -> dict[int, Array]:
        """What was written, as unsigned integers."""
        return {slot: _unsigned(self.env[slot]) for slot in slots if slot in self.env}


def _unsigned(value: Value) -> Array:
    array = as_array(value)
    return array if array.dtype.kind == "b" or array.dtype.itemsize > 8 else array.view(f"u{array.dtype.itemsize}")


def _elsewhere(where: Any, active: Array | None) -> Array | None:
    """The active lanes whose address is not in global memory."""
    return active if where is False else ~where if active is None else active & ~where


def _both(where: object, active: Array | None) -> Any:
    return where if active is None else active if where is None else where & active


def _undefined_parts(group: Group, operands: tuple[Operand, ...]) -> Iterator[tuple[int, Array, ScalarType]]:
    """The registers of operands that have undefined bits, these, and the type that is read."""
    for part in (part for operand in operands for part in operand.parts):
        bits = None if part.register is None else undefined(group, part.register.index)
        if bits is not None and part.register is not None:
            yield part.register.index, bits, part.type


def _report_value(
    machine: Machine, group: Group, operands: tuple[Operand, ...], lanes: Array | None, use: str,
    *, store: str = "", moves: bool = True, apart: Array | None = None
) -> None:  # fmt: skip
    """Report a value that leaves the thread with undefined bits, unless it only ``moves`` and they were loaded from beside written
    ones: compilers copy structures with their padding. Of a ``store``, as `report` says; ``apart``: the lanes that store where it stays
    undefined."""
    if CONTENTS in machine.launch.settings.checks:
        return
    for slot, bits, type in _undefined_parts(group, operands):
        read = bits if bits.dtype.kind in "bV" else retype(bits, np.dtype(f"u{type.dtype.itemsize}"))
        padding, unsure = group.shadow(PADDING, slot), lanes_of(read)
        if padding is not None and moves:
            unsure = unsure & ~padding
        if apart is not None:
            here = used_by(group, unsure, _both(lanes, apart))
            if here is not None and origins(machine).only_moved(group, slot):  # it differs, without a look
                leave(machine, group, here, use_of(machine, group, slot, use), present(group))
            else:
                report_use(machine, group, slot, unsure & apart, lanes, use, store=HIDDEN, nbytes=type.dtype.itemsize)
            unsure = unsure & ~apart
        report_use(machine, group, slot, unsure, lanes, use, store=store, nbytes=type.dtype.itemsize)


def _metadata(instruction: Instruction) -> tuple[int, Array] | None:
    """The register with the metadata of a sparse product, and a mask of the lanes of a warp that the selector names."""
    found = instruction.traits.metadata
    if found is None:
        return None
    words, selector = instruction.named[found.words].register, instruction.named[found.selector].constant
    if words is None or selector is None:
        return None
    return words.index, np.arange(32) % 4 // found.lanes == selector % (4 // found.lanes)


class Known:
    """What the rule knows about a function, for every launch."""

    def __init__(self, plan: FunctionPlan) -> None:
        given = {r.index for param in plan.function.params for r in param.registers}
        unwritten = derived(plan.function, "read unwritten", lambda: read_unwritten(plan.function))
        self.unwritten = sorted(unwritten - given)
        self.transfer_functions: dict[int, TransferFunction] = {}
        self._plan = plan
        self._loads: dict[int, dict[object, list[int]]] = {}

    @cached_property
    def _sums(self) -> dict[int, tuple[Operand, int]]:
        """The registers that are written once, as another such register plus a constant: which, and the constant."""
        code = self._plan.function.code
        writes, found = Counter(r for instruction in code for r in instruction.writes), {}
        for i in (i for i in code if i.form.function is integer.add and i.guard is None):
            to, base, constant = i.operands
            if (
                to.registers
                and constant.constant is not None
                and all(writes[r] == 1 for r in (*to.registers, *base.registers))
            ):
                half = 1 << i.op.type.bits - 1
                found[to.registers[0]] = base, (constant.constant + half) % (2 * half) - half
        return found

    def base_of(self, address: Operand) -> tuple[object, int]:
        """What an address in brackets begins with, and how far it is behind that."""
        base, offset = address.base, address.offset
        while base is not None and base.register is not None and base.register.index in self._sums:
            base, more = self._sums[base.register.index]
            offset += more
        return base if base is None or base.register is None else base.register.index, offset

    def loads(self, block: int) -> dict[object, list[int]]:
        """By base, the offsets of the loads of a block behind it, in ascending order."""
        found = self._loads.get(block)
        if found is None:
            found = self._loads[block] = defaultdict(list)
            for instruction in self._plan.blocks[block].instructions:
                if instruction.traits.access is Access.LOAD:
                    assert instruction.address is not None
                    base, offset = self.base_of(instruction.address)
                    found[base].append(offset)
            for offsets in found.values():
                offsets.sort()
        return found


def known_of(plan: FunctionPlan) -> Known:
    """What the rule knows about a function, cached."""
    found = plan.notes.get(KNOWN)
    if found is None:
        found = plan.notes[KNOWN] = Known(plan)
    return found


def transfer_of(plan: FunctionPlan, instruction: Instruction) -> TransferFunction:
    """How undefined bits pass through an instruction of a function."""
    transfer_functions = known_of(plan).transfer_functions
    found = transfer_functions.get(id(instruction))
    if found is None:
        found = transfer_functions[id(instruction)] = TransferFunction(plan, instruction)
    return found


def check_end(machine: Machine, group: Group, last: Instruction) -> None:
    """Report a branch on undefined bits."""
    ending = last.traits.ending
    slots = [o.register.index for o in last.operands if o.register is not None]
    uses = [(decide, last.guard[0].index)] if last.guard is not None else []
    if ending in (Ending.INDEXED_BRANCH, Ending.CALL):
        uses += [(report_use if ending is Ending.CALL else decide, slot) for slot in slots]
    for report, slot in uses:
        bits = undefined(group, slot)
        if bits is not None:
            report(machine, group, slot, bits, None, "the condition of a branch")
    if last.traits.ending is Ending.CALL:
        _enter(machine, group, last)
    elif last.traits.ending is Ending.RETURN and group.stack:
        caller, block = group.stack[-1][:2]
        results = [o.registers for o in caller.blocks[block].returns]
        given = [[r.index for r in p.registers] for p in group.plan.function.returns]
        _hand(machine, group, last, given, caller.name, results)


def _enter(machine: Machine, group: Group, call: Instruction) -> None:
    """Note the origins of undefined arguments of a function that is called by its name."""
    program = group.plan.kernel.program
    function = program.functions.get(program.aliases.get(call.callee, call.callee))
    if function is not None:
        given = [o.registers for o in call.operands[-1].parts]
        _hand(machine, group, call, given, function.name, [[r.index for r in p.registers] for p in function.params])


def _hand(
    machine: Machine, group: Group, last: Instruction, given: list[list[int]], name: str, taken: list[list[int]]
) -> None:
    """Note the origins of undefined registers that become registers of another function."""
    known = origins(machine)
    for sources, targets in zip(given, taken, strict=False):
        for source, target in zip(sources, targets, strict=False):
            if undefined(group, source) is not None:
                known.hand(name, target, known.read(machine, group, source, last))
