"""Operations that the assembler drops, and what it then fuses: as an H100 has them."""

import importlib.util
from pathlib import Path

import numpy as np

import warpsim

TESTS = Path(__file__).parents[1]
_spec = importlib.util.spec_from_file_location("identities", TESTS / "recordings" / "identities.py")
identities = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(identities)


def test_as_recorded():
    """Products by one and by minus one, minima and maxima of one value, repeated negations."""
    with np.load(TESTS / "data" / "identities_h100.npz") as stored:
        expected = stored["bits"]
    text, count = identities.kernel()
    results = np.zeros_like(expected)

    warpsim.load(text)["identities"]((count,), (identities.LANES,), (identities.operands(), results), checks="none")

    programs = list(identities.programs())
    assert [programs[k] for k in np.flatnonzero((results != expected).any(axis=1))] == []
