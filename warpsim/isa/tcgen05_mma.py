"""tcgen05.mma (PTX ISA: TensorCore 5th Generation of MMA Instructions).

One thread issues a product of matrices in shared and tensor memory, which `warpsim.isa.tensor_products` computes when the
machine says so. What its descriptors get wrong is reported where it is issued. Collector buffers change no value; that they hold
what is used is checked.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from warpsim.isa.ports import (
    Address,
    DevicePort,
    Lanes,
    ReportPort,
    SharedRuns,
    TensorCorePort,
    TensorRuns,
    constant_of,
)
from warpsim.isa.spec import Function, Gate, LowBits, Op, instruction
from warpsim.isa.tensor_products import COLUMN, LANE, PIECE, Rectangle, TensorProducts, Variant, pieces
from warpsim.isa.traits import Asynchronous, Family, Traits
from warpsim.layout import descriptors, instruction_descriptors, tensor_tiles
from warpsim.layout.instruction_descriptors import FOUR, Product

_ANCHOR = "tcgen05-mma-instructions-mma"
_FAMILIES = ("100f", "110f")
_ARCHITECTURES = ("100a", "103a", "110a")
_RULE = "tcgen05"
_UNSCALED = ".kind = { .kind::f16, .kind::tf32, .kind::f8f6f4, .kind::i8 };"
_FLOATS = ".kind = { .kind::f16, .kind::tf32, .kind::f8f6f4 };"
_USES = ("fill", "use", "lastuse", "discard")
_COLLECTOR_A = f".collector_usage = {{ {', '.join(f'.collector::a::{use}' for use in _USES)} }};"
_COLLECTOR_B = f".collector_usage = {{ {', '.join(f'.collector::b{n}::{use}' for n in range(4) for use in _USES)} }};"


def _declare(
    *lines: str,
    classes: str,
    anchor: str,
    legal: Callable[[Op], str | None] | None = None,
    gate: Callable[[Op], Gate | None] | None = None,
    needs: Gate = (_FAMILIES, (8, 6)),
) -> Callable[[Function], Function]:
    """Declare forms, with A in shared memory or (``A`` in brackets) in tensor memory."""
    return instruction(
        "; ".join((*lines, "")) + classes + ".cta_group = { .cta_group::1, .cta_group::2 };",
        anchor=anchor,
        types={
            **dict.fromkeys(("a_desc", "b_desc", "zeros"), ".u64"),
            **dict.fromkeys(("idesc", "scale_d"), ".u32"),
            "disabled": ".b32",
            "enable_d": ".pred",
        },
        vectors={"disabled": lambda op: 4 * _cta_group(op)},
        exact=("d_tmem", "a_tmem", "metadata", "scale_a", "scale_b"),
        constants={"scale_d": lambda op: None if op.kind == "kind::i8" else LowBits(range(16))},
        legal=legal,
        gate=gate,
        needs=needs,
        traits=Traits(asynchronous=Asynchronous(Family.TCGEN05)),
    )


def _cta_group(op: Op) -> int:
    return int(op.cta_group[-1])


def _kind(op: Op) -> str:
    return str(op.kind).removeprefix("kind::")


def _shift_and_collector(op: Op) -> str | None:
    if op.get("ashift") and op.get("collector_usage") in ("collector::a::fill", "collector::a::use"):
        return ".ashift does not go with .collector::a::fill and .collector::a::use"
    return None


def _scale_input(op: Op) -> str | None:
    if op.kind == "kind::f8f6f4":
        return "scale-input-d is for .kind::f16 and .kind::tf32"  # the assembler takes any with .kind::i8
    return _shift_and_collector(op)


def _gate(op: Op) -> Gate | None:
    return (("100a", "110a"), None) if op.kind == "kind::i8" else None


def _scale_gate(op: Op) -> Gate | None:
    return _gate(op) or ("100f", None)


def _vector(op: Op) -> str:
    return str(op.scale_vectorsize or "")


def _scaled_legal(op: Op) -> str | None:
    size, kind = _vector(op), _kind(op)
    allowed = {
        "mxf8f6f4": ("", "scale_vec::1X", "block32"),
        "mxf4": ("", "scale_vec::2X", "block32"),
        "mxf4nvf4": ("scale_vec::2X", "scale_vec::4X", "block16", "block32"),
    }[kind]
    if size in allowed:
        return None
    return f".kind::{kind} goes with " + ", ".join(f".{word}" for word in allowed if word)


def _scaled_gate(op: Op) -> Gate | None:
    size, kind = _vector(op), _kind(op)
    late = (8, 8) if size.startswith("block") else (8, 7) if kind == "mxf4nvf4" else None
    if size.startswith("scale_vec") or (op.get("sp") and kind in FOUR):
        return (_ARCHITECTURES, late)
    return (None, late)


def _each(root: str, operands: str) -> tuple[str, str]:
    """The lines with A in shared memory and in tensor memory."""
    return f"{root} [d_tmem], a_desc, b_desc{operands}", f"{root} [d_tmem], [a_tmem], b_desc{operands}"


def _plain(root: str, between: str, tail: str, mask: str = "{, disabled}") -> tuple[str, str]:
    """The same of products without scale factors, where only A in tensor memory can be shifted."""
    first, _ = _each(f"{root}.kind{{.collector_usage}}", f"{between}, idesc{mask}, enable_d{tail}")
    _, second = _each(f"{root}.kind{{.ashift}}{{.collector_usage}}", f"{between}, idesc{mask}, enable_d{tail}")
    return first, second


_META = ", [metadata]"
_SCALED = ".kind = { .kind::mxf8f6f4, .kind::mxf4, .kind::mxf4nvf4 };"
_SIZES = ".scale_vectorsize = { .scale_vec::1X, .scale_vec::2X, .scale_vec::4X, .block16, .block32 };"
_BLOCKS = "kind.block_scale{.scale_vectorsize}{.collector_usage}"
_SCALES = ", idesc, [scale_a], [scale_b], enable_d"


@_declare(
    *_plain("tcgen05.mma.cta_group", "", ""),
    *_plain("tcgen05.mma.sp.cta_group", _META, ""),
    classes=_UNSCALED + _COLLECTOR_A,
    anchor=_ANCHOR,
    legal=_shift_and_collector,
    gate=_gate,
)
@_declare(
    *_plain("tcgen05.mma.sp.cta_group", _META, ", scale_d", ", disabled"),
    classes=_FLOATS + _COLLECTOR_A,
    anchor=_ANCHOR,
    legal=_scale_input,
    gate=_scale_gate,
)
@_declare(
    *_plain("tcgen05.mma.cta_group", "", ", scale_d"),
    *_plain("tcgen05.mma.sp.cta_group", _META, ", scale_d", ""),
    classes=_UNSCALED + _COLLECTOR_A,
    anchor=_ANCHOR,
    legal=_scale_input,
    gate=_scale_gate,
)
@_declare(
    *_each(f"tcgen05.mma.cta_group.{_BLOCKS}", _SCALES),
    *_each(f"tcgen05.mma.sp.cta_group.{_BLOCKS}", _META + _SCALES),
    classes=_SCALED + _SIZES + _COLLECTOR_A,
    anchor=_ANCHOR,
    legal=_scaled_legal,
    gate=_scaled_gate,
)
@_declare(
    *_each("tcgen05.mma.ws.cta_group::1.kind{.collector_usage}", ", idesc, enable_d{, zeros}"),
    *_each("tcgen05.mma.ws.sp.cta_group::1.kind{.collector_usage}", _META + ", idesc, enable_d{, zeros}"),
    classes=_UNSCALED + _COLLECTOR_B,
    anchor=_ANCHOR + "-ws",
    gate=_gate,
)
def mma(
    op: Op,
    d_tmem: Address,
    a_desc: Lanes | None = None,
    a_tmem: Address | None = None,
    b_desc: Lanes | None = None,
    metadata: Address | None = None,
    idesc: Lanes | None = None,
    disabled: tuple[Lanes, ...] | None = None,
    scale_a: Address | None = None,
    scale_b: Address | None = None,
    enable_d: Lanes | None = None,
    scale_d: Lanes | None = None,
    zeros: Lanes | None = None,
    *,
    tensor_core: TensorCorePort,
    device: DevicePort,
    report: ReportPort,
) -> None:
    """D = A * B + D, or A * B where enable-input-d is false."""
    group = 1 if op.ws else _cta_group(op)
    d, b, bits, keep = tensor_core.each(d_tmem, b_desc, idesc, enable_d)
    (a,) = tensor_core.each(a_desc if a_tmem is None else a_tmem)
    ctas = tensor_core.ctas(group)
    masks = None if zeros is None else tensor_core.each(zeros)[0]
    found = _variants(op, group, bits, d, masks)
    if isinstance(found, str):
        report(_RULE, f"the instruction descriptor 0x{int(bits[0]) & 0xFFFFFFFF:x}: {found}", None, advice=_ADVICE)
        return
    variants, which = found
    work = TensorProducts(
        variants,
        which,
        ctas,
        d,
        a.astype(np.uint64),
        a_tmem is not None,
        b.astype(np.uint64),
        keep.astype(np.bool_),
        0 if scale_d is None or op.kind == "kind::i8" else constant_of(scale_d) & 15,
        None if disabled is None else _lane_mask(tensor_core.each(*disabled)),
        masks,
        None if metadata is None else tensor_core.each(metadata)[0],
        None if scale_a is None else (tensor_core.each(scale_a)[0], tensor_core.each(scale_b)[0]),
        0 if scale_a is None else _vector_size(op, variants[0].product),
        bool(op.ashift),
    )
    for number, variant in enumerate(variants):
        mine = np.flatnonzero(which == number)
        why = _mistake(op, work, variant, mine, device.sm)
        if why is not None:
            report(_RULE, why, None, advice=_ADVICE)
            return
    _collect(op, work, bits, tensor_core)
    reads, writes = _touched(work, ctas)
    reads += tuple(_some(runs, work.accumulate[runs.issuer]) for runs in writes if work.accumulate[runs.issuer].any())
    tensor_core.start(work, cta_group=group, shared=_shared(work, ctas), reads=reads, writes=writes)


_OF_A, _OF_B = 0x1F008384, 0x7F1C00
"""The fields of an instruction descriptor that tell what a collector buffer holds: sparsity, type, transposition, extent."""


def _collect(op: Op, work: TensorProducts, bits: Lanes, tensor_core: TensorCorePort) -> None:
    """Use the collector buffer of A, or of .ws one of B."""
    name, usage = (op.get("collector_usage") or f"collector::{'b0' if op.ws else 'a'}::discard").split("::")[1:]
    number, fields = (work.a, _OF_A) if name == "a" else (work.b, _OF_B)
    form = bits.astype(np.int64) & fields | (name == "a" and work.a_in_tensor)
    matrix = np.stack([number.astype(np.int64), form], axis=1)
    tensor_core.collect(0 if name == "a" else 1 + int(name[1]), usage, work.ctas, matrix)


_ADVICE = "see the instruction descriptor, the matrix descriptor and the shapes of the kind in the PTX ISA"


def _variants(
    op: Op, group: int, bits: Lanes, d: Lanes, masks: Lanes | None
) -> tuple[tuple[Variant, ...], Lanes] | str:
    """The different products that the threads ask for, and which each asks for; or why one is none."""
    shifts = np.zeros(len(bits), np.int64) if masks is None else masks.astype(np.int64) >> 56 & 63
    wanted, which = np.unique(
        np.stack([bits.astype(np.int64), d.astype(np.int64) >> LANE, shifts]), axis=1, return_inverse=True
    )
    reserved = np.zeros(len(bits), np.int64) if masks is None else masks.astype(np.int64) >> 36 & 7
    if reserved.any():
        return "bits 36 to 38 of the zero-column mask must be 0"
    variants = []
    for number, lane, shift in wanted.T.tolist():
        product = instruction_descriptors.decode(number & 0xFFFFFFFF, _kind(op), weights=bool(op.ws), cta_group=group)
        if isinstance(product, str):
            return product
        if product.sparse != bool(op.sp):
            return f"the sparsity bit is {int(product.sparse)}, the instruction is {'' if op.sp else 'not '}.sp"
        variants.append(Variant(product, lane, shift))
    return tuple(variants), which.reshape(-1)


def _some(runs: TensorRuns, which: Lanes) -> TensorRuns:
    """Some of the rectangles."""
    issuer, cta, lane, column = runs.issuer[which], runs.cta[which], runs.lane[which], runs.column[which]
    return TensorRuns(issuer, cta, lane, column, runs.n_lanes, runs.n_columns, runs.part)


def _lane_mask(words: tuple[Lanes, ...]) -> Lanes:
    """``[k, lanes]`` of the bits of four or eight words."""
    stacked = np.stack([word.view(np.uint32) for word in words], axis=1)
    return (stacked[:, :, None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)).reshape(len(stacked), -1) != 0


def _vector_size(op: Op, product: Product) -> int:
    """The number of scale factors of a row of A."""
    size = _vector(op)
    if size.startswith("scale_vec"):
        return int(size[-2])
    return product.k // (2 if product.sparse else 1) // (16 if size == "block16" else 32)


def _mistake(op: Op, work: TensorProducts, variant: Variant, which: Lanes, sm: int) -> str | None:
    """Why the operands of a product do not fit it, or each other."""
    p = variant.product
    if p.k == 96 and sm != 103:
        return "K = 96 is for sm_103a"
    if work.shifted and p.m < 128:
        return f".ashift needs M = 128 or 256, not {p.m}"
    if variant.column > p.shift:
        return f"the zero-column mask shifts B by {variant.column} columns, the instruction descriptor allows {p.shift}"
    if work.a_in_tensor and p.transpose_a:
        return "A in tensor memory cannot be transposed"
    why = _lane_mistake(work, variant, which)
    if why is None and work.scales is not None:
        why = _scale_mistake(op, p, work.vector_size)
    if why is None and not work.a_in_tensor:
        why = _descriptor_mistake("A", work.a[which], p, sm, transposed=p.transpose_a)
    return why or _descriptor_mistake("B", work.b[which], p, sm, transposed=p.transpose_b)


def _lane_mistake(work: TensorProducts, variant: Variant, which: Lanes) -> str | None:
    p, lane = variant.product, variant.lane
    allowed = (0, 16) if tensor_tiles.halves(p) else (0,)
    if lane not in allowed:
        places = " or ".join(map(str, allowed))
        return f"D begins at lane {lane}; in layout {tensor_tiles.layout_name(p)} it begins at lane {places}"
    for name, address in (("A", work.a if work.a_in_tensor else None), ("the metadata", work.metadata)):
        if address is not None and (address[which].astype(np.int64) >> LANE != lane).any():
            return f"{name} begins at lane {int(address[which][0]) >> LANE}, D at lane {lane}"
    return None


def _descriptor_mistake(name: str, numbers: Lanes, p: Product, sm: int, *, transposed: bool) -> str | None:
    for number in np.unique(numbers).tolist():
        why = descriptors.problem_tcgen05(number) or _mode_mistake(p, number, sm, transposed=transposed)
        if why is not None:
            return f"the matrix descriptor of {name}, 0x{number:x}: {why}"
    return None


def _mode_mistake(p: Product, number: int, sm: int, *, transposed: bool) -> str | None:
    """Which types are transposed in which swizzling modes (table 54 of the text), and where a leading offset is absolute."""
    if number & descriptors.ABSOLUTE and (transposed or sm != 103):
        return "an absolute leading offset is for matrices of sm_103a that are not transposed"
    atom32 = number >> 61 == 1
    if transposed and atom32 != (p.kind == "tf32"):
        return "a transposed matrix of tf32 needs 128-byte swizzling with 32-byte atoms, other types do not have it"
    return None


def _scale_mistake(op: Op, p: Product, size: int) -> str | None:
    if p.scale == "ue4m3" and size not in (4, 6):
        return "scale factors of ue4m3 are for blocks of 16"
    if p.k == 96 and _vector(op).startswith("scale_vec"):
        return "K = 96 goes with .block16 and .block32"
    allowed = {1: {0, 1, 2, 3}, 2: {0, 2}, 3: {0, 1, 2, 3}, 4: {0}, 6: {0, 2}}[size]
    for name, first in (("A", p.scale_a_id), ("B", p.scale_b_id)):
        if first not in allowed:
            return f"the scale factor identifier of {name} is {first}; it is one of {sorted(allowed)} here"
    return None


def _touched(work: TensorProducts, ctas: tuple[Lanes, ...]) -> tuple[tuple[TensorRuns, ...], tuple[TensorRuns, ...]]:
    """What the products read and write of tensor memory."""
    reads: list[TensorRuns] = []
    writes: list[TensorRuns] = []
    for number, variant in enumerate(work.variants):
        which = np.flatnonzero(work.variant == number)
        for r in work.rectangles(variant):
            (writes if r.part == "d" else reads).append(_runs(work, r, which, ctas))
    return tuple(reads), tuple(writes)


def _runs(work: TensorProducts, r: Rectangle, which: Lanes, ctas: tuple[Lanes, ...]) -> TensorRuns:
    column = (work.address(r.part)[which].astype(np.int64) & COLUMN) + r.column
    lane = np.full(len(which), r.lane, np.int64)
    return TensorRuns(which, ctas[r.cta][which], lane, column, r.lanes, r.columns, r.part)


def _shared(work: TensorProducts, ctas: tuple[Lanes, ...]) -> tuple[SharedRuns, ...]:
    """What the products read of shared memory, in pieces of 16 bytes."""
    found = []
    for number, variant in enumerate(work.variants):
        p, which = variant.product, np.flatnonzero(work.variant == number)
        a = (work.a, p.m // p.cta_group, p.stored, p.bits_a, p.transpose_a)
        b = (work.b, p.n // p.cta_group + variant.column, p.k, p.bits_b, p.transpose_b)
        for bits, rows, k, width, transposed in (b,) if work.a_in_tensor else (a, b):
            for descriptor in np.unique(bits[which]).tolist():
                mine = which[bits[which] == descriptor]
                start = pieces(descriptor, rows, k, width, transposed=transposed)
                starts, issuers = np.tile(start, len(mine)), np.repeat(mine, len(start))
                found += [SharedRuns(issuers, cta[issuers], starts, PIECE) for cta in ctas]
    return tuple(found)
