"""The width of address registers under .address_size 64."""

from __future__ import annotations

from collections.abc import Collection

from warpsim.isa.spec import Op

_WIDE = frozenset({"applypriority", "atom", "discard", "ld", "ldu", "multimem", "prefetch", "prefetchu", "red", "st"})
"""Instructions that do not take a 32-bit register for a generic or global address; others extend it."""


def wide(root: str, op: Op, spaces: Collection[str] | None) -> bool:
    """Whether the assembler rejects an address in a 32-bit register; ``spaces`` are its possible state spaces."""
    if root == "mbarrier":
        return not any(word.startswith("shared") for word in op.modifiers)
    return root in _WIDE and (spaces is None or "global" in spaces)
