"""The width of address registers under .address_size 64."""

from __future__ import annotations

from collections.abc import Collection

from warpsim.isa.spec import Op

_WIDE = frozenset({"applypriority", "atom", "discard", "ld", "ldu", "multimem", "prefetch", "prefetchu", "red", "st"})
"""Instructions that do not take a 32-bit register for a generic or global address; others extend it."""


def wide(root: str, op: Op, spaces: Collection[str] | None) -> bool:
    """Whether the assembler rejects an address in a 32-bit register; ``spaces`` are its possible state spaces."""
    if root == "mbarrier":
        return not _shared(op)
    if root == "prefetch" and "tensormap" in op.text:
        return False
    return root in _WIDE and (spaces is None or "global" in spaces)


def whole(root: str, op: Op, operand: str, bits: int) -> bool:
    """Whether the assembler refuses an operand's address in a register of 8 or 16 ``bits``; elsewhere it extends it and warns."""
    words = op.text.split(".")
    if root == "cp":
        if "bulk" in words:
            return (
                operand == "bar"
                and bits == 16
                and words[1] == "async"
                and not {"tensor", "multicast::cluster"} & {*words}
            )
        return "mbarrier" in words and not _shared(op)
    if root in ("ldmatrix", "stmatrix"):
        return not _shared(op)
    if root in ("st", "red"):
        return words[1] == "async" and operand != "bar"
    pairs = {("multimem", "red"), ("prefetch", "tensormap"), ("tensormap", "replace")}
    return root == "wmma" or (root, words[1] if len(words) > 1 else "") in pairs


def _shared(op: Op) -> bool:
    return any(word.startswith("shared") for word in op.modifiers)
