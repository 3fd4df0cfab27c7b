"""wgmma (PTX ISA: Asynchronous Warpgroup Level Matrix Instructions).

Products appear at once, which a kernel that follows the rules cannot detect. Bodies request two ports besides `device`:
``accumulator``, the old bits of the destination registers as one stack ``[registers, n, 128, m]`` (results have the
same form), and ``shared_matrix``, which reads matrices from the shared memory of each warpgroup's CTA.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import attrs
import numpy as np

from warpsim.isa.mma_sp import stored_positions
from warpsim.isa.ports import DevicePort, Lanes, ReportPort, SharedMatrixPort, constant_of
from warpsim.isa.spec import Function, Gate, LowBits, Op, Scope, instruction
from warpsim.isa.traits import Asynchronous, Family, Matrix, Metadata, Stage, Traits
from warpsim.layout import fragments
from warpsim.layout.fragment import gather
from warpsim.layout.wmma_fragments import dimensions
from warpsim.numerics import matrix, plain_matrix
from warpsim.numerics.arrays import DType
from warpsim.numerics.matrix import expand
from warpsim.types import TYPES

_ANCHOR = "asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async"
_ANCHOR_SP = "asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async-sp"
_order = functools.partial(
    instruction,
    chapter="asynchronous-warpgroup-level-matrix-instructions-wgmma",
    scope=Scope.WARPGROUP,
    needs=("90a", (8, 0)),
)
_FLOAT_N = range(8, 257, 8)
_INTEGER_N = (8, 16, 24, *range(32, 257, 16))
"""The text's list ends at 224; the assembler and the hardware also accept 240 and 256."""
STORAGE = {"f16": "u2", "bf16": "u2", "tf32": "u4", "e4m3": "u1", "e5m2": "u1", "s8": "u1", "u8": "u1", "b1": "u1"}


_MULTIPLIES = Traits(matrix=Matrix.MULTIPLY, asynchronous=Asynchronous(Family.WGMMA))


def _shapes(ns: Iterable[int], *ks: int) -> str:
    return ", ".join(f".m64n{n}k{k}" for k in ks for n in ns)


def columns(op: Op) -> int:
    """N of an instruction."""
    return dimensions(op.shape)[1]


def _accumulators(op: Op) -> int:
    return columns(op) // (4 if is_f16(op) else 2)


def is_f16(op: Op) -> bool:
    """Whether results are f16."""
    return getattr(op.dtype, "name", op.dtype) == "f16"


def _declare(
    block: str,
    *,
    transposes: bool = False,
    scales: bool = True,
    selectors: int = 1,
    gate: Callable[[Op], Gate | None] | None = None,
) -> Callable[[Function], Function]:
    """Declare the forms of ``opcode | classes``: A by descriptor or in registers, with the immediates of its types."""
    opcode, classes = block.split("|")
    sparse = opcode.startswith(_SPARSE)
    scale = ", imm_scale_a, imm_scale_b" if scales else ""
    meta = ", sp_meta, sp_sel" if sparse else ""
    by_descriptor = f"{opcode} d, a_desc, b_desc{meta}, {{!}}scale_d{scale}" + (
        ", imm_trans_a, imm_trans_b" if transposes else ""
    )
    in_registers = f"{opcode} d, a, b_desc{meta}, {{!}}scale_d{scale}" + (", imm_trans_b" if transposes else "")
    return instruction(
        f"{by_descriptor}; {in_registers}; {classes}",
        anchor=_ANCHOR_SP if sparse else _ANCHOR,
        scope=Scope.WARPGROUP,
        types={
            "d": lambda op: TYPES["f16x2" if is_f16(op) else getattr(op.dtype, "name", op.dtype)],
            **dict.fromkeys(("a", "sp_meta"), ".b32"),
            **dict.fromkeys(("a_desc", "b_desc"), ".u64"),
            "sp_sel": ".u32",
            "scale_d": ".pred",
            **dict.fromkeys(("imm_scale_a", "imm_scale_b", "imm_trans_a", "imm_trans_b"), ".s32"),
        },
        vectors={"d": _accumulators, "a": 4},
        constants={
            "imm_scale_a": {-1, 1},
            "imm_scale_b": {-1, 1},
            "imm_trans_a": {0, 1},
            "imm_trans_b": {0, 1},
            "sp_sel": LowBits(range(selectors)),
        },
        limits={"scale_d": {0, 1}},
        registers=("d", "a", "a_desc", "b_desc", "sp_meta"),
        checked_as={"a": ".f16x2" if scales else ".b32"},
        needs=("90a", (8, 2) if sparse else (8, 0)),
        gate=gate,
        traits=(lambda op: attrs.evolve(_MULTIPLIES, metadata=Metadata("sp_meta", "sp_sel", _contributors(op))))
        if sparse
        else _MULTIPLIES,
    )


