"""A region's LLVM module, and its machine code."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from warpsim.native.codegen.function import EmittedRegion, emit
from warpsim.native.compiling.compiler import LIGHT, compiler
from warpsim.native.regions.forms import Key
from warpsim.native.regions.options import Variant
from warpsim.native.regions.region import Region, varying_of
from warpsim.native.runtime.compiled_region import Access, CompiledRegion
from warpsim.native.runtime.inputs import InputKind

if TYPE_CHECKING:
    from warpsim.native.regions.traces import Traces


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
    function = compiler().function(made.text, made.name, helpers, LIGHT, written.code.products)
    left = [(number, slot in made.varying) for number, slot in enumerate(region.outs) if slot in written.left]
    return CompiledRegion(
        region,
        made.given,
        made.variant,
        function,
        written.code.tables,
        left,
        [Access(e.kind, e.space, e.commutes, e.type.name) for e in written.effects],
        written.once,
        written.outer,
        written.frame_bytes,
        written.spaces,
        bool(written.code.products),
    )
