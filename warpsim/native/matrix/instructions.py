"""Machine code in place of the bodies of matrix instructions: the same registers in, the same bits out.

A body that is asked for what no machine code does (other numerics, operands of another width) runs itself.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.isa import wgmma
from warpsim.isa.ports import DevicePort, ReportPort
from warpsim.isa.spec import Body, Op
from warpsim.layout import fragments
from warpsim.native.addresses import address_of
from warpsim.native.compiling.images import Function
from warpsim.native.matrix.codes import codes, unreported
from warpsim.native.tiering.cost import Policy, account_of_product
from warpsim.numerics.arrays import Array, DType
from warpsim.records import frozen

if TYPE_CHECKING:
    from warpsim.machine.asynchrony.wgmma import SharedMatrix, Words
    from warpsim.machine.machine import Chained
    from warpsim.machine.state.launch import DeviceSpec
    from warpsim.program.program import Instruction

WORD = np.dtype(np.uint32)


class Matrices:
    """The semantics of matrix instructions in one launch."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._found: dict[int, tuple[Op, Body]] = {}
        self._chained: dict[int, tuple[Op, Chained]] = {}

    def over(self) -> None:
        """The launch is over."""
        codes().over(self.policy)

    def chained(self, instruction: Instruction, device: DeviceSpec) -> Chained | None:
        """What computes such products of wgmma on the same accumulators, one after the other."""
        found = self._chained.get(id(instruction.op))
        if found is None:
            if device.numerics != "exact":
                return None
            op, named = instruction.op, instruction.named
            shared = "a" not in named, True
            across = (
                0 if (o := named.get("imm_trans_a")) is None else o.constant or 0,
                0 if (o := named.get("imm_trans_b")) is None else o.constant or 0,
            )
            function = _code(op, device.sm, shared, across, self.policy)
            if function is None:
                return None
            dtype = np.dtype(wgmma.STORAGE[op.atype.name])
            found = self._chained[id(op)] = op, partial(_in_turn, function, dtype, half=wgmma.is_f16(op))
        return found[1]

    def of(self, instruction: Instruction) -> Body:
        """The function that computes an instruction's results."""
        found = self._found.get(id(instruction.op))
        if found is None:
            function = instruction.form.function
            own = getattr(function, "__wrapped__", function)
            body = function
            if own is wgmma.mma_float:
                body = _Warpgroups(own, self.policy)
            else:
                from warpsim.native.matrix.warps import PLANS, Warps

                if own in PLANS:
                    body = Warps(own, self.policy, PLANS[own])
            if body is not function:
                body = _filled(body, getattr(function, "places", None))
            found = self._found[id(instruction.op)] = instruction.op, body
        return found[1]


def _filled(body: Body, places: list[int] | None) -> Body:
    """A body that gets None for operands that the form lacks (as `warpsim.isa.spec` has it)."""
    if places is None:
        return body
    return lambda op, *given, **ports: body(op, *[given[k] if k >= 0 else None for k in places], **ports)


class _Places:
    """A port that gives where some matrices stand in place of their elements; None where that cannot be said."""

    def __init__(self, port: SharedMatrix, gathered: list[bool]) -> None:
        self.port, self.extent = port, port.extent
        self.gathered = iter(gathered)

    def read(self, bits: Array, k: int, extent: int, dtype: DType, *, transposed: bool, by_warp: bool) -> Any:
        """The next matrix."""
        if not next(self.gathered):
            return self.port.read(bits, k, extent, dtype, transposed=transposed, by_warp=by_warp)
        found = self.port.words(bits, k, extent, dtype, transposed=transposed, by_warp=by_warp)
        if found is None:
            self.port.read(bits, k, extent, dtype, transposed=transposed, by_warp=by_warp)  # for those who look on
        return found


def _code(op: Op, sm: int, shared: tuple[bool, bool], across: tuple[int, int], policy: Policy) -> Function | None:
    """A product's machine code, None while it does not pay; ``shared``: which matrices are read from shared memory in place."""

    def text(name: str) -> str:
        from warpsim.native.matrix.kernels import warpgroup_kernel  # code that is kept is loaded without them
        from warpsim.native.matrix.plans import wgmma_product

        packed = shared[0] and not across[0], shared[1] and not across[1]
        product = wgmma_product(op, sm, sparse="sp" in op.modifiers, packed=packed)
        return warpgroup_kernel(product, wgmma.columns(op), name, half=product.half, shared=shared)

    return codes().of((op.text, sm, shared, across), text, policy)


