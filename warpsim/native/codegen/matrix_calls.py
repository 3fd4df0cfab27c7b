"""Calls of products of matrices from regions: registers go through memory of their own on the stack."""

from __future__ import annotations

from warpsim.graph.nodes import LANES
from warpsim.native.lowering.graphs import Lowering
from warpsim.native.lowering.values import Code, Val
from warpsim.native.regions.forms import Product


def call(code: Code, product: Product | None, lower: Lowering) -> dict[tuple[int, int], Val]:
    """The registers that a product leaves (`warpsim.native.matrix.kernels.warp_kernel` says how it is called)."""
    if product is None:
        return {}
    values = [lower(node) for node in product.values]
    words, buffers = _frame(code, product)
    for value, buffer in zip(values, buffers, strict=False):
        vector = code.splat(code.flat(value))
        code.line(f"store {code.of(vector)}, ptr {buffer}, align 64")
    code.declare(product.name, "i32", "ptr")
    code.products[product.name] = product.text
    code.make(f"call i32 @{product.name}(ptr {words})")
    given = len(product.values)
    return {(-1, k): code.filled(buffer, "i32") for k, buffer in enumerate(buffers[given:])}


def _frame(code: Code, product: Product) -> tuple[str, list[str]]:
    """The arguments of a product, described once, and where its registers stand."""
    found = code.frames.get(product.name)
    if found is None:
        count = len(product.values) + product.results
        buffers = [code.slot(f"[{LANES} x i32]") for _ in range(count)]
        words = code.slot(f"[{3 + 4 * count} x i64]")
        for at, word in enumerate((1, 1, 0)):
            _put(code, words, at, str(word))
        for number, buffer in enumerate(buffers):
            address = f"%{code.fresh()}"
            code.entry.append(f"  {address} = ptrtoint ptr {buffer} to i64")
            for at, text in enumerate((address, "0", "4", "0")):
                _put(code, words, 3 + 4 * number + at, text)
        found = code.frames[product.name] = words, buffers
    return found


def _put(code: Code, words: str, at: int, text: str) -> None:
    place = f"%{code.fresh()}"
    code.entry.append(f"  {place} = getelementptr i64, ptr {words}, i64 {at}")
    code.entry.append(f"  store i64 {text}, ptr {place}")
