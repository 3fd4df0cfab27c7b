"""How undefined bits pass through matrix products: an undefined element of A makes its row of D undefined, one of B its
column, one of C itself. Where the rows and columns of a form are not known, any makes all of its warp's D undefined."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import attrs
import numpy as np

from warpsim.checks.undefined_registers import UNFINISHED
from warpsim.errors import Finding
from warpsim.isa import mma
from warpsim.isa.ports import Lanes, Registers
from warpsim.isa.spec import Op
from warpsim.isa.wgmma import is_f16, one, operands
from warpsim.layout import fragments
from warpsim.layout.fragment import extent
from warpsim.machine.asynchrony.wgmma import SharedMatrix
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import party
from warpsim.machine.state.group import Group
from warpsim.machine.state.word_space import WordSpace
from warpsim.machine.values import Array, DType
from warpsim.program.program import Instruction
from warpsim.records import frozen

EARLY = "async-read-early"
TILED = (mma.mma_float, mma.mma_f64, mma.mma_integer, mma.mma_bits)
"""Bodies of which A, B, C and D stand in registers as `warpsim.isa.mma` says."""


@frozen(eq=False)
class Unfinished:
    """Bytes of shared memory that a step reads while they are written, by a copy or an instruction at ``place``."""

    address: Array
    columns: Array
    nbytes: int
    place: Instruction | None
    rule: str = EARLY
    """That is broken if it matters."""


class UndefinedMatrix(SharedMatrix):
    """The port of a wgmma that reads a 1 for each undefined bit of its matrices."""

    def __init__(self, machine: Machine, group: Group, written: WordSpace) -> None:
        super().__init__(machine, group)
        self.space, self.reported = written, True

    def read(self, bits: Array, k: int, extent: int, dtype: DType, *, transposed: bool, by_warp: bool) -> Array:
        """Read the undefined bits of a matrix."""
        return ~super().read(bits, k, extent, dtype, transposed=transposed, by_warp=by_warp)


@contextmanager
def without(written: WordSpace, unfinished: list[Unfinished]) -> Iterator[None]:
    """In the context, what copies still write counts as never written."""
    kept = []
    for part in unfinished:
        steps = np.arange(0, part.nbytes, 4)
        rows, columns = part.address[:, None] + steps >> 2, part.columns[:, None]
        written.own()
        kept.append((rows, columns, written.words[rows, columns]))
        written.words[rows, columns] = 0
    yield
    for rows, columns, words in reversed(kept):
        written.words[rows, columns] = words


def early(machine: Machine, group: Group, instruction: Instruction, part: Unfinished) -> Finding:
    """The origin of what a step computes or loads from bytes that a copy still writes."""
    message = f"shared address 0x{int(part.address[0]):x} is read while an unfinished copy writes it"
    found: Finding = attrs.evolve(
        party(machine.launch, machine.batch, group, message),
        values={UNFINISHED: (part.rule, instruction, part.place)},
    )
    return found


def mma_rows(op: Op, a: Registers, b: Registers, c: Registers) -> Registers:
    """The undefined bits of D, from those of A, B and C in registers ``[n, 32, m]``."""
    n, m = extent((*a, *b, *c))
    height = mma.extents(op)[0]
    if op.atype.bits == 64:
        x, y = (mma.multiplicand("f64", rows, held, n, m) for rows, held in ((height, a), (8, b)))
    else:
        x, y = mma.words(height, a, n, m), mma.words(8, b, n, m)
    d = np.ascontiguousarray(mma.accumulator(op, c, n, m))
    unsure = d.view(f"u{d.itemsize}") != 0
    unsure = unsure | (_bits(x) != 0).any(axis=0)[:, None] | (_bits(y) != 0).any(axis=0)[None]
    size = op.dtype.bits // 8
    return tuple(_bits(r) for r in mma.scattered(op, _whole(unsure, size).view(_TYPES[size]), n, m))


_TYPES = {2: np.float16, 4: np.float32, 8: np.float64}


def _silent(rule: str, message: str, lanes: Array | None = None, **values: object) -> None:
    """The step itself reports."""


def _bits(array: Array) -> Array:
    return array.view(f"u{array.dtype.itemsize}")


def _whole(mask: Array, size: int) -> Array:
    """All bits of elements of ``size`` bytes where ``mask`` is true."""
    kind = np.dtype(f"u{size}").type
    return np.where(mask, np.iinfo(kind).max, kind(0))


def wgmma_rows(op: Op, given: dict[str, Lanes], matrices: UndefinedMatrix, accumulator: Lanes) -> Lanes:
    """The undefined bits of D in a wgmma's accumulators ``[registers, n, 128, m]``, from those that they have. ``given`` are its
    sources by name; where A is in registers, their undefined bits."""
    trans_a, trans_b = (one(given.get(name)) for name in ("imm_trans_a", "imm_trans_b"))
    a, a_desc, b_desc, meta, selector = map(given.get, ("a", "a_desc", "b_desc", "sp_meta", "sp_sel"))
    factors = cast("Registers | None", a)
    left, right, _ = operands(op, factors, a_desc, b_desc, meta, selector, trans_a, trans_b, matrices, _silent)
    gather, scatter, size = (
        (fragments.gather_packed, fragments.scatter_packed, 2)
        if is_f16(op)
        else (fragments.gather_accumulator, fragments.scatter_accumulator, 4)
    )
    n, m = matrices.extent
    adds = np.broadcast_to(given["scale_d"][:, 0], (n, m)).reshape(-1, 1, 1) != 0
    unsure = adds & (_bits(gather(accumulator)) != 0)
    unsure = unsure | (left != 0).any(axis=1)[:, :, None] | (right != 0).any(axis=1)[:, None, :]
    return _bits(scatter(_whole(unsure, size), n, m))
