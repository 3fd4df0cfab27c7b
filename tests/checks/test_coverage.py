"""Every rule has faulty programs, each with its nearest correct one beside it."""

import re
from collections import Counter
from pathlib import Path

from docs.tools import rules
from warpsim.host.options import EVERY
from warpsim.machine.reporting import ALWAYS

PAIRS = Path(__file__).parent / "pairs"
ALWAYS_ASKED = {"trap", "assert"}
"""What a program asks for by itself is no fault of it."""
FEW = {"unreadable"}
"""One of text; tests/program/test_load_rules.py has files that are none."""


def test_every_rule_has_pairs():
    """Three faults at least, each in a program that breaks no other rule before; and every folder is of a rule."""
    marks, named = Counter(), {rule.name for rule in rules.rules()}
    for path in PAIRS.glob("*/*.bad.ptx"):
        marks[path.parent.name] += len(re.findall(rf"// expect: .*\b{path.parent.name}\b", path.read_text("utf-8")))

    assert set(marks) == named
    assert {rule: count for rule, count in marks.items() if count < 3 and rule not in FEW} == {}
    assert named >= (EVERY | ALWAYS) - ALWAYS_ASKED
