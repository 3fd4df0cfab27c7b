"""Bodies on affine values: which take them is tried, and what they give is what arrays give."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from warpsim.isa import matching, spec
from warpsim.isa.matching import Candidate
from warpsim.isa.spec import Form, Scope
from warpsim.machine.values import FLAT, SINGLE, Affine, NotAffine, as_array, stays_affine

EXTENTS = (1, 32, 3, 1)


def spellings(form: Form, rng: random.Random, count: int) -> list[Candidate]:
    """Legal spellings of a form."""
    found = []
    for _ in range(count):
        groups = {slot.group for slot in form.pattern.slots if slot.group is not None and rng.random() < 0.3}
        present = [slot for slot in form.pattern.slots if slot.group is None or slot.group in groups]
        words = tuple(rng.choice(sorted(slot.values)) for slot in present)
        found += [c for c in matching.candidates(form.root, words) if c.form is form and not c.illegal]
    return found


def types_of(candidate: Candidate) -> tuple[Any, ...] | None:
    """The types of its sources; None where they are not all single values."""
    sources = candidate.operands[candidate.form.n_dest :]
    if any(t.type is None or t.count is not None or t.spec.kind != "value" for t in sources):
        return None
    return tuple(t.type.dtype for t in sources if t.type is not None)


def affine(dtype: Any, rng: random.Random) -> Affine:
    """A value such as indices and addresses are."""
    base = rng.choice((0, 1, 5, 31, -1, 1 << 20, 0x7FFFFFFF, rng.getrandbits(62)))
    if rng.random() < 0.4:
        return Affine(Affine.constant(base, dtype).base, FLAT, SINGLE, dtype)
    strides = (0, rng.choice((1, 4, -2, 8)), rng.choice((0, 128, 32)), 0)
    return Affine(Affine.constant(base, dtype).base, strides, EXTENTS, dtype)


def wrong(draws: int) -> tuple[set[str], list[str]]:
    """The opcodes that take affine values, and what differs from arrays."""
    rng, taken, differing = random.Random(draws), set[str](), list[str]()
    for root in spec.opcodes():
        for form in spec.forms(root):
            if form.ports or form.scope is not Scope.THREAD:
                continue
            for candidate in spellings(form, rng, draws):
                types = types_of(candidate)
                if types is None or not stays_affine(form.function, candidate.op, types):
                    continue
                taken.add(root)
                for _ in range(4):
                    values = [affine(dtype, rng) for dtype in types]
                    if not same(candidate, values):
                        differing.append(f"{candidate.op.text} {[(v.base, v.strides) for v in values]}")
    return taken, differing


def same(candidate: Candidate, values: list[Affine]) -> bool:
    """Whether a body gives the same for affine values, where it gives anything, and for arrays."""
    function, op = candidate.form.function, candidate.op
    try:
        made = function(op, *values)
    except NotAffine:
        return True
    with np.errstate(all="ignore"):
        wanted = function(op, *[v.array() for v in values])
    pairs = zip(*(x if isinstance(x, tuple) else (x,) for x in (made, wanted)), strict=True)
    return all(as_array(m).dtype == w.dtype and bool((as_array(m) == w).all()) for m, w in pairs)


def test_affine_values_give_what_arrays_give() -> None:
    """Whatever body takes them; those that launches need are among them, and those that need arrays are not."""
    taken, differing = wrong(8)

    assert differing == []
    assert {"add", "sub", "mul", "mad", "shl", "neg", "mov", "cvt", "cvta", "setp"} <= taken
    assert not {"and", "shr", "min", "div", "prmt", "popc", "bfe"} & taken


@pytest.mark.parametrize("draws", [pytest.param(20, marks=pytest.mark.long), pytest.param(80, marks=pytest.mark.sweep)])
def test_many_affine_values(draws: int) -> None:
    """More spellings of each form."""
    assert wrong(draws)[1] == []


def test_functions_of_numpy_are_refused() -> None:
    """None of them makes an array of objects of an affine value."""
    value = Affine.constant(3, np.dtype(np.int32))
    for function in (np.minimum, np.add):
        with pytest.raises(TypeError):
            function(value, np.arange(4))
    for call in (lambda: np.where(np.ones(4, np.bool_), value, 0), lambda: np.arange(4) + value):
        with pytest.raises(NotAffine):
            call()
