"""A region's LLVM module, and its machine code."""

from __future__ import annotations

from collections.abc import Callable

from warpsim.native.compiling.compiler import LIGHT, compiler, load
from warpsim.native.compiling.images import function_at
from warpsim.native.compiling.linking import Linked
from warpsim.native.runtime.compiled_region import CompiledRegion
from warpsim.records import frozen


@frozen(eq=False)
class RegionModule:
    """A region's LLVM module, to be compiled."""

    name: str
    text: str
    helpers: list[str]
    """The library functions that it calls."""
    products: dict[str, str]
    """The modules of the products that it calls, by their names."""
    described: Callable[..., CompiledRegion]
    """The region with its ``function``."""

    @property
    def lines(self) -> int:
        """Lines to compile, which decide how long it takes."""
        found = self.text.count("\n")
        for name, text in self.products.items():
            if not compiler().has(text, name):
                found += 3 * text.count("\n")
        return found

    @property
    def kept(self) -> bool:
        """Whether all its objects are in the cache."""
        has = compiler().has
        return has(self.text, self.name, LIGHT) and all(has(text, name) for name, text in self.products.items())


def compile_module(made: RegionModule) -> tuple[CompiledRegion, Linked | None]:
    """Compile a region; linked, where code is linked here.

    Raises:
        Invalid: LLVM rejects it.
    """
    linked = compiler().linked(made.text, made.helpers, LIGHT, made.products)
    if linked is None:
        function = compiler().function(made.text, made.name, made.helpers, LIGHT, made.products)
    else:
        function = function_at(load(linked)[made.name])
    return made.described(function=function), linked
