"""What is found out about the registers of a region while it is written."""

from __future__ import annotations

import attrs

from warpsim.native.regions.forms import Key

UNIFORM, AFFINE, VARYING = 0, 1, 2
NOTHING = -1
"""No stride was seen so far."""


@attrs.define(eq=False)
class Facts:
    """What was found out about a region while it was written; where that has ``changed``, it is written anew."""

    forms: dict[Key, int] = attrs.field(factory=dict)
    strides: dict[Key, tuple[int | None, int | None]] = attrs.field(factory=dict)
    """Known strides, None where they are not the same everywhere."""
    limits: dict[Key, tuple[int, int]] = attrs.field(factory=dict)
    """Of registers that are scalars or have strides: the least ``zeros`` and the greatest ``top`` (`Val`) of all places."""
    diverging: set[int] = attrs.field(factory=set)
    """Blocks that lanes of a warp may enter apart."""
    changed: bool = False

    def widen(self, key: Key, form: int) -> None:
        """A register is at least so much in some place."""
        if form > self.forms.get(key, UNIFORM):
            self.forms[key] = form
            self.changed = True

    def stride(self, key: Key, found: tuple[int | None, int | None]) -> None:
        """A register has these strides in some place."""
        old = self.strides.get(key)
        new = found if old is None else tuple([a if a == b else None for a, b in zip(old, found, strict=True)])
        if new != old:
            self.strides[key] = new  # type: ignore[assignment]
            self.changed = True

    def limit(self, key: Key, zeros: int, top: int) -> None:
        """A register has these in some place; the second time that it has others, nothing is known any more."""
        old = self.limits.get(key)
        if old is None:
            self.limits[key] = zeros, top
        elif zeros < old[0] or top > old[1]:
            self.limits[key] = old[0] if zeros >= old[0] else 0, old[1] if top <= old[1] else 64
        if old != self.limits[key]:
            self.changed = True

    def diverge(self, blocks: set[int]) -> None:
        """Lanes may enter these blocks apart."""
        if not blocks <= self.diverging:
            self.diverging |= blocks
            self.changed = True
