"""Machine code in place of the bodies of matrix instructions: the same registers in, the same bits out.

A body that is asked for what no machine code does (other numerics, operands of another width) runs itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from warpsim.cache import digest
from warpsim.isa import mma, mma_sp, wgmma, wmma
from warpsim.isa.ports import DevicePort, Registers, ReportPort, constant_of
from warpsim.isa.spec import Body, Op
from warpsim.layout import fragments
from warpsim.layout.fragment import extent
from warpsim.native.addresses import address_of
from warpsim.native.compiling.compiler import compiled_function, kept_function
from warpsim.native.compiling.images import Function, function_at
from warpsim.native.compiling.queue import compile_queue, tell
from warpsim.native.matrix.kernels import Plain, Warp, warp_kernel, warpgroup_kernel
from warpsim.native.matrix.plans import mma_plan, plain_plan, sparse_plan, wgmma_product, wmma_plain_plan, wmma_plan
from warpsim.native.tiering.cost import (
    FIRST_SHARE,
    PRODUCT,
    QUEUED_SHARE,
    Account,
    Policy,
    account_of_product,
    share_of,
)
from warpsim.numerics.arrays import Array, DType
from warpsim.records import frozen

if TYPE_CHECKING:
    from warpsim.machine.asynchrony.wgmma import SharedMatrix, Words
    from warpsim.machine.machine import Chained
    from warpsim.machine.state.launch import DeviceSpec
    from warpsim.native.matrix.products import Product
    from warpsim.program.program import Instruction

WORD = np.dtype(np.uint32)
NEWEST = 90
"""Stands for the GPU where the body does not ask which it is."""


T = TypeVar("T")
Key = tuple[object, ...]
"""An instruction's text, and what else decides its code."""


class Codes:
    """Compiled products."""

    def __init__(self) -> None:
        self.texts: dict[Key, tuple[str, str]] = {}
        self.functions: dict[Key, Function | None] = {}
        """None: it failed to compile."""
        self.sought: set[Key] = set()
        """What was looked up on disk."""
        self.wanted: dict[Key, Callable[[str], str]] = {}
        """What this launch has asked for in vain."""
        self.plans: dict[Key, Any] = {}
        self.lock = threading.RLock()

    def of(self, key: Key, make: Callable[[str], str], policy: Policy) -> Function | None:
        """A function, None while it does not pay. ``make`` writes it under a name."""
        if key in self.functions:
            return self.functions[key]
        if key not in self.sought:
            self.sought.add(key)
            kept = kept_function(_name(key))
            if kept is not None:
                self.functions[key] = function_at(kept)
                return self.functions[key]
        if policy is Policy.AT_ONCE or _account(key).allows(PRODUCT, FIRST_SHARE):
            with self.lock:
                if key not in self.functions:
                    self._make(key, make)
                return self.functions[key]
        self.wanted[key] = make
        return None

    def text(self, key: Key, make: Callable[[str], str]) -> tuple[str, str]:
        """A product's module, and its function's name."""
        with self.lock:
            if key not in self.texts:
                text = make("matrix_core")
                name = "matrix_" + digest(text)[:24]
                self.texts[key] = text.replace("@matrix_core(", f"@{name}("), name
            return self.texts[key]

    def over(self, policy: Policy) -> None:
        """A launch is over: what it has asked for in vain is compiled behind it, where that pays."""
        for key, make in self.wanted.items():
            account = _account(key)
            share = QUEUED_SHARE if policy is Policy.ASKED else share_of(account.launches)
            if account.allows(PRODUCT, share):
                account.compiled += PRODUCT
                compile_queue().submit(partial(self._make_behind, key, make))
        self.wanted.clear()

    def _make(self, key: Key, make: Callable[[str], str]) -> None:
        text, name = self.text(key, make)
        self.functions[key] = function_at(compiled_function(_name(key), text, name))

    def _make_behind(self, key: Key, make: Callable[[str], str]) -> None:
        """Make a product behind a launch. One that fails is told of once, and left to the instruction's body."""
        try:
            self._make(key, make)
        except Exception:
            tell()
            self.functions.setdefault(key, None)

    def planned(self, key: Key, make: Callable[[], T]) -> T:
        """A key's plan, made once."""
        if key not in self.plans:
            self.plans[key] = make()
        return self.plans[key]


def _name(key: Key) -> str:
    return f"product {key}"


def _account(key: Key) -> Account:
    return account_of_product(str(key[0]))


@lru_cache(maxsize=1)
def codes() -> Codes:
    """The process-wide instance."""
    return Codes()


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
            function, product = _code(op, device.sm, shared, across, self.policy)
            if function is None:
                return None
            dtype = np.dtype(wgmma.STORAGE[op.atype.name])
            found = self._chained[id(op)] = op, partial(_in_turn, function, dtype, half=product.half)
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
            elif own in _PLANS:
                body = _Warps(own, self.policy, _PLANS[own])
            if body is not function:
                body = _filled(body, getattr(function, "places", None))
            found = self._found[id(instruction.op)] = instruction.op, body
        return found[1]


