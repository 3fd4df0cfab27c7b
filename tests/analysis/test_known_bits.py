"""What is said of partly known operands holds for whatever they turn out to be, in every form that only computes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from warpsim.analysis.values import U64, KnownBits, Value, anything, congruent, exactly
from warpsim.graph.evaluate import Arrays
from warpsim.graph.nodes import Graph, Untraceable
from warpsim.isa import matching, spec
from warpsim.isa.graphs import graph_of_spelling
from warpsim.isa.spec import Form, Scope


def graph_for(form: Form, rng: random.Random) -> Graph | None:
    """The graph of a spelling drawn, if it has one."""
    groups = {slot.group for slot in form.pattern.slots if slot.group is not None and rng.random() < 0.3}
    present = [slot for slot in form.pattern.slots if slot.group is None or slot.group in groups]
    words = tuple(rng.choice(sorted(slot.values)) for slot in present)
    for candidate in matching.candidates(form.root, words):
        if candidate.form is form and not candidate.illegal:
            try:
                return graph_of_spelling(candidate)
            except Untraceable:
                return None
    return None


def given(bits: int, rng: random.Random) -> tuple[int, Value]:
    """A number of so many bits, and what is said of it."""
    number = rng.choice((0, 1, 4, 16, 31, 1024, rng.getrandbits(bits))) & (1 << bits) - 1
    word = np.array([number], U64)
    known = rng.choice((0, 2, 4, 7, bits, bits))
    return number, exactly(word) if known == bits else congruent(word, known, anything().unknown)


def wrong(draws: int) -> tuple[int, list[str]]:
    """How many results were partly known, and where that is not so."""
    rng, partly, found = random.Random(draws), 0, list[str]()
    for root in spec.opcodes():
        for form in spec.forms(root):
            if form.ports or form.scope is not Scope.THREAD:
                continue
            for _ in range(draws):
                graph = graph_for(form, rng)
                if graph is None or any(i.address or i.dtype.itemsize > 8 for i in graph.inputs):
                    continue
                drawn = [given(1 if i.dtype.kind == "b" else 8 * i.dtype.itemsize, rng) for i in graph.inputs]
                said = KnownBits([value for _, value in drawn])
                words = [np.array([n], f"u{i.dtype.itemsize}") for (n, _), i in zip(drawn, graph.inputs, strict=True)]
                arrays = Arrays([w.view(i.dtype) for w, i in zip(words, graph.inputs, strict=True)])
                for node in (node for nodes in graph.outputs for node in nodes):
                    with np.errstate(all="ignore"):
                        made, value = arrays(node), said(node)
                    bits = int(made.view(f"u{made.itemsize}").reshape(-1)[0])
                    partly += 0 < value.zeros < 64
                    if (bits - int(value.bits[0])) % (1 << min(value.zeros, 8 * made.itemsize)):
                        found.append(f"{form.syntax} of {[n for n, _ in drawn]}")
    return partly, found


def test_what_is_known_holds() -> None:
    """A few spellings of each form."""
    partly, found = wrong(1)

    assert found == []
    assert partly > 20


@pytest.mark.parametrize("draws", [pytest.param(10, marks=pytest.mark.long), pytest.param(60, marks=pytest.mark.sweep)])
def test_what_is_known_always_holds(draws: int) -> None:
    """Many of each."""
    assert wrong(draws)[1] == []
