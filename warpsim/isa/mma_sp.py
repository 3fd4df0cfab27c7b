"""mma.sp on sparse A, mma of narrow floats with .kind, and with block scaling (PTX ISA: mma.sp, mma; Block Scaling)."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from warpsim.isa import mma
from warpsim.isa.ports import DevicePort, Lanes, Registers, ReportPort, constant_of
from warpsim.isa.spec import Each, Function, Gate, Op, Scope, instruction
from warpsim.isa.traits import Metadata
from warpsim.layout import fragments
from warpsim.layout.fragment import extent, gather
from warpsim.numerics import emulated
from warpsim.numerics.matrix import expand

_ANCHOR = "warp-level-matrix-instructions-mma-sp"
_ROOTS = ("mma.sp.sync.aligned", "mma.sp::ordered_metadata.sync.aligned")


def _bits(op: Op) -> int:
    """Bits of an element of A; e2m1 is packed unless a kind puts it into bytes."""
    return 4 if "kind::mxf4" in op.modifiers or "kind::mxf4nvf4" in op.modifiers else mma.BITS[op.atype.name]


def chunks(op: Op) -> int:
    """Metadata nibbles per row: one per 4 elements, per 2 for 32-bit types, per 4 pairs for 4-bit types."""
    return mma.extents(op)[2] // {32: 2, 4: 8}.get(_bits(op), 4)


def selectors(op: Op) -> tuple[int, int]:
    """The sparsity selectors that the assembler accepts; for m16n8k32 f16, more than the text defines."""
    if op.shape == "m16n8k32" and op.atype.name == "f16":
        return 0, 3
    return 0, _choices(op) - 1


def _choices(op: Op) -> int:
    """The number of selectors that the text defines: one per set of lanes that can hold the metadata."""
    return 4 // (chunks(op) // 4)


VECTORS = {**mma.VECTORS, "a": lambda op: mma.VECTORS["a"](op) // 2}
SHAPES = {
    **dict.fromkeys(("f16", "bf16"), ("m16n8k16", "m16n8k32")),
    "tf32": ("m16n8k8", "m16n8k16"),
    **dict.fromkeys(("e4m3", "e5m2"), ("m16n8k64",)),
    **dict.fromkeys(("s8", "u8"), ("m16n8k32", "m16n8k64")),
    **dict.fromkeys(("s4", "u4"), ("m16n8k64", "m16n8k128")),
}


def _legal(op: Op) -> str | None:
    name = op.atype.name
    if op.shape not in SHAPES[name]:
        return f".{name} has the shapes " + ", ".join("." + shape for shape in SHAPES[name])
    if mma.BITS[name] != mma.BITS[op.btype.name]:
        return ".atype and .btype must be the same"
    return mma.same_results(op)


def _gate(op: Op) -> Gate:
    ordered = "sp::ordered_metadata" in op.modifiers
    if op.atype.name in ("e4m3", "e5m2"):
        return (89, (8, 5) if ordered else (8, 4))
    return (80, (8, 5) if ordered else (7, 1))


def positions(op: Op, e: Lanes, selector: int, n: int, m: int, active: Lanes, report: ReportPort) -> Lanes:
    """The k of each stored element of A, ``[stored K, 16, W]``, from the metadata; reports broken rules."""
    bits, choices = _bits(op), _choices(op)
    if selector >= choices:
        report(
            "sparse-selector",
            f"the sparsity selector {selector} names no lanes of .{op.shape} with .{op.atype.name}",
            None,
            advice=f"the selector is {' or '.join(str(k) for k in range(choices))} here",
            selector=selector,
        )
    held = fragments.metadata(chunks(op), selector % choices, floats=bits >= 16)
    nibbles = gather(held, (e.view(np.uint32),), n, m)
    return stored_positions(nibbles, bits, n, m, active, report, ordered="sp::ordered_metadata" in op.modifiers)


def stored_positions(
    nibbles: Lanes, bits: int, n: int, m: int, active: Lanes, report: ReportPort, *, ordered: bool = False
) -> Lanes:
    """The k of each stored element ``[stored, rows, W]`` from the metadata ``[chunks, rows, W]`` of ``bits``-bit elements;
    reports indices that the text leaves undefined."""
    low, high = nibbles & 3, nibbles >> 2
    if bits == 32:
        wrong = (nibbles != 0b1110) & (nibbles != 0b0100)
        what = "neither 0b1110 nor 0b0100, the indices of a 32-bit element"
    elif ordered:
        wrong, what = low >= high, "whose indices do not increase"
    else:
        wrong, what = low == high, "of two equal indices"
    if wrong.any() and (bad := wrong.any(axis=(0, 1)).reshape(n, 1, m) & active).any():
        chunk, row, warp = (int(index[0]) for index in np.nonzero(wrong))
        nibble = int(nibbles[chunk, row, warp])
        report(
            "sparse-metadata",
            f"the metadata of row {row}, chunk {chunk} is 0b{nibble:04b}, {what}",
            bad,
            advice="two different indices for each chunk, in the lanes that the selector names",
            nibble=nibble,
        )
    return fragments.stored_positions(nibbles, bits)


def _sums(op: Op) -> str | None:
    """Any registers of 32 bits hold the f32 sums, but of fp8."""
    return ".b32" if op.dtype.name == "f32" and op.atype.name not in mma.FP8 else None


def _declare(pattern: str, classes: str, multiplicand: str) -> Callable[[Function], Function]:
    """Declare both orders of metadata; ``pattern`` is the line from the shape on, ``multiplicand`` the register type of
    A and B."""
    return instruction(
        "; ".join(f"{root}.{pattern} d, a, b, c, e, f" for root in _ROOTS) + f"; {classes}",
        anchor=_ANCHOR,
        scope=Scope.WARP,
        types={
            **{"d": mma.storage("dtype"), "a": multiplicand, "b": multiplicand, "c": mma.storage("ctype")},
            **{"e": ".b32", "f": ".u32"},
        },
        vectors=VECTORS,
        checked_as={"d": _sums, "c": _sums},
        single=dict.fromkeys("dabce", lambda op: mma.WITHOUT_FP8 if op.atype.name in mma.FP8 else None),
        registers=("a", "b", "e"),
        constants={"f": selectors},
        legal=_legal,
        gate=_gate,
        traits=lambda op: attrs.evolve(mma.MULTIPLIES, metadata=Metadata("e", "f", chunks(op) // 4)),
    )


@instruction(
    f"""
    mma.sp::ordered_metadata.sync.aligned.shape.row.col.kind.dtype.atype.btype.ctype d, a, b, c, e, f;
    .shape = {{ .m16n8k64 }};  {mma.KINDS}
    """,
    anchor=_ANCHOR,
    scope=Scope.WARP,
    types={**mma.KIND_TYPES, "e": ".b32", "f": ".u32"},
    vectors=VECTORS,
    registers=("a", "b", "e"),
    constants={"f": (0, 0)},
    legal=mma.same_results,
    gate=mma.kind_gate,
    traits=mma.MULTIPLIES,
)
@_declare(
    "shape.row.col.dtype.atype.btype.ctype",
    """
    .shape = { .m16n8k16, .m16n8k32 };
    .dtype = { .f16, .f32 };  .atype = { .f16 };  .btype = { .f16 };  .ctype = { .f16, .f32 };
    """,
    ".f16x2",
)
@_declare(
    "shape.row.col.dtype.atype.btype.ctype",
    """
    .shape = { .m16n8k8, .m16n8k16, .m16n8k32, .m16n8k64 };  .dtype = { .f32 };  .ctype = { .f32 };
    .atype = { .bf16, .tf32, .e4m3, .e5m2 };  .btype = { .bf16, .tf32, .e4m3, .e5m2 };
    """,
    ".b32",
)
@_declare(
    "shape.row.col{.satfinite}.dtype.atype.btype.ctype",
    """
    .shape = { .m16n8k32, .m16n8k64, .m16n8k128 };  .dtype = { .s32 };  .ctype = { .s32 };
    .atype = { .u8, .s8, .u4, .s4 };  .btype = { .u8, .s8, .u4, .s4 };
    """,
    ".b32",
)
def mma_sp(
    op: Op,
    a: Registers,
    b: Registers,
    c: Registers,
    e: Lanes,
    f: Lanes,
    *,
    device: DevicePort,
    active: Lanes,
    report: ReportPort,
) -> Registers:
    """D = A * B + C of sparse A."""
    n, m = extent((*a, *b, *c, e))
    where = positions(op, e, constant_of(f), n, m, active, report)
    x, present = expand(mma.multiplicand(op.atype.name, 16, a, n, m), where)
    held = mma.accumulator(op, c, n, m)
    if op.dtype.name != "s32":
        return mma.scattered(op, mma.floats(op, x, mma.words(8, b, n, m), held, device, present), n, m)
    y = mma.multiplicand(op.btype.name, 8, b, n, m)
    d = mma.product_of_integers(x.transpose(2, 1, 0), y.transpose(2, 1, 0), held, saturate=op.satfinite)
    return mma.scattered(op, d, n, m)


_DENSE = "warp-level-matrix-instructions-mma"


# ---- scaled blocks ----------------------------------------------------------------------------------


def _vector_size(op: Op) -> int:
    """Number of scales per row of A: 1, 2 or 4."""
    word: str = op.scale_vec_size or ("scale_vec::1X" if op.kind == "kind::mxf8f6f4" else "scale_vec::2X")
    return int(word[-2])


def _byte_ids(op: Op) -> set[int]:
    """Table 37: the bytes at which scales may start."""
    return {1: {0, 1, 2, 3}, 2: {0, 2}, 4: {0}}[_vector_size(op)]


_SCALE_TYPES = {"e": ".b32", "f": ".u32", "sa": ".b32", "ia": ".u16", "sb": ".b32", "ib": ".u16"}


def _scaled_legal(op: Op) -> str | None:
    if op.kind == "kind::mxf4nvf4":
        if op.scale_vec_size is None:
            return ".kind::mxf4nvf4 needs .scale_vec::2X or .scale_vec::4X"
        if op.scale_vec_size == "scale_vec::2X" and op.stype.name != "ue8m0":
            return ".scale_vec::2X goes with .ue8m0"
    elif op.kind == "kind::mxf4" and (op.scale_vec_size == "scale_vec::4X" or op.stype.name != "ue8m0"):
        return ".kind::mxf4 has .scale_vec::2X and .ue8m0"
    return mma.disordered(op)


def _scaled_gate(op: Op) -> Gate:
    sparse_four = any(word.split("::")[0] == "sp" for word in op.modifiers) and op.kind != "kind::mxf8f6f4"
    late = op.scale_vec_size == "scale_vec::4X" and op.stype.name == "ue8m0"
    return (("120a", "121a") if sparse_four else mma.BLACKWELL, (9, 1) if late else (8, 7))


def _scales(
    op: Op, words: Lanes, ids: Registers, rows: int, n: int, m: int, active: Lanes, report: ReportPort
) -> Lanes:
    """Scale bytes ``[S, rows, W]`` from the lanes and bytes that the selectors name."""
    size = _vector_size(op)
    byte, thread = (np.broadcast_to(np.asarray(v, np.int64), (n, 32, m))[:, 0].reshape(n * m) for v in ids)
    threads = 2 if rows == 16 else 4
    wrong = ~np.isin(byte, list(_byte_ids(op))) | (thread < 0) | (thread >= threads)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        report(
            "scale-selector",
            f"{{{int(byte[first])}, {int(thread[first])}}} selects no scales of {op.scale_vec_size or op.kind}",
            wrong.reshape(n, 1, m) & active,
            advice=f"byte-id is one of {sorted(_byte_ids(op))}, thread-id below {threads}",
        )
        byte, thread = np.where(wrong, 0, byte), np.where(wrong, 0, thread)
    held = np.broadcast_to(words.view(np.uint32), (n, 32, m)).transpose(1, 0, 2).reshape(8, 4, n * m)
    row = np.arange(rows)[:, None]
    lane = 2 * thread[None] + row // 8 if rows == 16 else np.broadcast_to(thread[None], (rows, n * m))
    word = held[row % 8, lane, np.arange(n * m)[None]]
    return np.stack([(word >> (8 * (byte + k)).astype(np.uint32)).astype(np.uint8) for k in range(size)])


def _nibbles(values: Registers, rows: int, n: int, m: int) -> Lanes:
    """``[K, rows, W]`` of e2m1, eight per register."""
    fragment = fragments.multiplicand(rows, len(values) * 256 // rows, 4)
    return gather(fragment, tuple(v.view(np.uint32) for v in values), n, m)


_SCALED = f"""
    .dtype = {{ .f32 }};  .ctype = {{ .f32 }};  {mma.NARROW}  .stype = {{ .ue8m0 }};
    .kind = {{ .kind::mxf8f6f4 }};  .scale_vec_size = {{ .scale_vec::1X }};
    """
_FOUR = """
    .dtype = { .f32 };  .ctype = { .f32 };  .atype = { .e2m1 };  .btype = { .e2m1 };  .stype = { .ue8m0, .ue4m3 };
    .kind = { .kind::mxf4, .kind::mxf4nvf4 };  .scale_vec_size = { .scale_vec::2X, .scale_vec::4X };
    """
_LINE = "sync.aligned.shape.row.col.kind.block_scale{.scale_vec_size}.dtype.atype.btype.ctype.stype d, a, b, c"
_TAIL = "sa, {ia0, ia1}, sb, {ib0, ib1};"


def _declare_scaled(line: str, shape: str, types: str, *, sparse: bool) -> Callable[[Function], Function]:
    """Declare a scaled form: `_SCALED` or `_FOUR` types, of one shape."""
    return instruction(
        f"{line}, {_TAIL} .shape = {{ .{shape} }}; {types}",
        anchor=_ANCHOR if sparse else _DENSE,
        scope=Scope.WARP,
        types={"d": ".f32", "a": ".b32", "b": ".b32", "c": ".f32", **_SCALE_TYPES},
        vectors={"d": 4, "c": 4, "a": 4, "b": 4 if sparse else 2, "ia": 2, "ib": 2},
        constants={"f": (0, 0)},
        limits={"ia": lambda op: Each((_byte_ids(op), (0, 1))), "ib": lambda op: Each((_byte_ids(op), (0, 3)))},
        registers=("a", "b", "e", "sa", "sb"),
        exact=("a", "b"),
        legal=_scaled_legal if types is _FOUR else mma.disordered,
        gate=_scaled_gate,
        traits=mma.MULTIPLIES,
    )


@_declare_scaled(f"mma.{_LINE}", "m16n8k64", _FOUR, sparse=False)
@_declare_scaled(f"mma.{_LINE}", "m16n8k32", _SCALED, sparse=False)
@_declare_scaled(f"mma.sp::ordered_metadata.{_LINE}, e, f", "m16n8k128", _FOUR, sparse=True)
@_declare_scaled(f"mma.sp::ordered_metadata.{_LINE}, e, f", "m16n8k64", _SCALED, sparse=True)
def mma_scaled(
    op: Op,
    a: Registers,
    b: Registers,
    c: Registers,
    e: Lanes | None,
    f: Lanes | None,
    sa: Lanes,
    ia: Registers,
    sb: Lanes,
    ib: Registers,
    *,
    device: DevicePort,
    active: Lanes,
    report: ReportPort,
) -> Registers:
    """D = (A * scale_A) * (B * scale_B) + C, where A is sparse if it has metadata e."""
    n, m = extent((*a, *b, *c, *(() if e is None else (e,)), sa, sb))
    left, right = (_scales(op, s, i, r, n, m, active, report) for s, i, r in ((sa, ia, 16), (sb, ib, 8)))
    left, right = left[:, :, None], right[:, None]
    held = mma.accumulator(op, c, n, m)
    kinds = (op.atype.name, op.btype.name)
    four = op.kind != "kind::mxf8f6f4"
    x, y = (
        _nibbles(values, rows, n, m) if four else mma.multiplicand(kind, rows, values, n, m)
        for kind, values, rows in ((kinds[0], a, 16), (kinds[1], b, 8))
    )
    x, present = (x, None) if e is None else expand(x, positions(op, e, 0, n, m, active, report))
    x, y = x[:, :, None], y[:, None]
    if four:
        d = emulated.dot_groups(x, y, held, (left, right), op.stype.name)
    else:
        stored = None if present is None else present[:, :, None]
        d = emulated.dot_scaled(x, y, held, kinds, (left[0], right[0]), device.sm, stored)
    return mma.scattered(op, d, n, m)