def _filled(body: Body, places: list[int] | None) -> Body:
    """A body that gets None for operands that the form lacks (as `warpsim.isa.spec` has it)."""
    if places is None:
        return body
    return lambda op, *given, **ports: body(op, *[given[k] if k >= 0 else None for k in places], **ports)


def described(arrays: Iterable[Array]) -> list[int]:
    """Address and strides of registers ``[n, 32, m]``."""
    words: list[int] = []
    for array in arrays:
        (n, _, m), (warps, lanes, ctas) = array.shape, array.strides
        words += (address_of(array), warps if n > 1 else 0, lanes, ctas if m > 1 else 0)
    return words


def _reported(*_: object, **__: object) -> None:
    """Metadata was checked when its positions were read."""


@frozen(eq=False)
class _Warps:
    """mma, mma.sp and wmma."""

    function: Body
    policy: Policy
    plan: Callable[[Op, int], Warp | Plain | None]

    def __call__(
        self,
        op: Op,
        a: Registers,
        b: Registers,
        c: Registers,
        e: Array | None = None,
        f: Array | None = None,
        **ports: Any,
    ) -> Registers:
        def itself(**more: object) -> Registers:
            sparse = () if e is None else (e, f)
            return self.function(op, a, b, c, *sparse, **(ports | more))

        device, given = ports.get("device"), (*a, *b, *c)
        sm = NEWEST if device is None else device.sm
        key = op.text, sm
        plan = codes().planned(key, lambda: self.plan(op, sm))
        if plan is None or (device is not None and isinstance(plan, Warp) and device.numerics != "exact"):
            return itself()
        size = plan.dtype.itemsize
        if any(r.dtype.itemsize != size for r in given):
            return itself()
        function = codes().of(key, lambda name: warp_kernel(plan, name), self.policy)
        if function is None:
            return _account(key).timed(itself)
        n, m = extent(given if e is None else (*given, e))
        table = None
        if e is not None and f is not None:
            where = mma_sp.positions(op, e, constant_of(f), n, m, ports["active"], ports["report"])
            table = np.ascontiguousarray(where.transpose(2, 0, 1), np.int32)
            if (table[:, 1:] == table[:, :-1]).any():
                return itself(report=_reported)
        d = np.empty((plan.operands[3].registers, n, 32, m), plan.dtype)
        arguments = [n, m, 0 if table is None else address_of(table), *described(given)]
        first, (step, *strides) = address_of(d), d.strides
        for k in range(len(d)):
            arguments += (first + k * step, *strides)
        words = np.array(arguments, np.int64)
        return itself() if function(address_of(words)) else tuple(d)


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


@frozen(eq=False)
class _Warpgroup:
    """An instruction of wgmma; ``shared``: which matrices are read from shared memory in place."""

    op: Op
    product: Product
    shared: tuple[bool, bool]

    def text(self, name: str) -> str:
        """Its code."""
        return warpgroup_kernel(self.product, wgmma.columns(self.op), name, half=self.product.half, shared=self.shared)


def _warpgroup(op: Op, sm: int, shared: tuple[bool, bool], across: tuple[int, int]) -> _Warpgroup:
    packed = shared[0] and not across[0], shared[1] and not across[1]
    return _Warpgroup(op, wgmma_product(op, sm, sparse="sp" in op.modifiers, packed=packed), shared)


def _code(
    op: Op, sm: int, shared: tuple[bool, bool], across: tuple[int, int], policy: Policy
) -> tuple[Function | None, Product]:
    """A product's machine code, None while it does not pay."""
    key = op.text, sm, shared, across
    plan = codes().planned(key, lambda: _warpgroup(op, sm, shared, across))
    return codes().of(key, plan.text, policy), plan.product


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
        function, product = _code(op, device.sm, shared, across, self.policy)
        if function is None:
            return account_of_product(op.text).timed(self.function, op, *operands, **ports)

        def again() -> Array:
            """By the body, without reporting twice."""
            shared_matrix.reported = True
            return self.function(op, *operands, **(ports | {"report": _reported}))

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
        room = np.empty((m, count, n, 128), np.float32 if not product.half else WORD)
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


_PLANS: dict[Body, Callable[[Op, int], Warp | Plain | None]] = {
    mma.mma_float: mma_plan,
    mma_sp.mma_sp: sparse_plan,
    wmma.wmma_mma_f16: wmma_plan,
    wmma.wmma_mma: wmma_plan,
    wmma.wmma_mma_b1: wmma_plain_plan,
    mma.mma_f64: plain_plan,
    mma.mma_integer: plain_plan,
    mma.mma_bits: plain_plan,
}
"""The products of warps by their bodies."""
