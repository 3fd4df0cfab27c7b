"""What is wrong with the strings of a ``.pragma``, as ptxas 13.0 judges them where they stand."""

from __future__ import annotations

import re

OF_MODULES = frozenset({'"nounroll"'})
"""Pragmas of a module, which are judged at its end (`warpsim.program.linking`)."""
LEAST_VERSION = {"used_bytes_mask": (8, 3), "enable_smem_spilling": (8, 7), "frequency": (9, 0)}
"""Pragmas of a function's body, and the PTX version that introduced each."""
NUMBERED = frozenset({"used_bytes_mask", "frequency"})
"""Those with a number behind the name."""
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|-?\d+")


def wrong_pragma(text: str, place: str, version: tuple[int, int]) -> str:
    """What is wrong with one string of a pragma in a ``place`` ("module", "heading", "entry" or "func"); empty if nothing is."""
    words = text.strip('"').split()
    name = words[0] if words else ""
    least = LEAST_VERSION.get(name)
    if least is None:
        return ""
    if place in ("module", "heading"):
        return f"the pragma {name} stands in a function's body"
    if version < least:
        return f"the pragma {name} needs PTX .version {least[0]}.{least[1]}"
    if name == "enable_smem_spilling" and place == "func":
        return f"the pragma {name} is for an .entry only"
    if name in NUMBERED and (
        len(words) < 2 or (name == "frequency" and len(words) > 2) or not _NUMBER.fullmatch(words[1])
    ):
        return f"the pragma {name} takes one number"
    return ""
