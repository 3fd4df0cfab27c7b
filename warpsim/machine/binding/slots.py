"""Slots of a group's environment beyond the registers."""


class SpecialSlot:
    """Placeholder in a plan's extras for a value that only the batch knows."""

    def __init__(self, name: str) -> None:
        self.name = name
