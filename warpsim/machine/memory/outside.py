"""Messages and advice for accesses outside memory."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from warpsim.machine.state.global_memory import GlobalMemory

if TYPE_CHECKING:
    from warpsim.machine.state.launch import LaunchState

NULL_PAGE = 1 << 16
"""Addresses below this come from a null pointer plus an index."""
FAR = 1 << 32
"""Beyond this distance, no allocation counts as near."""
INDEX = "check the index against the array's size, and the access's guard"


def outside_global(memory: GlobalMemory, address: int, nbytes: int) -> tuple[str, str]:
    """Message and advice for an address outside any allocation, with the nearest one and the distance."""
    text = f"access of {nbytes} bytes at address 0x{address % (1 << 64):x}"
    if 0 <= address < NULL_PAGE:
        where = f", {address} bytes from it" if address else ""
        return f"{text}, through a null pointer{where}", "pass an array for the pointer, or test it before the access"
    near = memory.nearest(address)
    text += " is outside any live allocation"
    if near is None or abs(near[1]) >= FAR:
        return f"{text}, and none is near", "check that it is a pointer of the launch, or an offset from one"
    allocation, distance = near
    where = f"{abs(distance)} bytes {'before' if distance < 0 else 'past the end of'}" if distance else "at the end of"
    return f"{text}; it is {where} {allocation.name} [0x{allocation.start:x}, 0x{allocation.end:x})", INDEX


def shared_advice(launch: LaunchState) -> str:
    """Advice for an address outside the shared memory of a CTA."""
    if not launch.plan.shared.open:
        return INDEX
    given = launch.settings.dynamic_shared
    if not given:
        return "pass shared_mem=: the kernel uses dynamic shared memory, and this launch gives it none"
    return f"pass more than shared_mem={given}, or check the index"


class RowProblem(enum.Enum):
    """Why a row of a matrix in shared memory cannot be accessed."""

    SPACE = "is not in shared memory"
    ALIGNMENT = "is not a multiple of"

    def message(self, address: int, nbytes: int) -> str:
        """The message for a row of ``nbytes`` at an address."""
        return f"row address 0x{address:x} {self.value}" + (f" {nbytes} bytes" if self is RowProblem.ALIGNMENT else "")

    @property
    def advice(self) -> str:
        """Advice."""
        if self is RowProblem.SPACE:
            return "ldmatrix and stmatrix move rows of shared memory only"
        return "align the tile, and make the distance between its rows a multiple of 16 bytes"


OUTRIGHT = {RowProblem.SPACE: "out-of-bounds", RowProblem.ALIGNMENT: "misaligned"}
"""The rules that such rows break in any launch."""
