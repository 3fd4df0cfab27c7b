"""Machine code in place of the bodies of the warps' matrix instructions: mma, mma.sp and wmma."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from warpsim.isa import mma, mma_sp, wmma
from warpsim.isa.ports import Registers, constant_of
from warpsim.isa.spec import Body, Op
from warpsim.layout.fragment import extent
from warpsim.native.addresses import address_of
from warpsim.native.matrix.codes import account_of_key, codes, unreported
from warpsim.native.matrix.kernels import Plain, Warp, warp_kernel
from warpsim.native.matrix.plans import mma_plan, plain_plan, sparse_plan, wmma_plain_plan, wmma_plan
from warpsim.native.tiering.cost import Policy
from warpsim.numerics.arrays import Array
from warpsim.records import frozen

NEWEST = 90
"""Stands for the GPU where the body does not ask which it is."""


@frozen(eq=False)
class Warps:
    """One of them."""

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
        """Its results."""

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
            return account_of_key(key).timed(itself)
        n, m = extent(given if e is None else (*given, e))
        table = None
        if e is not None and f is not None:
            where = mma_sp.positions(op, e, constant_of(f), n, m, ports["active"], ports["report"])
            table = np.ascontiguousarray(where.transpose(2, 0, 1), np.int32)
            if (table[:, 1:] == table[:, :-1]).any():
                return itself(report=unreported)
        d = np.empty((plan.operands[3].registers, n, 32, m), plan.dtype)
        arguments = [n, m, 0 if table is None else address_of(table), *_described(given)]
        first, (step, *strides) = address_of(d), d.strides
        for k in range(len(d)):
            arguments += (first + k * step, *strides)
        words = np.array(arguments, np.int64)
        return itself() if function(address_of(words)) else tuple(d)


def _described(arrays: Iterable[Array]) -> list[int]:
    """Address and strides of registers ``[n, 32, m]``."""
    words: list[int] = []
    for array in arrays:
        (n, _, m), (warps, lanes, ctas) = array.shape, array.strides
        words += (address_of(array), warps if n > 1 else 0, lanes, ctas if m > 1 else 0)
    return words


PLANS: dict[Body, Callable[[Op, int], Warp | Plain | None]] = {
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
