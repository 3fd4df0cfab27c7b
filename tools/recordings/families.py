"""Which targets from sm_75 on have each instruction that not all of them have: those of one architecture or family, and sm_100.

python tools/recordings/families.py       asks the ptxas on the PATH; writes tests/isa/family_verdicts.txt

Drawn from every form that names such a target, and from what the package says it does not run.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from itertools import product
from pathlib import Path

import instruction_heads
from drawn import Draw
from warpsim.isa import matching, spec
from warpsim.isa.spec import Form, Target

OUT = Path(__file__).parents[2] / "tests" / "isa" / "family_verdicts.txt"
NUMBERS = [75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121]
TARGETS = [f"sm_{n}{s}" for n in NUMBERS for s in ("", "a", "f") if n >= 100 or s == "" or (n, s) == (90, "a")]
VERSION = {101: "8.8"}
"""The last that has a target; 9.0 for others."""
DRAWN = 960
"""Combinations of modifiers that are drawn of a form."""
MOST = 8
"""Instructions of one opcode that the same targets have."""
NOT_RUN = """
"""


def special(target: Target | None) -> bool:
    """Whether a gate is one of an architecture, of a family, or of sm_100."""
    return any(isinstance(one, str) or one >= 100 for one in (target if isinstance(target, tuple) else (target or 0,)))


def gates_of(form: Form, words: list[str]) -> bool:
    """Whether a form with these modifiers requires such a target."""
    found = [c for c in matching.candidates(form.root, tuple(words)) if c.form is form and not c.illegal]
    return any(special(target) for c in found for target, _ in c.gates)


def instructions() -> list[str]:
    """Those of each form that require such a target."""
    draw, rng, found = Draw("families"), random.Random(0), NOT_RUN.split("\n")[1:-1]
    for root in draw.roots:
        for form in spec.forms(root):
            slots = [([""] if s.group is not None else []) + sorted(s.values) for s in form.pattern.slots]
            combinations = list(product(*slots)) if len(slots) < 12 else []
            for chosen in rng.sample(combinations, min(len(combinations), DRAWN)):
                words = [word for word in chosen if word]
                if gates_of(form, words):
                    draw.at = 0
                    found.append(
                        f"{'.'.join((root, *words))} {', '.join(draw.operands(form, root, words))}".rstrip() + ";"
                    )
    return list(dict.fromkeys(found))


def taken(target: str, given: list[str]) -> set[str]:
    """The instructions that the assembler takes."""
    number = int(re.sub(r"\D", "", target))
    head = instruction_heads.head(target, VERSION.get(number, "9.0"), 250)
    arch = target.replace("sm_101", "sm_110").replace("sm_", "compute_")
    kept = list(given)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.ptx"
        while True:
            path.write_text(head + "\n".join(kept) + "\nret;\n}\n")
            command = ["ptxas", f"-arch={arch}", str(path), "-o", str(Path(folder) / "k")]
            said = subprocess.run(command, capture_output=True, text=True, check=False)
            if said.returncode == 0:
                return set(kept)
            lines = {int(n) - head.count("\n") for n in re.findall(r"line (\d+); (?:error|fatal)", said.stderr)}
            if not lines & set(range(1, len(kept) + 1)):
                raise SystemExit(f"{target}: {said.stderr[:300]}")
            kept = [text for n, text in enumerate(kept, 1) if n not in lines]


def main() -> int:
    """Ask, write."""
    every = instructions()
    having: dict[str, list[str]] = defaultdict(list)
    for target in TARGETS:
        for text in taken(target, every):
            having[text].append(target)
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for text, targets in having.items():
        if targets != TARGETS:
            alike[re.split(r"\W", text)[0], " ".join(targets)].append(text)
    rows = [f"{targets}\t{text}" for (_, targets), texts in alike.items() for text in texts[:MOST]]
    OUT.write_text("\n".join(sorted(rows)) + "\n")
    print(len(every), "asked,", len(rows), "written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
