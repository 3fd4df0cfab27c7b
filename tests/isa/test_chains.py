"""Chains of instructions, folded and fused by the assembler, leave in every register what an H200 left.

``chains_h200.npz`` is written by ``tools/recordings/chains.py``, which says how chains and operands are made."""

from __future__ import annotations

from pathlib import Path

import pytest

import chains

FEW = 8


@pytest.mark.parametrize("part", [slice(FEW), pytest.param(slice(FEW, None), marks=pytest.mark.long)])
def test_registers(part: slice) -> None:
    """All bits of all registers, in all threads."""
    wrong = chains.differences(Path(__file__).parents[1] / "data" / "chains_h200.npz", part)

    assert not wrong, "\n\n".join(wrong)
