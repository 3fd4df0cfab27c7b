"""Counters of what a launch's profile has, in regions that are made for one."""

from __future__ import annotations

from warpsim.native.lowering.values import IRBuilder
from warpsim.native.runtime.counting import ACCESS, Counter


class Counters:
    """Where each counter of a region is, from ``begin`` on, a pointer."""

    begin: str
    whole: str
    """The lanes of the warp that its CTA has, those of it that are here, and whether some are elsewhere."""
    mask: str
    part: str

    def __init__(self, code: IRBuilder, *, used: bool) -> None:
        self.code, self.used = code, used
        self.all: list[Counter] = []
        self.words = 0
        self._places: dict[tuple[object, ...], int] = {}

    def place(self, what: str, block: int, at: int, *more: object, words: int = 1, nbytes: int = 0) -> str:
        """A pointer to a counter: the same wherever code of its step is emitted."""
        key = what, block, at, *more
        if key not in self._places:
            self._places[key] = self.words
            self.all.append(Counter(what, block, at, self.words, nbytes))
            self.words += words
        return self.code.at(self.begin, "i64", self._places[key])

    def access(self, space: str, block: int, at: int, number: int, nbytes: int) -> str:
        """The counters of one of a step's accesses."""
        return self.place(space, block, at, number, words=ACCESS[space], nbytes=nbytes)

    def add(self, place: str, more: str, how: str = "add") -> None:
        """Add to a counter, or subtract."""
        code = self.code
        code.store("i64", code.make(f"{how} i64 {code.load('i64', place)}, {more}"), place)

    def warp(self, wholes: str, row: str, mask: str) -> None:
        """A warp begins."""
        if self.used:
            self.whole, self.mask = self.code.load("i32", self.code.at(wholes, "i32", row)), mask
            self.part = self._among(mask)

    def _among(self, here: str) -> str:
        """Whether these are only a part of the warp's lanes, 0 or 1."""
        return self.code.make(f"zext i1 {self.code.make(f'icmp ne i32 {here}, {self.whole}')} to i64")

    def entered(self, block: int, here: str, how: str) -> None:
        """A warp enters a block with the lanes ``here``."""
        if self.used:
            part = self.part if here == self.mask else self._among(here)
            self.add(self.place("partial", block, 0), part, how)

    def guarded(self, block: int, at: int, here: str, passed: str) -> None:
        """A guard lets the lanes ``passed`` of those ``here`` pass."""
        if self.used:
            self.add(self.place("left out", block, at), self.number(self.code.make(f"xor i32 {here}, {passed}")))

    def branched(self, block: int, here: str, taken: str) -> None:
        """Lanes ``taken`` of those ``here`` take a branch."""
        code = self.code
        if self.used:
            some, rest = code.make(f"icmp ne i32 {taken}, 0"), code.make(f"icmp ne i32 {taken}, {here}")
            both = code.make(f"and i1 {some}, {rest}")
            self.add(self.place("diverged", block, 0), code.make(f"zext i1 {both} to i64"))

    def number(self, lanes: str) -> str:
        """How many lanes a mask has."""
        count = self.code.call("llvm.ctpop.i32", "i32", f"i32 {lanes}")
        return self.code.make(f"zext i32 {count} to i64")
