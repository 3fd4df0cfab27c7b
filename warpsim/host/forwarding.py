"""Passes findings that a child process only collects to the test session that started it, which would not see them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from warpsim.errors import describe

if TYPE_CHECKING:
    from warpsim.machine.state.launch import LaunchState

FILE = "WARPSIM_SESSION_FINDINGS"
"""Environment variable with the file that child processes of a test session append findings to, one per line."""


def forward(state: LaunchState) -> None:
    """Pass on the errors that a launch has collected."""
    path = os.environ.get(FILE)
    if path is None or state.settings.on_finding != "collect":
        return
    lines = [json.dumps(describe(found)) + "\n" for found in state.findings.values() if found.severity == "error"]
    if lines:
        with open(path, "a", encoding="utf-8") as out:
            out.write("".join(lines))
