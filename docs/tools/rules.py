"""The pages of the rules, from rules.md beside this file: for each a faulty and a mended program with what the program prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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
ALWAYS_ON = {"out-of-bounds", "misaligned", "read-only", "limit", "deadlock"}
WHAT_EXAMPLES_HAVE = """\
.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .align 64 .b8 map[128])
{{
.reg .b16 %h<4>; .reg .b32 %r<16>, %t, %lane, %warp, %cta, %s, %own, %bar; .reg .b64 %x<8>, %a, %b, %at, %bt, %s64;
.reg .f32 %f<16>; .reg .pred %p<8>, %first, %low;
.shared .align 1024 .b8 s[4096]; .shared .align 8 .b64 bar[2];
ld.param.u64 %a, [a]; ld.param.u64 %b, [b];             // two arrays of 4,096 words
mov.u32 %t, %tid.x; mov.u32 %cta, %ctaid.x; and.b32 %lane, %t, 31; shr.u32 %warp, %t, 5;
mul.wide.u32 %x0, %t, 4; add.u64 %at, %a, %x0; add.u64 %bt, %b, %x0;  // the thread's own words
mov.u32 %s, s; mov.u32 %bar, bar; mad.lo.u32 %own, %t, 4, %s; cvt.u64.u32 %s64, %s;
setp.eq.u32 %first, %t, 0; setp.lt.u32 %low, %lane, 16;
"""
WGMMA_START = """\
.reg .b64 %tile, %desc; mov.b32 %r15, 0; mad.lo.u32 %r14, %t, 16, %s;  // tiles of zeros, and their descriptor
st.shared.v4.b32 [%r14], {%r15, %r15, %r15, %r15}; st.shared.v4.b32 [%r14+2048], {%r15, %r15, %r15, %r15};
mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
fence.proxy.async; bar.sync 0; shr.u32 %r14, %s, 4; cvt.u64.u32 %tile, %r14; or.b64 %desc, %tile, 0x1000080000;
"""


class Example(NamedTuple):
    """A program of a page."""

    text: str
    options: dict[str, str]

    def module(self) -> str:
        """The whole module."""
        if "module" in self.options:
            return self.text
        head = WHAT_EXAMPLES_HAVE.format(target=self.options.get("target", "sm_90a"))
        return head + (WGMMA_START if "wgmma" in self.options else "") + self.text + "ret;\n}\n"


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
            pairs = (word.partition("=") for word in options.split())
            blocks[kind] = Example(body, {key: value for key, _, value in pairs})
        yield Rule(name, rest.split("```", 1)[0].strip(), blocks["faulty"], blocks["mended"])


def findings(example: Example) -> tuple[Any, ...]:
    """What loading and launching a program is found to break, under all checks."""
    import numpy as np

    import warpsim

    first, second = np.zeros(4096, np.uint32), np.zeros(4096, np.uint32)
    first.flags.writeable = "locked" not in example.options
    tensor = warpsim.TensorMap(second, global_dim=[32, 16], global_strides=[128], box_dim=[32, 16])
    try:
        kernel = warpsim.load(example.module())["k"]
        block = int(example.options.get("block", 32))
        arguments = (first, second, tensor)[: len(kernel.params)]
        options: dict[str, Any] = {"checks": "all", "on_finding": "collect", "max_instructions": 20_000}
        return kernel(1, block, arguments, **options).findings
    except (warpsim.PtxError, warpsim.ExecutionError) as error:
        return error.findings


def group_of(rule: str) -> str:
    """The word that ``checks=`` takes for it."""
    from warpsim.host.checks import GROUPS

    return next((group for group, names in GROUPS.items() if rule in names), "load")


def page(rule: Rule) -> str:
    """The page of a rule."""
    from warpsim.errors import describe

    group = group_of(rule.name)
    first = findings(rule.faulty)[0]
    when = (
        "Reported when a module is loaded; nothing runs."
        if group == "load"
        else f"Group `{group}` of `checks=`; "
        + ("**off by default**." if group == "race" else "always on." if rule.name in ALWAYS_ON else "on by default.")
    )
    section = (
        f"\n\nPTX manual: [{first.section}](https://docs.nvidia.com/cuda/parallel-thread-execution/#{first.section})."
        if first.section
        else ""
    )
    launch = (
        f" Launched with blocks of {rule.faulty.options['block']} threads." if "block" in rule.faulty.options else ""
    )
    return f"""# {rule.name}

{rule.text}

{when}{section}

## A faulty program

```ptx
{rule.faulty.text}```

```text
{describe(first)}
```

## The same, mended

```ptx
{rule.mended.text}```

Nothing is reported under `checks="all"`.{launch}

??? note "The whole faulty module"

{_indented(rule.faulty.module())}
"""


def _indented(text: str) -> str:
    lines = ["```ptx", *text.rstrip().split("\n"), "```"]
    return "\n".join(f"    {line}" for line in lines)


def index() -> str:
    """The list of all rules."""
    parts = [
        "# Rules\n\nEvery way a module or a kernel can go wrong has a name. It stands in the finding, in `--json`, in `checks=`, and"
        " in tests. Each page shows a faulty program, what warpsim reports, and the nearest correct program. How exact each rule is,"
        " and where it errs towards silence, is in [What the checks see](../../checks.md).\n"
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
