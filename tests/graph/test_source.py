"""Python source of graphs gives the bits that arrays give."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from warpsim.graph.evaluate import Arrays
from warpsim.graph.nodes import Graph, Untraceable
from warpsim.graph.source import BOOL, Source
from warpsim.isa import matching, spec
from warpsim.isa.graphs import graph_of_spelling
from warpsim.isa.matching import Candidate
from warpsim.isa.spec import Form, Scope

HARD = (
    0, 1, 2, 5, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 63, (1 << 64) - 1,
)  # fmt: skip
COMMON = {
    "add", "sub", "mul", "mad", "div", "rem", "min", "abs", "neg", "and", "not", "shl", "shr", "setp", "selp", "mov", "cvt", "popc", "bfe",
}  # fmt: skip


def spelling(form: Form, rng: random.Random) -> Candidate | None:
    """A form with modifiers drawn, if they are legal."""
    groups = {slot.group for slot in form.pattern.slots if slot.group is not None and rng.random() < 0.5}
    present = [slot for slot in form.pattern.slots if slot.group is None or slot.group in groups]
    words = tuple(rng.choice(sorted(slot.values)) for slot in present)
    return next((c for c in matching.candidates(form.root, words) if c.form is form and not c.illegal), None)


def value(dtype: np.dtype[Any], rng: random.Random) -> Any:
    """One value of a type."""
    bits = rng.choice(HARD) if rng.random() < 0.6 else rng.getrandbits(64)
    if dtype == BOOL:
        return np.array([bool(bits & 1)])
    return np.array([bits & ((1 << 8 * dtype.itemsize) - 1)], f"u{dtype.itemsize}").view(dtype)


def given(number: Any, name: str, names: dict[str, int], rng: random.Random) -> tuple[str, Any]:
    """It as a literal, of which a register takes the low bits, as a name in the range of its type, or as one of any number that is
    congruent."""
    kind, exact = rng.randrange(3), int(number.item())
    if kind == 0 and number.dtype != BOOL:
        wide = number.dtype if number.dtype.itemsize == 8 or rng.random() < 0.5 else np.dtype(np.int64)
        return f"({exact + (wide != number.dtype and 0x55 << 8 * number.dtype.itemsize)})", wide
    names[name] = (
        exact if kind == 1 or number.dtype == BOOL else exact + (rng.randrange(-2, 3) << 8 * number.dtype.itemsize)
    )
    return name, number.dtype if kind == 1 or number.dtype == BOOL else None


def differs(graph: Graph, rng: random.Random) -> bool:
    """Whether the source gives other numbers for inputs drawn."""
    numbers = [value(i.dtype, rng) for i in graph.inputs]
    names: dict[str, Any] = {}
    lines: list[str] = []
    source = Source(lines, [given(n, f"x{k}", names, rng) for k, n in enumerate(numbers)], {})
    results = [node for nodes in graph.outputs for node in nodes]
    found = [source.exact(source(node), node.dtype) for node in results]
    exec("\n".join(lines), {}, names)
    arrays = Arrays(numbers)
    with np.errstate(all="ignore"):
        wanted = [arrays(node).item() for node in results]
    return wanted != [eval(text, {}, names) for text in found]


def compared(draws: int, roots: Iterable[str]) -> tuple[set[str], list[str]]:
    """The opcodes that were compared, and the spellings that differ."""
    rng, taken, wrong = random.Random(draws), set[str](), list[str]()
    for root in sorted(roots):
        for form in spec.forms(root):
            for _ in range(draws if form.scope is Scope.THREAD and not form.ports else 0):
                candidate = spelling(form, rng)
                try:
                    graph = None if candidate is None else graph_of_spelling(candidate)
                    if (
                        candidate is None
                        or graph is None
                        or any(i.address or i.dtype.kind not in "iub" for i in graph.inputs)
                    ):
                        continue
                    wrong += [candidate.op.text for _ in range(8) if differs(graph, rng)]
                except Untraceable:
                    continue
                taken.add(root)
    return taken, wrong


def test_source_is_what_arrays_give() -> None:
    """Two spellings of each form of these."""
    taken, wrong = compared(2, COMMON)

    assert wrong == []
    assert len(taken) > len(COMMON) - 3


@pytest.mark.long
def test_source_of_many_spellings() -> None:
    """Many of all."""
    assert compared(60, spec.opcodes())[1] == []


def test_low_bits_of_a_literal_and_of_a_name() -> None:
    """A mask that is a literal of a wider type gives no number in the range of the narrower one."""
    (candidate,) = matching.candidates("and", ("b16",))
    lines: list[str] = []
    source = Source(lines, [(f"({0x170001})", np.dtype(np.uint32)), ("x", None)], {})
    (node,) = graph_of_spelling(candidate).outputs[0]
    found = source.exact(source(node), node.dtype)
    names = {"x": -1}
    exec("\n".join(lines), {}, names)

    assert names[found] == 1


def test_nothing_but_integers_has_source() -> None:
    """Floating-point numbers stay arrays."""
    (candidate,) = matching.candidates("add", ("f32",))
    graph = graph_of_spelling(candidate)

    with pytest.raises(Untraceable):
        Source([], [("x", None)] * 2, {})(graph.outputs[0][0])
