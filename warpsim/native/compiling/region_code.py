"""A region's LLVM module, and its machine code."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from warpsim.native.codegen.builder import Variant
from warpsim.native.codegen.function import EmittedRegion, emit
from warpsim.native.codegen.inputs import InputKind
from warpsim.native.compiling.compiler import LIGHT, compiler
from warpsim.native.regions.forms import Key
from warpsim.native.regions.region import Region, varying_of

if TYPE_CHECKING:
    from warpsim.machine.plan import BoundBlock
    from warpsim.native.regions.traces import Traces


@attrs.define(eq=False)
class CompiledRegion:
    """A region compiled for one signature."""

    region: Region
    given: Sequence[InputKind]
    variant: Variant
    written: EmittedRegion
    function: Any
    tables: int
    """Address of the array of its tables' addresses."""
    kept: Any
    blocks: list[tuple[int, BoundBlock]]
    outs: list[tuple[int, int, bool, Any]]
    """Live-out registers: number, register, whether it varies, type."""
    hows: list[str]
    outs_at: int
    """A call's words are descriptors of inputs, of live-outs, then block counts: where the latter two begin, and the
    total."""
    counts_at: int
    n_words: int


@attrs.frozen(eq=False)
class RegionModule:
    """A region's LLVM module, to be compiled."""

    region: Region
    varying: frozenset[Key]
    given: Sequence[InputKind]
    variant: Variant
    written: EmittedRegion
    name: str
    text: str

    @property
    def lines(self) -> int:
        """Lines to compile, which decide how long it takes."""
        found = self.text.count("\n")
        for name, text in self.written.code.products.items():
            if not compiler().has(text, name):
                found += 3 * text.count("\n")
        return found

    @property
    def kept(self) -> bool:
        """Whether all its objects are in the cache."""
        has = compiler().has
        products = self.written.code.products.items()
        return has(self.text, self.name, LIGHT) and all(has(text, name) for name, text in products)


def emit_module(traces: Traces, region: Region, given: Sequence[InputKind], variant: Variant) -> RegionModule:
    """Emit a region's module."""
    differing = frozenset(k for k, g in zip(region.reads, given, strict=True) if g.how != "uniform")
    varying = varying_of(traces, region, differing)
    written = emit("region", traces, region, varying, given, variant)
    name = "region_" + hashlib.sha256(written.text.encode()).hexdigest()[:24]
    text = written.text.replace("define i32 @region(", f"define i32 @{name}(")
    return RegionModule(region, varying, given, variant, written, name, text)


def compile_module(made: RegionModule) -> CompiledRegion:
    """Compile a region."""
    written, region = made.written, made.region
    helpers = sorted(n for n in written.code.declared if n.startswith("ws_"))
    for name, text in written.code.products.items():
        compiler().function(text, name, shared=True)
    function = compiler().function(made.text, made.name, helpers, LIGHT)
    tables = np.array([t.ctypes.data for t in written.code.tables] or [0], np.int64)
    blocks = [(number, region.plan.blocks[number]) for number in sorted(region.slices)]
    registers = region.plan.function.registers
    outs = [
        (number, slot, slot in made.varying, registers[slot].type.dtype)
        for number, slot in enumerate(region.outs)
        if slot in written.left
    ]
    kept = tables, written.code.tables
    outs_at = 6 * len(made.given)
    counts_at = outs_at + 6 * len(region.outs)
    return CompiledRegion(
        region,
        made.given,
        made.variant,
        written,
        function,
        tables.ctypes.data,
        kept,
        blocks,
        outs,
        [g.how for g in made.given],
        outs_at,
        counts_at,
        counts_at + 2 * len(blocks) + 1,
    )
