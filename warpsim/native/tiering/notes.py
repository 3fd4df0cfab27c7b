"""Notes on disk: of which kernels there is code, for whatever processor. They are cheaper to look for than the code."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from warpsim.cache import digest, has_note
from warpsim.machine.state.notes import Note
from warpsim.version import VERSION

if TYPE_CHECKING:
    from warpsim.machine.plan import KernelPlan

_NOTE: Note[bool] = Note("native on disk")


def note_of(plan: KernelPlan) -> str:
    """The name of a kernel's note."""
    return _note(plan.entry.name, plan.program.source)


@lru_cache(maxsize=16)
def _note(kernel: str, source: str) -> str:
    return digest(VERSION, kernel, source)


def on_disk(plan: KernelPlan) -> bool:
    """Whether there is a note of a kernel; looked up once."""
    notes = plan.main.notes
    if _NOTE not in notes:
        notes[_NOTE] = has_note(note_of(plan))
    return notes[_NOTE]
