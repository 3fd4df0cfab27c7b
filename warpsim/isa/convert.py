"""cvt (PTX ISA: Data Movement and Conversion Instructions: cvt)."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from warpsim.isa.spec import Op, instruction
from warpsim.numerics import convert
from warpsim.numerics.floating import flush, saturate

Lanes = Any
_INT = "{ .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64 }"
_FLOAT = "{ .f16, .bf16, .f32, .f64 }"


@instruction(
    f"cvt{{.sat}}.dtype.atype d, a; .dtype = {_INT}; .atype = {_INT};",
    anchor="data-movement-and-conversion-instructions-cvt",
    types={"d": "dtype", "a": "atype"},
    relaxed=True,
    linear=True,
)
def cvt_integer(op: Op, a: Lanes) -> Lanes:
    """Widen or narrow an integer; .sat clamps to the target's range."""
    if op.sat and isinstance(a, np.ndarray):
        info = np.iinfo(op.dtype.dtype)
        low = max(int(info.min), int(np.iinfo(a.dtype).min))
        high = min(int(info.max), int(np.iinfo(a.dtype).max))
        return np.clip(a, low, high).astype(op.dtype.dtype)
    if op.sat:
        a + a.sat
    return a.astype(op.dtype.dtype)


@instruction(
    f"cvt.irnd{{.ftz}}{{.sat}}.dtype.atype d, a; .irnd = {{ .rni, .rzi, .rmi, .rpi }}; .dtype = {_INT}; .atype = {_FLOAT};",
    anchor="data-movement-and-conversion-instructions-cvt",
    types={"d": "dtype", "a": "atype"},
    relaxed=True,
)
def cvt_to_integer(op: Op, a: Lanes) -> Lanes:
    """Round to an integer; out of range clamps."""
    if op.ftz and op.atype.name == "f32":
        a = flush(a)
    if op.atype.name in ("f16", "bf16"):
        a = a.astype(np.float32)
    return convert.to_integer(a, op.dtype.dtype, op.irnd)


@instruction(
    f"cvt.frnd{{.ftz}}{{.sat}}.dtype.atype d, a; .frnd = {{ .rn, .rz, .rm, .rp }}; .dtype = {_FLOAT}; .atype = {_INT};",
    anchor="data-movement-and-conversion-instructions-cvt",
    types={"d": "dtype", "a": "atype"},
    relaxed=True,
)
def cvt_from_integer(op: Op, a: Lanes) -> Lanes:
    """An integer, rounded."""
    r = convert.integer_to_float(a, op.dtype.dtype, op.frnd)
    return saturate(r) if op.sat else r


@instruction(
    f"cvt{{.frnd}}{{.irnd}}{{.ftz}}{{.sat}}.dtype.atype d, a; .frnd = {{ .rn, .rz, .rm, .rp }}; .irnd = {{ .rni, .rzi, .rmi, .rpi }}; .dtype = {_FLOAT}; .atype = {_FLOAT};",
    anchor="data-movement-and-conversion-instructions-cvt",
    types={"d": "dtype", "a": "atype"},
    relaxed=True,
)
def cvt_float(op: Op, a: Lanes) -> Lanes:
    """Between floating-point formats, or to an integral value of one."""
    if op.ftz and op.atype.name == "f32":
        a = flush(a)
    if op.irnd is not None:
        a = _integral(a, op.irnd)
    r = convert.float_to_float(a, op.dtype.dtype, op.frnd or "rn")
    if op.ftz and op.dtype.name == "f32":
        r = flush(r)
    return saturate(r) if op.sat else r


def _integral(a: Lanes, mode: str) -> Lanes:
    if a.dtype in (np.float16, np.dtype(ml_dtypes.bfloat16)):
        return convert.to_half(convert.round_integral(a.astype(np.float32), mode), a.dtype, "rn")
    from warpsim.numerics.floating import canonical

    r = convert.round_integral(a, mode)
    return canonical(r) if r.dtype == np.float32 else r


