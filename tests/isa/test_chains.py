"""Chains of instructions, folded and fused by the assembler, leave in every register what an H200 left.

``tools/recordings/chains.py`` says how chains and operands are made, and recorded; in ``exchanges_h200.npz`` are those of
``exchanges.py``, in which threads exchange values."""

from __future__ import annotations

from pathlib import Path

import pytest

import chains

FEW = 8
PARTS = [
    slice(FEW),
    pytest.param(slice(FEW, None, 4), marks=pytest.mark.long),
    pytest.param(slice(FEW, None), marks=pytest.mark.sweep),
]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("recorded", ["chains_h200", "exchanges_h200"])
def test_registers(recorded: str, part: slice) -> None:
    """All bits of all registers, in all threads."""
    wrong = chains.differences(Path(__file__).parents[1] / "data" / f"{recorded}.npz", part)

    assert not wrong, "\n\n".join(wrong)
