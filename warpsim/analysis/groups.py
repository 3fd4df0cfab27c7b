"""What may have become of an asynchronous operation that is committed in groups and waited for by their number.

A fate is a set of bits, one for each thing that happened to it on some way since it was issued.
"""

from __future__ import annotations

DONE, OPEN, LOST, PASSED, COMMITTED = 1, 2, 4, 8, 16
"""Waited for; not committed; not committed, and a wait has passed; in flight, and a wait has passed; committed, with one
bit for each number of groups committed since."""
GROUPS = 8
ALL_COMMITTED = (COMMITTED << GROUPS) - COMMITTED
PENDING = OPEN | LOST | ALL_COMMITTED


def issued(fate: int) -> int:
    """The operation is issued again: who waited for the last one does not matter any more."""
    return fate & PENDING | OPEN


def committed(fate: int) -> int:
    """A group is closed: what was open is in it, what was committed is one group older."""
    older = (fate & ALL_COMMITTED) << 1
    if older > ALL_COMMITTED:
        older = older & ALL_COMMITTED | COMMITTED << GROUPS - 1
    return fate & (DONE | PASSED) | older | (COMMITTED if fate & (OPEN | LOST) else 0)


def waited(fate: int, n: int) -> int:
    """All but the ``n`` newest groups are complete."""
    kept = fate & (COMMITTED << min(n, GROUPS)) - COMMITTED & ALL_COMMITTED
    over = fate & ALL_COMMITTED & ~kept
    left = kept | (LOST if fate & (OPEN | LOST) else 0)
    return fate & (DONE | PASSED) | (DONE if over else 0) | left | (PASSED if left else 0)
