"""How wide the registers are that hold addresses, under .address_size 64."""

from __future__ import annotations

from collections.abc import Collection

from warpsim.isa.spec import Op

_WIDE = frozenset({"applypriority", "atom", "discard", "ld", "ldu", "multimem", "prefetch", "prefetchu", "red", "st"})
"""What takes no register of 32 bits for a generic address or one of global memory; other instructions extend it."""


def wide(root: str, op: Op, spaces: Collection[str] | None) -> bool:
    """Whether the assembler refuses an address in a register of 32 bits; ``spaces`` are those that it may lie in."""
    if root == "mbarrier":
        return not any(word.startswith("shared") for word in op.modifiers)
    return root in _WIDE and (spaces is None or "global" in spaces)
