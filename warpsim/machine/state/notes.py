"""What watchers know about a launch, a batch or a function, under keys that tell the type."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from warpsim.records import SharedByCopies

T = TypeVar("T")


class Note(SharedByCopies, str, Generic[T]):
    """The key of a note, declared by its owner: ``DIVERGED: Note[Array] = Note("diverged")``. A string: notes are data."""

    __slots__ = ()


class Notes(Protocol):
    """Notes by their keys; a dict."""

    def __getitem__(self, note: Note[T], /) -> T: ...

    def __setitem__(self, note: Note[T], value: T, /) -> None: ...

    def __delitem__(self, note: str, /) -> None: ...

    def __contains__(self, note: str, /) -> bool: ...

    def get(self, note: Note[T], /) -> T | None:
        """The note; None if there is none."""

    def setdefault(self, note: Note[T], value: T, /) -> T:
        """The note; ``value`` if there was none."""


def no_notes() -> Notes:
    """Empty notes."""
    return dict[Any, Any]()
