"""Outcomes of a suite, and what is expected of it: ``expected.tsv`` has client, pattern, outcome and reason.

As a plugin of pytest (``-p outcomes``) it writes a line for each test to the file that ``OUTCOMES`` names;

    python tests/clients/outcomes.py CLIENT FILE...

counts those lines: what passed, what was skipped, and of what failed whose fault it is.
"""

import os
import re
import sys
from collections import Counter
from pathlib import Path

TABLE = Path(__file__).with_name("expected.tsv")
FAULTS = ("theirs", "limit", "ours")
"""A test that fails by its own fault, for something that is not simulated, or by a fault of the simulator."""


def expected(client):
    """Patterns of failures that are explained: (regular expression, outcome, reason)."""
    rows = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    return [
        (re.compile(pattern, re.DOTALL), outcome, reason) for name, pattern, outcome, reason in rows if name == client
    ]


def compare(client, found):
    """Count (item, outcome, text) by whose fault failures are; the exit status: 1 where one is not explained."""
    known, counts, reasons = expected(client), Counter(), Counter()
    for item, outcome, text in found:
        if outcome != "fail":
            counts[outcome] += 1
            continue
        row = next((row for row in known if row[0].search(f"{item}: {text}")), None)
        if row is None:
            counts["unexplained"] += 1
            print(f"UNEXPLAINED {item}: {text.strip()[-300:]}")
        else:
            counts[row[1]] += 1
            reasons[row[1:]] += 1
    for (outcome, reason), count in sorted(reasons.items()):
        print(f"{count} {outcome}: {reason}")
    print(f"{client}: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    return int(counts["unexplained"] > 0)


def pytest_runtest_logreport(report):
    """One line: the test, pass, fail or skip, and the end of what went wrong."""
    if report.when != "call" and report.outcome == "passed":
        return
    outcome = {"passed": "pass", "failed": "fail", "skipped": "skip"}[report.outcome]
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr or "")[-300:]
    if hasattr(report, "wasxfail"):
        outcome, text = "skip", "expected to fail"
    line = "\t".join([report.nodeid, outcome, " ".join(text.split())[:600]])
    with open(os.environ["OUTCOMES"], "a", encoding="utf-8") as stream:
        stream.write(line.encode("ascii", "backslashreplace").decode() + "\n")


def main(client, *files):
    """Count the lines of files."""
    lines = [line.rstrip("\n").split("\t") for name in files for line in Path(name).read_text("utf-8").splitlines()]
    last = {line[0]: tuple(line) for line in lines if len(line) == 3}  # of several runs
    return compare(client, last.values())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
