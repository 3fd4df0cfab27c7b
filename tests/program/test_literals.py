"""Literals that leave 64 bits, against what ptxas refuses and what it stores (tools/recordings/literals.py)."""

from pathlib import Path

import numpy as np

import literals
import warpsim

HERE = Path(__file__).parent
VERDICTS = [line.split("\t") for line in (HERE / "literal_verdicts.txt").read_text().splitlines()]


def test_what_the_assembler_takes():
    """An integer loses the bits beyond 64, unless the top bit is set before another digit follows; so wherever it stands. A
    decimal is zero or a normal number."""
    ours = []
    for literal, place, _ in VERDICTS:
        try:
            module = warpsim.load(literals.module(place, literal))
        except warpsim.PtxError:
            verdict = "refused"
        else:
            stored = place in (literals.STORED, literals.FLOATING)
            verdict = hex(int(module.get_global("t").get().view(np.uint64)[1])) if stored else "taken"
        ours.append([literal, place, verdict])

    assert ours == VERDICTS
