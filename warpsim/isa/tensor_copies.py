"""Copies from shared to tensor memory, and shifts in tensor memory (PTX ISA: tcgen05.cp, tcgen05.shift).

A copy reads a K-major matrix through a descriptor, in each CTA that takes part at the same place of its own shared memory.
"""

from __future__ import annotations

import numpy as np

from warpsim.isa.matrix_moves import unpacked
from warpsim.isa.ports import Address, Lanes, ReportPort, SharedRuns, TensorCoreMemory, TensorCorePort, TensorRuns
from warpsim.isa.spec import Op, instruction
from warpsim.isa.traits import Asynchronous, Family, Traits
from warpsim.layout import descriptors
from warpsim.layout.tensor_memory import QUARTER
from warpsim.records import frozen

_GROUP = ".cta_group = { .cta_group::1, .cta_group::2 };"
_FAMILIES = ("100f", "110f")
_ISSUES = Traits(asynchronous=Asynchronous(Family.TCGEN05))
LANE = np.int64(1 << 16)
PIECE = 16
"""Bytes that are contiguous in shared memory."""
WARPS: dict[str | None, tuple[tuple[int, ...], ...]] = {
    None: ((0,),),
    "warpx4": ((0, 1, 2, 3),),
    "warpx2::02_13": ((0, 2), (1, 3)),
    "warpx2::01_23": ((0, 1), (2, 3)),
}
"""The quarters of the lanes to which each part of the rows goes; without multicast, the rows follow each other from the first."""


