"""The table of handles: their objects, and the owners that these end with."""

from __future__ import annotations

import threading
from typing import Any

import attrs

STEP = 256
"""Handles are this far apart; the low bits hold the number of a type."""


@attrs.define(eq=False)
class Entry:
    """An object with a handle, the entry that owns it, and those it owns."""

    thing: Any
    handle: int
    owner: Entry | None
    owned: dict[int, Entry] = attrs.field(factory=dict)


class Handles:
    """The handles of a process. An object that ends takes along what it owns."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._handles: dict[int, int] = {}
        """Handles by the identity of their objects."""
        self._types: dict[type, int] = {}
        self._first = self._next = 0x5150_0000_0000
        self._lock = threading.RLock()

    def put(self, thing: Any, owner: Any = None) -> int:
        """The handle of an object, which ends with its owner if it has one; 0 if the owner has ended."""
        with self._lock:
            handle = self.of(thing)
            if not handle:
                above = self._entries.get(self.of(owner))
                if owner is not None and above is None:
                    return 0
                self._next += STEP
                handle = self._next + self._types.setdefault(type(thing), len(self._types))
                entry = self._entries[handle] = Entry(thing, handle, above)
                self._handles[id(thing)] = handle
                if above is not None:
                    above.owned[handle] = entry
            return handle

    def of(self, thing: Any) -> int:
        """The handle that an object has; 0 if none."""
        return self._handles.get(id(thing), 0)

    def move(self, thing: Any, owner: Any) -> None:
        """Give an object without an owner one."""
        with self._lock:
            entry = self._entries.get(self.of(thing))
            if entry is not None and entry.owner is None:
                entry.owner = self._entries[self._handles[id(owner)]]
                entry.owner.owned[entry.handle] = entry

    def find(self, handle: int) -> Any:
        """The object of a handle, or None."""
        entry = self._entries.get(handle)
        return None if entry is None else entry.thing

    def ended(self, handle: int, kind: type) -> bool:
        """Whether a handle belonged to an object of a type that has ended."""
        issued = self._first < handle < self._next + STEP and handle % STEP == self._types.get(kind)
        return issued and handle not in self._entries

    def end(self, thing: Any, *, itself: bool = True) -> list[Any]:
        """End an object and all that it owns, or only the latter; returns them, owners first."""
        with self._lock:
            entry = self._entries.get(self.of(thing))
            if entry is None:
                return []
            gone = [entry]
            for each in gone:  # grows while it is read
                gone += each.owned.values()
            entry.owned.clear()
            if itself and entry.owner is not None:
                del entry.owner.owned[entry.handle]
            gone = gone if itself else gone[1:]
            for each in gone:
                del self._entries[each.handle], self._handles[id(each.thing)]
            return [each.thing for each in gone]

    def of_type(self, kind: type) -> list[Any]:
        """All objects of a type."""
        return [entry.thing for entry in list(self._entries.values()) if isinstance(entry.thing, kind)]