def _contributors(op: Op) -> int:
    """Lanes of each quad that hold metadata."""
    return 4 if STORAGE[op.atype.name] == "u1" else 2


def _mixed_signs(op: Op) -> Gate | None:
    return None if op.atype is op.btype else (None, (8, 4))


_DENSE = "wgmma.mma_async.sync{.aligned}.shape"
_SPARSE = "wgmma.mma_async.sp.sync{.aligned}.shape"
_FP8 = ".dtype = { .f16, .f32 }; .atype = { .e4m3, .e5m2 }; .btype = { .e4m3, .e5m2 };"
_INT8 = ".dtype = { .s32 }; .atype = { .s8, .u8 }; .btype = { .s8, .u8 };"
_HALF = ".dtype = { .f16, .f32 }; .atype = { .f16 }; .btype = { .f16 };"
_BFLOAT = ".dtype = { .f32 }; .atype = { .bf16 }; .btype = { .bf16 };"
_TF32 = ".dtype = { .f32 }; .atype = { .tf32 }; .btype = { .tf32 };"
_TYPED = ".dtype.atype.btype"


@_declare(f"{_DENSE}{_TYPED} | .shape = {{ {_shapes(_FLOAT_N, 16)} }}; {_HALF}", transposes=True)
@_declare(f"{_DENSE}{_TYPED} | .shape = {{ {_shapes(_FLOAT_N, 16)} }}; {_BFLOAT}", transposes=True)
@_declare(f"{_DENSE}{_TYPED} | .shape = {{ {_shapes(_FLOAT_N, 8)} }}; {_TF32}")
@_declare(f"{_DENSE}{_TYPED} | .shape = {{ {_shapes(_FLOAT_N, 32)} }}; {_FP8}")
@_declare(f"{_SPARSE}{_TYPED} | .shape = {{ {_shapes(_FLOAT_N, 32)} }}; {_HALF}", transposes=True, selectors=2)
@_declare(f"{_SPARSE}{_TYPED} | .shape = {{ {_shapes(_FLOAT_N, 32)} }}; {_BFLOAT}", transposes=True, selectors=2)
@_declare(f"{_SPARSE}{_TYPED} | .shape = {{ {_shapes(_FLOAT_N, 16)} }}; {_TF32}", selectors=2)
@_declare(f"{_SPARSE}{_TYPED} | .shape = {{ {_shapes(_FLOAT_N, 64)} }}; {_FP8}")
def mma_float(
    op: Op,
    a: tuple[Lanes, ...] | None = None,
    a_desc: Lanes | None = None,
    b_desc: Lanes | None = None,
    sp_meta: Lanes | None = None,
    sp_sel: Lanes | None = None,
    scale_d: Lanes | None = None,
    imm_scale_a: Lanes | None = None,
    imm_scale_b: Lanes | None = None,
    imm_trans_a: Lanes | None = None,
    imm_trans_b: Lanes | None = None,
    *,
    accumulator: Lanes,
    shared_matrix: SharedMatrixPort,
    device: DevicePort,
    report: ReportPort,
) -> Lanes:
    """D = A * B + D on floats; A and B are negated if their scale is -1, and D is ignored if scale-d is false."""
    n, m = shared_matrix.extent
    types = op.atype.name, op.btype.name
    left, right, positions = operands(
        op, a, a_desc, b_desc, sp_meta, sp_sel, one(imm_trans_a), one(imm_trans_b), shared_matrix, report
    )
    left, right = scaled(left, one(imm_scale_a)), scaled(right, one(imm_scale_b))
    small = is_f16(op)
    c = fragments.gather_packed(accumulator) if small else fragments.gather_accumulator(accumulator.view(np.float32))
    c = _kept(c, scale_d, n, m)
    present = None
    if positions is not None:
        left, present = expanded(left, positions)
    if device.numerics == "ieee":
        stored = None if present is None else present.transpose(0, 2, 1)
        d = plain_matrix.dot_ieee(left.transpose(0, 2, 1), right, c, types, stored)
    else:
        unit = matrix.WGMMA_FP8 if types[0] in ("e4m3", "e5m2") else matrix.unit_of(max(device.sm, 90))
        x, y = left.transpose(1, 0, 2)[..., None], right.transpose(1, 0, 2)[:, :, None]
        stored = None if present is None else present.transpose(1, 0, 2)[..., None]
        d = matrix.dot_add(x, y, c, types, unit, stored)
    return (fragments.scatter_packed if small else fragments.scatter_accumulator)(d, n, m)


