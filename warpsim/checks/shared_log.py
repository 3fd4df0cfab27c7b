"""An append-only log, so that copies can share entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, overload

T = TypeVar("T")


class Log(Sequence[T]):
    """The first ``n`` of entries that copies may share. Appending after another copy has done so makes a private copy."""

    __slots__ = ("entries", "n")

    def __init__(self, *entries: T) -> None:
        self.entries: list[T] = list(entries)
        self.n = len(entries)

    def append(self, entry: T) -> None:
        """Append an entry."""
        if len(self.entries) != self.n:
            self.entries = self.entries[: self.n]
        self.entries.append(entry)
        self.n += 1

    def __len__(self) -> int:
        return self.n

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return self.entries[: self.n][index]
        return self.entries[range(self.n)[index]]  # those behind belong to another copy

    def __deepcopy__(self, memo: object) -> Log[T]:
        copied: Log[T] = Log()
        copied.entries, copied.n = self.entries, self.n
        return copied

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        return None, {"entries": self.entries[: self.n], "n": self.n}
