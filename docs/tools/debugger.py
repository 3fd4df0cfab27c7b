"""The reference of the debugger's commands, from their table."""

from __future__ import annotations

import io
from collections.abc import Iterable

INTRODUCTION = """# Debugger commands

This is what `help` prints in `warpsim debug`. A unique beginning of a name serves as the name. A place is a PTX line, `file.cu:N`, a
label, a function, `op:PATTERN` for opcodes, `+N` or `-N` for lines from here, or `*EXPRESSION`; [expressions and
formats](../debugging-reference.md#expressions) stand in the reference.
"""
KERNEL = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n ret;\n}\n"


def pages() -> dict[str, str]:
    """The text of the page by its place in the site."""
    import warpsim
    from warpsim.cli.debug.shell import Shell
    from warpsim.cli.debug.table import GROUPS, Command

    shell = Shell(warpsim.debug.Session(warpsim.load(KERNEL)["k"], 1, 32), io.StringIO(), colour=False)

    def entries(commands: Iterable[Command], before: str = "") -> str:
        return "".join(f"\n`{before}{each}`\n:   {_escaped(each.help)}\n" for each in commands)

    parts = [INTRODUCTION]
    for group, title in GROUPS.items():
        parts.append(f"\n## {title}\n" + entries(c for c in shell.commands.values() if c.group == group))
    parts.append("\n## Lists of info\n" + entries(shell.infos.values(), "info "))
    settings = "".join(f"\n`{name}`\n:   {_escaped(each.help)}.\n" for name, each in shell.setting_up.settings.items())
    parts.append("\n## Settings\n\n`set NAME VALUE` changes a setting, `show NAME` tells it.\n" + settings)
    return {"reference/debugger.md": "".join(parts)}


def _escaped(text: str) -> str:
    """Help as text of a page: what Markdown would take for marks stands for itself."""
    for mark in "\\`*_[]<>":
        text = text.replace(mark, f"\\{mark}")
    return text