@_declare(
    f"{_DENSE}{{.satfinite}}{_TYPED} | .shape = {{ {_shapes(_INTEGER_N, 32)} }}; {_INT8}",
    scales=False,
    gate=_mixed_signs,
)
@_declare(
    f"{_SPARSE}{{.satfinite}}{_TYPED} | .shape = {{ {_shapes(_INTEGER_N, 64)} }}; {_INT8}",
    scales=False,
    gate=_mixed_signs,
)
@_declare(
    f"{_DENSE}{_TYPED}.and.popc | .shape = {{ {_shapes(_INTEGER_N, 256)} }};"
    " .dtype = { .s32 }; .atype = { .b1 }; .btype = { .b1 };",
    scales=False,
)
def mma_integer(
    op: Op,
    a: tuple[Lanes, ...] | None = None,
    a_desc: Lanes | None = None,
    b_desc: Lanes | None = None,
    sp_meta: Lanes | None = None,
    sp_sel: Lanes | None = None,
    scale_d: Lanes | None = None,
    *,
    accumulator: Lanes,
    shared_matrix: SharedMatrixPort,
    report: ReportPort,
) -> Lanes:
    """D = A * B + D on 8-bit integers, or counts of common bits."""
    n, m = shared_matrix.extent
    left, right, positions = operands(op, a, a_desc, b_desc, sp_meta, sp_sel, 0, 0, shared_matrix, report)
    c = _kept(fragments.gather_accumulator(accumulator.view(np.int32)), scale_d, n, m)
    if op.atype.name == "b1":
        d = plain_matrix.dot_common_bits(left.transpose(0, 2, 1), right, c)
    else:
        left, right = left.view(op.atype.dtype), right.view(op.btype.dtype)
        if positions is not None:
            left, _ = expanded(left, positions)
        d = plain_matrix.dot_integer(left.transpose(0, 2, 1), right, c, saturate=bool(op.satfinite))
    return fragments.scatter_accumulator(d, n, m)


def expanded(left: Lanes, positions: Lanes) -> tuple[Lanes, Lanes]:
    """A ``[W, K, 64]`` of the stored elements ``[W, K / 2, 64]`` at ``positions`` ``[K / 2, 64, W]``, and a mask of them."""
    full, present = expand(left.transpose(1, 0, 2), positions.transpose(0, 2, 1))
    return full.transpose(1, 0, 2), present.transpose(1, 0, 2)


def one(value: Lanes | None) -> int:
    """The value of an immediate; 0 if there is none."""
    return 0 if value is None else constant_of(value)


def scaled(bits: Lanes, scale: int) -> Lanes:
    """A float operand, with its signs flipped if its scale is -1."""
    return bits if scale == 1 else bits ^ bits.dtype.type(1 << (8 * bits.dtype.itemsize - 1))


