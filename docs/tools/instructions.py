"""The page of the instructions that run, with the evidence for each form."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from docs.tools import rules
from docs.tools.broken import BREAKS, ROOT
from docs.tools.playground import door, of_program
from docs.tools.snippets import snippets

MANUAL = "https://docs.nvidia.com/cuda/parallel-thread-execution/"

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
            parts.append(f"| **[{root}](instructions/{root}.md)** | | |")
            for form, oracles in evidence[root]:
                shown = ", ".join(MEANING.get(o, o) for o in oracles.split())
                said = "; ".join(verdicts[root, form])
                parts.append(f"| `{form.replace('|', chr(92) + '|')}` | {shown} | {said} |")
    missing = ", ".join(f"`{o}`" for o in sorted(unsupported.OPCODES))
    parts.append(
        f"\n## Not supported\n\nA module that uses one of these is refused at load, by name and place: {missing}.\n"
    )
    made = {f"reference/instructions/{root}.md": page(root, evidence[root]) for root in evidence if spec.forms(root)}
    return {"reference/instructions.md": "\n".join(parts), **made}


def page(root: str, rows: list[tuple[str, str]]) -> str:
    """An instruction: what it does, its syntax, where it runs, what it is held against, and a program that uses it."""
    from warpsim.isa import matching, spec

    forms = spec.forms(root)
    meanings = dict.fromkeys(f.purpose for f in forms)
    blocks = dict.fromkeys(f.block for f in forms)
    targets = dict.fromkeys(
        matching.targets(need) for f in forms for need, _ in (f.declared.needs,) if need is not None
    )
    anchors = dict.fromkeys(f.anchor for f in forms)
    held = "".join(
        f"| `{form.replace('|', chr(92) + '|')}` | {', '.join(MEANING.get(o, o) for o in oracles.split())} |\n"
        for form, oracles in rows
    )
    links = ", ".join(f"[{anchor}]({MANUAL}#{anchor})" for anchor in anchors)
    return f"""# {root}

{chr(10).join(f"- {_text(m)}" for m in meanings if m)}

Runs on {", ".join(targets) or "every target"}{"; some forms on every target" if targets and any(f.declared.needs[0] is None for f in forms) else ""}. In the PTX manual: {links}.

## Syntax

```text
{(chr(10) * 2).join(blocks)}
```

## Held against

| form | held against |
| --- | --- |
{held}
{_example(root)}"""


def _text(text: str) -> str:
    """Plain text as Markdown."""
    return re.sub(r"([*_<>\[\]|`])", r"\\\1", text)


def _example(root: str) -> str:
    """A few lines with what they leave, else the first program of the rules or of the gallery that uses it; and a door to it."""
    if snippet := snippets().get(root):
        values = ", ".join(f"`{value}`" for value in snippet.values)
        lanes = "in every lane" if len(snippet.values) == 1 else "in the first lanes"
        left = f"`%{snippet.register}` is then {values} {lanes}"
        return f"## An example\n\n```ptx\n{snippet.text}\n```\n\n{left}.\n\n{door(snippet.shared())}\n"
    use = re.compile(rf"^(?!\s*//).*(?<![\w.%]){re.escape(root)}(?:\.[\w:.]+)?\s[^\n]*;", re.M)
    for title, text, shared in _programs():
        if found := use.search(text):
            return f"## An example\n\n```ptx\n{found[0].strip()}\n```\n\nfrom {title}.\n\n{door(shared)}\n"
    return ""


@cache
def _programs() -> list[tuple[str, str, dict[str, Any]]]:
    """Programs that run: the mended ones of the rules, then those of the gallery."""
    made = []
    for rule in rules.rules():
        text = rule.mended.module()
        if not {"locked", "none"} & set(rule.mended.options):
            link = f"[{rule.name}](../rules/{rule.name}.md)"
            made.append(
                (f"the mended program of {link}", rule.mended.text, {"text": text, "launch": rule.mended.launch()})
            )
    for name in BREAKS:
        text = (ROOT / "programs" / name / "kernel.ptx").read_text(encoding="utf-8")
        made.append((f"[{name}](../../gallery/{name}.md)", text, of_program(name, broken=False)))
    return made
