"""Atomics: lane by lane, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.native.lowering.graphs import Lowering
from warpsim.native.lowering.values import Val, element
from warpsim.native.regions.forms import Effect
from warpsim.native.runtime.context import CONTEXT

if TYPE_CHECKING:
    from warpsim.native.codegen.builder import RegionBuilder
    from warpsim.native.codegen.interference import Interference, Name
    from warpsim.native.codegen.lane_access import LaneAccess
    from warpsim.native.codegen.memory import Memory


class Atomics:
    """Emits atomics."""

    def __init__(self, builder: RegionBuilder, memory: Memory, interference: Interference, lanes: LaneAccess) -> None:
        self.builder, self.memory, self.interference, self.lanes = builder, memory, interference, lanes

    def make(self, name: Name, effect: Effect, address: Val, mask: Val, values: list[Val]) -> Val:
        """A loop over the lanes, in order."""
        builder, code, size = self.builder, self.builder.code, effect.type.bytes
        type = element(effect.type.dtype)
        cells = code.slot("[32 x i64]")
        lanes = mask.text
        if effect.space == "shared" and self.memory.private:
            self._own_cells(name, effect, address, mask, cells)
        else:
            self._cells(name, effect, address, lanes, cells)
        given = [code.spill(v) for v in values]
        olds = code.slot(f"[32 x {type}]")
        code.line(f"store <32 x {type}> zeroinitializer, ptr {olds}, align 64")
        index = code.slot("i64")
        loop, lane, step, end = (code.fresh(x) for x in ("loop", "lane", "step", "end"))
        code.line(f"store i64 0, ptr {index}")
        code.line(f"br label %{loop}")
        code.label(loop)
        i = code.make(f"load i64, ptr {index}")
        bit = code.make(f"lshr i32 {lanes}, {code.make(f'trunc i64 {i} to i32')}")
        code.line(f"br i1 {code.make(f'trunc i32 {bit} to i1')}, label %{lane}, label %{step}")
        code.label(lane)
        cell = code.make(f"inttoptr i64 {builder.element(cells, i, 'i64')} to ptr")
        old = Val(type, code.make(f"load {type}, ptr {cell}, align {size}"), uniform=True)
        given_values = [
            Val(v.type, builder.element(p, i, v.type), uniform=True) for v, p in zip(values, given, strict=True)
        ]
        assert effect.update is not None
        speculate, code.speculate = code.speculate, None
        new = Lowering(code, [old, *given_values])(effect.update)
        code.speculate = speculate
        code.line(f"store {code.of(new)}, ptr {cell}, align {size}")
        builder.changes(effect.space, code.op("icmp ne", code.bits(old), code.bits(new), type="i1").text)
        code.line(f"store {code.of(old)}, ptr {code.make(f'getelementptr {type}, ptr {olds}, i64 {i}')}")
        code.line(f"br label %{step}")
        code.label(step)
        after = code.make(f"add i64 {i}, 1")
        code.line(f"store i64 {after}, ptr {index}")
        code.line(f"br i1 {code.make(f'icmp eq i64 {after}, 32')}, label %{end}, label %{loop}")
        code.label(end)
        return code.filled(olds, type)

    def _cells(self, name: Name, effect: Effect, address: Val, lanes: str, cells: str) -> None:
        """The address of each lane's element, by a library function."""
        code, size = self.builder.code, effect.type.bytes
        where, range_ = self.lanes.addresses(address), self.interference.range(name)
        if effect.space == "global":
            helper = code.declare(f"ws_cells_{size}", "i32", "ptr, ptr, i32, ptr, ptr")
            status = code.make(f"call i32 @{helper}(ptr %ctx, ptr {where}, i32 {lanes}, ptr {cells}, ptr {range_})")
        else:
            place = code.make(f"getelementptr i64, ptr %ctx, i64 {CONTEXT['shared_words']}")
            helper = code.declare(f"ws_word_cells_{size}", "i32", "ptr, ptr, ptr, i32, ptr, ptr, ptr")
            status = code.make(
                f"call i32 @{helper}(ptr %ctx, ptr {place}, ptr {where}, i32 {lanes}, ptr {self.memory.columns}, ptr {cells}, ptr {range_})"
            )
        self.lanes.check(status)

    def _own_cells(self, name: Name, effect: Effect, address: Val, mask: Val, cells: str) -> None:
        """The same in the CTA's private copy of shared memory: inline where it is known to be written."""
        code, size = self.builder.code, effect.type.bytes
        fast, slow, done = (code.fresh(x) for x in ("fast", "slow", "done"))
        here = Val("i1", code.make(f"bitcast i32 {mask.text} to <32 x i1>"), uniform=False)
        lanes = code.select(here, code.splat(address), code.number(0, "i32"))
        vector = "<32 x i32>"
        high, odd = (
            code.make(
                f"call i32 @{code.declare(f'llvm.vector.reduce.{how}.v32i32', 'i32', vector)}({vector} {lanes.text})"
            )
            for how in ("umax", "or")
        )
        end = code.make(f"add i64 {code.make(f'zext i32 {high} to i64')}, {size}")
        good = code.make(f"icmp ule i64 {end}, {code.make(f'load i64, ptr {self.memory.clean}')}")
        good = code.make(
            f"and i1 {good}, {code.make('icmp eq i32 ' + code.make(f'and i32 {odd}, {size - 1}') + ', 0')}"
        )
        code.line(f"br i1 {good}, label %{fast}, label %{slow}")
        code.label(fast)
        if name in self.interference.numbers:
            shown = code.select(here, code.splat(address), code.number(-1, "i32"))
            full = code.declare("llvm.vector.reduce.umin.v32i32", "i32", vector)
            low = code.make(f"zext i32 {code.make(f'call i32 @{full}({vector} {shown.text})')} to i64")
            some = code.make(f"icmp ne i32 {mask.text}, 0")
            none = (1 << 63) - 1
            self.interference.note(
                name,
                code.make(f"select i1 {some}, i64 {low}, i64 {none}"),
                code.make(f"select i1 {some}, i64 {end}, i64 {-none - 1}"),
            )
        base = Val("i64", code.make(f"ptrtoint ptr {self.memory.shared} to i64"), uniform=True)
        places = code.op("add", code.convert("zext", lanes, "i64"), base)
        code.line(f"store {code.of(places)}, ptr {cells}, align 64")
        code.line(f"br label %{done}")
        code.label(slow)
        self._cells(name, effect, address, mask.text, cells)
        code.line(f"br label %{done}")
        code.label(done)