@frozen(eq=False)
class TensorCopies:
    """Copies in flight: the batch columns of the CTAs of each ``[k]``, descriptors, and addresses of tensor memory.

    ``rows`` of ``columns`` words go to rectangles: (first row, number of rows, lane). ``packed`` is the format of elements that
    become bytes.
    """

    ctas: tuple[Lanes, ...]
    source: Lanes
    target: Lanes
    rows: int
    columns: int
    rectangles: tuple[tuple[int, int, int], ...]
    packed: str | None

    def perform(self, memory: TensorCoreMemory, which: Lanes) -> None:
        """Copy for some of the threads."""
        fields = descriptors.decode_tcgen05(self.source[which])
        places = descriptors.byte_addresses(fields, self.columns, self.rows, 4, transposed=False)
        for ctas in self.ctas:
            words = memory.read_shared(ctas[which], places, np.dtype(np.uint32)).transpose(2, 1, 0)
            if self.packed is not None:
                words = _bytes(words, self.packed)
            for row, count, lane in self.rectangles:
                at = self.target[which] + lane * LANE
                memory.write_tensor(ctas[which], at, np.ascontiguousarray(words[:, row : row + count]))

    def shared(self) -> tuple[SharedRuns, ...]:
        """What is read of shared memory."""
        fields = descriptors.decode_tcgen05(self.source)
        start = descriptors.byte_addresses(fields, self.columns // 4, self.rows, PIECE, transposed=False)
        issuer = np.broadcast_to(np.arange(len(self.source)), start.shape).reshape(-1)
        return tuple([SharedRuns(issuer, ctas[issuer], start.reshape(-1), PIECE) for ctas in self.ctas])

    def writes(self) -> tuple[TensorRuns, ...]:
        """What is written of tensor memory."""
        issuer, lane, column = np.arange(len(self.target)), self.target >> 16, self.target & 0xFFFF
        return tuple(
            [
                TensorRuns(issuer, ctas, lane + first, column, count, self.columns)
                for ctas in self.ctas
                for _, count, first in self.rectangles
            ]
        )


def _bytes(words: Lanes, source: str) -> Lanes:
    """Sixteen elements of 4 or 6 bits, and padding, in each four words as bytes; 4-bit ones stand in bits 2 to 5."""
    out = np.empty_like(words)
    for first in range(0, words.shape[2], 4):
        parts = unpacked(tuple([words[:, :, first + k] for k in range(4)]), source)
        for k, part in enumerate(parts):
            out[:, :, first + k] = part << np.uint32(2) if source == "b4x16_p64" else part
    return out


def _rectangles(op: Op) -> tuple[tuple[int, int, int], ...]:
    rows = _rows(op)
    if op.shape == "4x256b":
        return tuple((row, 1, QUARTER * row) for row in range(4))
    parts = WARPS[op.multicast]
    count = rows // len(parts)
    return tuple((part * count, count, QUARTER * warp) for part, warps in enumerate(parts) for warp in warps)


def _rows(op: Op) -> int:
    return int(op.shape.split("x")[0])


def _illegal(op: Op) -> str | None:
    wanted = {"64x128b": ("warpx2::02_13", "warpx2::01_23"), "32x128b": ("warpx4",)}.get(op.shape, (None,))
    if op.source and op.modifiers.index("b8x16") > op.modifiers.index(op.source):
        return "the format of the target stands before that of the source"
    if op.multicast in wanted:
        return None
    return f".{op.shape} goes with " + " or ".join(f".{word}" if word else "no multicast" for word in wanted)


@instruction(
    f"""
    tcgen05.cp.cta_group.shape{{.multicast}} [taddr], sdesc;
    tcgen05.cp.cta_group.shape{{.multicast}}.b8x16.source [taddr], sdesc;
    {_GROUP} .shape = {{ .128x256b, .4x256b, .128x128b, .64x128b, .32x128b }};
    .multicast = {{ .warpx2::02_13, .warpx2::01_23, .warpx4 }}; .source = {{ .b6x16_p32, .b4x16_p64 }};
    """,
    anchor="tcgen05-instructions-tcgen05-cp",
    types={"sdesc": ".u64"},
    spaces={"taddr": {"tensor"}},
    legal=_illegal,
    needs=(_FAMILIES, (8, 6)),
    traits=_ISSUES,
)
def cp(op: Op, taddr: Address, sdesc: Lanes, *, tensor_core: TensorCorePort, report: ReportPort) -> None:
    """Copy a matrix from shared to tensor memory."""
    group = int(op.cta_group[-1])
    target, source = tensor_core.each(taddr, sdesc)
    for number in np.unique(source).tolist():
        why = descriptors.problem_tcgen05(number & (1 << 64) - 1)
        if why is not None:
            report("tcgen05", f"the matrix descriptor 0x{number & (1 << 64) - 1:x}: {why}", None, advice=_ADVICE)
            return
    columns = int(op.shape.split("x")[1][:-1]) // 32
    work = TensorCopies(
        tensor_core.ctas(group), source.astype(np.uint64), target, _rows(op), columns, _rectangles(op), op.source
    )
    tensor_core.start(work, cta_group=group, shared=work.shared(), writes=work.writes())


_ADVICE = "see the shared memory descriptor in the PTX ISA"


@frozen(eq=False)
class TensorShifts:
    """Shifts in flight: the batch columns of the CTAs of each ``[k]``, and addresses of tensor memory."""

    ctas: tuple[Lanes, ...]
    target: Lanes

    def perform(self, memory: TensorCoreMemory, which: Lanes) -> None:
        """Move rows for some of the threads: each lane gets the 32 bytes of the next, and the last keeps its own."""
        for ctas in self.ctas:
            moved = memory.read_tensor(ctas[which], self.target[which] + LANE, QUARTER - 1, SHIFTED)
            memory.write_tensor(ctas[which], self.target[which], moved)

    def runs(self, first: int) -> tuple[TensorRuns, ...]:
        """The rows from the ``first`` on."""
        issuer, lane, column = np.arange(len(self.target)), (self.target >> 16) + first, self.target & 0xFFFF
        return tuple([TensorRuns(issuer, ctas, lane, column, QUARTER - 1, SHIFTED) for ctas in self.ctas])


SHIFTED = 8
"""Columns that are shifted together."""


@instruction(
    f"tcgen05.shift.cta_group.down [taddr]; {_GROUP}",
    anchor="tcgen05-instructions-tcgen05-shift",
    spaces={"taddr": {"tensor"}},
    needs=(("100a", "103a", "110a"), (8, 6)),
    traits=_ISSUES,
)
def shift(op: Op, taddr: Address, *, tensor_core: TensorCorePort, report: ReportPort) -> None:
    """Shift the rows of 32 lanes by one lane, from the last to the first."""
    group = int(op.cta_group[-1])
    (target,) = tensor_core.each(taddr)
    wrong = (target >> 16) % QUARTER != 0
    if wrong.any():
        lane = int((target[wrong] >> 16)[0])
        report(
            "tcgen05", f"tcgen05.shift from lane {lane}, which is no multiple of {QUARTER}", None, advice=_ADVICE_SHIFT
        )
        return
    work = TensorShifts(tensor_core.ctas(group), target)
    tensor_core.start(work, cta_group=group, reads=work.runs(1), writes=work.runs(0))


_ADVICE_SHIFT = "pass the address of the first lane of a warp's quarter"
