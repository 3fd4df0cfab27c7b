"""The calling convention of regions and library functions: one array of 64-bit words, `CONTEXT`, and a status.

A region is a transaction: a status other than 0 ends it, and it is rolled back.
"""

from __future__ import annotations

from typing import NamedTuple


class CallWords(NamedTuple):
    """The words that every call passes, and reads back."""

    lives: int
    outs: int
    counts: int
    back_edges: int
    limit: int
    log_used: int
    longest: int
    per_group: int
    passed: int
    suspect: int
    changed: int
    parted: int
    common_exit: int
    tables: int
    batch_columns: int
    frame_bytes: int
    lane: int


_WORDS = f"""
    n_groups rows ctas masks t1 t0 flat columns c1 c0 threads n_allocations allocations
    shared_words shared_size shared_columns shared_written local_words local_size local_columns local_written
    {" ".join(CallWords._fields)}
    exits exit_lanes pending log log_size memo ranges states frames
    private private_bytes private_stride private_tracked cleans counters wholes
"""
CONTEXT = {name: place for place, name in enumerate(_WORDS.split())}
"""The words of the context: all 64 bits wide."""
CALL_AT = CONTEXT[CallWords._fields[0]]
"""Where `CallWords` begin."""
BAD_ACCESS, LOG_FULL, DIVERGED, WRAPPED, INTERFERED, UNREACHABLE, STOPPED = 1, 2, 3, 4, 5, 6, 7
"""Why a region is rolled back."""
SEEN, OWN = 1, 2
"""In ``changed``: memory that others see, or a thread's own."""
NOWHERE, MIXED = -2, -1
"""In place of the common exit: no warp has exited yet; warps took several exits."""


def word(name: str, type: str = "i64") -> str:
    """The text that loads a word as ``%name``, with its place in ``%p.name``."""
    return f"""  %p.{name} = getelementptr i64, ptr %ctx, i64 {CONTEXT[name]}
  %{name} = load {type}, ptr %p.{name}
"""
