"""`mma` of tcgen05: A and B in shared memory, D, metadata and scale factors in tensor memory of one CTA."""

from __future__ import annotations

import numpy as np

from warpsim.errors import LaunchError
from warpsim.host.snippet import run
from warpsim.layout.fragment import matrix_of, registers_of
from warpsim.layout.instruction_descriptors import ELEMENTS, FOUR, RESULTS, WHOLE_BYTES, Product, encode
from warpsim.layout.instructions import Operand
from warpsim.numerics.arrays import Array

COLUMNS = {"d": 0, "c": 0, "e": 256, "scale_a": 272, "scale_b": 288}
"""Where the operands begin in tensor memory."""


def multiply(words: list[str], p: Product, operands: dict[str, Operand], given: dict[str, Array], target: str) -> Array:
    """Run one product on matrices of bits ``[1, rows, columns]``; ``operands`` are the fragments in tensor memory."""
    if p.cta_group == 2:
        raise LaunchError(
            "one CTA runs here; a product with .cta_group::2 has the same results as one of each half of M"
        )
    left, right = (
        _core_matrices(_octets(bits, p, type)) for bits, type in ((given["a"][0], p.a), (given["b"][0].T, p.b))
    )
    a, b = len(left), len(right)
    registers: dict[str, Array] = {}
    stores = []
    for name in ("c", "e", "scale_a", "scale_b"):
        if name in given:
            operand = operands["d" if name == "c" else name]
            matrix = given[name].transpose(0, 2, 1) if operand.swapped else given[name]
            packed = registers_of(operand.fragment, _padded(matrix, operand))[0].astype(np.uint32)
            registers[name] = np.tile(packed, (128 // len(packed), 1))
            stores.append(_moves(name, packed.shape[1]))
    known = {*ELEMENTS[p.kind].values(), *RESULTS.get(p.kind, {1: "f32"}).values(), "ue8m0", "ue4m3"}
    name = ".".join(["tcgen05", *(w for w in words if w not in known and not (w[0] == "m" and w[1:2].isdecimal()))])
    name = name if "cta_group" in name else f"{name}.cta_group::1"
    tail = ", [e], idesc" if p.sparse else ", idesc"
    tail += ", [sa], [sb], 1" if p.scale else ", 1"
    count = operands["d"].fragment.registers
    idesc = encode(p.kind, p.m, p.n, p.a, p.b, p.d, scale=p.scale, sparse=p.sparse)
    code = f"""{"".join(f".reg .b32 {name}<{held.shape[1]}>;" for name, held in registers.items())} .reg .b32 d<{count}>;
        .reg .b32 place, bar, slot, tid, base, mine, idesc, e, sa, sb; .reg .b64 at, x, y; .reg .pred leader, first, done;
        mov.u32 place, smem; add.u32 bar, place, {a + b}; add.u32 slot, bar, 8; mov.u32 tid, %tid.x;
        setp.eq.u32 leader, tid, 0; setp.lt.u32 first, tid, 32;
        @leader mbarrier.init.shared.b64 [bar], 1; fence.proxy.async;
        @!first bra READY; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 512; READY: bar.sync 0;
        ld.shared.b32 base, [slot]; and.b32 mine, tid, 96; shl.b32 mine, mine, 16; add.u32 mine, mine, base;
        {"".join(stores)} tcgen05.wait::st.sync.aligned;
        tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
        @!leader bra WAIT;
        shr.u32 place, place, 4; cvt.u64.u32 at, place;
        or.b64 x, at, {_descriptor(0, p.stored * p.bits_a // 8)}; add.u64 y, at, {_descriptor(a, p.k * p.bits_b // 8)};
        mov.u32 idesc, {idesc}; add.u32 e, base, {COLUMNS["e"]};
        add.u32 sa, base, {COLUMNS["scale_a"]}; add.u32 sb, base, {COLUMNS["scale_b"]};
        \n{name} [base], x, y{tail};
        tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
        WAIT: mbarrier.try_wait.parity.shared.b64 done, [bar], 0; @!done bra WAIT; bar.sync 0;
        tcgen05.fence::after_thread_sync; {_moves("d", count, load=True)} tcgen05.wait::ld.sync.aligned;
        tcgen05.fence::before_thread_sync; bar.sync 0; @!first bra END;
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 base, 512; END: bar.sync 0;"""
    shared = np.concatenate([left, right, np.zeros(16, np.uint8)])
    result = run(code, registers=registers, warps=4, target=target, shared=shared)
    found = np.stack([result.registers[f"d{i}"].view(np.uint32) for i in range(count)], axis=-1)
    return matrix_of(operands["d"].fragment, found.reshape(1, 128, count))


def _moves(name: str, count: int, *, load: bool = False) -> str:
    """tcgen05.ld or .st of registers, in powers of two."""
    text, first = "", 0
    while first < count:
        step = 1 << min((count - first).bit_length() - 1, 6)
        held = "{" + ", ".join(f"{name}{i}" for i in range(first, first + step)) + "}"
        place = f"[mine+{COLUMNS[name] + first}]"
        shape = f"sync.aligned.32x32b.x{step}.b32"
        text += f"tcgen05.ld.{shape} {held}, {place};" if load else f"tcgen05.st.{shape} {place}, {held};"
        first += step
    return text


def _padded(matrix: Array, operand: Operand) -> Array:
    """Scale factors with rows up to a whole column of tensor memory."""
    rows = operand.fragment.rows - matrix.shape[1]
    return np.pad(matrix, ((0, 0), (0, rows), (0, 0))) if rows > 0 else matrix


def _octets(bits: Array, p: Product, type: str) -> Array:
    """Rows of bytes as shared memory has them: sixteen 6-bit or 4-bit elements begin 16 bytes, unless all are packed."""
    bits = np.ascontiguousarray(bits)
    if p.kind in FOUR:
        return bits[:, ::2] | bits[:, 1::2] << np.uint8(4)
    if bits.dtype.itemsize > 1 or type in WHOLE_BYTES:
        return bits.view(np.uint8).reshape(len(bits), -1)
    lines, width = bits.reshape(len(bits), -1, 16), 4 if type == "e2m1" else 6
    each = np.unpackbits(lines[..., None], axis=-1, bitorder="little")[..., :width]
    packed = np.packbits(each.reshape(*lines.shape[:2], -1), axis=-1, bitorder="little")
    return np.pad(packed, ((0, 0), (0, 0), (0, 16 - 2 * width))).reshape(bits.shape)


def _core_matrices(octets: Array) -> Array:
    """Rows of bytes, k along their 16-byte parts, without swizzle: 8 rows of 16 bytes stand together, those of k first."""
    return np.ascontiguousarray(octets.reshape(len(octets) // 8, 8, -1, 16).transpose(0, 2, 1, 3)).reshape(-1)


def _descriptor(start: int, width: int) -> int:
    return start >> 4 | 128 >> 4 << 16 | 8 * width >> 4 << 32 | 1 << 46
