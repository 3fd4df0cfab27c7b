"""The reference of the commands, from the parser's own help."""

from __future__ import annotations

import contextlib
import io
import os
import re

INTRODUCTION = """# Commands

`warpsim COMMAND --help` prints what stands here. Common to all commands that launch: `--json` prints one JSON document and nothing else.

| exit status | means |
| --- | --- |
| 0 | good |
| 1 | a difference, a finding that counts, a refused module, a failed case |
| 2 | arguments that cannot be used, files that cannot be read or written |
| 130 | interrupted (Ctrl-C) |

FILE is PTX, or a fatbin or executable that holds some.
"""


def help_of(*words: str) -> str:
    """What a command prints about itself."""
    from warpsim.cli import main

    out, before = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "110"
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main([*words, "--help"])
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return out.getvalue()


def pages() -> dict[str, str]:
    """The text of the page by its place in the site."""
    whole = help_of()
    names = re.search(r"\{([\w,-]+)\}", whole)
    parts = [INTRODUCTION]
    for name in (names[1] if names else "").split(","):
        parts.append(f"\n## warpsim {name}\n\n```text\n{help_of(name).rstrip()}\n```\n")
    return {"reference/commands.md": "".join(parts)}