def _in_turn(
    function: Function, dtype: DType, accumulator: Array, lefts: list[tuple[Array, ...]], tables: Array, flat: Array, owners: Array,
    keep: Array, *, half: bool
) -> Array:  # fmt: skip
    """See `Chained`: the first product reads the accumulators, the others what the one before has left."""
    n, m = owners.shape
    c = accumulator if accumulator.strides[2] == WORD.itemsize else _side_by_side(accumulator)
    room = np.empty((m, len(c), n, 128), WORD if half else np.float32)
    d = room.transpose(1, 2, 3, 0)
    before, after = (
        (at, registers >> 2, warpgroups >> 2, ctas >> 2)
        for at, (registers, warpgroups, _, ctas) in ((address_of(c), c.strides), (address_of(room), d.strides))
    )
    place, counts, words = address_of(tables), address_of(keep), (address_of(flat), address_of(owners))
    held, given = [], [n, m, len(keep)]
    for k in range(len(keep)):
        given += (0, counts + k * n * m, *before, *after)
        if lefts:
            words_a, matrix = _described(_lines(fragments.gather_a(lefts[k], n, m, dtype)))
            held.append(matrix)
            given += words_a
        for _ in range(tables.shape[1]):
            given += (*words, place)
            place += 8 * n * m
        before = after
    arguments = np.array(given, np.int64)
    function(address_of(arguments))
    return d


@frozen(eq=False)
class _Warpgroups:
    """Floats of wgmma."""

    function: Body
    policy: Policy

    def __call__(
        self,
        op: Op,
        *operands: Any,
        device: DevicePort,
        accumulator: Array,
        shared_matrix: SharedMatrix,
        report: ReportPort,
    ) -> Array:
        ports = {"device": device, "accumulator": accumulator, "shared_matrix": shared_matrix, "report": report}
        if device.numerics != "exact":
            return self.function(op, *operands, **ports)
        a, a_desc, b_desc, meta, sel, scale_d, scale_a, scale_b, trans_a, trans_b = (*operands, *[None] * 10)[:10]
        numbers = [0 if n is None else n.item(0) for n in (scale_a, scale_b, trans_a, trans_b)]
        signs, across = (numbers[0], numbers[1]), (numbers[2], numbers[3])
        shared = a is None and signs[0] != -1, signs[1] != -1
        function = _code(op, device.sm, shared, across, self.policy)
        if function is None:
            return account_of_product(op.text).timed(self.function, op, *operands, **ports)

        def again() -> Array:
            """By the body, without reporting twice."""
            shared_matrix.reported = True
            return self.function(op, *operands, **(ports | {"report": unreported}))

        n, m = shared_matrix.extent
        places = _Places(shared_matrix, list(shared if a is None else shared[1:]))
        left, right, where = wgmma.operands(op, a, a_desc, b_desc, meta, sel, *across, places, report)
        if left is None or right is None:
            return again()
        table = None
        if where is not None:
            table = np.ascontiguousarray(where, np.int32)
            if (table[:, 1:] == table[:, :-1]).any():
                return again()
        matrices: tuple[Any, Any] = left, right
        words: list[int] = []
        sources = [
            _where(matrix, n, m, words) if gathered else _described(_lines(wgmma.scaled(matrix, sign)))
            for matrix, sign, gathered in zip(matrices, signs, shared, strict=True)
        ]
        c = accumulator if accumulator.strides[2] == WORD.itemsize else _side_by_side(accumulator)
        count = len(c)
        scale = scale_d[:, 0]
        keep = _alike(scale.item(0), n, m) if scale.size == 1 else _each(scale, n, m)
        room = np.empty((m, count, n, 128), np.float32 if not wgmma.is_f16(op) else WORD)
        d = room.transpose(1, 2, 3, 0)
        given = [n, m, 1, 0 if table is None else address_of(table), keep[1]]
        for stack, at in (c, address_of(c)), (d, address_of(room)):
            registers, warpgroups, _, ctas = stack.strides
            given += (at, registers >> 2, warpgroups >> 2, ctas >> 2)
        arguments = np.array(given + sources[0][0] + sources[1][0], np.int64)
        function(address_of(arguments))
        return d


def _each(scale: Array, n: int, m: int) -> tuple[Array, int]:
    """Scale-d of each warpgroup ``[n, m]``, and where that array begins in memory."""
    keep = np.ascontiguousarray(np.broadcast_to(scale, (n, m)), np.uint8)
    return keep, address_of(keep)


@lru_cache(maxsize=256)
def _alike(scale: int, n: int, m: int) -> tuple[Array, int]:
    """The same for one that all have."""
    return _each(np.array([[scale]]), n, m)


def _side_by_side(stack: Array) -> Array:
    """Registers ``[registers, n, 128, m]``, those of a CTA side by side in memory."""
    return np.ascontiguousarray(stack.transpose(3, 0, 1, 2)).transpose(1, 2, 3, 0)


def _lines(matrix: Array) -> Array:
    """A matrix whose elements along a line stand side by side."""
    return matrix if matrix.strides[2] == matrix.itemsize else np.ascontiguousarray(matrix)


def _described(matrix: Array) -> tuple[list[int], object]:
    """The arguments for lines, and the array that they point into."""
    return [address_of(matrix), matrix.strides[0] if len(matrix) > 1 else 0, matrix.strides[1]], matrix


def _where(found: Words, n: int, m: int, words: list[int]) -> tuple[list[int], object]:
    """The same for words of shared memory, whose place and CTAs are those of the first such matrix."""
    tables = found.tables
    if tables.size == 1:
        tables = np.full((n, m), tables.item(0))
    else:
        tables = np.ascontiguousarray(np.broadcast_to(tables, (n, m)))
    words += () if words else (address_of(found.flat), address_of(found.columns))
    return [*words, address_of(tables)], (tables, found)
