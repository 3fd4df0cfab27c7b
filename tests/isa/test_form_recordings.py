"""Single instructions give what an H100 gave: some of every opcode, and all that ever differed.

``forms_h100.npz`` is written by ``tests/recordings/forms.py``, which says how the operands are made."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "recordings"))

import forms


def test_bits() -> None:
    """Every bit of every destination, and of the carry flag."""
    wrong = forms.differences(Path(__file__).parents[1] / "data" / "forms_h100.npz")

    assert not wrong, "\n".join(wrong)
