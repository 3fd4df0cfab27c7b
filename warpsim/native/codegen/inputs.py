"""Live-ins of a region: uniform, one per CTA, affine, or varying."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.graph.nodes import LANES
from warpsim.native.lowering.affine import SPAN, add, times
from warpsim.native.lowering.values import Val, memory, scalar, width
from warpsim.native.regions.forms import Key
from warpsim.native.regions.region import Region
from warpsim.native.runtime.inputs import InputKind
from warpsim.types import TYPES

if TYPE_CHECKING:
    from warpsim.native.codegen.builder import RegionBuilder

THREAD_BITS = 10
"""A thread's index has so many."""


def key_type(region: Region, key: Key) -> str:
    """The LLVM type of what a key holds."""
    if isinstance(key, int):
        type = region.plan.function.registers[key].type
    elif isinstance(key[0], int):
        type = TYPES[key[1]]
    elif key[0] == "param":
        type = TYPES[key[2]]
    elif key[0] == "frame":
        return f"i{np.dtype(key[2]).itemsize * 8}"
    else:
        return "i64"
    return "i1" if type.dtype.kind == "b" else f"i{type.dtype.itemsize * 8}"


def special_name(region: Region, key: Key) -> str:
    """The special register that a key means, if any."""
    plan = region.plan
    return plan.specials.get(key[0], "") if isinstance(key, tuple) and isinstance(key[0], int) else ""


class Inputs:
    """Emits the live-ins. ``fixed`` holds those that are no vectors and that the region does not write."""

    def __init__(self, builder: RegionBuilder, given: tuple[InputKind, ...]) -> None:
        self.builder = builder
        self.given = dict(zip(builder.region.reads, given, strict=True))
        self.fixed: dict[Key, Val] = {}
        self.first: dict[Key, Val] = {}
        """Live-ins that are no vectors and that the region writes."""
        self._strides: dict[Key, tuple[Val, Val]] = {}
        self._words: dict[Key, list[str]] = {}

    def enter(self) -> None:
        """Once per call: uniform live-ins and the words of the others."""
        builder, code = self.builder, self.builder.code
        for number, key in enumerate(builder.region.reads):
            how, type = self.given[key].how, key_type(builder.region, key)
            if how == "uniform":
                raw = scalar("i64", code.load("i64", builder.descriptor("lives", number)))
                self._keep(key, raw if type == "i64" else code.convert("trunc", raw, type))
            elif how in ("affine", "per_cta"):
                place = builder.descriptor("lives", number)
                words = [code.at(place, "i64", k) for k in range(5)]
                self._words[key] = [code.load("i64", w) for w in words]

    def _keep(self, key: Key, value: Val) -> None:
        if key in self.builder.written:
            self.first[key] = value
        else:
            self.fixed[key] = value

    def cta(self) -> None:
        """Once per CTA: its indices."""
        self._ctas: dict[str, str] = {}
        if any(g.how in ("affine", "per_cta") for g in self.given.values()):
            for name in ("c1", "c0"):
                self._place(name)

    def warp(self) -> None:
        """Once per warp: affine values and those of its CTA."""
        builder, code = self.builder, self.builder.code
        self._threads: dict[str, str] = {}
        for key in builder.region.reads:
            how, type = self.given[key].how, key_type(builder.region, key)
            if how == "affine":
                self._keep(key, self._affine(key, type))
            elif how == "per_cta":
                base, _, _, c1, c0 = self._words[key]
                at = self._offset(base, (("c1", c1), ("c0", c0)))
                pointer = code.make(f"inttoptr i64 {at} to ptr")
                inner = memory(type)
                value = scalar(inner, code.load(inner, pointer))
                self._keep(key, code.convert("trunc", value, type) if inner != type else value)
            elif how == "varying" and special_name(self.builder.region, key) == "laneid":
                strides = code.number(1, type), code.number(code.row % LANES, type)
                self._keep(key, Val(type, "0", uniform=False, strides=strides, zeros=64, top=SPAN))

    def _affine(self, key: Key, type: str) -> Val:
        builder, code = self.builder, self.builder.code
        base, s1, s0, c1, c0 = self._words[key]
        first = scalar("i64", self._offset(base, (("t1", s1), ("t0", s0), ("c1", c1), ("c0", c0))))
        x, y = self.given[key].strides
        strides = [
            scalar("i64", dynamic) if known is None else code.number(known, "i64")
            for known, dynamic in ((x, s0), (y, s1))
        ]
        narrow = [v if type == "i64" else self._narrow(v, type) for v in (first, *strides)]
        name = special_name(builder.region, key)
        zeros = SPAN if name == "tid.x" and builder.variant.row == LANES else 0
        top = THREAD_BITS if name.startswith("tid.") else 64
        if narrow[1].known == 0 and narrow[2].known == 0:
            return Val(type, narrow[0].text, uniform=True, zeros=zeros, top=top)
        return Val(type, narrow[0].text, uniform=False, strides=(narrow[1], narrow[2]), zeros=zeros, top=top)

    def _narrow(self, value: Val, type: str) -> Val:
        if value.known is not None:
            return self.builder.code.number(value.known, type)
        return self.builder.code.convert("trunc", value, type)

    def _offset(self, base: str, parts: tuple[tuple[str, str], ...]) -> str:
        """The value of the warp's first lane."""
        code = self.builder.code
        total = scalar("i64", base)
        for name, stride in parts:
            total = add(
                code,
                "add",
                total,
                times(code, scalar("i64", self._place(name)), scalar("i64", stride)),
            )
        return total.text

    def _place(self, name: str) -> str:
        """The index of the warp's first lane along an axis."""
        builder, code = self.builder, self.builder.code
        kept = self._ctas if name in ("c1", "c0") else self._threads
        if name not in kept:
            index = builder.cta64 if kept is self._ctas else code.make(f"shl i64 {builder.row64}, 5")
            kept[name] = code.make(f"sext i32 {builder.element(builder.words[name], index)} to i64")
        return kept[name]

    def vector(self, key: Key) -> Val:
        """The lanes of a value."""
        builder, code = self.builder, self.builder.code
        type = key_type(builder.region, key)
        n, number = width(memory(type)), builder.region.reads.index(key)
        out = code.slot(f"[32 x i{n}]")
        where = f"ptr {builder.descriptor('lives', number)}"
        code.call(
            f"ws_live_{n // 8}", "void", "ptr %ctx", where, f"i32 {builder.row}", f"i32 {builder.cta}", f"ptr {out}"
        )
        return code.filled(out, type)

    def slotted(self) -> list[tuple[Key, Val]]:
        """The live-ins that have slots."""
        every: list[tuple[Key, Val]] = []
        for key in self.builder.region.reads:
            if key in self.fixed:
                continue
            every.append((key, self.first[key] if key in self.first else self.vector(key)))
        return every
