"""The memory that an instruction accesses, as far as its addresses are known; and misaligned, matrix-alignment, tensor-map
and out-of-bounds, for addresses that are known without running.

An address is checked as far as it is known: exactly, or by its low bits. Threads that only some launches have, and
threads that a data-dependent condition may exclude, are not checked unless all threads are wrong.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from warpsim.analysis.values import WARP, Array, Value
from warpsim.errors import Finding
from warpsim.isa.traits import Access as Kind
from warpsim.isa.traits import Family, Matrix, Stage
from warpsim.isa.wgmma import STORAGE, columns
from warpsim.layout import descriptors
from warpsim.program.program import Instruction, Operand, Variable
from warpsim.types import StateSpace

if TYPE_CHECKING:
    from warpsim.analysis.facts import Facts, Step

READ, WRITE, OBJECT = "read", "write", "object"
SHARED, GLOBAL = "shared", "global"
WINDOW = 1 << 18
"""More shared memory than any CTA has."""
MOST_DESCRIPTORS = 8
"""One per warpgroup of a CTA."""


@attrs.frozen(eq=False)
class Marks:
    """Data about each byte of shared memory from ``low`` on."""

    low: int
    content: Array

    @classmethod
    def around(cls, starts: Array, nbytes: int, dtype: Any, empty: object) -> Marks:
        """Empty marks that cover accesses of ``nbytes`` at some places; no bytes if these cannot be in shared memory."""
        if not len(starts) or int(starts.min()) < 0 or int(starts.max()) + nbytes > WINDOW:
            return cls(0, np.full(0, empty, dtype))
        low = int(starts.min())
        return cls(low, np.full(int(starts.max()) + nbytes - low, empty, dtype))

    def common(self, other: Marks) -> tuple[Array, Array]:
        """The contents of two ranges where they overlap."""
        low = max(self.low, other.low)
        high = max(min(self.low + len(self.content), other.low + len(other.content)), low)
        return self.content[low - self.low : high - self.low], other.content[low - other.low : high - other.low]


@attrs.frozen(eq=False, slots=False)
class Access:
    """An access through one operand. Each lane in ``lanes`` accesses at least ``nbytes``; ``whole`` says that it is
    exactly that many. ``fixed`` are the bytes of a matrix named by a descriptor.
    """

    instruction: Instruction
    name: str
    mode: str
    space: str
    address: Value
    nbytes: int
    align: int
    threads: Array
    whole: bool = True
    asynchronous: bool = False
    fixed: Array | None = None

    @functools.cached_property
    def known(self) -> bool:
        """Whether the accessed bytes of shared memory are known."""
        return self.space == SHARED and (self.fixed is not None or self.address.exact)

    @functools.cached_property
    def starts(self) -> Array:
        """Shared memory addresses at which each of ``threads`` accesses ``nbytes``. Only if `known`, through an
        address.
        """
        return np.broadcast_to(self.address.bits, self.threads.shape)[self.threads].astype(np.int64)

    @functools.cached_property
    def bytes(self) -> Marks:
        """The accessed bytes of shared memory. Only if `known`."""
        if self.fixed is not None:
            marks = Marks.around(self.fixed, 1, np.bool_, empty=False)
            marks.content[self.fixed - marks.low] = True
            return marks
        marks = Marks.around(self.starts, self.nbytes, np.bool_, empty=False)
        for start in np.unique(self.starts).tolist() if len(marks.content) else ():
            marks.content[start - marks.low : start - marks.low + self.nbytes] = True
        return marks

    def overlaps(self, other: Access) -> bool:
        """Whether both are known to access a common byte of shared memory."""
        if not (self.known and other.known):
            return False
        mine, theirs = self.bytes.common(other.bytes)
        return bool((mine & theirs).any())

    def shares(self, other: Access, sizes: dict[str, int] | None) -> bool:
        """Whether both lie in the same variable; with ``sizes``, only if the variable has a size of its own."""
        names = self.address.symbols
        return (
            not (self.known and other.known)
            and self.space == other.space == SHARED
            and len(names) == 1
            and names == other.address.symbols
            and (sizes is None or sizes.get(next(iter(names)), 0) > 0)
        )


def accesses(step: Step) -> Iterator[Access]:
    """The accesses of an instruction by the threads that execute it in every launch."""
    instruction, threads = step.instruction, step.threads
    form, traits = instruction.form, instruction.traits
    if traits.is_async(Family.WGMMA):
        yield from _descriptors(step)
        return
    for spec, operand in zip(form.operands, instruction.operands, strict=False):
        if operand.base is None or spec.name == "map":
            continue
        address = step.value(operand)
        space = _space(instruction, spec.name, operand, address)
        access = functools.partial(Access, instruction, spec.name, space=space, address=address)
        if traits.is_async(Family.REMOTE):  # the data goes to another CTA
            if spec.name == "bar":
                yield access(mode=OBJECT, nbytes=8, align=8, threads=threads)
        elif traits.access is not None:
            size = _size(instruction)
            mode = READ if traits.access is Kind.LOAD else WRITE
            yield access(mode=mode, nbytes=size, align=size, threads=threads)
        elif traits.mbarrier is not None:
            yield access(mode=OBJECT, nbytes=8, align=8, threads=threads)
        elif traits.matrix is not None and not traits.opaque_fragments:
            count = next((int(w[1:]) for w in instruction.op.modifiers if w in ("x1", "x2", "x4")), 1)
            rows = threads & (step.facts.threads.thread % np.uint64(WARP) < 8 * count)
            yield access(mode=READ if traits.matrix is Matrix.LOAD else WRITE, nbytes=16, align=16, threads=rows)
        elif traits.asynchronous is not None:
            yield from _copy(step, spec.name, access)


def _size(instruction: Instruction) -> int:
    """Bytes that each lane of a load, store or atomic accesses."""
    type = instruction.op.get("type")
    count = next((int(w[1:]) for w in instruction.op.modifiers if w in ("v2", "v4", "v8")), 1)
    return (type.bytes if type is not None else 1) * count


def _space(instruction: Instruction, name: str, operand: Operand, address: Value) -> str:
    """The state space of an address: from the instruction, or else from the variables that the address was computed
    from.
    """
    named, asynchronous = instruction.traits.spaces, instruction.traits.asynchronous
    if asynchronous is not None and asynchronous.family is not Family.REMOTE:
        if name in ("bar", "address"):
            return SHARED
        return named[0 if name == "dst" else -1] if named else GLOBAL
    if named:
        return named[0]
    variable = operand.base.variable if operand.base is not None else None
    if variable is not None:
        return variable.space.value
    return SHARED if address.exact and address.symbols else "generic"


def _copy(step: Step, name: str, access: Callable[..., Access]) -> Iterator[Access]:
    """Accesses of cp.async and bulk copies."""
    instruction, threads = step.instruction, step.threads
    traits = instruction.traits
    if name == "bar":
        yield access(mode=OBJECT, nbytes=8, align=8, threads=threads)
        return
    size = instruction.named.get("size")
    known = step.value(size).constant if size is not None else None
    mode = WRITE if name == "dst" else READ
    if traits.is_async(Family.CP_ASYNC, Stage.ARRIVE):
        yield access(mode=OBJECT, nbytes=8, align=8, threads=threads)
    elif traits.is_async(Family.CP_ASYNC):
        n = known or 4
        yield access(mode=mode, nbytes=n, align=n, threads=threads)
    elif traits.is_async(Family.BULK):
        tensor = traits.asynchronous is not None and traits.asynchronous.tensor
        yield access(
            mode=mode, nbytes=known or 16, align=128 if tensor else 16, threads=threads, whole=known is not None,
            asynchronous=True,
        )  # fmt: skip


def matrices(instruction: Instruction) -> Iterator[tuple[str, Operand, Callable[[int], descriptors.Elements]]]:
    """The operands of a wgmma that are descriptors: name, operand, and what decodes the matrix that one names."""
    op, named = instruction.op, instruction.named
    itemsize = int(STORAGE[op.atype.name][1:])
    for name, extent in (("a_desc", 64), ("b_desc", columns(op))):
        operand, turned = named.get(name), named.get(f"imm_trans_{name[0]}")
        if operand is not None and operand.elements is None:
            k = 32 // itemsize * (2 if name == "b_desc" and "sp" in op.modifiers else 1)
            transposed = turned is not None and bool(turned.constant)
            yield (
                name,
                operand,
                functools.partial(descriptors.elements, k=k, extent=extent, itemsize=itemsize, transposed=transposed),
            )


def _descriptors(step: Step) -> Iterator[Access]:
    """The matrices that a wgmma reads from shared memory."""
    instruction, threads = step.instruction, step.threads
    itemsize = int(STORAGE[instruction.op.atype.name][1:])
    for name, operand, decoded in matrices(instruction):
        value = step.value(operand)
        named_by = np.unique(np.broadcast_to(value.bits, threads.shape)[threads]) if value.exact else np.zeros(0)
        fixed = None
        if 0 < len(named_by) <= MOST_DESCRIPTORS:
            found = [decoded(int(bits)).address.reshape(-1) for bits in named_by]
            fixed = np.unique((np.concatenate(found)[:, None] + np.arange(itemsize)).reshape(-1))
            fixed = fixed[(fixed >= 0) & (fixed < WINDOW)]
        yield Access(
            instruction, name, READ, SHARED, value, 16, 1, threads, whole=False, asynchronous=True, fixed=fixed
        )


ALIGNED = {
    "misaligned": "an access of N bytes needs an address that is a multiple of N",
    "matrix-alignment": "rows of ldmatrix and stmatrix are 16 bytes at multiples of 16",
    "tensor-map": "boxes in shared memory are aligned to 128 bytes",
}


def check_places(facts: Facts) -> Iterator[Finding]:
    """Check one function."""
    variables = shared_variables(facts)
    for step in facts.steps:
        if step.instruction.traits.is_async(Family.WGMMA) or not step.threads.any():
            continue
        for access in step.accesses:
            yield from _aligned(facts, access, certain=step.certain)
            yield from _inside(facts, access, variables, certain=step.certain)


def shared_variables(facts: Facts) -> dict[str, Variable]:
    """The shared variables that the function can name, by unique name."""
    both = (*facts.program.variables, *facts.function.variables)
    return {v.unique: v for v in both if v.space is StateSpace.SHARED}


def _aligned(facts: Facts, access: Access, *, certain: bool) -> Iterator[Finding]:
    address = access.address
    known = min(access.align, 1 << min(address.zeros, 62))
    odd = np.broadcast_to(address.bits % np.uint64(known) != 0, access.threads.shape) & access.threads
    if not _counts(odd, access.threads, certain=certain):
        return
    rule = (
        "matrix-alignment"
        if access.instruction.traits.matrix is not None
        else "tensor-map"
        if access.align == 128
        else "misaligned"
    )
    first = int(np.broadcast_to(address.bits, odd.shape)[odd][0])
    if address.exact:
        what = f"address 0x{first:x} is not a multiple of {access.align}"
    else:
        what = f"an address that is {first % known} modulo {known} is not a multiple of {access.align}"
    message = f"{access.instruction.text}: {access.space + ' ' if access.space != 'generic' else ''}{what}"
    yield facts.finding(rule, access.instruction, message, threads=odd, advice=ALIGNED[rule], values={"address": first})


def _counts(wrong: Array, threads: Array, *, certain: bool) -> bool:
    return bool(wrong.any() if certain else wrong.any() and (wrong == threads).all())


def _inside(facts: Facts, access: Access, variables: dict[str, Variable], *, certain: bool) -> Iterator[Finding]:
    """Find accesses outside the only variable that their address was computed from."""
    if access.space != SHARED or not access.address.exact or len(access.address.symbols) != 1:
        return
    variable = variables.get(next(iter(access.address.symbols)))
    if variable is None or not variable.size or variable.linkage == "extern":
        return
    start = facts.evaluator.shared.address(variable)
    place = np.broadcast_to(access.address.bits, access.threads.shape).astype(np.int64)
    outside = access.threads & ((place < start) | (place + access.nbytes > start + variable.size))
    if not outside.any() or ((outside != access.threads).any() and not (certain and facts.threads.sizes)):
        return
    first = int(place[outside][0])
    where = f"{first - start} bytes from its start" if first >= start else f"{start - first} bytes before it"
    hit = next((v for v in variables.values() if v is not variable and v.size and v.unique in facts.evaluator.shared.offsets
                and (at := facts.evaluator.shared.address(v)) < first + access.nbytes and first < at + v.size), None)  # fmt: skip
    into = f", in {hit.name}" if hit is not None else ""
    message = (
        f"{access.instruction.text}: {access.nbytes} bytes at shared address 0x{first:x} are not inside"
        f" {variable.name} [{variable.size} bytes], {where}{into}"
    )
    yield facts.finding(
        "out-of-bounds", access.instruction, message, threads=outside,
        advice="make the variable as large as what is accessed through it", values={"address": first},
    )  # fmt: skip
