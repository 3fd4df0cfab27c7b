"""The kinds of a region's registers where blocks begin (uniform, affine with known strides, varying), found by a data-flow
analysis before the region is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from warpsim.native.regions.forms import Key

UNIFORM, AFFINE, VARYING = 0, 1, 2
Strides = tuple[int | None, int | None]
Visit = tuple[str, int]
"""Of a slice by converged warps, of a block by diverged ones, or of where warps start."""


@attrs.define(eq=False)
class RegisterKinds:
    """A lattice: kinds only grow during the analysis, and do not change once ``frozen``."""

    forms: dict[Key, int] = attrs.field(factory=dict)
    strides: dict[Key, Strides] = attrs.field(factory=dict)
    """Known strides, None where they are not the same everywhere."""
    limits: dict[Key, tuple[int, int]] = attrs.field(factory=dict)
    """Of registers that are uniform or affine: the least ``zeros`` and the greatest ``top`` (`Val`) of all places."""
    diverging: set[int] = attrs.field(factory=set)
    """Blocks that lanes of a warp may enter diverged."""
    frozen: bool = False
    _readers: dict[Key, set[Visit]] = attrs.field(factory=dict)
    _writers: dict[Key, set[Visit]] = attrs.field(factory=dict)
    """The visits that read a register where a block begins, and those that write it where one ends."""
    _visit: Visit | None = None
    _work: set[Visit] = attrs.field(factory=set)

    def settle(self, visits: Callable[[], Iterable[Visit]], make: Callable[[Visit], None]) -> None:
        """Make all visits in their order, and each again where a register that it reads has changed since, or one that it writes
        has become of another form; then freeze. There may be more ``visits`` in every pass: of blocks that lanes are found to
        enter diverged."""
        seen, more = set[Visit](), True
        while more:
            more = False
            for visit in visits():
                if visit not in seen or visit in self._work:
                    seen.add(visit)
                    self._work.discard(visit)
                    self._visit, more = visit, True
                    make(visit)
        self._visit, self.frozen = None, True

    def read(self, key: Key) -> None:
        """The current visit depends on a register's kind."""
        if self._visit is not None:
            self._readers.setdefault(key, set()).add(self._visit)

    def form(self, key: Key) -> int:
        """A register's form."""
        return self.forms.get(key, UNIFORM)

    def _changed(self, key: Key) -> None:
        assert not self.frozen, "the kind of a register changes while the region is written"
        self._work |= self._readers.get(key, set())

    def widen(self, key: Key, form: int) -> None:
        """The current visit writes a register that is at least of this form."""
        if form > self.form(key):
            self.forms[key] = form
            self._changed(key)
            self._work |= self._writers.get(key, set())
        if self._visit is not None:
            self._writers.setdefault(key, set()).add(self._visit)

    def stride(self, key: Key, found: Strides) -> None:
        """A register has these strides in some place."""
        old = self.strides.get(key)
        new = found if old is None else tuple([a if a == b else None for a, b in zip(old, found, strict=True)])
        if new != old:
            self.strides[key] = new  # type: ignore[assignment]
            self._changed(key)

    def limit(self, key: Key, zeros: int, top: int) -> None:
        """A register has these in some place; the second time that it has others, nothing is known any more."""
        old = self.limits.get(key)
        if old is None:
            self.limits[key] = zeros, top
        elif zeros < old[0] or top > old[1]:
            self.limits[key] = old[0] if zeros >= old[0] else 0, old[1] if top <= old[1] else 64
        if old != self.limits[key]:
            self._changed(key)

    def diverge(self, blocks: set[int]) -> None:
        """Lanes may enter these blocks diverged."""
        assert not self.frozen or blocks <= self.diverging
        self.diverging |= blocks
