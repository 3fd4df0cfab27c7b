"""Tensor maps created and modified on the device (PTX ISA: tensormap.replace, tensormap.cp_fenceproxy)."""

from __future__ import annotations

import functools

import numpy as np

from warpsim.isa.ports import Address, Lanes, MemoryPort, ReportPort, constant_of, first_of
from warpsim.isa.spec import LowBits, Op, instruction
from warpsim.isa.traits import Traits
from warpsim.layout import tensor_map
from warpsim.types import TYPES

_common = functools.partial(
    instruction,
    anchor="data-movement-and-conversion-instructions-tensormap-replace",
    needs=(("90a", "100f", "110f", "120f"), (8, 3)),
    traits=Traits(tensor_map=True),
)
_SPACES = ".ss = { .global, .shared::cta };"
_CHOICES = {"elemtype": 13, "interleave_layout": 3, "swizzle_mode": 4, "fill_mode": 2}


def _store(
    memory: MemoryPort,
    op: Op,
    address: Address,
    field: str,
    order: int,
    value: Lanes,
    active: Lanes,
    report: ReportPort,
) -> None:
    """Change a field word by word, as ptxas does it."""
    space, place = op.ss or "", tensor_map.PLACES[field]
    past = memory.residue(address, tensor_map.SIZE)
    wrong = (past != 0) & active
    if wrong.any():
        report(
            "tensor-map",
            f"the map starts {first_of(past, wrong)} bytes past a multiple of {tensor_map.SIZE} bytes, its size",
            wrong,
            advice=f"align the map to {tensor_map.SIZE} bytes",
        )
    number = (value.astype(np.uint64) - np.uint64(place.less)) >> np.uint64(place.shift)
    word: Lanes
    for offset, first, width, low in place.words(order):
        at, mask = memory.advance(address, offset), np.uint32((1 << width) - 1)
        word = (number >> np.uint64(low)).astype(np.uint32) & mask
        if width < 32:
            (old,) = memory.load(space, at, TYPES["b32"])
            word = old & ~(mask << first) | word << first
        memory.store(space, at, TYPES["b32"], (word,))


@_common(
    f"""
    tensormap.replace.tile.global_address{{.ss}}.b1024.b64 [address], value;
    tensormap.replace.tile.rank{{.ss}}.b1024.b32 [address], value;
    {_SPACES}
    """,
    types={"value": lambda op: ".b64" if "global_address" in op.modifiers else ".b32"},
)
@_common(
    f"""
    tensormap.replace.tile.field{{.ss}}.b1024.b32 [address], order, value;
    tensormap.replace.tile.global_stride{{.ss}}.b1024.b64 [address], order, value;
    .field = {{ .box_dim, .global_dim, .element_stride }}; {_SPACES}
    """,
    types={"order": ".u32", "value": lambda op: TYPES["b64" if "global_stride" in op.modifiers else "u32"]},
    constants={"order": (0, 4)},
)
@_common(
    f"""
    tensormap.replace.tile.field{{.ss}}.b1024.b32 [address], value;
    .field = {{ .elemtype, .interleave_layout, .swizzle_mode, .fill_mode }}; {_SPACES}
    """,
    types={"value": ".u32"},
    constants={"value": lambda op: range(_CHOICES[op.field])},
)
@_common(
    f"tensormap.replace.tile.swizzle_atomicity{{.ss}}.b1024.b32 [address], value; {_SPACES}",
    types={"value": ".u32"},
    constants={"value": (0, 3)},
    needs=(("100f", "110f", "120f"), (8, 6)),
)
@_common(
    f"tensormap.replace.tile.swizzle_mode{{.ss}}.b1024.b32 [address], value; {_SPACES}",
    types={"value": ".u32"},
    constants={"value": {4}},
    needs=("103a", (8, 8)),
)
@_common(
    f"tensormap.replace.tile.elemtype{{.ss}}.b1024.b32 [address], value; {_SPACES}",
    types={"value": ".u32"},
    constants={"value": {13, 14, 15}},
    needs=(("100f", "110f", "120f"), (8, 7)),
)
def replace(
    op: Op,
    address: Address,
    value: Lanes,
    order: Lanes | None = None,
    *,
    memory: MemoryPort,
    active: Lanes,
    report: ReportPort,
) -> None:
    """Change a field, or a dimension's entry; a stride is that of the next dimension, in bytes. The rank is passed minus one. An
    element type that rounds does so ever after."""
    field = op.modifiers[2]
    if field == "rank":
        value = value + value.dtype.type(1)
    elif field == "elemtype":
        data_type = tensor_map.DATA_TYPES.index(tensor_map.ELEMENT_TYPES[constant_of(value)])
        if tensor_map.is_tf32(data_type):
            _store(memory, op, address, "rounds", 0, np.array([1]), active, report)
        value = np.array([tensor_map.stored_type(data_type)])
    _store(memory, op, address, field, 0 if order is None else constant_of(order), value, active, report)


@instruction(
    """
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned [dst], [src], size;
    .scope = { .cta, .cluster, .gpu, .sys };
    """,
    anchor="parallel-synchronization-and-communication-instructions-tensormap-cp-fenceproxy",
    types={"size": ".u32"},
    constants={"size": LowBits({128})},
    spaces={"dst": {"global"}, "src": {"shared"}},
    needs=(90, (8, 3)),
    traits=Traits(tensor_map=True),
)
def cp_fenceproxy(op: Op, dst: Address, src: Address, size: Lanes, *, memory: MemoryPort) -> None:
    """Copy a map from shared to global memory, and make it visible to the tensormap proxy."""
    for at in range(0, 128, 16):
        words = memory.load("shared", memory.advance(src, at), TYPES["b32"], 4)
        memory.store("global", memory.advance(dst, at), TYPES["b32"], words)
