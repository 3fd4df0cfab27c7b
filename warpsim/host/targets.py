"""The GPUs that are simulated, by their targets."""

from __future__ import annotations

import re

from warpsim.errors import LaunchError, shown

SHARED_LIMIT = {
    70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 88: 99, 89: 99,
    90: 227, 100: 227, 103: 227, 107: 227, 110: 227, 120: 99, 121: 99,
}  # fmt: skip
"""Largest shared memory of a CTA in KiB, by capability times ten."""


def runs_on(target: str) -> str:
    """The GPU that a module runs on by default: its own target, or the oldest simulated GPU that is newer."""
    match = re.match(r"sm_(\d+)$", target, re.ASCII)
    if match is None or int(match.group(1)) in SHARED_LIMIT:
        return target
    newer = [n for n in SHARED_LIMIT if n > int(match.group(1))]
    return f"sm_{newer[0]}" if newer else target


def capability(target: object) -> int:
    """The capability times ten of the GPU that a target names.

    Raises:
        LaunchError: it names none.
    """
    match = re.fullmatch(r"sm_(\d{1,4})[af]?", target, re.ASCII) if isinstance(target, str) else None
    if match is None or int(match.group(1)) not in SHARED_LIMIT:
        raise LaunchError(
            f"{shown(target)} is not a GPU that warpsim simulates; choose from "
            + ", ".join(f"sm_{n}" for n in SHARED_LIMIT)
        )
    return int(match.group(1))
