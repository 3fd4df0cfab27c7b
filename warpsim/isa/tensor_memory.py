"""Tensor memory (PTX ISA: TensorCore 5th Generation Family Instructions): allocation, and moves to and from registers."""

from __future__ import annotations

import functools

import numpy as np

from warpsim.isa.ports import Address, Lanes, MemoryPort, ReportPort, TensorPort, constant_of
from warpsim.isa.spec import LowBits, Op, Scope, instruction
from warpsim.isa.traits import Allocation, Asynchronous, Family, Stage, Traits
from warpsim.layout.tensor_memory import COLUMNS, Tile, registers, tile
from warpsim.numerics import floating

_ALLOC = "tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit"
_NEEDS = (("100f", "110f"), (8, 6))
_GROUP = ".cta_group = { .cta_group::1, .cta_group::2 };"
_MOVES = Traits(asynchronous=Asynchronous(Family.TCGEN05))


@instruction(
    f"tcgen05.alloc.cta_group.sync.aligned{{.shared::cta}}.b32 [dst], ncols; {_GROUP}",
    anchor=_ALLOC,
    types={"ncols": ".u32"},
    limits={"ncols": LowBits({32, 64, 128, 256, COLUMNS})},
    spaces={"dst": lambda op: {"shared"} if "shared::cta" in op.modifiers else None},
    needs=_NEEDS,
    traits=Traits(allocation=Allocation.ALLOCATE),
)
def alloc(
    op: Op, dst: Address, ncols: Lanes, *, tensor: TensorPort, memory: MemoryPort, active: Lanes, report: ReportPort
) -> None:
    """Allocate columns, and write their address to shared memory."""
    if (uneven := memory.uneven(ncols) & active).any():
        _differ("numbers of columns", uneven, report)
    tensor.allocate("shared::cta" if "shared::cta" in op.modifiers else "", dst, ncols)


@instruction(
    f"tcgen05.dealloc.cta_group.sync.aligned.b32 taddr, ncols; {_GROUP}",
    anchor=_ALLOC,
    types={"taddr": ".b32", "ncols": ".u32"},
    checked_as={"taddr": ".u32"},
    limits={"ncols": LowBits(range(0, 1 << 32, 32))},
    needs=_NEEDS,
    traits=Traits(allocation=Allocation.FREE),
)
def dealloc(
    op: Op, taddr: Lanes, ncols: Lanes, *, tensor: TensorPort, memory: MemoryPort, active: Lanes, report: ReportPort
) -> None:
    """Free columns."""
    if (uneven := (memory.uneven(taddr) | memory.uneven(ncols)) & active).any():
        _differ("columns to free", uneven, report)
    tensor.free(taddr, ncols)


@instruction(
    f"tcgen05.relinquish_alloc_permit.cta_group.sync.aligned; {_GROUP}",
    anchor=_ALLOC,
    needs=_NEEDS,
)
def relinquish_alloc_permit(op: Op, *, tensor: TensorPort) -> None:
    """The CTA allocates nothing any more."""
    tensor.relinquish()


def _num(op: Op) -> int:
    return int(op.num[1:])


def _registers(op: Op) -> int:
    return registers(op.shape, _num(op))


def _tile(op: Op, split: Lanes | None, *, packed: bool) -> Tile:
    return tile(op.shape, _num(op), packed=packed, split=None if split is None else constant_of(split))


def _too_long(op: Op) -> str | None:
    if op.get("redOp") and _num(op) == 1:
        return "there is nothing to reduce in one column"
    return "at most 128 registers can be moved" if _registers(op) > 128 else None


_NUM = ".num = { .x1, .x2, .x4, .x8, .x16, .x32, .x64, .x128 };"
_move = functools.partial(
    instruction,
    scope=Scope.WARP,
    types={"r": ".b32", "redval": ".b32", "immHalfSplitoff": ".s32"},
    vectors={"r": _registers},
    constants={"immHalfSplitoff": None},
    spaces={"taddr": {"tensor"}},
    legal=_too_long,
    needs=_NEEDS,
    traits=_MOVES,
)


_load = functools.partial(_move, anchor="tcgen05-instructions-tcgen05-ld", registers=("r",))


