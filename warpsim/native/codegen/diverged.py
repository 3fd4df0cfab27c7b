"""Blocks for diverged warps: the lowest block with pending lanes runs first, as in the interpreter.

Registers are vectors, written under a mask. Where all lanes are pending at one block again, the warp reconverges, if
the kinds of its registers allow it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from warpsim.native.codegen.inputs import Inputs, key_type
from warpsim.native.codegen.steps import Steps
from warpsim.native.lowering.values import Val, scalar
from warpsim.native.regions.forms import Key
from warpsim.native.regions.region import BlockSlice, live_at
from warpsim.native.runtime.context import CONTEXT, MIXED, UNREACHABLE

if TYPE_CHECKING:
    from warpsim.native.codegen.accesses import Accesses
    from warpsim.native.codegen.builder import RegionBuilder
    from warpsim.native.codegen.converged import Converged


class Diverged:
    """Emits the blocks ``diverged<number>`` in program order. The mask of pending lanes of each block is in memory: as
    SSA values, each would need a phi in all blocks before its own."""

    def __init__(self, builder: RegionBuilder, inputs: Inputs, access: Accesses, converged: Converged) -> None:
        self.builder, self.code, self.inputs, self.converged = builder, builder.code, inputs, converged
        self.steps = Steps(builder, inputs, access, self.get, converged=False)
        region, code = builder.region, builder.code
        self.slots: dict[Key, tuple[str, str, bool]] = {}
        blocks = builder.kinds.diverging
        outside = {b for b, at in region.exits if at == 0 and b not in region.slices}
        self.diverging = sorted((blocks & set(region.slices)) | (blocks & outside))
        self._masks = code.slot(f"[{max(len(self.diverging), 1)} x i32]")
        self._numbers = {b: k for k, b in enumerate(self.diverging)}
        if self.diverging:  # escapes, or SROA would promote it
            word = f"%{code.fresh()}"
            code.entry.append(f"  {word} = getelementptr i64, ptr %ctx, i64 {CONTEXT['pending']}")
            code.entry.append(f"  store ptr {self._masks}, ptr {word}")
        self.exits: set[int] = set()
        self.stop_id, self.stop_mask = code.slot("i32"), code.slot("i32")

    # ---- registers --------------------------------------------------------------------------------

    def _place(self, key: Key) -> tuple[str, str, bool]:
        found = self.slots.get(key)
        if found is None:
            type = key_type(self.builder.region, key)
            uniform = isinstance(key, int) and key not in self.builder.varying
            found = self.slots[key] = (self.code.slot(self.code.typed(type, uniform=uniform)), type, uniform)
        return found

    def get(self, key: Key) -> Val:
        """What a register holds where a block begins."""
        pointer, type, uniform = self._place(key)
        return Val(type, self.code.load(self.code.typed(type, uniform=uniform), pointer), uniform)

    def _put(self, key: Key, value: Val, mask: Val | None) -> None:
        pointer, _, uniform = self._place(key)
        if not uniform:
            value = self.code.splat(value)
        if mask is not None and not uniform:
            value = self.code.select(mask, value, self.get(key))
        self.code.put(value, pointer)

    @cached_property
    def _changing(self) -> set[int]:
        """The registers that diverged blocks write: all others are unchanged since the warp diverged."""
        builder, slices = self.builder, self.builder.region.slices
        inside = [slices[b] for b in self.diverging if b in slices]
        return {slot for p in inside for i in builder.instructions(p) for slot, _ in builder.traced(i).outputs}

    def _slotted(self) -> list[Key]:
        builder, region = self.builder, self.builder.region
        reads = [k for k in region.reads if k not in self.inputs.fixed]
        return list(dict.fromkeys([*reads, *sorted(builder.written & region.live_across)]))

    # ---- ways in ----------------------------------------------------------------------------------

    def clear(self) -> None:
        """Clear the pending lanes of all blocks."""
        size = f"i64 {4 * len(self.diverging)}"
        self.code.call("llvm.memset.p0.i64", "void", f"ptr align 64 {self._masks}", "i8 0", size, "i1 false")

    def enter(self, slice_: BlockSlice, taken: Val) -> None:
        """A converged warp diverges at the end of a block: the lanes ``taken`` go to its target."""
        builder, code = self.builder, self.code
        assert slice_.target is not None
        assert slice_.following is not None
        if not builder.kinds.frozen:
            return  # no kind depends on it, and the blocks that it leads to have no numbers yet
        code.store("i1", "true", builder.parted)
        speculate, code.speculate = code.speculate, None
        for key in self._slotted():
            self._put(key, self.converged.slots.get(key), None)
        code.speculate = speculate
        rest = code.make(f"xor i32 {taken.text}, {builder.mask}")
        self._go(slice_.target, taken)
        self._go(slice_.following, scalar("i32", rest))
        code.line(f"br label %diverged{min(slice_.target, slice_.following)}")

    def _pending(self, block: int) -> str:
        """The place of a block's mask of pending lanes."""
        return self.code.at(self._masks, "i32", self._numbers[block])

    def _go(self, block: int, lanes: Val) -> None:
        pointer = self._pending(block)
        old = self.code.load("i32", pointer)
        self.code.store("i32", self.code.make(f"or i32 {old}, {lanes.text}"), pointer)

    # ---- blocks -----------------------------------------------------------------------------------

    def blocks(self) -> None:
        """Emit all blocks that diverged warps may enter."""
        for block in self.diverging:
            self.block(block)
        self._stop()

    def block(self, block: int) -> None:
        """Emit one of them."""
        builder, code, region = self.builder, self.code, self.builder.region
        code.speculate = None
        number = self._numbers[block] + 1
        after = f"diverged{self.diverging[number]}" if number < len(self.diverging) else "none"
        code.label(f"diverged{block}")
        here = scalar("i32", code.load("i32", self._pending(block)))
        enter = code.fresh("enter")
        code.branch(code.make(f"icmp ne i32 {here.text}, 0"), enter, after)
        code.label(enter)
        if block not in region.slices:
            self._leave(builder.exits[block, 0], here)
            return
        self._rejoin(block, here)
        builder.check_limit(block, lambda: self._leave(builder.exits[block, 0], here))
        code.store("i32", "0", self._pending(block))
        lanes = Val("i1", code.make(f"bitcast i32 {here.text} to <32 x i1>"), uniform=False)
        builder.count(block, here.text)
        self._body(region.slices[block], here, lanes, after)

    def _rejoin(self, block: int, here: Val) -> None:
        """Reconverge where all lanes are pending here."""
        builder, code = self.builder, self.code
        every, on = code.fresh("every"), code.fresh("on")
        whole = code.make(f"icmp eq i32 {here.text}, {builder.mask}")
        code.branch(whole, every, on)
        code.label(every)
        live = live_at(builder.plan, block, 0, keeps=builder.region.keeps)
        keys = [k for k in self._slotted() if not isinstance(k, int) or k in live or k >= builder.plan.n_registers]
        self.converged.reconverge([k for k in keys if k in self._changing], self.get, on)
        code.store("i32", "0", self._pending(block))
        code.line(f"br label %converged{block}")
        code.label(on)

    def _body(self, slice_: BlockSlice, here: Val, lanes: Val, after: str) -> None:
        """The steps of a slice under the mask ``here``; ``lanes`` is the same as a vector."""
        builder, code = self.builder, self.code
        self.steps.current = {}
        dirty: dict[int, None] = {}
        for at, instruction in enumerate(builder.instructions(slice_), slice_.first):
            if (slice_.block, at) in builder.barriers:
                self._settle(dirty, lanes)
                self._barrier(builder.barriers[slice_.block, at], slice_.block, at, here)
                return
            for slot in self.steps.step(slice_.block, at, instruction, here):
                dirty[slot] = None
        guard = self.steps.condition(slice_.guard) if slice_.ends and slice_.guard is not None else None
        self._settle(dirty, lanes)
        if not slice_.ends:
            self._leave(builder.exits[slice_.block, slice_.last], here)
            return
        if slice_.has_back_edge:
            builder.count_back_edge(lambda: self._leave(builder.exits[slice_.block, slice_.last], here))
        if guard is None:
            target = slice_.target if slice_.target is not None else slice_.following
            assert target is not None
            self._go(target, here)
            code.line(f"br label %{f'diverged{target}' if target <= slice_.block else after}")
            return
        assert slice_.target is not None
        assert slice_.following is not None
        taken = self.steps.among(guard, here)
        rest = code.op("xor", taken, here)
        builder.counters.branched(slice_.block, here.text, taken.text)
        self._go(slice_.target, taken)
        self._go(slice_.following, rest)
        for where, who in ((slice_.target, taken), (slice_.following, rest)):
            if where <= slice_.block:
                some, skip = code.make(f"icmp ne i32 {who.text}, 0"), code.fresh("on")
                code.branch(some, f"diverged{where}", skip)
                code.label(skip)
        code.line(f"br label %{after}")

    def _settle(self, dirty: dict[int, None], lanes: Val) -> None:
        for slot in dirty:
            if slot in self.builder.region.live_across:
                self._put(slot, self.steps.current[slot], lanes)

    def _barrier(self, number: int, block: int, at: int, here: Val) -> None:
        """Arrive with all lanes of the warp, or exit."""
        builder, code = self.builder, self.code
        every, out = code.fresh("every"), code.fresh("unmet")
        whole = code.make(f"icmp eq i32 {here.text}, {builder.mask}")
        code.branch(whole, every, out)
        code.label(every)
        keys = [k for k in self.converged.kept(number) if k in self._changing]
        self.converged.reconverge(keys, self.get, out)
        self.converged.arrive(number)
        code.label(out)
        builder.count_back(block, at, here.text)
        self._leave(builder.exits[block, at], here)

    # ---- where warps leave ------------------------------------------------------------------------

    def _leave(self, exit: int, lanes: Val) -> None:
        code = self.code
        self.exits.add(exit)
        code.store("i32", exit, self.stop_id)
        code.store("i32", lanes.text, self.stop_mask)
        code.line("br label %diverged_exit")

    def _value(self, slot: int) -> Val:
        found = self.inputs.fixed.get(slot)
        return found if found is not None else self.get(slot)

    def _stop(self) -> None:
        builder, code = self.builder, self.code
        for number in self.exits:
            builder.left |= builder.region.live[number]
            for block in self.diverging:
                if block > builder.region.exits[number][0]:  # the lowest goes first: these may wait
                    builder.left |= builder.region.live[builder.exits[block, 0]]
        code.label("none")  # no lane is anywhere: never reached
        code.line(f"ret i32 {UNREACHABLE}")
        code.label("diverged_exit")
        stopped = code.load("i32", self.stop_mask)
        exit = code.load("i32", self.stop_id)
        code.branch(code.make(f"icmp eq i32 {stopped}, {builder.mask}"), "exit_common", "exit_mixed")
        code.label("exit_mixed")
        builder.left_by(f"{MIXED}")
        rows = code.make(f"mul i64 {builder.now}, 32")
        lanes = code.at(builder.words["exit_lanes"], "i32", rows)
        value = code.splat(scalar("i32", f"{exit}"))
        for block in self.diverging:
            waiting = code.load("i32", self._pending(block))
            mine = code.make(f"and i32 {waiting}, {code.make(f'xor i32 {stopped}, -1')}")
            flags = Val("i1", code.make(f"bitcast i32 {mine} to <32 x i1>"), uniform=False)
            value = code.select(flags, code.number(builder.exits[block, 0], "i32"), value)
        code.put(value, lanes, 4)
        builder.put_outs(self._value)
        code.line("br label %left")
        code.label("exit_common")
        builder.left_by(exit)
        bare = [e for e in self.exits if builder.region.live[e].isdisjoint(builder.region.outs)]
        cases = " ".join(f"i32 {e}, label %left" for e in sorted(bare))
        code.line(f"switch i32 {exit}, label %write_outs [ {cases} ]")
        code.label("write_outs")
        builder.put_outs(self._value)
        code.line("br label %left")
