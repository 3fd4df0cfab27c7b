"""The grammar of ``checks=``."""

import re
from pathlib import Path

import pytest

import warpsim
from warpsim.host.options import EVERY, GROUPS, NOTE, resolve_checks

RULES = Path(warpsim.__file__).parent


@pytest.mark.parametrize(("checks", "chosen"), [
    (None, EVERY - {"race"}),
    ("default", EVERY - {"race"}),
    ("all", EVERY | {NOTE}),
    ("none", set()),
    ("default+race", EVERY),
    ("default-proxy-fence", EVERY - {"race", "proxy-fence"}),
    ("all-race", (EVERY | {NOTE}) - {"race"}),
    ("all-async-smem-overwrite-async-read-early", (EVERY | {NOTE}) - {"async-smem-overwrite", "async-read-early"}),
    ("all-async+async-read-early-init", (EVERY | {NOTE}) - GROUPS["async"] - GROUPS["init"] | {"async-read-early"}),
    ("none+race", {"race"}),
    ("race,init", {"race", "uninitialised"}),
    ("race, memory-misaligned", {"race"} | GROUPS["memory"] - {"misaligned"}),
    (["race", "init"], {"race", "uninitialised"}),
    ({"matrix"}, GROUPS["matrix"]),
    (frozenset(), set()),
    ("accuracy", EVERY - {"race"} | {"accuracy"}),
    ("none+accuracy", {"accuracy"}),
    ("accuracy-accuracy", EVERY - {"race"}),
    ("race+strict-undefined", {"race", "strict-undefined"}),
])  # fmt: skip
def test_chosen(checks, chosen):
    """Words, groups, rules, and what is added and taken away, from left to right; rules' own hyphens are no signs."""
    assert resolve_checks(checks) == chosen


@pytest.mark.parametrize(
    "checks",
    ["", "everything", "default-", "default+everything", "all race", "-race", "race-", "wmma", 5, 1.5, [5], b"all",
     {"race": 1, 2: 2}, object(), ["race", None], "default" + "-race" * 3 + "x"],
)  # fmt: skip
def test_refused(checks):
    """What is no such word is a LaunchError that shows the grammar."""
    with pytest.raises(warpsim.LaunchError, match="default"):
        resolve_checks(checks)


def test_every_rule_has_a_group():
    """Each rule that the machine reports, other than a failed assertion or trap, can be named."""
    named = {
        rule
        for folder in ("machine", "checks")
        for path in (RULES / folder).rglob("*.py")
        for rule in re.findall(r'\.fault\(\s*"([a-z-]+)"', path.read_text())
    }

    assert named
    assert named - {"trap", "assert"} <= EVERY
