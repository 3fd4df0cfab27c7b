"""No spelling of any syntax block matches two forms that take the same operands and do different things."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

from warpsim.isa import matching, spec
from warpsim.isa.matching import Candidate
from warpsim.isa.spec import Form

MOST = 24
"""Spellings of a form; of those that have more, so many at random."""


def spellings(form: Form, rng: random.Random) -> Iterator[tuple[str, ...]]:
    """The modifiers that a form takes, in its order, with all choices of what may be left out."""
    slots = form.pattern.slots
    groups = sorted({slot.group for slot in slots if slot.group is not None})
    count = 2 ** len(groups) * int(np.prod([float(len(slot.values)) for slot in slots]))
    for _ in range(1 if count <= MOST else MOST):
        chosen = (
            itertools.product((0, 1), repeat=len(groups)) if count <= MOST else [[rng.randrange(2) for _ in groups]]
        )
        for keep in chosen:
            kept = {group for group, k in zip(groups, keep, strict=True) if k}
            present = [slot for slot in slots if slot.group is None or slot.group in kept]
            if count <= MOST:
                yield from itertools.product(*[sorted(slot.values) for slot in present])
            else:
                yield tuple(rng.choice(sorted(slot.values)) for slot in present)


def operands_of(candidate: Candidate) -> list[object]:
    """What tells two forms of one spelling apart."""
    return [
        (t.spec.kind, t.type, t.count, t.spec.dest, t.spec.pair, t.spec.braces, t.spec.sign, t.spec.constant)
        for t in candidate.operands
        if t.spec.kind != "carry"
    ]


def result(candidate: Candidate) -> object:
    """What a pure form makes of random operands, as bytes; its name where it is none."""
    form, rng, arguments = candidate.form, np.random.default_rng(5), []
    if form.ports or form.scope is not spec.Scope.THREAD:
        return form.anchor
    for typed in candidate.operands:
        if typed.spec.dest:
            continue
        assert typed.type is not None
        bits = rng.integers(0, 256, 64 * max(typed.type.bits // 8, 1), np.uint8)
        arguments.append(bits.astype(np.bool_) if typed.type.kind == "p" else bits.view(typed.type.dtype))
    with np.errstate(all="ignore"):
        made = form.function(candidate.op, *arguments)
    return [np.ascontiguousarray(part).tobytes() for part in (made if isinstance(made, tuple) else (made,))]


@pytest.mark.long
def test_no_two_meanings() -> None:
    """Where two forms match one spelling with the same operands, they give the same bits."""
    assert ml_dtypes.bfloat16
    rng, pairs = random.Random(1), 0
    for root in spec.opcodes():
        for form in spec.forms(root):
            for words in spellings(form, rng):
                found = [c for c in matching.candidates(root, words) if not c.illegal]
                for one, other in itertools.combinations(found, 2):
                    if operands_of(one) == operands_of(other):
                        pairs += 1
                        assert result(one) == result(other), f"{one.op.text}: {one.form.syntax}; {other.form.syntax}"

    assert pairs > 50


def test_every_spelling_matches_in_any_order() -> None:
    """A form takes its own spelling, and gives the same operands where other modifiers change places."""
    rng = random.Random(2)
    for root in spec.opcodes():
        names = matching.NAMES.get(root, frozenset())
        for form in spec.forms(root):
            words = next(spellings(form, rng))
            fixed = [w for w in words if w in names or w in matching.TYPES or w in matching.STATE_SPACES]
            free = [w for w in words if w not in fixed]
            lead = len([w for w in fixed if w in names])
            rng.shuffle(free)
            first = [c for c in matching.candidates(root, words) if c.form is form]
            other = [c for c in matching.candidates(root, (*fixed[:lead], *free, *fixed[lead:])) if c.form is form]
            if first and other and not first[0].illegal and not other[0].illegal and list(words[:lead]) == fixed[:lead]:
                assert [operands_of(c) for c in first] == [operands_of(c) for c in other]
