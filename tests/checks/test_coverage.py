"""Every rule has faulty programs, each with its nearest correct one beside it."""

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

from warpsim.host.checks import EVERY
from warpsim.machine.reporting import ALWAYS

PAIRS = Path(__file__).parent / "pairs"
ALWAYS_ASKED = {"trap", "assert"}
"""What a program asks for by itself is no fault of it."""
FEW = {"unreadable"}
"""One of text; tests/program/test_load_rules.py has files that are none."""


@pytest.fixture
def named(monkeypatch):
    """The rules that have a page."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    return {rule.name for rule in importlib.import_module("docs.tools.rules").rules()}


def test_every_rule_has_pairs(named):
    """Three faults at least, each in a program that breaks no other rule before; and every folder is of a rule."""
    marks = Counter()
    for path in PAIRS.glob("*/*.bad.ptx"):
        marks[path.parent.name] += len(re.findall(rf"// expect: .*\b{path.parent.name}\b", path.read_text("utf-8")))

    assert set(marks) == named
    assert {rule: count for rule, count in marks.items() if count < 3 and rule not in FEW} == {}
    assert named >= (EVERY | ALWAYS) - ALWAYS_ASKED
