"""The page of the instructions that run, with the evidence for each form."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

ORACLES = Path(__file__).resolve().parents[2] / "tests" / "data" / "oracles.txt"
CHAPTERS = {
    "integer": "Integer arithmetic", "extended": "Extended precision", "floating": "Floating point", "half": "Half precision", "mixed": "Mixed precision",
    "compare": "Comparison and selection", "logic": "Logic and shifts", "data_movement": "Data movement and conversion", "convert": "Conversion",
}  # fmt: skip
MEANING = {
    "hardware": "recorded on a GPU",
    "exact": "exact arithmetic",
    "hint": "as the form without its cache policy",
    "stated": "stated",
}


def pages() -> dict[str, str]:
    """The text of the page by its place in the site."""
    from docs.tools import compiled
    from warpsim.isa import spec, unsupported

    verdicts = compiled.listed()
    evidence: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for line in ORACLES.read_text(encoding="utf-8").splitlines():
        root, form, oracles = ([*line.split("\t"), "", ""])[:3]
        evidence[root].append((form, oracles))
    forms = sum(map(len, evidence.values()))
    recorded = sum("hardware" in o for rows in evidence.values() for _, o in rows)
    parts = [
        f"""# Supported instructions

{len(evidence)} opcodes in {forms} forms. A form is a line of the manual's syntax blocks; `warpsim info --isa` prints the same list. The second column says
what each is held against in the tests: **recorded on a GPU** means that an H100 or H200 ran it and every bit is compared ({recorded} forms); **exact
arithmetic** means that a test computes the result with integers and fractions, or addresses by hand. No form is tested against its own code alone.
The third says whether the compiled engine makes machine code of it, or why it leaves it, or some of its modifiers, to the interpreter.

How the arithmetic of tensor cores and approximate units was established is in [Numerics](../numerics.md).
"""
    ]
    by_chapter: dict[str, list[str]] = defaultdict(list)
    for root in sorted(evidence):
        declared = spec.forms(root)
        home = (
            declared[0].function.__module__.rsplit(".", 1)[-1] if declared and hasattr(declared[0], "function") else ""
        )
        by_chapter[home].append(root)
    for home in sorted(by_chapter):
        title = CHAPTERS.get(home, home.replace("_", " ").capitalize() or "Instructions")
        parts.append(f"\n## {title}\n\n| form | held against | compiled engine |\n| --- | --- | --- |")
        for root in by_chapter[home]:
            for form, oracles in evidence[root]:
                shown = ", ".join(MEANING.get(o, o) for o in oracles.split())
                said = "; ".join(verdicts[root, form])
                parts.append(f"| `{form.replace('|', chr(92) + '|')}` | {shown} | {said} |")
    missing = ", ".join(f"`{o}`" for o in sorted(unsupported.OPCODES))
    parts.append(
        f"\n## Not supported\n\nA module that uses one of these is refused at load, by name and place: {missing}.\n"
    )
    return {"reference/instructions.md": "\n".join(parts)}
