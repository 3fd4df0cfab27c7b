"""The reference of the commands, from the parser's own help."""

from __future__ import annotations

import contextlib
import io
import os
import re

INTRODUCTION = """# Commands

This is what `warpsim COMMAND --help` prints.

| exit status | means |
| --- | --- |
| 0 | success |
| 1 | a difference, an error found, a module refused, a case failed |
| 2 | unusable arguments, or files that cannot be read or written |
| 3 | `prove`: neither proved nor refuted |
| 130 | interrupted (Ctrl-C) |
"""


def help_of(*words: str) -> str:
    """What a command prints about itself."""
    from warpsim.cli import main

    out, before = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "84"  # as wide as the site shows without wrapping
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
        words = (
            (name, "replay") if name in ("trace", "debug", "prove") else (name,)
        )  # `run` differs as it does by itself
        parts.append(f"\n## warpsim {' '.join(words)}\n\n```text\n{help_of(*words).rstrip()}\n```\n")
    return {"reference/commands.md": "".join(parts)}
