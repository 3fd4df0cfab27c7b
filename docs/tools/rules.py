"""The pages of the rules, from rules.md beside this file: for each a faulty and a mended program with what the program prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docs.tools.faulty import Example, findings
from docs.tools.playground import door
from warpsim.report.rules import ALWAYS, RULES

SOURCE = Path(__file__).with_name("rules.md")
GROUP_NAMES = {
    "load": "At load",
    "memory": "Memory",
    "init": "Initialisation",
    "race": "Races",
    "sync": "Collectives and barriers",
    "matrix": "Matrix operands",
    "async": "Asynchronous operations",
}


class Rule(NamedTuple):
    """A section of rules.md."""

    name: str
    text: str
    faulty: Example
    mended: Example


def rules() -> Iterator[Rule]:
    """Every section."""
    for section in re.split(r"^## ", SOURCE.read_text(encoding="utf-8"), flags=re.M)[1:]:
        name, rest = section.split("\n", 1)
        blocks = {}
        for kind, options, body in re.findall(r"^```ptx (\w+)([^\n]*)\n(.*?)^```$", rest, re.M | re.S):
            blocks[kind] = Example.of(body, options)
        yield Rule(name, rest.split("```", 1)[0].strip(), blocks["faulty"], blocks["mended"])


def picture(example: Example) -> str:
    """The launch of a program, drawn; nothing where it is refused when it is loaded."""
    from docs.tools.pictures import drawing
    from warpsim.trace import Tracer

    tracer = Tracer()
    findings(example, [tracer])
    return drawing(tracer.trace(), len(example.head().split("\n"))) if tracer.began else ""


def group_of(rule: str) -> str:
    """The word that ``checks=`` takes for it."""
    return RULES[rule].group


def page(rule: Rule) -> str:
    """The page of a rule."""
    from warpsim.errors import describe

    group = group_of(rule.name)
    first = findings(rule.faulty)[0]
    when = (
        "Reported when a module is loaded; nothing runs."
        if group == "load"
        else f"Group `{group}` of `checks=`; "
        + ("**off by default**." if group == "race" else "always on." if rule.name in ALWAYS else "on by default.")
    )
    section = (
        f"\n\nThe instruction at fault in the PTX manual: [{first.section}](https://docs.nvidia.com/cuda/parallel-thread-execution/#{first.section})."
        if first.section
        else ""
    )
    faulty, mended = (_drawn(picture(example)) for example in (rule.faulty, rule.mended))
    launch = (
        f" Launched with blocks of {rule.faulty.options['block']} threads." if "block" in rule.faulty.options else ""
    )
    return f"""# {rule.name}

{rule.text}

{when}{section}

## A faulty program

```ptx
{rule.faulty.text}```
{opened(rule.faulty)}

```text
{describe(first)}
```
{faulty}
## The same, mended

```ptx
{rule.mended.text}```
{opened(rule.mended)}
{mended}
Nothing is reported under `checks="all"`.{launch}

??? note "The whole faulty module"

{_indented(rule.faulty.module())}
"""


def opened(example: Example) -> str:
    """A door to the playground; none where the launch is not one of the command line's."""
    return "" if "locked" in example.options else door({"text": example.module(), "launch": example.launch()})


def _drawn(svg: str) -> str:
    return f'\n<figure class="launch" markdown="0">\n{svg}\n</figure>\n' if svg else ""


def _indented(text: str) -> str:
    lines = ["```ptx", *text.rstrip().split("\n"), "```"]
    return "\n".join(f"    {line}" for line in lines)


def index() -> str:
    """The list of all rules."""
    parts = [
        "# Rules\n\nEvery way a module or a kernel can go wrong has a name. It stands in the finding, in `--json`, in `checks=`, and"
        " in tests. Each page shows a faulty program, what warpsim reports, and the nearest correct program. Below a program that runs"
        " is its launch, one line for each step. A coloured cell is a warp that executes the step; a lower cell has only some of its lanes. A"
        " bar shows what is in flight, until its result is visible; it ends in red if nothing waits for it. A red frame marks the step that"
        " breaks the rule. How exact each rule is, and where it errs towards silence, is in [What the checks see](../../checks.md).\n"
    ]
    listed = list(rules())
    for group, title in GROUP_NAMES.items():
        parts.append(f"\n## {title}\n\n| rule | when |\n| --- | --- |")
        for rule in listed:
            if group_of(rule.name) == group:
                sentence = re.split(r"(?<=[.:]) ", rule.text.replace("\n", " "))[0].rstrip(":.")
                parts.append(f"| [{rule.name}]({rule.name}.md) | {sentence} |")
    return "\n".join(parts) + "\n"


def pages() -> dict[str, str]:
    """The text of every generated page by its place in the site."""
    made = {
        f"reference/rules/{rule.name}.md": page(rule).replace("(../checks.md", "(../../checks.md") for rule in rules()
    }
    return {"reference/rules/index.md": index(), **made}
