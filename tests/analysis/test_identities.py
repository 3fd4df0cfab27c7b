"""Operations that the assembler drops, and what it then fuses: as an H100 has them."""

from pathlib import Path

import numpy as np
import pytest

import identities
import warpsim

TESTS = Path(__file__).parents[1]


def differing(count=None):
    """The programs, of the first ``count``, with a result that is not the recorded one."""
    text, count = identities.kernel(count)
    with np.load(TESTS / "data" / "identities_h100.npz") as stored:
        expected = stored["bits"][:count]
    results = np.zeros_like(expected)

    warpsim.load(text)["identities"]((count,), (identities.LANES,), (identities.operands(), results), checks="none")

    programs = list(identities.programs())
    return [programs[k] for k in np.flatnonzero((results != expected).any(axis=1))]


def test_as_recorded():
    """Products by one and by minus one, minima and maxima of one value, repeated negations: those of f32."""
    assert differing(100) == []


@pytest.mark.long
def test_all_as_recorded():
    """The same for all types."""
    assert differing() == []
