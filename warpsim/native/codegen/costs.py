"""What accesses cost in the memory system, counted for a profile.

Where no banks can conflict, wherever the first lane of a warp goes, the lanes are counted once for all accesses behind one another.
All lanes of a warp at other affine addresses cost what the first address decides, modulo 128 bytes: this is worked out once, and kept in a table. Library
functions work out the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from warpsim.graph.nodes import LANES
from warpsim.machine.state.global_memory import PARAM_WINDOW
from warpsim.native.lowering.affine import first_of
from warpsim.native.runtime.counting import LINE, Word

if TYPE_CHECKING:
    from warpsim.native.codegen.builder import RegionBuilder
    from warpsim.native.codegen.interference import Name
    from warpsim.native.lowering.values import Val
    from warpsim.native.regions.forms import Effect


class Costs:
    """Emits the counters of accesses; ``spilled`` puts the addresses of all lanes into memory."""

    def __init__(self, builder: RegionBuilder, spilled: Callable[[Val], str]) -> None:
        self.builder, self.counters, self.spilled = builder, builder.counters, spilled

    def access(self, name: Name, effect: Effect, address: Val, mask: str) -> None:
        """An access by the lanes ``mask``."""
        if not self.counters.used or effect.space == "generic":  # where those lead to is known later
            return
        if effect.lanes < LANES:
            mask = self.builder.code.make(f"and i32 {mask}, {(1 << effect.lanes) - 1}")
        if mask == self.builder.mask and effect.space == "shared" and self._even(effect, address):
            self.counters.even(*name[:2], effect.type.bytes * effect.count)
            return
        table = self._table(name, effect, address)
        if effect.space == "local" or effect.lanes < LANES or (table is None and not address.uniform):
            self.lanes(name, effect, effect.space, self.spilled(address), mask)
        else:
            self._rows(name, effect, address, mask, table)

    def _table(self, name: Name, effect: Effect, address: Val) -> str | None:
        """What an access costs by its first address, 0 where that is not known yet; None if more than that decides it."""
        if address.strides is None:
            return None
        code, (x, y) = self.builder.code, (stride.known for stride in address.strides)
        if x is None or (y is None and code.row < LANES):
            return None
        entries = LINE // (effect.type.bytes * effect.count)
        return self.counters.place("table", name[0], name[1], name[2], x, y, words=entries)

    def _even(self, effect: Effect, address: Val) -> bool:
        """Whether each bank has one word at most to deliver in every piece of a whole warp's access; only where there are loops, without
        which it spares nothing to know."""
        row, nbytes = self.builder.code.row, effect.type.bytes * effect.count
        x, y = (0, 0) if address.strides is None else (stride.known for stride in address.strides)
        if not self.builder.region.loops or not (address.uniform or address.strides) or nbytes > 16:
            return False
        if x is None or (y is None and row < LANES):
            return False
        for first in range(0, 4, nbytes):
            places = [first + x * (lane % row) + (y or 0) * (lane // row) for lane in range(LANES)]
            words = [(place >> 2) + k for place in places for k in range(max(nbytes // 4, 1))]
            pieces = [set(words[at : at + LANES]) for at in range(0, len(words), LANES)]
            if any(len({word % LANES for word in piece}) < len(piece) for piece in pieces):
                return False
        return True

    def _rows(self, name: Name, effect: Effect, address: Val, mask: str, table: str | None) -> None:
        """One of which the first address decides what it costs, if all lanes take part."""
        code, nbytes = self.builder.code, effect.type.bytes * effect.count
        first = address if address.uniform else first_of(address)
        at = code.wide(first).text
        every = whole = code.make(f"icmp eq i32 {mask}, -1")
        if effect.space == "global":
            whole = code.make(f"and i1 {whole}, {code.make(f'icmp ult i64 {at}, {PARAM_WINDOW}')}")
        known, one_by_one, done, entry = (*(code.fresh(x) for x in ("known", "slow", "done")), "")
        if table is None:
            pieces = max(nbytes // 4, 1)
            cost = "1" if effect.space == "global" else str(pieces << 32 | pieces)
            code.branch(whole, known, one_by_one)
        else:
            look = code.fresh("look")
            number = code.make(f"udiv i64 {code.make(f'and i64 {at}, {LINE - 1}')}, {nbytes}")
            entry = code.at(table, "i64", number)
            code.branch(whole, look, one_by_one)
            code.label(look)
            cost = code.load("i64", entry)
            code.branch(code.make(f"icmp ne i64 {cost}, 0"), known, one_by_one)
        code.label(known)
        counters = self.counters.access(effect.space, *name, nbytes)
        self.counters.add(code.at(counters, "i64", Word.WHOLE), "1")
        self.counters.add(code.at(counters, "i64", Word.COST), cost)
        code.line(f"br label %{done}")
        code.label(one_by_one)
        found = self.lanes(name, effect, effect.space, self.spilled(address), mask)
        if entry:
            with code.when(every):
                code.store("i64", found, entry)
        code.fall(done)

    def lanes(self, name: Name, effect: Effect, space: str, where: str, lanes: str) -> str:
        """An access of the addresses ``where``; what it costs."""
        if not self.counters.used:
            return ""
        builder, code, nbytes = self.builder, self.builder.code, effect.type.bytes * effect.count
        counters = self.counters.access(space, *name, nbytes)
        given = f"ptr {counters}", f"i32 {lanes}", f"ptr {where}"
        if space == "local":
            self.counters.add(counters, self.counters.number(lanes))
            return ""
        if space == "global":
            return code.call("ws_count_sectors", "i64", *given, f"i64 {PARAM_WINDOW}")
        who = f"i64 {builder.row64}", f"i64 {builder.cta64}"
        return code.call(f"ws_count_passes_{nbytes}", "i64", *given, *who)
