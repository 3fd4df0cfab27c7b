"""Loads a text as a typed program, from the disk if it was read before."""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

from warpsim.program import stored
from warpsim.program.program import Program

KEPT = 1 << 16
"""Longest text whose program is cached, in characters; longer ones would hold too much memory."""
LONG = 0.003
"""Seconds of reading from which on what was read is kept on disk: finding it takes one."""


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable automatic collection inside the context: it would scan everything made so far, and find nothing."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def program_of(text: str, file: str = "<ptx>") -> Program:
    """Load a text as a typed program, which is immutable.

    Raises:
        PtxError: with every problem; if the text cannot be parsed to its end, with the problems before that place.
    """
    return _kept_program(text, file) if len(text) <= KEPT else _program(text, file)


@functools.lru_cache(maxsize=32)
def _kept_program(text: str, file: str) -> Program:
    return _program(text, file)


@no_collection()
def _program(text: str, file: str) -> Program:
    name = stored.name_of(text, file)
    found = name and stored.find(name, text, functools.cache(lambda: _fresh(text, file, name)))
    return found or _fresh(text, file, name)


@no_collection()
def _fresh(text: str, file: str, name: str | None) -> Program:
    """Read a text; if that takes a while, its program is kept under a name."""
    from warpsim.program.build import read_program  # takes 10 ms

    begin = time.perf_counter()
    program = read_program(text, file)
    return program if name is None or time.perf_counter() - begin < LONG else stored.keep(name, program)