@instruction(
    "cvt.frnd{.relu}{.satfinite}.dtype.f32 d, a, b; .frnd = { .rn, .rz }; .dtype = { .f16x2, .bf16x2 };",
    anchor="data-movement-and-conversion-instructions-cvt",
    types={"d": "dtype", "a": ".f32", "b": ".f32"},
    version=(7, 0),
    target=80,
)
def cvt_half2(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Two f32 packed into halves: a above b."""
    half = np.dtype(np.float16) if op.dtype.name == "f16x2" else np.dtype(ml_dtypes.bfloat16)
    high, low = (_to_half(op, x, half) for x in (a, b))
    return low.view(np.uint16).astype(np.uint32) | (high.view(np.uint16).astype(np.uint32) << np.uint32(16))


def _to_half(op: Op, x: Lanes, half: np.dtype[Any]) -> Lanes:
    r = convert.to_half(x, half, op.frnd)
    bits = r.view(np.uint16)
    if op.relu:
        nan = (bits & 0x7FFF) > (0x7C00 if half == np.float16 else 0x7F80)
        bits = np.where((bits >> 15 != 0) & ~nan, np.uint16(0), bits)
    if op.satfinite:
        greatest = 0x7BFF if half == np.float16 else 0x7F7F
        infinite = (bits & 0x7FFF) == greatest + 1
        bits = np.where(infinite, (bits & 0x8000) | greatest, bits)
    return bits.astype(np.uint16).view(half)


@instruction(
    "cvt.frnd.relu{.satfinite}.dtype.f32 d, a; .frnd = { .rn, .rz }; .dtype = { .f16, .bf16 };",
    anchor="data-movement-and-conversion-instructions-cvt",
    types={"d": "dtype", "a": ".f32"},
    version=(7, 0),
    target=80,
)
def cvt_half_relu(op: Op, a: Lanes) -> Lanes:
    """f32 to a half, negative results as 0."""
    return _to_half(op, a, op.dtype.dtype)


@instruction(
    "cvt.frnd{.satfinite}{.relu}.tf32.f32 d, a; .frnd = { .rna, .rn, .rz };",
    anchor="data-movement-and-conversion-instructions-cvt",
    types={"d": ".b32", "a": ".f32"},
    version=(7, 0),
    target=80,
)
def cvt_tf32(op: Op, a: Lanes) -> Lanes:
    """f32 to tf32."""
    out = convert.tf32(a, op.frnd)
    if op.relu:
        out = np.where((out >> np.uint32(31) != 0) & ((out & np.uint32(0x7FFFFFFF)) <= 0x7F800000), np.uint32(0), out)
    return out


@instruction(
    "cvt.rn.satfinite{.relu}.f8type.f32 d, a, b; .f8type = { .e4m3x2, .e5m2x2 };",
    anchor="data-movement-and-conversion-instructions-cvt",
    types={"d": "f8type", "a": ".f32", "b": ".f32"},
    version=(7, 8),
    target=89,
)
def cvt_fp8(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Two f32 to packed fp8."""
    parts = []
    for x in (a, b):
        if op.relu:
            x = np.where(x < 0, np.float32(0), x)
        parts.append(convert.to_fp8(x, op.f8type.name[:4]).astype(np.uint16))
    return parts[1] | (parts[0] << np.uint16(8))


@instruction(
    "cvt.rn.satfinite{.relu}.f8type.f16x2 d, a; .f8type = { .e4m3x2, .e5m2x2 };",
    anchor="data-movement-and-conversion-instructions-cvt",
    types={"d": "f8type", "a": ".f16x2"},
    version=(7, 8),
    target=89,
)
def cvt_fp8_half(op: Op, a: Lanes) -> Lanes:
    """Two halves to packed fp8."""
    low = (a & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float32)
    high = (a >> np.uint32(16)).astype(np.uint16).view(np.float16).astype(np.float32)
    return cvt_fp8(op, high, low)


@instruction(
    "cvt.rn{.relu}.f16x2.f8type d, a; .f8type = { .e4m3x2, .e5m2x2 };",
    anchor="data-movement-and-conversion-instructions-cvt",
    types={"d": ".f16x2", "a": "f8type"},
    version=(7, 8),
    target=89,
)
def cvt_from_fp8(op: Op, a: Lanes) -> Lanes:
    """Packed fp8 to two halves."""
    parts = []
    for shift in (0, 8):
        code = (a >> np.uint16(shift)).astype(np.uint8)
        half = convert.to_half(convert.from_fp8(code, op.f8type.name[:4]), np.dtype(np.float16), "rn").view(np.uint16)
        if op.relu:
            half = np.where((half >> 15 != 0) & ((half & 0x7FFF) <= 0x7C00), np.uint16(0), half)
        parts.append(half.astype(np.uint32))
    return parts[0] | (parts[1] << np.uint32(16))