def _kept(c: Lanes, scale_d: Lanes | None, n: int, m: int) -> Lanes:
    """The accumulator, or zero where scale-d is false."""
    assert scale_d is not None, "each form has scale-d"
    keep = scale_d[:, 0]
    if keep.all():
        return c
    return np.where(np.broadcast_to(keep, (n, m)).reshape(-1, 1, 1), c, c.dtype.type(0))


def operands(
    op: Op,
    a: tuple[Lanes, ...] | None,
    a_desc: Lanes | None,
    b_desc: Lanes | None,
    meta: Lanes | None,
    sel: Lanes | None,
    trans_a: int,
    trans_b: int,
    shared_matrix: SharedMatrixPort,
    report: ReportPort,
) -> tuple[Lanes, Lanes, Lanes | None]:
    """A ``[W, K, 64]`` (stored elements), B ``[W, K, N]``, and the places of sparse A's elements."""
    n, m = shared_matrix.extent
    dtype = np.dtype(STORAGE[op.atype.name])
    k = 32 // dtype.itemsize
    left = (
        fragments.gather_a(a, n, m, dtype)
        if a is not None
        else _from_shared(a_desc, k, 64, dtype, trans_a, shared_matrix, report, by_warp=True)
    )
    k_b = k if meta is None else 2 * k
    right = _from_shared(b_desc, k_b, columns(op), dtype, trans_b, shared_matrix, report, by_warp=False)
    if meta is None:
        return left, right, None
    held = fragments.metadata(16 if dtype.itemsize == 1 else 8, one(sel), 64, floats=dtype.itemsize > 1)
    nibbles = gather(held, (meta.view(np.uint32),), n, m)
    return left, right, stored_positions(nibbles, 8 * dtype.itemsize, n, m, np.ones((1, 128, 1), np.bool_), report)


def _from_shared(
    descriptor: Lanes | None,
    k: int,
    extent: int,
    dtype: DType,
    transposed: int,
    shared_matrix: SharedMatrixPort,
    report: ReportPort,
    *,
    by_warp: bool,
) -> Lanes:
    assert descriptor is not None, "a form without registers for A has its descriptor"
    n, m = shared_matrix.extent
    if descriptor.shape[0] == descriptor.shape[2] == 1:
        bits = descriptor[:, 0]
    else:
        bits = np.broadcast_to(descriptor, (n, 128, m))[:, 0]
    if descriptor.strides[1]:
        wrong = descriptor != descriptor[:, :1]
        if wrong.any():
            report(
                "nonuniform-operand",
                f"threads of a warpgroup name different matrix descriptors: 0x{int(descriptor[wrong][0]):x} and"
                f" 0x{int(np.broadcast_to(descriptor[:, :1], wrong.shape)[wrong][0]):x}",
                wrong,
                advice="compute the descriptor from values that all 128 threads share, not from their own index",
            )
    return shared_matrix.read(bits, k, extent, dtype, transposed=bool(transposed), by_warp=by_warp)


# ---- order ---------------------------------------------------------------------------------------


@_order(
    "wgmma.fence.sync{.aligned};", anchor="fence", traits=Traits(asynchronous=Asynchronous(Family.WGMMA, Stage.FENCE))
)
def fence(op: Op) -> None:
    """Order register accesses with wgmma; here, everything has happened already."""


@_order(
    "wgmma.commit_group.sync{.aligned};",
    anchor="commit-group",
    traits=Traits(asynchronous=Asynchronous(Family.WGMMA, Stage.COMMIT)),
)
def commit_group(op: Op) -> None:
    """Commit a group of wgmma; here, all have completed."""


@_order(
    "wgmma.wait_group.sync{.aligned} n;",
    anchor="wait-group",
    types={"n": ".u32"},
    constants={"n": (0, (1 << 63) - 1)},
    traits=Traits(asynchronous=Asynchronous(Family.WGMMA, Stage.WAIT)),
)
def wait_group(op: Op, n: Lanes) -> None:
    """Wait for groups of wgmma; here, all have completed."""
