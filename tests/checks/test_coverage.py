"""Every rule that a launch can break has faulty programs among these tests; each has its nearest correct one beside it."""

import runpy
from collections import Counter
from pathlib import Path

import pytest

from warpsim.host.checks import EVERY
from warpsim.machine.reporting import ALWAYS

ALWAYS_ASKED = {"trap", "assert"}
"""What a program asks for by itself is no fault of it."""


@pytest.fixture(scope="module")
def programs():
    """How many faulty programs there are of each rule: files of pairs, and the ``RULES`` of a module, one for each."""
    found = Counter(path.parent.name for path in (Path(__file__).parents[1] / "checks" / "pairs").glob("*/*.bad.ptx"))
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.name != Path(__file__).name and "\nRULES = " in path.read_text():
            found.update(runpy.run_path(str(path))["RULES"])
    return found


@pytest.mark.parametrize("rule", sorted((EVERY | ALWAYS) - ALWAYS_ASKED))
def test_rule_has_faulty_programs(programs, rule):
    """Three at least."""
    assert programs[rule] >= 3


def test_only_rules(programs):
    """The tables name no rule that does not exist."""
    assert set(programs) <= EVERY | ALWAYS
