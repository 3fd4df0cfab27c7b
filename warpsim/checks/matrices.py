"""Matrices and boxes that cannot be read or copied as asked: descriptor, fragment-mismatch, matrix-address-space,
matrix-alignment, tensor-map.

The swizzle of a tensor copy is anchored at absolute multiples of its pattern, wherever the box begins. A wgmma descriptor
whose base offset anchors the pattern elsewhere reads other bytes than intended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.analysis.facts import matrices
from warpsim.analysis.ranked import ranked_descriptors
from warpsim.analysis.wmma_fragments import ADVICE as FRAGMENT_ADVICE
from warpsim.analysis.wmma_fragments import RULE as FRAGMENT
from warpsim.analysis.wmma_fragments import Mismatch, mismatches
from warpsim.checks.found import known_of
from warpsim.layout import descriptors, tensor_map
from warpsim.layout.tensor_map import ROW_UNIT
from warpsim.machine.asynchrony.wgmma_chains import Chain
from warpsim.machine.memory.addresses import RowProblem
from warpsim.machine.memory.word_access import report_rows
from warpsim.machine.reporting import present
from warpsim.machine.specials import ranks_of
from warpsim.machine.state.notes import Note
from warpsim.machine.state.transfers import BoxLoad, Footprint, Transfer
from warpsim.machine.values import Array
from warpsim.machine.watcher import BoxProblem, Watcher
from warpsim.numerics.arrays import distinct

if TYPE_CHECKING:
    from warpsim.checks.proxies import Proxies
    from warpsim.layout.boxes import Boxes
    from warpsim.machine.collectives import Members
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group
    from warpsim.program.program import Instruction


RULE = "descriptor"
SWIZZLES: Note[TileSwizzles] = Note(RULE)
MISMATCHES: Note[dict[int, Mismatch]] = Note(FRAGMENT)
ADVICE = "see the matrix descriptor format and its table of canonical layouts"
UNMASKED = "keep the lower 18 bits of an address that goes into a descriptor: (address & 0x3ffff) >> 4"
ROW = 128


class TileSwizzles:
    """The copy that last wrote each 128-byte row of each CTA, as an index into ``copies``; 0 if none did."""

    def __init__(self, size: int, n_ctas: int) -> None:
        self.rows: Array = np.zeros((-(-size // ROW), n_ctas), np.int16)
        self.copies: list[tuple[Instruction | None, int]] = [(None, 0)]

    def copied(self, instruction: Instruction, written: Footprint, span: int) -> None:
        """Record a copy with a swizzle row of ``span`` bytes (0: none)."""
        if not written.start.size:
            return
        number = 0
        if span:
            for number, (known, its) in enumerate(self.copies):  # noqa: B007  where it is found
                if known is instruction and its == span:
                    break
            else:
                number = len(self.copies)
                self.copies.append((instruction, span))
        count = -(-written.nbytes // ROW)
        if written.at is not None:
            self.rows[written.at // ROW : written.at // ROW + count, written.run] = number
            return
        rows = written.start[:, None] // ROW + np.arange(count)
        self.rows[np.minimum(rows, len(self.rows) - 1), written.columns[:, None]] = number

    def made_by(self, chunks: Array, columns: Array, span: int, proxies: Proxies) -> Instruction | None:
        """The copy with this swizzle that wrote all bytes at ``chunks`` in one of the ``columns``; None if there is
        none, or if threads have written there since."""
        chunks = chunks.reshape(-1, 1)
        found = self.rows[np.minimum(chunks // ROW, len(self.rows) - 1), columns]
        known = np.array([made == span for _, made in self.copies])[found].all(axis=0)
        if not known.any():
            return None
        untouched = known & ~proxies.wrote(chunks, columns[None]).any(axis=0)
        return self.copies[int(found[0, np.flatnonzero(untouched)[0]])][0] if untouched.any() else None


class Descriptors(Watcher):
    """Checks wgmma descriptors. Tile layouts made by copies are known only if proxy fences are checked too."""

    def batch_began(self, machine: Machine) -> None:
        """Start without any tiles."""
        machine.batch.notes[SWIZZLES] = TileSwizzles(machine.batch.shared.size, machine.batch.shape.n_ctas)

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Record tiles laid out by copies."""
        if transfer.writes is not None and not transfer.kind:
            work = transfer.work
            span = tensor_map.SPANS[work.boxes.fields.swizzle] if type(work) is BoxLoad else 0
            swizzles = machine.batch.notes[SWIZZLES]
            swizzles.copied(transfer.place or present(transfer.group), transfer.writes, span)

    def wgmma_chain_met(self, machine: Machine, group: Group, chain: Chain) -> None:
        """Follow products whose descriptors may name other bytes on a GPU; those with a problem start one by one."""
        if machine.launch.settings.cluster is not None and known_of(machine.launch.plan, ranked_descriptors):
            chain.followed = True

    def descriptor_read(
        self,
        machine: Machine,
        group: Group,
        bits: Array,
        columns: Array,
        matrix: tuple[int, int, int, bool],
        limits: tuple[int, int],
    ) -> None:
        """Report invalid descriptors."""
        self._check_rank(machine, group, bits, columns, matrix)
        problems: dict[int, str | None]
        first, size = bits.item(0), machine.batch.shared.size
        if bits.size == 1 or (bits == first).all():
            one = descriptors.elements(first, *matrix[:3], transposed=matrix[3])
            problem = one.problem
            if one.moved_span and problem is None:
                problem = _mislaid(machine, one, columns)
            if problem is None and limits[0] >= 0 and limits[1] <= size:
                return
            problems = {first: problem}
        else:
            numbers = dict.fromkeys(bits.reshape(-1).tolist())
            problems = {b: descriptors.problem(b, *matrix[:3], transposed=matrix[3]) for b in numbers}
        if limits[0] < 0 or limits[1] > size:
            message = descriptors.beyond(next(iter(problems)), limits[1], size)
            machine.fault(RULE, message, group, address=limits[1], advice=ADVICE)
        for number, found in problems.items():
            if found:
                message = f"{found} (descriptor {descriptors.describe(number)})"
                machine.fault(RULE, message, group, advice=ADVICE, descriptor=number)

    def _check_rank(
        self, machine: Machine, group: Group, bits: Array, columns: Array, matrix: tuple[int, int, int, bool]
    ) -> None:
        """Report descriptors that name other bytes on a GPU, where addresses hold the CTA's rank."""
        if machine.launch.settings.cluster is None:
            return
        known = known_of(machine.launch.plan, ranked_descriptors)
        if not known:
            return
        here, (*shape, transposed) = present(group), matrix
        named = dict(zip(("k", "extent", "itemsize", "transposed"), matrix, strict=True))
        larger = [known.get((here.span, name), 0) for name, _, decoded in matrices(here) if decoded.keywords == named]
        ranks = ranks_of(machine.launch, machine.batch)
        second = ranks[columns] == 1
        if not larger or not all(larger) or not second.any():
            return
        number = np.broadcast_to(bits, second.shape)[second].item(0)
        *there, meant = [descriptors.elements(number + m, *shape, transposed=transposed) for m in (*larger, 0)]
        if all((read.address != meant.address).any() for read in there):
            message = (
                "its address is not masked: on a GPU, bits 24 and up of a shared address are the CTA's rank in the cluster, and"
                f" here it reads by {descriptors.describe(number + larger[0])} instead of {descriptors.describe(number)}"
            )
            lanes = ranks[group.selection.positions % len(ranks)] == 1
            machine.fault(RULE, message, group, lanes, advice=UNMASKED, descriptor=number)