@_load(
    f"""
    tcgen05.ld.sync{{.aligned}}.shape.num{{.pack}}.b32 r, [taddr];
    .shape = {{ .16x64b, .16x128b, .16x256b, .32x32b }}; {_NUM} .pack = {{ .pack::16b }};
    """
)
@_load(
    f"""
    tcgen05.ld.sync{{.aligned}}.shape.num{{.pack}}.b32 r, [taddr], immHalfSplitoff;
    .shape = {{ .16x32bx2 }}; {_NUM} .pack = {{ .pack::16b }};
    """
)
def ld(
    op: Op, taddr: Lanes, immHalfSplitoff: Lanes | None = None, *, tensor: TensorPort, report: ReportPort
) -> tuple[Lanes, ...]:
    """Load cells of tensor memory; with .pack::16b, two low halves of neighbouring cells into each register."""
    _uniform(taddr, report)
    return tensor.load(taddr, _tile(op, immHalfSplitoff, packed=bool(op.get("pack"))))


_RED = (("103f", "110f"), (8, 8))


@_load(
    f"""
    tcgen05.ld.red.sync{{.aligned}}.shape.num.redOp{{.abs}}{{.NaN}}.f32 r, redval, [taddr];
    tcgen05.ld.red.sync{{.aligned}}.shape.num.redOp.type r, redval, [taddr];
    .shape = {{ .32x32b }}; {_NUM} .redOp = {{ .min, .max }}; .type = {{ .u32, .s32 }};
    """,
    needs=_RED,
)
@_load(
    f"""
    tcgen05.ld.red.sync{{.aligned}}.shape.num.redOp{{.abs}}{{.NaN}}.f32 r, redval, [taddr], immHalfSplitoff;
    tcgen05.ld.red.sync{{.aligned}}.shape.num.redOp.type r, redval, [taddr], immHalfSplitoff;
    .shape = {{ .16x32bx2 }}; {_NUM} .redOp = {{ .min, .max }}; .type = {{ .u32, .s32 }};
    """,
    needs=_RED,
)
def ld_red(
    op: Op, taddr: Lanes, immHalfSplitoff: Lanes | None = None, *, tensor: TensorPort, report: ReportPort
) -> tuple[tuple[Lanes, ...], Lanes]:
    """Load cells of tensor memory, and the least or greatest of those that the thread gets."""
    words = ld(op, taddr, immHalfSplitoff, tensor=tensor, report=report)
    values = [word.view(np.float32 if op.type is None else op.type.dtype) for word in words]
    if op.type is not None:
        return words, functools.reduce(np.minimum if op.redOp == "min" else np.maximum, values).view(np.uint32)
    values = [np.abs(value) for value in values] if op.abs else values
    best = functools.reduce(functools.partial(floating.extreme, is_least=op.redOp == "min"), values)
    if op.NaN:
        best = np.where(np.isnan(values).any(axis=0), np.uint32(0x7FFFFFFF).view(np.float32), best)
    return words, best.view(np.uint32)


def _uniform(taddr: Lanes, report: ReportPort) -> None:
    if taddr.strides[1] and (taddr != taddr[:, :1]).any():
        _differ("addresses of tensor memory", taddr != taddr[:, :1], report)


def _differ(what: str, lanes: Lanes, report: ReportPort) -> None:
    report(
        "nonuniform-operand",
        f"lanes of a warp name different {what}",
        lanes,
        advice="compute it from values that all lanes of a warp share",
    )


_store = functools.partial(_move, anchor="tcgen05-instructions-tcgen05-st", single={"r": 100}, no_specials={"r": 100})


@_store(
    f"""
    tcgen05.st.sync{{.aligned}}.shape.num{{.unpack}}.b32 [taddr], r;
    .shape = {{ .16x64b, .16x128b, .16x256b, .32x32b }}; {_NUM} .unpack = {{ .unpack::16b }};
    """
)
@_store(
    f"""
    tcgen05.st.sync{{.aligned}}.shape.num{{.unpack}}.b32 [taddr], immHalfSplitoff, r;
    .shape = {{ .16x32bx2 }}; {_NUM} .unpack = {{ .unpack::16b }};
    """
)
def st(
    op: Op,
    taddr: Lanes,
    immHalfSplitoff: Lanes | None = None,
    r: tuple[Lanes, ...] = (),
    *,
    tensor: TensorPort,
    report: ReportPort,
) -> None:
    """Store to cells of tensor memory; with .unpack::16b, each half of a register to the low half of a cell."""
    _uniform(taddr, report)
    tensor.store(taddr, _tile(op, immHalfSplitoff, packed=bool(op.unpack)), r)


@instruction(
    "tcgen05.kind.sync.aligned; .kind = { .wait::ld, .wait::st };",
    anchor="tcgen05-instructions-tcgen05-wait",
    scope=Scope.WARP,
    needs=_NEEDS,
    traits=Traits(asynchronous=Asynchronous(Family.TCGEN05, Stage.WAIT)),
)
def wait(op: Op, *, tensor: TensorPort) -> None:
    """Wait for all loads, or all stores, of the warp."""
    tensor.waited(stores=op.kind == "wait::st")
