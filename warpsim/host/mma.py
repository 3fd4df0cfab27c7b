"""`mma`: one matrix instruction on whole matrices."""

from __future__ import annotations

import re

import attrs
import numpy as np
from numpy.typing import ArrayLike

from warpsim.errors import LaunchError, shown
from warpsim.host import tensor_mma
from warpsim.host.device import Device
from warpsim.host.snippet import run
from warpsim.layout import instructions, tensor_fragments
from warpsim.layout.fragment import matrix_of, registers_of
from warpsim.layout.instructions import Operand
from warpsim.numerics.arrays import Array
from warpsim.types import ELEMENTS

RANGES = {"s32": (-(2**31), 2**31 - 1), "s8": (-128, 127), "u8": (0, 255), "s4": (-8, 7), "u4": (0, 15), "b1": (0, 1)}
WARPS = 256
"""Most matrices per step."""


def mma(
    instruction: str,
    *,
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike,
    e: ArrayLike | None = None,
    scale_a: ArrayLike | None = None,
    scale_b: ArrayLike | None = None,
    target: str = "sm_90a",
    bits: bool = False,
) -> Array:
    """Run one matrix instruction, ``D = A * B + C``, on whole matrices. Leading dimensions are a batch.

    Args:
        instruction: ``mma``, ``mma.sp``, ``wmma.mma`` or ``wgmma.mma_async`` with all its modifiers, without operands:
            ``"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"``; or ``tcgen05.mma`` of one CTA, with M, N and the types among
            the modifiers: ``"tcgen05.mma.cta_group::1.kind::f16.m128n64.f32.bf16.bf16"``.
        a: ``[..., M, K]``; for sparse instructions the stored elements, ``[..., M, K / 2]``. Values of any dtype are
            rounded to the nearest value of the element type; ``.b1`` takes zeros and ones, ``.tf32`` takes float32 (the
            tensor core ignores its low 13 bits).
        b: ``[..., K, N]``.
        c: ``[..., M, N]``, or anything that broadcasts to it, such as ``0``.
        e: metadata of sparse A: nibbles ``[..., M, chunks]`` of two 2-bit indices, the lower first (selector 0).
        scale_a: block scales of A, ``[..., M, 1, 2 or 4]``: values, or bits of ``.ue8m0`` / ``.ue4m3``.
        scale_b: block scales of B, ``[..., 1, 2 or 4, N]``.
        target: the GPU.
        bits: treat operands and the result as raw bits, one element per unsigned integer.

    Returns:
        D, ``[..., M, N]``: float16, float32, float64 or int32, or its bits.

    Raises:
        PtxError: there is no such instruction on this target.
        LaunchError: the matrices do not fit the instruction.
        ExecutionError: the metadata is undefined.
    """
    if not isinstance(bits, bool | np.bool_):
        raise LaunchError(f"bits must be True or False, not {shown(bits)}")
    root, words = instructions.split(instruction) if isinstance(instruction, str) else ("", [])
    if root not in ("mma", "wmma", "wgmma", "tcgen05") or not re.fullmatch(r"[\w.:]+", instruction.strip()):
        raise LaunchError(
            f"{shown(instruction)} is not an mma, wmma.mma, wgmma.mma_async or tcgen05.mma instruction without operands"
        )
    product = None
    try:
        operands = instructions.operands(instruction, Device(target).sm)
        if root == "tcgen05":
            product = tensor_fragments.product_of(words)
            d_type, a_type, b_type, c_type = product.d, product.a, product.b, product.d
            operands = {{"metadata": "e"}.get(name, name): operand for name, operand in operands.items()}
        else:
            d_type, a_type, b_type, c_type = instructions.types(root, words)
    except ValueError as problem:
        raise LaunchError(str(problem)) from None
    if "d" not in operands or "a" not in operands:
        raise LaunchError(f"{instruction} does not compute a product; use wmma.mma")
    m, n = operands["d"].fragment.rows, operands["d"].fragment.columns
    wide = "c" in operands and operands["c"].note.startswith("four")  # m8n8k4: the same matrix for each quad pair
    stored = operands["a"].fragment.columns
    k = operands["b"].fragment.columns if "b" in operands else stored * (2 if "sp" in words else 1)
    given: dict[str, tuple[ArrayLike, str, tuple[int, int]]] = {
        "a": (a, a_type, (m, stored)),
        "b": (b, b_type, (k, 8 if wide else n)),
        "c": (c, c_type if "c" in operands else d_type, (m, 8 if wide else n)),
    }
    scale_type = next((word for word in words if word in ("ue8m0", "ue4m3")), "ue8m0")
    if product is not None and product.scale:
        product = attrs.evolve(product, scale=scale_type)
    for name, values, type in (("e", e, "u4"), ("scale_a", scale_a, scale_type), ("scale_b", scale_b, scale_type)):
        if (values is None) == (name in operands):
            raise LaunchError(f"{instruction} {'needs' if values is None else 'takes no'} {name}")
        if values is not None:
            fragment = operands[name].fragment
            size = fragment.rows, fragment.columns
            given[name] = values, type, (size[1], n) if operands[name].swapped else size
    raw = {name: _bits(name, *what, raw=bits) for name, what in given.items()}
    for name, type in (("a", a_type), ("b", b_type)):
        if type == "e2m1" and name in operands and operands[name].fragment.bits == 8 and product is None:
            raw[name] = raw[name] << np.uint8(2)  # 4-bit elements sit in the middle of their byte
    try:
        batch = np.broadcast_shapes(*(r.shape[:-2] for r in raw.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {r.shape[:-2]}" for name, r in raw.items())
        raise LaunchError(f"leading dimensions do not broadcast: {shapes}") from None
    count = int(np.prod(batch, dtype=np.int64))
    flat = {name: np.broadcast_to(r, (*batch, *r.shape[-2:])).reshape(count, *r.shape[-2:]) for name, r in raw.items()}
    if wide:
        flat = {
            "a": np.tile(flat["a"][:, :8], (1, 4, 1)),
            "b": np.tile(flat["b"], (1, 1, 4)),
            "c": np.tile(flat["c"], (1, 1, 4)),
        }
    element = ELEMENTS[d_type]
    out = np.empty((count, m, n), f"u{element.itemsize}")
    step = WARPS if root in ("mma", "wmma") else 1
    multiply = _warpgroup if root == "wgmma" else _warps
    for at in range(0, count, step):
        part = {name: values[at : at + step] for name, values in flat.items()}
        if product is not None:
            out[at] = tensor_mma.multiply(words, product, operands, part, target)[0]
        else:
            out[at : at + step] = multiply(instruction.strip(), words, operands, part, target)
    d = out[:, :, :8] if wide else out
    d = np.ascontiguousarray(d).reshape(*batch, m, 8 if wide else n)
    return d if bits else d.view(element)


def _bits(name: str, values: ArrayLike, type: str, shape: tuple[int, int], *, raw: bool) -> Array:
    """Elements as unsigned bits ``[..., rows, columns]``, in the shape that the instruction takes."""
    try:
        array, dtype = np.asarray(values), ELEMENTS[type]
    except Exception as problem:  # whatever an object of the caller's raises
        raise LaunchError(f"{name} is not a matrix: {problem}") from None
    if type == "b1" or dtype.name.startswith(("float6_", "float4_")):
        plain = np.dtype(np.uint8)
    else:
        plain = np.dtype(f"u{dtype.itemsize}")
    if name == "c" and array.shape in ((), shape[1:]):
        array = np.broadcast_to(array, shape)
    if array.shape[-2:] != shape:
        raise LaunchError(f"{name} must have shape [..., {shape[0]}, {shape[1]}], not {list(array.shape)}")
    if raw:
        if array.dtype.kind not in "ui" or array.dtype.itemsize < plain.itemsize:
            raise LaunchError(
                f"bits of {name} (.{type}) must be unsigned integers of at least {8 * plain.itemsize} bits, not {array.dtype}"
            )
        return array.astype(plain)
    if array.dtype.kind not in "fiubV" or array.dtype.names:
        raise LaunchError(f"{name} takes numbers, not {array.dtype}")
    if type in RANGES:
        _check_range(name, array, type)
        found = array.astype(dtype).view(plain)
        return found & np.uint8(15) if type in ("s4", "u4") else found
    try:
        with np.errstate(all="ignore"):
            return np.ascontiguousarray(array.astype(dtype)).view(plain)
    except (TypeError, ValueError):  # raw bytes
        raise LaunchError(f"{name} takes numbers, not {array.dtype}") from None


def _check_range(name: str, array: Array, type: str) -> None:
    """Integers, of those that the type has."""
    least, most = RANGES[type]
    if array.dtype.kind not in "iub":
        raise LaunchError(f"{name} (.{type}) takes integers, not {array.dtype}")
    if array.size and (int(array.min()) < least or int(array.max()) > most):
        raise LaunchError(f"{name} (.{type}) takes values from {least} to {most}, not {array.min()} to {array.max()}")


def _packed(operand: Operand, matrix: Array) -> Array:
    """Pack matrices of bits into registers ``[batch, threads, registers]``."""
    return registers_of(operand.fragment, matrix.transpose(0, 2, 1) if operand.swapped else matrix)


def _vector(name: str, operand: Operand) -> str:
    return "{" + ", ".join(f"{name}{i}" for i in range(operand.fragment.registers)) + "}"


def _declared(name: str, type: str, operand: Operand) -> str:
    return f".reg .{type} {name}<{operand.fragment.registers}>;"


def _storage(type: str) -> str:
    """The type to declare an operand's register with."""
    if type in ("f64", "f32", "s32"):
        return type
    return "f16x2" if type == "f16" else "b32"


def _warps(text: str, words: list[str], operands: dict[str, Operand], given: dict[str, Array], target: str) -> Array:
    """Run the instruction with one warp per matrix."""
    root, _ = instructions.split(text)
    types = dict(zip("dabc", instructions.types(root, words), strict=True))
    sparse, scaled = "e" in operands, "scale_a" in operands
    code, registers = [], {}
    for name in "dabc":
        storage = _storage(types[name])
        code.append(_declared(name, storage, operands[name]))
        if name != "d":
            packed = _packed(operands[name], given[name])
            kind = {"f32": np.float32, "s32": np.int32, "f64": np.float64}.get(storage)
            flat = np.ascontiguousarray(packed.reshape(-1, packed.shape[-1]))
            registers[name] = flat if kind is None else flat.view(kind)
    arguments = [_vector(name, operands[name]) for name in "dabc"]
    if sparse:
        code.append(".reg .b32 e0;")
        registers["e"] = _packed(operands["e"], given["e"]).reshape(-1, 1)
        arguments += ["e0", "0"]
    if scaled:
        for name in ("sa", "sb"):
            code.append(f".reg .b32 {name}0;")
            registers[name] = _packed(operands[f"scale_{name[1]}"], given[f"scale_{name[1]}"]).reshape(-1, 1)
            arguments += [f"{name}0", "{0, 0}"]
    warps = len(given["a"])
    result = run(
        " ".join([*code, f"\n{text} {', '.join(arguments)};"]), registers=registers, warps=warps, target=target
    )
    count = operands["d"].fragment.registers
    return matrix_of(operands["d"].fragment, _read(result.registers, count, warps, 32))


def _read(registers: dict[str, Array], count: int, groups: int, threads: int) -> Array:
    columns = [registers[f"d{i}"] for i in range(count)]
    plain = [column.view(f"u{column.dtype.itemsize}") for column in columns]
    return np.stack(plain, axis=-1).reshape(groups, threads, count)


def _warpgroup(
    text: str, words: list[str], operands: dict[str, Operand], given: dict[str, Array], target: str
) -> Array:
    """Run one matrix on a warpgroup: A and D in registers, B in shared memory without swizzle, k along its 16-byte
    rows."""
    d_type = instructions.types("wgmma", words)[0]
    b = np.ascontiguousarray(given["b"][0].T)  # [N, K]
    if "b1" in words:
        b = np.packbits(b, axis=1, bitorder="little")
    rows = b.view(np.uint8).reshape(b.shape[0] // 8, 8, -1, 16)
    shared = np.ascontiguousarray(rows.transpose(0, 2, 1, 3))  # core matrices of 8 rows of 16 bytes
    descriptor = (128 >> 4) << 16 | (128 * rows.shape[2] >> 4) << 32
    storage = _storage(d_type)
    packed_d, packed_a = _packed(operands["d"], given["c"])[0], _packed(operands["a"], given["a"])[0]
    kind = {"f32": np.float32, "s32": np.int32}.get(storage)
    float_a = not any(word in words for word in ("s8", "u8", "b1"))
    tail = ", 1, 1" if float_a else ""
    if "f16" in words[-2:] or "bf16" in words:
        tail += ", 0"
    sparse = ", e0, 0" if "e" in operands else ""
    code = f"""{_declared("d", storage, operands["d"])} {_declared("a", "b32", operands["a"])} .reg .b32 e0;
        .reg .b64 desc; .reg .b32 place; .reg .pred p; mov.u32 place, smem; shr.u32 place, place, 4;
        cvt.u64.u32 desc, place; or.b64 desc, desc, {descriptor}; setp.eq.u32 p, 0, 0;
        wgmma.fence.sync.aligned;
        {text} {_vector("d", operands["d"])}, {_vector("a", operands["a"])}, desc{sparse}, p{tail};
        wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"""
    registers = {"a": packed_a, "d": packed_d if kind is None else packed_d.view(kind)}
    if sparse:
        registers["e"] = _packed(operands["e"], given["e"])[0]
    result = run(code, registers=registers, warps=4, target=target, shared=shared)
    count = operands["d"].fragment.registers
    return matrix_of(operands["d"].fragment, _read(result.registers, count, 1, 128))
