"""Small programs from snippets.txt: an instruction, in a kernel that stores what it leaves."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = Path(__file__).with_name("snippets.txt")
STORES = {
    "r": ("u32", 4, "st.global.u32 [%out], %{name};"),
    "rd": ("u64", 8, "st.global.u64 [%out], %{name};"),
    "f": ("f32", 4, "st.global.f32 [%out], %{name};"),
    "p": ("u32", 4, "selp.u32 %r0, 1, 0, %{name}; st.global.u32 [%out], %r0;"),
}
MODULE = """.version {version}
.target {target}
.address_size 64

.visible .entry example(.param .u64 in, .param .u64 out{object})
{{
    .reg .pred %p<4>;
    .reg .b32 %r<4>, %lane;
    .reg .b64 %rd<4>, %in, %out;
    .reg .f32 %f<4>;
    mov.u32 %lane, %laneid;
    ld.param.u64 %in, [in];
    ld.param.u64 %out, [out];
    mad.wide.u32 %out, %lane, {size}, %out;
{load}
{text}

    {store}
    ret;
}}
"""


class Snippet(NamedTuple):
    """A section of snippets.txt: its lines, the register to look at, and what it holds in the first lanes, or in all."""

    text: str
    target: str
    version: str
    register: str
    values: list[str]
    argument: str

    def module(self) -> str:
        """A kernel of one warp."""
        _, size, store = STORES[self.register.rstrip("0123456789")]
        indented = "\n".join(f"    {line}" for line in self.text.split("\n"))
        object_, load = (", .param .u64 object", "    ld.param.u64 %rd1, [object];\n") if self.argument else ("", "")
        return MODULE.format(
            version=self.version, target=self.target, object=object_, size=size, load=load, text=indented,
            store=store.format(name=self.register),
        )  # fmt: skip

    def launch(self) -> str:
        """In options of ``warpsim run``."""
        dtype = STORES[self.register.rstrip("0123456789")][0]
        return f"--grid 1 --block 32 --arg arange:u32:64 --arg zeros:{dtype}:32 {self.argument}".rstrip()

    def shared(self) -> dict[str, Any]:
        """As a link to the playground holds it."""
        return {"text": self.module(), "launch": self.launch()}


@cache
def snippets() -> dict[str, Snippet]:
    """Every section by the name of its instruction."""
    made = {}
    for section in re.split(r"^## ", SOURCE.read_text(encoding="utf-8"), flags=re.M)[1:]:
        head, body = section.strip().split("\n", 1)
        name, target, version = (*head.split(), "sm_90a", "8.8")[:3]
        text, register, values, argument = re.fullmatch(r"(.*)\n%(\w+) = ([^\n]*)\n?(.*)", body, re.S).groups()  # type: ignore[union-attr]
        made[name] = Snippet(text, target, version, register, values.split(), argument)
    return made
