"""Single instructions give what an H100 gave: some with every modifier of every opcode; and all that ever differed.

``forms_h100.npz`` is written by ``tools/recordings/forms.py``, which says how the operands are made."""

from __future__ import annotations

from pathlib import Path

import pytest

import forms

PARTS = 16


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, PARTS))])
def test_bits(part: int) -> None:
    """Every bit of every destination, and of the carry flag."""
    wrong = forms.differences(Path(__file__).parents[1] / "data" / "forms_h100.npz", part, PARTS)

    assert not wrong, "\n".join(wrong)
