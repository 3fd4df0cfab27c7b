"""Literals that leave 64 bits, against what ptxas refuses and what it stores (recordings/literals.py)."""

import importlib.util
from pathlib import Path

import numpy as np

import warpsim

HERE = Path(__file__).parent
VERDICTS = [line.split("\t") for line in (HERE / "literal_verdicts.txt").read_text().splitlines()]


def recorder():
    """The script that has asked the assembler."""
    spec = importlib.util.spec_from_file_location("literals", HERE.parent / "recordings" / "literals.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_the_assembler_takes():
    """An integer loses the bits beyond 64, unless the top bit is set before another digit follows; so wherever it stands. A
    decimal is zero or a normal number."""
    literals, ours = recorder(), []
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
