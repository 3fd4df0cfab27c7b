"""Blocks for converged warps: without masks, with uniform values as scalars."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from warpsim.native.codegen.builder import AFFINE, UNIFORM, VARYING, RegionBuilder
from warpsim.native.codegen.inputs import Inputs, key_type
from warpsim.native.codegen.steps import Steps
from warpsim.native.lowering.affine import first_of, strides_of, top_of, zeros_of
from warpsim.native.lowering.values import Val, scalar, width
from warpsim.native.regions.forms import Key
from warpsim.native.regions.region import BlockSlice, live_at, reachable

if TYPE_CHECKING:
    from warpsim.native.codegen.accesses import Accesses
    from warpsim.native.codegen.trail import Trail


class Slots:
    """The registers of a converged warp."""

    def __init__(self, builder: RegionBuilder) -> None:
        self.builder = builder
        self._places: dict[tuple[Key, int], str] = {}

    def form(self, key: Key) -> int:
        """A register's form."""
        return self.builder.kinds.form(key)

    def _type(self, key: Key) -> str:
        return key_type(self.builder.region, key)

    def _place(self, key: Key, part: int) -> str:
        found = self._places.get((key, part))
        if found is None:
            type = self._type(key)
            whole = f"<32 x {type}>" if self.form(key) == VARYING else type
            found = self._places[key, part] = self.builder.code.slot(whole)
        return found

    def parts(self, key: Key) -> list[tuple[str, str]]:
        """The slots of a register, with their types."""
        type = self._type(key)
        if self.form(key) == VARYING:
            return [(self._place(key, 0), f"<32 x {type}>")]
        known = self._strides(key)
        return [(self._place(key, k), type) for k in range(3) if k == 0 or known[k - 1] is None]

    def _strides(self, key: Key) -> tuple[int | None, int | None]:
        return self.builder.kinds.strides.get(key, (0, 0))

    def get(self, key: Key) -> Val:
        """Load a register."""
        code, type = self.builder.code, self._type(key)
        self.builder.kinds.read(key)
        loads = [code.load(t, p) for p, t in self.parts(key)]
        if self.form(key) == VARYING:
            return Val(type, loads[0], uniform=False)
        zeros, top = self.builder.kinds.limits.get(key, (0, 64))
        if self.form(key) == UNIFORM:
            return Val(type, loads[0], uniform=True, zeros=zeros, top=top)
        rest = iter(loads[1:])
        x, y = (scalar(type, next(rest)) if s is None else code.number(s, type) for s in self._strides(key))
        return Val(type, loads[0], uniform=False, strides=(x, y), zeros=zeros, top=top)

    def put(self, key: Key, value: Val) -> None:
        """Store a register."""
        code, kinds = self.builder.code, self.builder.kinds
        kinds.widen(key, AFFINE if value.strides is not None else UNIFORM if value.uniform else VARYING)
        form = self.form(key)
        if form != VARYING:
            kinds.limit(key, zeros_of(value), top_of(value))
        if form == AFFINE:
            x, y = strides_of(code, value)
            kinds.stride(key, (_signed(x), _signed(y)))
            first, places = first_of(value), self.parts(key)
            dynamic = [s for s, known in zip((x, y), self._strides(key), strict=True) if known is None]
            for (place, type), part in zip(places, (first, *dynamic), strict=True):
                code.store(type, part.text, place)
            return
        if form == VARYING:
            value = code.splat(value)
        for place, type in self.parts(key):
            code.store(type, value.text, place)

    def clear(self, key: Key) -> None:
        """Zero a register."""
        for place, type in self.parts(key):
            self.builder.code.store(type, "zeroinitializer", place)


def _signed(stride: Val) -> int | None:
    if stride.known is None:
        return None
    n = int(stride.type[1:])
    return stride.known - (1 << n) if stride.known >> (n - 1) else stride.known


