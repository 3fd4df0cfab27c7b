"""Notebook representations of modules, kernels and results."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping

import attrs

from warpsim.errors import Finding, plural
from warpsim.report import pages
from warpsim.report.profile import Tally, fragment


@attrs.frozen
class KernelFacts:
    """Static facts about a kernel: its parameters as PTX declares them, its resources, and the count of each opcode in
    its code.
    """

    name: str
    params: tuple[str, ...]
    registers: int
    shared: int
    opcodes: Mapping[str, int]

    @property
    def signature(self) -> str:
        """``name(.u64 out, .u32 n)``."""
        return f"{self.name}({', '.join(self.params)})"

    @property
    def uses(self) -> str:
        """Registers, shared memory and instructions in words."""
        parts = [plural(self.registers, "register"), f"{plural(self.shared, 'byte')} of static shared memory"]
        return ", ".join([*parts, plural(sum(self.opcodes.values()), "instruction")])


def kernel_html(kernel: KernelFacts, target: str) -> str:
    """Render a kernel: signature, resources, opcodes."""
    most = sorted(kernel.opcodes.items(), key=lambda item: (-item[1], item[0]))
    rows = [f"<tr><td>{count}</td><td class=text>{html.escape(name)}</td></tr>" for name, count in most]
    return pages.part(
        f"<h2>{html.escape(kernel.signature)}</h2><p>{html.escape(target)}, {kernel.uses}</p>"
        f"<details><summary>opcodes</summary>{pages.table(('count', 'opcode'), rows)}</details>"
    )


def module_html(file: str, target: str, kernels: Iterable[KernelFacts]) -> str:
    """Render a module: its kernels."""
    each = "".join(f"<pre>{html.escape(k.signature)}\n    {html.escape(k.uses)}</pre>" for k in kernels)
    return pages.part(f"<h2>{html.escape(file)}</h2><p>{html.escape(target)}</p>{each}")


def result_html(facts: Iterable[str], findings: Iterable[Finding], stdout: str, profile: Tally | None) -> str:
    """Render a launch: what was executed, found and printed, and its profile if there is one."""
    parts = [f"<p>{html.escape(' · '.join(facts))}</p>", *map(pages.finding, findings)]
    if stdout:
        parts.append(f"<h2>printed</h2><pre>{html.escape(stdout)}</pre>")
    return pages.part("".join(parts)) + (fragment(profile) if profile is not None else "")
