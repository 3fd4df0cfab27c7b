"""The approximate functions give the bits of an H100 where their branches part, and in between.

``units_h100.npz`` has rows of operands and result for each instruction. They were taken from recordings of all 2^32 arguments
(of which each 2^20 were compared by a digest) and, where there are two operands or other types, of 2,048 sets; each row sees an
error that the others do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from warpsim.numerics import approx, convert

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The engine runs semantics with NumPy's floating-point warnings off."""
    with np.errstate(all="ignore"):
        yield


def _short(unit: Callable[[Any], Any], truncate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: truncate(unit(x.astype(np.float32)))


F32, F64, F16, BF16 = np.float32, np.float64, np.float16, ml_dtypes.bfloat16
UNITS: dict[str, tuple[Callable[..., Any], Any]] = {
    **{f"{name}.approx.f32": (getattr(approx, name), F32) for name in ("rcp", "sqrt", "rsqrt", "lg2", "ex2", "sin", "cos", "tanh")},
    **{f"{name}.approx.ftz.f32": (getattr(approx, f"{name}_ftz"), F32) for name in ("rcp", "sqrt", "rsqrt", "lg2", "ex2")},
    "div.approx.f32": (approx.div, F32),
    "div.approx.ftz.f32": (approx.div_ftz, F32),
    "div.full.f32": (approx.div_full, F32),
    "div.full.ftz.f32": (approx.div_full_ftz, F32),
    "rcp.approx.ftz.f64": (approx.rcp_f64, F64),
    "rsqrt.approx.ftz.f64": (approx.rsqrt_ftz_f64, F64),
    "rsqrt.approx.f64": (approx.rsqrt_f64, F64),
    "ex2.approx.f16": (_short(approx.ex2_ftz, approx.truncate_f16), F16),
    "tanh.approx.f16": (_short(approx.tanh, approx.truncate_f16), F16),
    "ex2.approx.ftz.bf16": (_short(approx.ex2_ftz, approx.truncate_bf16), BF16),
    "tanh.approx.bf16": (_short(approx.tanh, approx.truncate_bf16), BF16),
}  # fmt: skip


@pytest.mark.parametrize("name", UNITS)
def test_bits(name: str) -> None:
    """Every bit."""
    function, dtype = UNITS[name]
    word = f"u{np.dtype(dtype).itemsize}"
    with np.load(DATA / "units_h100.npz") as stored:
        *operands, expected = stored[name].astype(word).T
    found = np.asarray(function(*(np.ascontiguousarray(x).view(dtype) for x in operands))).view(word)

    wrong = np.flatnonzero(found != expected)
    assert [[hex(x[k]) for x in (*operands, found, expected)] for k in wrong] == []


def test_recorded_units() -> None:
    """None is left out."""
    with np.load(DATA / "units_h100.npz") as stored:
        assert set(stored.files) == set(UNITS)


def test_the_ends_of_double_precision() -> None:
    """1/x is a zero where it would be subnormal; powers of two are exact, and their neighbours in 20 bits are not."""
    x = np.array([2.0**1022, -(2.0**1022), 1.5 * 2.0**1021, 2.0**1023, 1.5 * 2.0**1022, -(1.25 * 2.0**1023)])
    found = approx.rcp_f64(x)
    assert found[:2].tolist() == [2.0**-1022, -(2.0**-1022)]
    assert abs(found[2] / (2.0**-1021 / 1.5) - 1) < 2.0**-19
    assert found[3:].tolist() == [0, 0, 0]
    assert np.signbit(found[3:]).tolist() == [False, False, True]
    near = 1 + 2.0**-20
    assert abs(approx.rcp_f64(np.array([near]))[0] * near - 1) < 2.0**-20


@pytest.mark.parametrize("finite", [False, True])
def test_tf32_ties_away(finite: bool) -> None:
    """cvt.rna.tf32: the bits plus half of a unit, cut (an H100, on NaNs too); with .satfinite infinities, and all that becomes
    one, are the greatest number."""
    bits = np.array(
        [0, 1, 0xFFF, 0x1000, 0x1FFF, 0x3000, 0x3F800FFF, 0x3F801000, 0xBF801000, 0xBF802FFF, 0x7F7FEFFF], np.uint32
    )
    up = np.array(
        [0, 0, 0, 0x2000, 0x2000, 0x4000, 0x3F800000, 0x3F802000, 0xBF802000, 0xBF802000, 0x7F7FE000], np.uint32
    )

    assert convert.tf32(bits.view(F32), "rna", finite=finite).tolist() == up.tolist()
    over = np.array([0x7F7FF000, 0xFF7FFFFF, 0x7F800000, 0xFF800000], np.uint32).view(F32)
    limit = [0x7F7FE000, 0xFF7FE000] * 2 if finite else [0x7F800000, 0xFF800000] * 2
    assert convert.tf32(over, "rna", finite=finite).tolist() == limit
