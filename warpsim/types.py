"""PTX scalar types with their NumPy dtypes, and state spaces."""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from warpsim.records import frozen

B128 = np.dtype([("lo", "<u8"), ("hi", "<u8")])
"""Dtype of 128-bit registers: two 64-bit words, low first."""
JsonObject: TypeAlias = dict[str, Any]
"""Plain data, for JSON."""


@frozen(eq=False)
class ScalarType:
    """A PTX type. ``kind`` is 'u', 's', 'f', 'b' or 'p'; ``dtype`` is the NumPy type of a register of this type."""

    name: str
    kind: str
    bits: int
    dtype: np.dtype

    @property
    def bytes(self) -> int:
        """Size in memory, in bytes."""
        return max(self.bits // 8, 1)

    @property
    def signed(self) -> bool:
        """Whether widening extends the sign."""
        return self.kind == "s"

    def __repr__(self) -> str:
        return f".{self.name}"


def _types() -> dict[str, ScalarType]:
    table: dict[str, ScalarType] = {}

    def add(name: str, kind: str, bits: int, dtype: object) -> None:
        table[name] = ScalarType(name, kind, bits, np.dtype(dtype))  # type: ignore[call-overload]

    for bits in (8, 16, 32, 64):
        add(f"u{bits}", "u", bits, f"u{bits // 8}")
        add(f"s{bits}", "s", bits, f"i{bits // 8}")
        add(f"b{bits}", "b", bits, f"u{bits // 8}")
    add("b128", "b", 128, B128)
    add("pred", "p", 1, np.bool_)
    add("f16", "f", 16, np.float16)
    add("bf16", "f", 16, ml_dtypes.bfloat16)
    add("f32", "f", 32, np.float32)
    add("f64", "f", 64, np.float64)
    add("tf32", "b", 32, np.uint32)
    for name in ("f16x2", "bf16x2", "u16x2", "s16x2", "u8x4", "s8x4", "e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4"):
        add(name, "b", 32, np.uint32)
    add("f32x2", "b", 64, np.uint64)
    for name in ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2", "e2m1x4"):
        add(name, "b", 16, np.uint16)
    for name in ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1x2", "ue8m0", "ue4m3"):
        add(name, "b", 8, np.uint8)
    for name, kind in (("e2m1", "b"), ("u4", "u"), ("s4", "s"), ("b4", "b")):
        add(name, kind, 4, np.uint8)
    add("b1", "b", 1, np.uint8)
    return table


TYPES: dict[str, ScalarType] = _types()
"""Every scalar type by its name without the dot."""


def bits_type(bits: int) -> ScalarType:
    """The untyped ``.bN`` type of a width."""
    return TYPES[f"b{bits}"]


ELEMENTS: dict[str, np.dtype] = {
    name: np.dtype(dtype)
    for name, dtype in {
        "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
        "tf32": np.float32,
        "f32": np.float32,
        "f64": np.float64,
        "s32": np.int32,
        "s8": np.int8,
        "u8": np.uint8,
        "s4": np.int8,
        "u4": np.uint8,
        "b1": np.uint8,
        "e4m3": ml_dtypes.float8_e4m3fn,
        "e5m2": ml_dtypes.float8_e5m2,
        "e3m2": ml_dtypes.float6_e3m2fn,
        "e2m3": ml_dtypes.float6_e2m3fn,
        "e2m1": ml_dtypes.float4_e2m1fn,
        "ue8m0": ml_dtypes.float8_e8m0fnu,
        "ue4m3": ml_dtypes.float8_e4m3fn,
    }.items()
}
"""NumPy dtypes of matrix elements; types narrower than a byte are stored one per byte."""


class StateSpace(enum.Enum):
    """The state spaces of PTX."""

    REG = "reg"
    CONST = "const"
    GLOBAL = "global"
    LOCAL = "local"
    PARAM = "param"
    SHARED = "shared"
    GENERIC = "generic"
