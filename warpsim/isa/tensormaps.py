"""Tensor maps created and modified on the device (PTX ISA: tensormap.replace, tensormap.cp_fenceproxy)."""

from __future__ import annotations

import functools

import numpy as np

from warpsim.isa.ports import Address, Lanes, MemoryPort, ReportPort, constant_of, first_of
from warpsim.isa.spec import LowBits, Op, instruction
from warpsim.isa.traits import Traits
from warpsim.layout import tensor_map
from warpsim.types import TYPES, bits_type

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
    """Change a field; the bytes are then a map."""
    space = op.ss or ""
    past = memory.residue(address, tensor_map.LAYOUT.itemsize)
    wrong = (past != 0) & active
    if wrong.any():
        report(
            "tensor-map",
            f"the map starts {first_of(past, wrong)} bytes past a multiple of {tensor_map.LAYOUT.itemsize} bytes, its size",
            wrong,
            advice=f"align the map to {tensor_map.LAYOUT.itemsize} bytes",
        )
    offset, nbytes = tensor_map.place_of(field, order)
    kind = bits_type(8 * nbytes)
    memory.store(space, memory.advance(address, offset), kind, (value.astype(kind.dtype),))
    memory.store(space, address, TYPES["u32"], (np.array([tensor_map.MAGIC], np.uint32),))


@_common(
    f"""
    tensormap.replace.tile.global_address{{.ss}}.b1024.b64 [address], value;
    tensormap.replace.tile.rank{{.ss}}.b1024.b32 [address], value;
    {_SPACES}
    """,
    types={"value": lambda op: ".b64" if "global_address" in op.modifiers else ".b32"},
)
def replace_single(
    op: Op, address: Address, value: Lanes, *, memory: MemoryPort, active: Lanes, report: ReportPort
) -> None:
    """Change the address or the rank; the rank is passed minus one."""
    if "rank" in op.modifiers:
        _store(memory, op, address, "rank", 0, value + value.dtype.type(1), active, report)
    else:
        _store(memory, op, address, "address", 0, value, active, report)


_FIELDS = {"box_dim": "box", "global_dim": "dims", "global_stride": "strides", "element_stride": "element_strides"}


def _field(op: Op) -> str:
    return next(_FIELDS[word] for word in op.modifiers if word in _FIELDS)


@_common(
    f"""
    tensormap.replace.tile.field{{.ss}}.b1024.b32 [address], order, value;
    tensormap.replace.tile.global_stride{{.ss}}.b1024.b64 [address], order, value;
    .field = {{ .box_dim, .global_dim, .element_stride }}; {_SPACES}
    """,
    types={"order": ".u32", "value": lambda op: TYPES["b64" if "global_stride" in op.modifiers else "u32"]},
    constants={"order": (0, 4)},
)
def replace_ordered(
    op: Op, address: Address, order: Lanes, value: Lanes, *, memory: MemoryPort, active: Lanes, report: ReportPort
) -> None:
    """Change a dimension's entry; a stride is that of the next dimension, in bytes."""
    n = constant_of(order)
    if _field(op) != "strides" or n < 4:
        _store(memory, op, address, _field(op), n, value, active, report)


@_common(
    f"""
    tensormap.replace.tile.field{{.ss}}.b1024.b32 [address], value;
    .field = {{ .elemtype, .interleave_layout, .swizzle_mode, .fill_mode }}; {_SPACES}
    """,
    types={"value": ".u32"},
    constants={"value": lambda op: range(_CHOICES[op.field])},
)
def replace_choice(
    op: Op, address: Address, value: Lanes, *, memory: MemoryPort, active: Lanes, report: ReportPort
) -> None:
    """Change the element type, interleave layout, swizzle or fill mode."""
    number = constant_of(value)
    if op.field == "elemtype":
        number = tensor_map.DATA_TYPES.index(tensor_map.ELEMENT_TYPES[number])
        if tensor_map.is_tf32(number):
            _store(memory, op, address, "rounds", 0, np.array([1], np.uint32), active, report)
    names = {"elemtype": "data_type", "interleave_layout": "interleave", "swizzle_mode": "swizzle"}
    _store(memory, op, address, names.get(op.field, "oob_fill"), 0, np.array([number], np.uint32), active, report)


@_common(
    f"tensormap.replace.tile.swizzle_atomicity{{.ss}}.b1024.b32 [address], value; {_SPACES}",
    types={"value": ".u32"},
    constants={"value": (0, 3)},
    needs=(("100f", "110f", "120f"), (8, 6)),
)
def replace_atomicity(
    op: Op, address: Address, value: Lanes, *, memory: MemoryPort, active: Lanes, report: ReportPort
) -> None:
    """Change what a swizzle of 128 bytes keeps together: 16 bytes, 32, 32 of which it swaps halves of 16, or 64."""
    _store(memory, op, address, "atomicity", 0, value, active, report)


@_common(
    f"tensormap.replace.tile.swizzle_mode{{.ss}}.b1024.b32 [address], value; {_SPACES}",
    types={"value": ".u32"},
    constants={"value": {4}},
    needs=("103a", (8, 8)),
)
def replace_swizzle_96(
    op: Op, address: Address, value: Lanes, *, memory: MemoryPort, active: Lanes, report: ReportPort
) -> None:
    """Change the swizzle to that of 96 bytes."""
    _store(memory, op, address, "swizzle", 0, value, active, report)


@_common(
    f"tensormap.replace.tile.elemtype{{.ss}}.b1024.b32 [address], value; {_SPACES}",
    types={"value": ".u32"},
    constants={"value": {13, 14, 15}},
    needs=(("100f", "110f", "120f"), (8, 7)),
)
def replace_packed(
    op: Op, address: Address, value: Lanes, *, memory: MemoryPort, active: Lanes, report: ReportPort
) -> None:
    """Change the element type to a packed one."""
    _store(memory, op, address, "data_type", 0, value, active, report)


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
