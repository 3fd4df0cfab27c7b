"""Every form has an oracle that is not its own body (the list is made by tools/recordings/oracles.py)."""

from pathlib import Path

import warpsim
from warpsim.isa import spec


def test_none_is_left_out():
    """The list names all forms, and for each who says what it must give."""
    assert warpsim.load is not None  # declares the instructions
    lines = (Path(__file__).parents[1] / "data" / "oracles.txt").read_text(encoding="utf-8").splitlines()
    listed = {tuple(line.split("\t")[:2]): line.split("\t")[2] for line in lines}
    forms = {(root, form.syntax) for root in spec.opcodes() for form in spec.forms(root)}

    assert forms - listed.keys() == set()
    assert [form for form, oracle in listed.items() if oracle == "-"] == []
