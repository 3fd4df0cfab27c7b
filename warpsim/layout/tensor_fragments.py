"""The matrices of tcgen05.mma in tensor memory as fragments, for pictures: lanes are those of tensor memory, registers its columns.

Lanes of the odd CTA of a pair count from 128 on. `tensor_tiles` has the same places as formulas.
"""

from __future__ import annotations

import re

import attrs

from warpsim.layout.algebra import Layout
from warpsim.layout.fragment import Fragment, fragment, layout_of
from warpsim.layout.instruction_descriptors import ELEMENTS, RESULTS, Product, decode, encode
from warpsim.layout.tensor_memory import Modes
from warpsim.layout.tensor_tiles import chunks, halves

_SHAPE = re.compile(r"m(\d+)n(\d+)(?:k\d+)?")


def product_of(words: list[str]) -> Product:
    """The product of an instruction's modifiers and, as modifiers, its shape and types (by default those of the kind).

    Raises:
        ValueError: there is none; the message says why.
    """
    kind = next((word.removeprefix("kind::") for word in words if word.startswith("kind::")), "f16")
    shape = next((match for match in map(_SHAPE.fullmatch, words) if match), None)
    if kind not in ELEMENTS or shape is None:
        raise ValueError("tcgen05.mma needs a kind and a shape, for example tcgen05.mma.cta_group::1.kind::f16.m128n64")
    elements, results = [w for w in words if w in ELEMENTS[kind].values()], RESULTS.get(kind, {1: "f32"}).values()
    usual = next(iter(ELEMENTS[kind].values()))
    d = words[words.index(shape[0]) + 1 :][:1]
    ones = elements[1:] if d and d[0] in results and d[0] in elements[:1] and len(elements) > 2 else elements
    a, b = (ones or [usual])[0], (ones or [usual])[-1]
    result = d[0] if d and d[0] in results else "s32" if kind == "i8" else "f32"
    bits = encode(kind, int(shape[1]), int(shape[2]), a, b, result, sparse="sp" in words)
    found = decode(bits, kind, weights="ws" in words, cta_group=2 if "cta_group::2" in words else 1)
    if isinstance(found, str):
        raise ValueError(f"no tcgen05.mma of .kind::{kind} has this shape: {found}")
    return found


def vector_size(p: Product, words: list[str]) -> int:
    """Scale factors of a row."""
    given = next((int(word[-2]) for word in words if word.startswith("scale_vec::")), None)
    if given is not None:
        return given
    return p.k // (2 if p.sparse else 1) // (16 if "block16" in words else 32)


def _fragment(p: Product, columns: int, bits: int, threads: Modes, values: Modes) -> Fragment:
    whole = fragment(p.m, columns, bits, layout_of(*threads), layout_of(*values))
    return attrs.evolve(whole, lanes=layout_of((16, 1), (4 * p.cta_group, 32))) if halves(p) else whole


def _rows(p: Product, split: int) -> Modes:
    """Lanes to rows; ``split`` is what another copy of the lanes adds (columns of D), 0 where it repeats the rows."""
    if halves(p):
        return (16, 1), (4 * p.cta_group, 16)
    rows = p.m // p.cta_group
    copies = 128 // rows
    return (rows, 1), (copies, split), (p.cta_group, rows)


def accumulator(p: Product) -> Fragment:
    """D, one element to a cell."""
    copies = 1 if halves(p) else 128 // (p.m // p.cta_group)
    part = p.n // copies
    return _fragment(p, p.n, 32, _rows(p, part * p.m), ((part, p.m),))


def multiplicand(p: Product) -> Fragment:
    """The stored elements of A, of which each tile of D reads a copy in its own lanes."""
    return _fragment(p, p.stored, p.bits_a, _rows(p, 0), ((p.stored, p.m),))


def metadata(p: Product) -> Fragment:
    """Metadata ``[m, chunks]`` for selector 0."""
    if p.kind not in ("f16", "tf32"):
        return _fragment(p, chunks(p), 4, _rows(p, 0), ((chunks(p), p.m),))
    rows = _rows(p, 0)
    (first, _), *others = rows
    threads = ((8, 1), (2, 4 * p.m), (first // 16, 16), *others)
    return _fragment(p, 8, 4, threads, ((4, p.m), (2, 8)))


def scales(rows: int, size: int) -> Fragment:
    """Scale factors ``[rows, size]`` of the rows of A (of one CTA) or columns of B for identifier 0, in the first of four copies.
    Above 32 they are whole columns, the last of which N may leave in part."""
    lanes, columns = min(rows, 32), -(-rows // 32)
    layout = Layout((lanes, (size, 4 // size, columns)), (1, (lanes * columns, 0, 32)))
    return Fragment(lanes * columns, size, 8, layout)
