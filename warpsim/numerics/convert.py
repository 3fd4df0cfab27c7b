"""Conversions between number formats, with the rounding, saturation and NaN of the hardware."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from warpsim.numerics.floating import F32, F64, canonical, narrow

Array = NDArray[Any]
BF16 = np.dtype(ml_dtypes.bfloat16)
F16 = np.dtype(np.float16)


def round_integral(x: Array, mode: str) -> Array:
    """To an integral value of the same format."""
    if mode == "rni":
        return np.rint(x)
    return {"rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode](x)


def to_integer(x: Array, dtype: np.dtype[Any], mode: str) -> Array:
    """Float to integer: clamped to the range; NaN gives 0, but 2**63 or 2**31 by the width of source and target."""
    r = round_integral(x, mode)
    info = np.iinfo(dtype)
    wide = r.astype(F64)
    low, high = float(info.min), float(info.max)
    bits = dtype.itemsize * 8
    over = wide >= (2.0 ** (bits - 1) if dtype.kind == "i" else 2.0**bits)
    under = wide <= low
    inside = np.where(over | under | np.isnan(wide), 0.0, wide)
    out = inside.astype(np.int64).astype(dtype) if dtype != np.uint64 else _to_u64(inside)
    out = np.where(over, dtype.type(info.max), out)
    out = np.where(under, dtype.type(info.min), out)
    del high
    if np.isnan(wide).any():
        out = np.where(np.isnan(wide), nan_integer(x.dtype, dtype), out)
    return np.asarray(out, dtype)


def _to_u64(x: Array) -> Array:
    big = x >= 2.0**63
    return np.where(big, (x - 2.0**63).astype(np.int64).astype(np.uint64) + np.uint64(1 << 63), np.where(big, 0.0, x).astype(np.int64).astype(np.uint64))


def nan_integer(source: np.dtype[Any], target: np.dtype[Any]) -> Any:
    """What a NaN converts to: 0, but for 64-bit sources or targets the value with only the top bit set."""
    if target.itemsize == 8 or source.itemsize == 8:
        top = 1 << (target.itemsize * 8 - 1)
        if target.itemsize < 8 and source.itemsize == 8 and target.itemsize < 4:
            return target.type(0)
        return np.array([top], f"u{target.itemsize}").view(target)[0]
    return target.type(0)


def integer_to_float(x: Array, dtype: np.dtype[Any], mode: str) -> Array:
    """Integer to float, rounded once."""
    if dtype == F64:
        r = x.astype(F64)
        if x.dtype.itemsize < 8 or mode == "rn":
            return r
        return _fix_integer(x, r, mode)
    if x.dtype.itemsize < 8:
        exact = x.astype(F64)
        if dtype == F32:
            return exact.astype(F32) if mode == "rn" else narrow(exact, mode)
        return to_half(exact, dtype, mode)
    odd = _odd_double(x)
    if dtype == F32:
        return narrow(odd, mode)
    return to_half(odd, dtype, mode)


def _odd_double(x: Array) -> Array:
    """A 64-bit integer as f64, rounded to odd."""
    magnitude = np.where(x < 0, (~x.view(np.uint64)) + np.uint64(1), x.view(np.uint64)) if x.dtype.kind == "i" else x
    lost = (magnitude & np.uint64(0x7FF)) != 0
    cut = (magnitude & ~np.uint64(0x7FF)) | np.where(lost & (magnitude >> np.uint64(53) != 0), np.uint64(0x800), np.uint64(0))
    chosen = np.where(magnitude >> np.uint64(53) != 0, cut, magnitude)
    r = chosen.astype(F64)
    return np.where(x < 0, -r, r) if x.dtype.kind == "i" else r


def _fix_integer(x: Array, r: Array, mode: str) -> Array:
    out = r.copy().reshape(-1)
    for i, (value, rounded) in enumerate(zip(x.reshape(-1).tolist(), out.tolist(), strict=True)):
        exact = int(rounded)
        if (exact > value and (mode == "rm" or (mode == "rz" and value > 0))) or (exact < value and (mode == "rp" or (mode == "rz" and value < 0))):
            out[i] = np.nextafter(rounded, -np.inf if exact > value else np.inf)
    return out.reshape(r.shape)


def _odd_single(x: Array) -> Array:
    """f64 as f32 rounded to odd, so that a further rounding to a half is a single one."""
    r = x.astype(F32)
    back = r.astype(F64)
    inexact = (back != x) & np.isfinite(x)
    if not inexact.any():
        return r
    down = np.where(np.abs(back) > np.abs(x), np.nextafter(r, F32.type(0)), r)
    odd = (down.view(np.uint32) | np.uint32(1)).view(F32)
    return np.where(inexact, odd, r).astype(F32)


def to_half(x: Array, dtype: np.dtype[Any], mode: str) -> Array:
    """f32 or f64 (exact or rounded to odd) to f16 or bf16."""
    single = _odd_single(x) if x.dtype == F64 else x
    bits = np.ascontiguousarray(single).view(np.uint32)
    if dtype == BF16:
        out = _bf16_bits(bits, mode)
    elif mode == "rn":
        out = single.astype(F16).view(np.uint16)
    else:
        out = _f16_bits(bits, mode)
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    if nan.any():
        out = np.where(nan, np.uint16(0x7FFF), out)
    return np.asarray(out, np.uint16).view(dtype)


def _step(kept: Array, rest: Array, half: int, negative: Array, mode: str) -> Array:
    """kept, plus one where the dropped rest says so in this mode."""
    if mode == "rn":
        up = (rest > half) | ((rest == half) & ((kept & 1) != 0))
    elif mode == "rz":
        return kept
    elif mode == "rna":
        up = rest >= half
    else:
        up = (rest != 0) & (negative if mode == "rm" else ~negative)
    return kept + up


def _bf16_bits(bits: Array, mode: str) -> Array:
    wide = bits.astype(np.int64)
    magnitude = wide & 0x7FFFFFFF
    kept = _step(magnitude >> 16, magnitude & 0xFFFF, 0x8000, (wide >> 31) != 0, mode)
    kept = np.where(magnitude >= 0x7F800000, magnitude >> 16, kept)
    if mode in ("rz", "rm", "rp"):
        pass
    return (kept | (wide >> 31 << 15)).astype(np.uint16)


def _f16_bits(bits: Array, mode: str) -> Array:
    wide = bits.astype(np.int64)
    negative = (wide >> 31) != 0
    e, m = (wide >> 23) & 0xFF, (wide & 0x7FFFFF) | 0x800000
    field = e - 112
    shift = np.where(field > 0, 13, np.clip(14 - field, 0, 40))
    base = np.where(field > 0, (field - 1) << 10, 0)
    kept = _step_shift(m, shift, negative, mode) + base
    limit = np.where(field >= 31, 0x7C00, kept)
    if mode != "rn":
        keeps = (mode == "rz") | ((mode == "rm") & ~negative) | ((mode == "rp") & negative)
        limit = np.where((field >= 31) & (e != 255) & keeps, 0x7BFF, limit)
    limit = np.where(e == 0, np.where((wide & 0x7FFFFF) == 0, 0, _step_shift(wide & 0x7FFFFF, np.full(e.shape, 40), negative, mode)), limit)
    return (limit | (wide >> 31 << 15)).astype(np.uint16)


def _step_shift(m: Array, shift: Array, negative: Array, mode: str) -> Array:
    kept = m >> shift
    rest = m - (kept << shift)
    half = np.int64(1) << np.maximum(shift - 1, 0)
    if mode == "rn":
        up = (rest > half) | ((rest == half) & ((kept & 1) != 0))
    elif mode == "rz":
        return kept
    else:
        up = (rest != 0) & (negative if mode == "rm" else ~negative)
    return kept + up


def float_to_float(x: Array, dtype: np.dtype[Any], mode: str) -> Array:
    """Between f16, bf16, f32 and f64; widening is exact."""
    if dtype == x.dtype:
        return x
    if dtype == F64:
        wide = x.astype(F64) if x.dtype != BF16 else x.astype(F32).astype(F64)
        return wide
    if dtype == F32:
        if x.dtype == F64:
            return canonical(narrow(x, mode or "rn"))
        return canonical(x.astype(F32))
    if x.dtype in (F16, BF16):
        x = x.astype(F32)
    return to_half(x, dtype, mode or "rn")


def tf32(x: Array, mode: str) -> Array:
    """f32 rounded to 10 fraction bits, as u32."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    if mode == "rna":
        return (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    magnitude = (bits & np.uint32(0x7FFFFFFF)).astype(np.int64)
    kept = _step(magnitude >> 13, magnitude & 0x1FFF, 0x1000, (bits >> 31) != 0, mode)
    out = (kept << 13).astype(np.uint32) | (bits & np.uint32(0x80000000))
    out = np.where(magnitude == 0x7F800000, bits, out)
    return np.where(magnitude > 0x7F800000, np.uint32(0x7FFFE000), out)


_SMALL: dict[str, tuple[int, int, int, int]] = {
    # name: fraction bits, bias, greatest finite code, NaN code
    "e4m3": (3, 7, 0x7E, 0x7F),
    "e5m2": (2, 15, 0x7B, 0x7F),
}


def to_fp8(x: Array, name: str) -> Array:
    """f32 to e4m3 or e5m2, nearest even, saturating to the greatest finite value; as u8."""
    fraction, bias, greatest, nan = _SMALL[name]
    bits = np.ascontiguousarray(x.astype(F32)).view(np.uint32).astype(np.int64)
    e, m = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    significand = np.where(e > 0, m | 0x800000, m)
    field = np.maximum(e, 1) - 127 + bias
    shift = 23 - fraction + np.where(field > 0, 0, 1 - field)
    shift = np.minimum(shift, 40)
    base = np.where(field > 0, (field - 1) << fraction, 0)
    kept = significand >> shift
    rest = significand - (kept << shift)
    half = np.int64(1) << (shift - 1)
    kept = kept + ((rest > half) | ((rest == half) & ((kept & 1) != 0)))
    code = np.minimum(kept + base, greatest)
    code = np.where(e == 255, np.where(m != 0, nan, greatest), code)
    sign = np.where((e == 255) & (m != 0), 0, bits >> 31 << 7)
    return (code | sign).astype(np.uint8)


def from_fp8(code: Array, name: str) -> Array:
    """e4m3 or e5m2 codes (u8) as f32."""
    if name == "e5m2":
        return (code.astype(np.uint16) << np.uint16(8)).view(F16).astype(F32)
    return code.view(ml_dtypes.float8_e4m3fn).astype(F32)