class Converged:
    """Emits the blocks ``converged<number>``; a region that begins inside a block begins with ``converged_entry``."""

    def __init__(
        self,
        builder: RegionBuilder,
        inputs: Inputs,
        access: Accesses,
        trail: Trail,
        split: Callable[[BlockSlice, Val], None],
    ) -> None:
        self.builder, self.code, self.inputs, self.trail, self._split = builder, builder.code, inputs, trail, split
        self.slots = Slots(builder)
        self.steps = Steps(builder, inputs, access, self.slots.get, converged=True)
        self.frame_bytes = 0
        self._frames: dict[int, list[tuple[str, str, int]]] = {}

    def _name(self, block: int) -> str:
        return f"converged{block}"

    @property
    def here(self) -> Val:
        """The warp's mask."""
        return scalar("i32", self.builder.mask)

    # ---- where warps begin ------------------------------------------------------------------------

    def start(self) -> None:
        """Initialise the registers of a warp."""
        builder, code, region = self.builder, self.code, self.builder.region
        code.speculate = self.steps.speculate if builder.variant.strides else None
        live_ins = self.inputs.slotted()
        given = {key for key, _ in live_ins}
        for key, value in live_ins:
            self.slots.put(key, value)
        for slot in sorted(builder.written & region.live_across - given):
            self.slots.clear(slot)
        whole = region.slices.get(region.entry.block) is region.entry
        code.line(f"br label %{self._name(region.entry.block) if whole else 'converged_entry'}")

    def resume(self) -> None:
        """Dispatch a warp to the barrier behind which it resumes."""
        builder, code = self.builder, self.code
        code.label("again")
        pointer = code.at(builder.words["states"], "i32", builder.now_member)
        state = code.load("i32", pointer)
        cases = " ".join(f"i32 {k}, label %resume{k}" for k in range(len(builder.region.barriers)))
        code.line(f"switch i32 {state}, label %passed [ {cases} ]")

    # ---- blocks -----------------------------------------------------------------------------------

    def blocks(self) -> None:
        """Emit all blocks, and the exits where blocks begin."""
        builder, code, region = self.builder, self.code, self.builder.region
        for number in range(len(region.all())):
            self.block(number)
        for block, at in region.exits:
            if at == 0 and block not in region.slices:
                code.label(self._name(block))
                self.trail.leave(builder.exits[block, 0])
                builder.leave(builder.exits[block, 0], self.slots_value)
        code.speculate = None

    def block(self, number: int) -> None:
        """Emit a slice by its number."""
        builder, code, slice_ = self.builder, self.code, self.builder.region.all()[number]
        block = slice_.block
        code.speculate = self.steps.speculate if builder.variant.strides else None
        if builder.region.slices.get(block) is not slice_:
            code.label("converged_entry")
            self._body(slice_)
            return
        code.label(self._name(block))
        builder.check_limit(block, lambda: builder.leave(builder.exits[block, 0], self.slots_value))
        builder.count(block, builder.mask)
        builder.passes(block)
        self._body(slice_)

    def slots_value(self, slot: int) -> Val:
        """A register at a block boundary."""
        found = self.inputs.fixed.get(slot)
        return found if found is not None else self.slots.get(slot)

    def _body(self, slice_: BlockSlice) -> None:
        builder, code = self.builder, self.code
        self.steps.current, builder.counters.straight = {}, {}
        dirty: dict[int, None] = {}
        self.trail.begin(slice_.block, slice_.first)
        for at, instruction in enumerate(builder.instructions(slice_), slice_.first):
            if (slice_.block, at) in builder.barriers:
                self._settle(dirty)
                self.trail.end(at)
                self.arrive(builder.barriers[slice_.block, at])
                if self._duplicated(slice_, at):
                    return
                self._resumed(builder.barriers[slice_.block, at], slice_.block, at)
                self.trail.begin(slice_.block, at)
                dirty, self.steps.current, builder.counters.straight = {}, {}, {}
                continue
            for slot in self.steps.step(slice_.block, at, instruction, self.here):
                dirty[slot] = None
        guard = self.steps.condition(slice_.guard) if slice_.ends and slice_.guard is not None else None
        self._settle(dirty)
        self.trail.end(len(builder.plan.blocks[slice_.block].instructions) if slice_.ends else slice_.last)
        if not slice_.ends:
            self.trail.leave(builder.exits[slice_.block, slice_.last])
            builder.leave(builder.exits[slice_.block, slice_.last], self.slots_value)
            return
        if slice_.has_back_edge:
            builder.count_back_edge(lambda: builder.leave(builder.exits[slice_.block, slice_.last], self.slots_value))
        if guard is None:
            target = slice_.target if slice_.target is not None else slice_.following
            assert target is not None
            code.line(f"br label %{self._name(target)}")
        else:
            self._branch(slice_, guard)

    def _settle(self, dirty: dict[int, None]) -> None:
        for slot in dirty:
            if slot in self.builder.region.live_across:
                self.slots.put(slot, self.steps.current[slot])

    def _branch(self, slice_: BlockSlice, guard: Val) -> None:
        builder, code = self.builder, self.code
        assert slice_.target is not None
        assert slice_.following is not None
        yes, no = self._name(slice_.target), self._name(slice_.following)
        if guard.uniform:
            code.branch(guard.text, yes, no)
            return
        taken = self.steps.among(guard, self.here)
        some, part = code.fresh("some"), code.fresh("part")
        none = code.make(f"icmp eq i32 {taken.text}, 0")
        code.branch(none, no, some)
        code.label(some)
        every = code.make(f"icmp eq i32 {taken.text}, {builder.mask}")
        code.branch(every, yes, part)
        code.label(part)
        self.trail.leave_off()
        builder.counters.branched(slice_.block, builder.mask, taken.text)
        builder.kinds.diverge(reachable(builder.region, slice_.successors))
        self._split(slice_, taken)

    # ---- barriers ---------------------------------------------------------------------------------

    def _duplicated(self, slice_: BlockSlice, at: int) -> bool:
        """Whether the code after the barrier is emitted with the whole block too, in a region that begins inside a block
        of a loop."""
        other = self.builder.region.slices.get(slice_.block)
        return other is not None and other is not slice_ and other.first <= at < other.last

    def arrive(self, number: int) -> None:
        """A warp arrives at a barrier: save its registers, which are in their slots."""
        builder, code = self.builder, self.code
        frame = self._frame(number)
        base = self._own_frame()
        for place, type, offset in frame:
            pointer = code.at(base, "i8", offset)
            value = code.load(type, place)
            if type == "<32 x i1>":
                value, type = code.make(f"bitcast <32 x i1> {value} to i32"), "i32"
            elif type == "i1":
                value, type = code.make(f"zext i1 {value} to i8"), "i8"
            code.store(type, value, pointer, 8)
        for at, place in enumerate((builder.back_edge_count, builder.path)):
            pointer = code.at(base, "i64", at)
            code.store("i64", code.load("i64", place), pointer, 8)
        state = code.at(builder.words["states"], "i32", builder.now_member)
        code.store("i32", number, state)
        waiting = code.load("i64", builder.waiting)
        code.store("i64", code.make(f"add i64 {waiting}, 1"), builder.waiting)
        first = code.make(f"icmp eq i64 {waiting}, 0")
        known = code.load("i32", builder.place)
        same = code.make(f"icmp eq i32 {known}, {number}")
        good = code.make(f"or i1 {first}, {same}")
        code.store("i32", code.make(f"select i1 {good}, i32 {number}, i32 -2"), builder.place)
        code.line("br label %done")

    def _own_frame(self) -> str:
        builder, code = self.builder, self.code
        size = builder.word("frame_bytes")
        offset = code.make(f"mul i64 {builder.now_member}, {size}")
        return code.at(builder.words["frames"], "i8", offset)

    def kept(self, number: int) -> list[Key]:
        """The registers that are live at a barrier."""
        builder, region = self.builder, self.builder.region
        block, at = region.barriers[number]
        live = live_at(builder.plan, block, at, keeps=builder.region.keeps)
        slotted = [
            *[k for k in region.reads if k not in self.inputs.fixed],
            *sorted(builder.written & region.live_across),
        ]
        return [
            k for k in dict.fromkeys(slotted) if not isinstance(k, int) or k in live or k >= builder.plan.n_registers
        ]

    def _frame(self, number: int) -> list[tuple[str, str, int]]:
        """The frame of a barrier: slots, their types, and offsets."""
        found = self._frames.get(number)
        if found is None:
            found, at = [], 16
            for key in self.kept(number):
                for place, type in self.slots.parts(key):
                    found.append((place, type, at))
                    lanes, element = (32, type[6:-1]) if type.startswith("<") else (1, type)
                    at += max(-(-width(element) * lanes // 64), 1) * 8
            self.frame_bytes = max(self.frame_bytes, -(-at // 64) * 64)
            self._frames[number] = found
        return found

    def _resumed(self, number: int, block: int, at: int) -> None:
        builder, code = self.builder, self.code
        code.label(f"resume{number}")
        base = self._own_frame()
        for place, type, offset in self._frame(number):
            pointer = code.at(base, "i8", offset)
            if type == "<32 x i1>":
                raw = code.load("i32", pointer, 8)
                value = code.make(f"bitcast i32 {raw} to <32 x i1>")
            elif type == "i1":
                value = code.make(f"trunc i8 {code.make(f'load i8, ptr {pointer}, align 8')} to i1")
            else:
                value = code.load(type, pointer, 8)
            code.store(type, value, place)
        for number_, place in enumerate((builder.back_edge_count, builder.path)):
            pointer = code.at(base, "i64", number_)
            code.store("i64", code.make(f"load i64, ptr {pointer}, align 8"), place)
        with code.when(code.load("i1", builder.leaving), leaves=True):
            builder.count_back(block, at, builder.mask)
            builder.leave(builder.exits[block, at], self.slots_value)

    # ---- from diverged warps ----------------------------------------------------------------------

    def reconverge(self, keys: Iterable[Key], values: Callable[[Key], Val], failed: str) -> None:
        """Reconverge: store registers of lanes into the slots, or branch to ``failed`` where the slot's kind does not
        hold them."""
        code, builder = self.code, self.builder
        ready: list[tuple[Key, Val]] = []
        good = "true"
        for key in keys:
            value: Val = values(key)
            builder.kinds.read(key)
            form = self.slots.form(key)
            if form == VARYING or value.uniform:
                ready.append((key, value))
                continue
            whole = f"<32 x {value.type}>"
            first = scalar(value.type, code.make(f"extractelement {whole} {value.text}, i32 0"))
            made = first
            if form == AFFINE:
                strides = []
                for lane, known in zip((1, code.row), builder.kinds.strides.get(key, (0, 0)), strict=True):
                    if known is not None or lane >= 32 or (lane == 1 and code.row == 1):
                        strides.append(code.number(known or 0, value.type))
                        continue
                    other = code.make(f"extractelement {whole} {value.text}, i32 {lane}")
                    strides.append(scalar(value.type, code.make(f"sub {value.type} {other}, {first.text}")))
                made = Val(value.type, first.text, uniform=False, strides=(strides[0], strides[1]))
            same = code.op("icmp eq", code.splat(made), value, type="i1")
            bits = code.make(f"bitcast {code.of(same)} to i32")
            # Lanes that the warp does not have hold anything.
            lacking = code.make(f"or i32 {bits}, {code.make(f'xor i32 {builder.mask}, -1')}")
            one = code.make(f"icmp eq i32 {lacking}, -1")
            good = one if good == "true" else code.make(f"and i1 {good}, {one}")
            ready.append((key, made))
        if good != "true":
            on = code.fresh("on")
            code.branch(good, on, failed)
            code.label(on)
        for key, value in ready:
            self.slots.put(key, value)
