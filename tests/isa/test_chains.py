"""Chains of instructions, folded and fused by the assembler, leave in every register what an H200 left.

``tools/recordings/chains.py`` says how chains and operands are made, and recorded; in ``exchanges_h200.npz`` are those of
``exchanges.py``, in which threads exchange values. ``transfers.py`` says the same of launches that move memory and multiply
matrices, which leave in all memory what an H200 left."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

import chains
import transfers

FEW = 8
PARTS = [
    slice(FEW),
    pytest.param(slice(FEW, None, 4), marks=pytest.mark.long),
    pytest.param(slice(FEW, None), marks=pytest.mark.sweep),
]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("program", "recorded"),
    [(chains, "chains_h200"), (chains, "exchanges_h200"), (transfers, "transfers_h200")],
    ids=["chains", "exchanges", "transfers"],
)
def test_bits(program: ModuleType, recorded: str, part: slice) -> None:
    """All bits of all registers in all threads, or of all memory."""
    wrong = program.differences(Path(__file__).parents[1] / "data" / f"{recorded}.npz", part)

    assert not wrong, "\n\n".join(wrong)
