"""What a unit and its helpers are given: one array of 64-bit words, `CONTEXT`, and the numbers that they give back.

A unit is a transaction: a helper that finds anything wrong gives a number other than 0, and the unit ends."""

from __future__ import annotations

_WORDS = """
    n_groups rows ctas masks t1 t0 flat columns c1 c0 threads n_allocations allocations
    shared_words shared_size shared_columns shared_written local_words local_size local_columns local_written
    lives outs counts back_edges limit exits exit_lanes log log_size log_used memo tables longest ranges
    per_group states frames frame_bytes passed suspect batch_columns private private_bytes private_stride private_tracked cleans stored
"""
CONTEXT = {name: place for place, name in enumerate(_WORDS.split())}
"""The words of the context: all 64 bits wide."""
BAD_ACCESS, LOG_FULL, PARTED, REFUSED, MET, LOST = 1, 2, 3, 4, 5, 6
"""Why a unit gave up."""


def word(name: str, type: str = "i64") -> str:
    """The text that loads a word as ``%name``, with its place in ``%p.name``."""
    return f"""  %p.{name} = getelementptr i64, ptr %ctx, i64 {CONTEXT[name]}
  %{name} = load {type}, ptr %p.{name}
"""
