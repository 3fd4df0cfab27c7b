"""What an observer of a running launch may see. An observer reads the machine and never writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from warpsim.machine.group import Group
    from warpsim.program.program import Instruction


class Observer(Protocol):
    """Called at every step boundary of an observed launch."""

    def before(self, instruction: Instruction, group: Group) -> None:
        """``group`` is about to execute ``instruction``."""

    def after(self, instruction: Instruction, group: Group) -> None:
        """``group`` has executed ``instruction``."""
