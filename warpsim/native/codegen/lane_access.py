"""Memory accesses lane by lane, by library functions that return a status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.machine.state.global_memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW
from warpsim.native.lowering.affine import first_of
from warpsim.native.lowering.values import Val, element
from warpsim.native.regions.forms import Effect
from warpsim.native.runtime.context import BAD_ACCESS, CONTEXT

if TYPE_CHECKING:
    from warpsim.native.codegen.builder import RegionBuilder
    from warpsim.native.codegen.interference import Interference, Name
    from warpsim.native.codegen.memory import Memory


class LaneAccess:
    """Emits calls of library functions."""

    def __init__(self, builder: RegionBuilder, memory: Memory, interference: Interference) -> None:
        self.builder, self.memory, self.interference = builder, memory, interference

    def typed(self, effect: Effect, value: Val) -> Val:
        """Loaded bits in the type of the access."""
        type = element(effect.type.dtype)
        return self.builder.code.convert("bitcast", value, type) if type[0] != "i" else value

    def addresses(self, address: Val, *, one: bool = False) -> str:
        """The addresses of all lanes, spilled."""
        code = self.builder.code
        where = code.slot("[32 x i64]")
        if one:
            wide = code.convert("zext", address, "i64") if address.type == "i32" else address
            code.line(f"store i64 {wide.text}, ptr {where}, align 64")
            return where
        if address.strides is not None:
            x, y = address.strides
            parts = [first_of(address), x, y]
            if address.type == "i32":
                parts = [
                    code.convert("zext", p, "i64") if p.known is None else code.number(p.known, "i64") for p in parts
                ]
            cut = -1 if address.type == "i64" else (1 << 32) - 1
            name = code.declare("ws_spread", "void", "ptr, i64, i64, i64, i64, i64")
            arguments = ", ".join(f"i64 {p.text}" for p in parts)
            code.line(f"call void @{name}(ptr {where}, {arguments}, i64 {code.row}, i64 {cut})")
            return where
        value = code.splat(address)
        if address.type == "i32":
            value = code.convert("zext", value, "i64")
        code.line(f"store {code.of(value)}, ptr {where}, align 64")
        return where

    def make(self, name: Name, effect: Effect, address: Val, mask: Val, given: list[Val]) -> None:
        """Call a library function; what it loads is in ``_buffer``."""
        code, size = self.builder.code, effect.type.bytes
        one = effect.kind == "load" and address.uniform and effect.space in ("global", "shared")
        where = self.addresses(address, one=one)
        lanes = mask.text
        if one:
            some = code.make(f"icmp ne i32 {mask.text}, 0")
            lanes = code.make(f"zext i1 {some} to i32")
        range_ = self.interference.range(name)
        buffer = self._buffer = code.slot(f"[{effect.count * 32} x i{size * 8}]")
        self._one = one
        for k in range(effect.count):
            place = self._element(effect, k)
            if effect.kind == "store":
                code.line(f"store {code.of(code.splat(given[k]))}, ptr {place}, align 64")
            elif one:
                code.line(f"store i{size * 8} 0, ptr {place}, align 64")
            else:
                code.line(f"store <32 x i{size * 8}> zeroinitializer, ptr {place}, align 64")
        what = f"{size}_{effect.count}"
        if effect.space == "generic":
            self._generic(effect.kind, what, where, lanes, buffer, range_)
            return
        self.check(self._call(effect.kind, effect.space, what, where, lanes, buffer, range_))

    def _element(self, effect: Effect, k: int) -> str:
        return self.builder.code.make(f"getelementptr i{effect.type.bytes * 8}, ptr {self._buffer}, i64 {k * 32}")

    def raw(self, effect: Effect, k: int, *, one: bool) -> Val:
        """Loaded bits: the ``k``-th element of each lane, or of ``one`` for all."""
        code, type = self.builder.code, f"i{effect.type.bytes * 8}"
        place = self._element(effect, k)
        if one:
            return Val(type, code.make(f"load {type}, ptr {place}"), uniform=True)
        return code.filled(place, type)

    def loaded(self, effect: Effect, k: int) -> Val:
        """What the last load has loaded."""
        return self.typed(effect, self.raw(effect, k, one=self._one))

    def _call(self, kind: str, space: str, what: str, where: str, lanes: str, buffer: str, range_: str) -> str:
        code = self.builder.code
        if space == "global":
            name = code.declare(f"ws_{kind}_{what}", "i32", "ptr, ptr, i32, ptr, ptr")
            return code.make(f"call i32 @{name}(ptr %ctx, ptr {where}, i32 {lanes}, ptr {buffer}, ptr {range_})")
        if space == "shared" and self.memory.private:
            name = code.declare(f"ws_own_{kind}_{what}", "i32", "ptr, ptr, i32, ptr, ptr")
            return code.make(f"call i32 @{name}(ptr %ctx, ptr {where}, i32 {lanes}, ptr {buffer}, ptr {range_})")
        place = code.make(f"getelementptr i64, ptr %ctx, i64 {CONTEXT[space + '_words']}")
        columns = self.memory.columns if space == "shared" else self.memory.positions
        name = code.declare(f"ws_{kind}_words_{what}", "i32", "ptr, ptr, ptr, i32, ptr, ptr, ptr")
        return code.make(
            f"call i32 @{name}(ptr %ctx, ptr {place}, ptr {where}, i32 {lanes}, ptr {columns}, ptr {buffer}, ptr {range_})"
        )

    def check(self, status: str) -> None:
        """Return a status other than 0."""
        code = self.builder.code
        on, bad = code.fresh("on"), code.fresh("bad")
        code.line(f"br i1 {code.make(f'icmp eq i32 {status}, 0')}, label %{on}, label %{bad}")
        code.label(bad)
        code.line(f"ret i32 {status}")
        code.label(on)

    def _generic(self, kind: str, what: str, where: str, lanes: str, buffer: str, range_: str) -> None:
        """A generic access to one space by all lanes; rolled back where lanes go to several."""
        code = self.builder.code
        all = Val("i64", code.make(f"load <32 x i64>, ptr {where}, align 64"), uniform=False)
        result, done, beyond = code.slot("i32"), code.fresh("done"), code.fresh("beyond")
        code.line(f"store i32 0, ptr {result}")
        there = code.fresh("there")
        code.line(f"br i1 {code.make(f'icmp eq i32 {lanes}, 0')}, label %{done}, label %{there}")
        code.label(there)
        windows = "0"
        for space, first in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
            moved = code.op("sub", all, code.number(first, "i64"))
            inside = code.op("icmp ult", moved, code.number(WINDOW, "i64"), type="i1")
            here = self._among(inside, lanes)
            words, next = code.fresh("words"), code.fresh("next")
            code.line(f"br i1 {code.make(f'icmp eq i32 {here}, {lanes}')}, label %{words}, label %{next}")
            code.label(words)
            code.line(f"store {code.of(moved)}, ptr {where}, align 64")
            self._reach(kind, what, space, where, lanes, buffer, "null" if space == "local" else range_, result)
            code.line(f"br label %{done}")
            code.label(next)
            windows = code.make(f"or i32 {windows}, {here}")
        plain = code.fresh("plain")
        code.line(f"br i1 {code.make(f'icmp eq i32 {windows}, 0')}, label %{plain}, label %{beyond}")
        code.label(plain)
        self._reach(kind, what, "global", where, lanes, buffer, range_, result)
        code.line(f"br label %{done}")
        code.label(beyond)
        code.line(f"ret i32 {BAD_ACCESS}")
        code.label(done)
        self.check(code.make(f"load i32, ptr {result}"))

    def _among(self, condition: Val, lanes: str) -> str:
        code = self.builder.code
        return code.make(f"and i32 {code.make(f'bitcast {code.of(condition)} to i32')}, {lanes}")

    def _reach(
        self, kind: str, what: str, space: str, where: str, lanes: str, buffer: str, range_: str, result: str
    ) -> None:
        """A generic access that goes to one space; what is stored there may be seen by others, or not."""
        code = self.builder.code
        code.line(f"store i32 {self._call(kind, space, what, where, lanes, buffer, range_)}, ptr {result}")
        if kind == "store":
            self.builder.changes(space)
