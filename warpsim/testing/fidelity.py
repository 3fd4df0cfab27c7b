"""What the bits of a launch rest on: for each executed instruction form, where its results are known from."""

from __future__ import annotations

from typing import Any


class Forms:
    """Stub."""

    def add(self, state: Any) -> None:
        """Stub."""

    def plain(self) -> dict[str, Any]:
        """Stub."""
        return {}

    def merge(self, other: dict[str, Any]) -> None:
        """Stub."""

    def summary(self) -> list[str]:
        """Stub."""
        return []