def _mislaid(machine: Machine, tile: descriptors.Elements, columns: Array) -> str | None:
    """The message if tensor copies laid out the tile with the pattern at multiples of its size."""
    from warpsim.checks.proxies import PROXIES

    proxies = machine.batch.notes.get(PROXIES)
    if proxies is None or tile.low < 0 or tile.high > machine.batch.shared.size:
        return None
    swizzles = machine.batch.notes[SWIZZLES]
    copy = swizzles.made_by(tile.chunks, distinct(columns), tile.moved_span, proxies)
    if copy is None:
        return None
    return (
        f"the base offset moves the {tile.moved_span}-byte swizzle, and the copy in line {copy.span.line} laid out the"
        " tile with a pattern that begins at multiples of its size: 0 is right"
    )


class Fragments(Watcher):
    """Reports warps that execute an instruction with a wrong fragment."""

    compiled = frozenset({"collective_reached"})  # matrix instructions are not compiled into regions

    def collective_reached(self, machine: Machine, group: Group, members: Members, active: Array | None) -> None:
        """Look the instruction up among those with wrong fragments."""
        plan = group.plan
        wrong = plan.notes.get(MISMATCHES)
        if wrong is None:
            wrong = plan.notes[MISMATCHES] = mismatches(plan.function, plan.flow)
        found = wrong.get(plan.flow[group.block].first + group.at) if wrong else None
        if found is not None:
            register, maker = found.register, found.found.maker
            machine.fault(FRAGMENT, found.message, group, advice=FRAGMENT_ADVICE, register=register, other=maker)


BROKEN = {RowProblem.SPACE: "matrix-address-space", RowProblem.ALIGNMENT: "matrix-alignment"}
RULES = frozenset(BROKEN.values())


class MatrixRows(Watcher):
    """Names the rule broken by rows that cannot be accessed."""

    def rows_refused(
        self, machine: Machine, group: Group, problem: RowProblem, rows: Array, address: Array, nbytes: int
    ) -> None:
        """Report the rows."""
        report_rows(machine, group, BROKEN[problem], problem, rows, address, nbytes)


TENSOR_MAP = "tensor-map"


class TensorMaps(Watcher):
    """Reports the copies that the machine leaves out, and what it stores beyond a tensor."""

    def boxes_refused(self, machine: Machine, group: Group, problem: BoxProblem, active: Array | None) -> None:
        """Report the copy."""
        where = {} if problem.address is None else {"address": problem.address}
        machine.fault(TENSOR_MAP, problem.message, group, active, advice=problem.advice, **where)

    def boxes_beyond(self, machine: Machine, group: Group, boxes: Boxes, positions: Array) -> None:
        """Note stores that write elements behind the end of a row, as a GPU does on purpose."""
        every = np.arange(len(positions))
        beyond = boxes.elements(every)[1] & ~boxes.inside(every)
        if beyond.any():
            size = boxes.fields.dims[0]
            message = (
                f"elements beyond the tensor are written, too: rows of {size} elements end within a unit of {ROW_UNIT} bytes,"
                " and units are stored whole"
            )
            lanes = np.isin(group.selection.positions, positions[beyond.any(axis=1)])
            advice = f"leave the rest of the last {ROW_UNIT} bytes of a row free, or let threads store its elements"
            machine.fault(TENSOR_MAP, message, group, lanes, severity="note", advice=advice)
