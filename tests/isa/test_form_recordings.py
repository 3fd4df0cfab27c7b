"""Single instructions give what a GPU gave: some with every modifier of every opcode; and all that ever differed.

``forms_h100.npz`` and ``forms_h200.npz`` (video shifts, one predicate for both results of setp) are written by ``tools/recordings/forms.py``, which says how the operands are made."""

from __future__ import annotations

from pathlib import Path

import pytest

import forms

PARTS = {"forms_h100": 16, "forms_h200": 8}


@pytest.mark.parametrize(
    ("recording", "part"),
    [pytest.param(name, n, marks=[pytest.mark.long] * (n > 0)) for name, parts in PARTS.items() for n in range(parts)],
)
def test_bits(recording: str, part: int) -> None:
    """Every bit of every destination, and of the carry flag."""
    path = Path(__file__).parents[1] / "data" / f"{recording}.npz"
    wrong = forms.differences(path, part, PARTS[recording])

    assert not wrong, "\n".join(wrong)
