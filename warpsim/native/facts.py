"""What is found out about the registers of a unit while it is written."""

from __future__ import annotations

import attrs

from warpsim.native.forms import Key

SCALAR, ALONG, LANEWISE = 0, 1, 2
NOTHING = -1
"""No stride was seen so far."""


@attrs.define(eq=False)
class Facts:
    """What was found out about a unit while it was written; where that has ``changed``, it is written anew."""

    forms: dict[Key, int] = attrs.field(factory=dict)
    strides: dict[Key, tuple[int | None, int | None]] = attrs.field(factory=dict)
    """Known strides, None where they are not the same everywhere."""
    parting: set[int] = attrs.field(factory=set)
    """Blocks that lanes of a warp may enter apart."""
    changed: bool = False

    def widen(self, key: Key, form: int) -> None:
        """A register is at least so much in some place."""
        if form > self.forms.get(key, SCALAR):
            self.forms[key] = form
            self.changed = True

    def stride(self, key: Key, found: tuple[int | None, int | None]) -> None:
        """A register has these strides in some place."""
        old = self.strides.get(key)
        new = found if old is None else tuple([a if a == b else None for a, b in zip(old, found, strict=True)])
        if new != old:
            self.strides[key] = new  # type: ignore[assignment]
            self.changed = True

    def part(self, blocks: set[int]) -> None:
        """Lanes may enter these blocks apart."""
        if not blocks <= self.parting:
            self.parting |= blocks
            self.changed = True
