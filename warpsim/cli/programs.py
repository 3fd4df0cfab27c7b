"""Finds recorded launches and bundled programs by name."""

from __future__ import annotations

import os
from pathlib import Path

from warpsim.cli.outcome import Unusable
from warpsim.host.files import named


def find_case(name: str) -> Path:
    """A case directory, or the bundled program of that name."""
    for folder in (name, os.path.join(programs(), name)):
        if os.path.exists(os.path.join(folder, "case.json")):
            return named(folder)
    raise Unusable(f"{name} is neither a case directory nor a bundled program (see: warpsim examples)")


def programs() -> Path:
    """The directory of the bundled programs: in the package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "programs"
    return inside if inside.is_dir() else package.parent / "programs"
