"""The approximate units within the errors that NVIDIA gives for them, at their special values, and exact where the result is.

The reference is double precision. The bits themselves are recorded (tests/isa/test_form_recordings.py)."""

import math

import numpy as np
import pytest

from warpsim.numerics import approx

INF, NAN, LEAST = np.inf, np.nan, 2.0**-126
SPECIAL = [-INF, -1.0, -0.0, 0.0, INF, NAN]


@pytest.fixture(autouse=True)
def quiet():
    """The engine runs semantics with NumPy's floating-point warnings off."""
    with np.errstate(all="ignore"):
        yield


def numbers(low, high, n=4000):
    """f32 whose exponents lie evenly from ``2**low`` to below ``2**high``."""
    rng = np.random.default_rng(2)
    return (rng.integers((low + 127) << 23, (high + 127) << 23, n)).astype(np.uint32).view(np.float32)


def both(x):
    """Of both signs."""
    return np.concatenate([x, -x])


def relative(found, wanted):
    """The greatest error, as a part of the result."""
    return float(np.max(np.abs(found.astype(np.float64) / wanted - 1)))


def distance(found, wanted):
    """The greatest error."""
    return float(np.max(np.abs(found.astype(np.float64) - wanted)))


def double(x):
    """In double precision."""
    return x.astype(np.float64)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        ("rcp", [-0.0, -1.0, -INF, INF, 0.0, NAN]),
        ("rcp_ftz", [-0.0, -1.0, -INF, INF, 0.0, NAN]),
        ("sqrt", [NAN, NAN, -0.0, 0.0, INF, NAN]),
        ("sqrt_ftz", [NAN, NAN, -0.0, 0.0, INF, NAN]),
        ("rsqrt", [NAN, NAN, -INF, INF, 0.0, NAN]),
        ("rsqrt_ftz", [NAN, NAN, -INF, INF, 0.0, NAN]),
        ("lg2", [NAN, NAN, -INF, -INF, INF, NAN]),
        ("lg2_ftz", [NAN, NAN, -INF, -INF, INF, NAN]),
        ("ex2", [0.0, 0.5, 1.0, 1.0, INF, NAN]),
        ("ex2_ftz", [0.0, 0.5, 1.0, 1.0, INF, NAN]),
        ("sin", [NAN, None, -0.0, 0.0, NAN, NAN]),
        ("cos", [NAN, None, 1.0, 1.0, NAN, NAN]),
        ("tanh", [-1.0, None, -0.0, 0.0, 1.0, NAN]),
    ],
)
def test_special_values(function, wanted):
    """The tables of the PTX ISA; the sign of zeros too, and one NaN."""
    found = getattr(approx, function)(np.array(SPECIAL, np.float32))
    kept = [k for k, value in enumerate(wanted) if value is not None]
    expected = np.array([wanted[k] for k in kept], np.float32)
    bits = np.where(np.isnan(expected), np.uint32(0x7FFFFFFF), expected.view(np.uint32))

    assert [hex(b) for b in found[kept].view(np.uint32)] == [hex(b) for b in bits]


@pytest.mark.parametrize("unit", [approx.rcp, approx.rcp_ftz])
def test_rcp(unit):
    """One unit in the last place; powers of two are exact; subnormal results."""
    x = both(numbers(-126, 126))

    assert relative(unit(x), 1 / double(x)) <= 2.0**-23
    powers = np.exp2(np.arange(-125, 126)).astype(np.float32)
    assert (unit(powers) == 1 / powers).all()
    tiny = np.float32([2.0**-127, -(2.0**-128), 2.0**127])
    assert unit(tiny).tolist() == ([2.0**127, -INF, 2.0**-127] if unit is approx.rcp else [INF, -INF, 0.0])


@pytest.mark.parametrize(("unit", "exact"), [(approx.sqrt, np.sqrt), (approx.rsqrt, lambda x: 1 / np.sqrt(x))])
def test_roots(unit, exact):
    """Within 2**-22.9; powers of four are exact; subnormal arguments are numbers, and zeros where they are flushed."""
    x = np.concatenate([numbers(-126, 128), np.float32([2.0**-149, 2.0**-140, 2.0**-127])])
    flushed = {approx.sqrt: approx.sqrt_ftz, approx.rsqrt: approx.rsqrt_ftz}[unit]

    assert relative(unit(x), exact(double(x))) <= 2.0**-22.9
    assert relative(flushed(x[:-3]), exact(double(x[:-3]))) <= 2.0**-22.9
    fours = np.exp2(np.arange(-126, 127, 2)).astype(np.float32)
    assert (unit(fours) == exact(fours)).all()
    assert (flushed(x[-3:]) == (0 if unit is approx.sqrt else INF)).all()


@pytest.mark.parametrize("unit", [approx.lg2, approx.lg2_ftz])
def test_lg2(unit):
    """2**-22 around 1, 2**-22 of the result elsewhere; powers of two from 1 on are exact."""
    near, far = numbers(-1, 1), np.concatenate([numbers(-126, -1), numbers(1, 128)])

    assert distance(unit(near), np.log2(double(near))) <= 2.0**-22
    assert relative(unit(far), np.log2(double(far))) <= 2.0**-22
    exponents = np.arange(128)
    assert (unit(np.exp2(exponents).astype(np.float32)) == exponents).all()
    tiny = np.float32([2.0**-149, 2.0**-130, 3 * 2.0**-149])
    found = unit(tiny)
    assert relative(found, np.log2(double(tiny))) <= 2.0**-22 if unit is approx.lg2 else (found == -INF).all()


@pytest.mark.parametrize("unit", [approx.ex2, approx.ex2_ftz])
def test_ex2(unit):
    """Two units in the last place; whole numbers are exact; the ends of the range."""
    x = np.random.default_rng(3).uniform(-126, 127.99, 4000).astype(np.float32)

    assert relative(unit(x), np.exp2(double(x))) <= 2.0**-22
    assert relative(unit(both(numbers(-40, 0))), np.exp2(double(both(numbers(-40, 0))))) <= 2.0**-22
    whole = np.arange(-126, 128).astype(np.float32)
    assert (unit(whole) == np.exp2(double(whole))).all()
    assert unit(np.float32([128, 128.5, 129, 200.25, 1e30])).tolist() == [INF] * 5
    assert unit(np.float32([-151, -200.25, -300.5, -1e30])).tolist() == [0.0] * 4
    least = np.float32([2.0**-23, -(2.0**-23), 2.0**-23 - 2.0**-47, 2.0**-24 - 2.0**-23])
    assert unit(least).view(np.uint32).tolist() == [
        0x3F800001,
        0x3F7FFFFE,
        0x3F800000,
        0x3F800000,
    ]  # an H100 on all inputs
    small = np.float32([-127, -130, -149])
    assert relative(unit(small), np.exp2(double(small))) <= 2.0**-22 if unit is approx.ex2 else not unit(small).any()


@pytest.mark.parametrize(("unit", "exact"), [(approx.sin, np.sin), (approx.cos, np.cos)])
def test_waves(unit, exact):
    """2**-21.19 from -pi to pi (CUDA C++ Programming Guide); never above 1; larger angles lose as many bits as their quotient takes."""
    x = np.random.default_rng(4).uniform(-np.pi, np.pi, 8000).astype(np.float32)
    large = np.random.default_rng(5).uniform(-1000, 1000, 4000).astype(np.float32)

    assert distance(unit(x), exact(double(x))) <= 2.0**-21.19
    assert distance(unit(large), exact(double(large))) <= 2.0**-12
    assert np.abs(unit(both(numbers(-126, 128)))).max() <= 1
    assert (unit(-x) == (-unit(x) if exact is np.sin else unit(x))).all()


def test_tanh():
    """2**-11 of the result; odd; within -1 and 1; small arguments come back, subnormal ones too."""
    x = numbers(-20, 5)

    assert relative(approx.tanh(x), np.tanh(double(x))) <= 2.0**-10.9
    assert (approx.tanh(-x) == -approx.tanh(x)).all()
    assert approx.tanh(np.float32([20, -50, 1e30])).tolist() == [1.0, -1.0, 1.0]
    small = np.float32([2.0**-149, -(2.0**-130), 2.0**-60])
    assert (approx.tanh(small) == small).all()


@pytest.mark.parametrize("unit", [approx.div, approx.div_ftz, approx.div_full, approx.div_full_ftz])
def test_quotients(unit):
    """Two units in the last place; a zero where |b| is beyond 2**126 and the quotient is not scaled."""
    rng = np.random.default_rng(6)
    b = rng.permutation(both(numbers(-60, 60)))
    a = rng.permutation(both(numbers(-60, 60)))

    assert relative(unit(a, b), double(a) / double(b)) <= 2.0**-22
    scaled = unit in (approx.div_full, approx.div_full_ftz)
    found = unit(np.float32([1.5 * 2.0**127]), np.float32([2.0**127]))
    assert found.tolist() == [1.5 if scaled else 0.0]
    assert np.isnan(unit(np.float32([0, INF]), np.float32([0, INF]))).all()
    assert unit(np.float32([1, -1]), np.float32([0, 0])).tolist() == [INF, -INF]


def test_f64():
    """Units of 20 bits in double precision, and the root with its step of refinement."""
    rng = np.random.default_rng(7)
    x = rng.integers(1 << 52, 2045 << 52, 4000).astype(np.uint64).view(np.float64)

    assert relative(approx.rcp_f64(x), 1 / x) <= 2.0**-19
    assert relative(approx.rsqrt_ftz_f64(x), 1 / np.sqrt(x)) <= 2.0**-19
    assert relative(approx.rsqrt_f64(x), 1 / np.sqrt(x)) <= 2.0**-37
    special = np.array(SPECIAL)
    assert approx.rcp_f64(special)[:5].tolist() == [-0.0, -1.0, -INF, INF, 0.0]
    assert approx.rsqrt_ftz_f64(special)[2:5].tolist() == [-INF, INF, 0.0]
    assert np.isnan(approx.rsqrt_ftz_f64(special)[[0, 1, 5]]).all()


@pytest.mark.parametrize("x", [5e-324, 1.7e-310, 2.0**-1050, 2.0**-1022, 3.0, 1e300])
def test_rsqrt_of_small_numbers(x):
    """Subnormal arguments are scaled by an even power of two, and the root back by half of it: a unit in the last place or two."""
    exact = 1 / math.sqrt(x)
    assert abs(float(approx.rsqrt_f64(np.array([x]))[0]) / exact - 1) < 2.0**-50


def test_quotients_below_the_least_normal_number():
    """With .ftz, quotients that only the spacing of subnormal numbers rounds up to 2^-126 are flushed: as an H100 does."""
    a = np.array(
        [0x0676F361, 0x04BE2AA3, 0x86B67F34, 0x89AF742B, 0x88586007, 0x87A2024C, 0x86B68F51, 0x89DE1538, 0x898C50C4],
        np.uint32,
    )
    b = np.array(
        [0x4576F361, 0xC3BE2AA4, 0xC5B67F34, 0xC8AF742C, 0xC7586007, 0x46A2024C, 0xC5B68F51, 0xC8DE1537, 0x488C50C4],
        np.uint32,
    )
    wanted = [0, 1 << 31, 0, 0, 0, 1 << 31, 0x00800000, 0x00800000, 0x80800000]

    for unit in (approx.div_ftz, approx.div_full_ftz):
        assert unit(a.view(np.float32), b.view(np.float32)).view(np.uint32).tolist() == wanted


@pytest.mark.parametrize("divide", [approx.div, approx.div_ftz, approx.div_full, approx.div_full_ftz])
@pytest.mark.parametrize("number", [np.nan, 0.0, -np.inf, 1e-40, 2.0])
def test_quotients_of_a_value_without_axes(divide, number):
    """A step passes an operand that all threads share without axes: the bits are those of an array of it."""
    many, one = np.linspace(1, 2, 8, dtype=np.float32), np.array(number, np.float32)
    with np.errstate(all="ignore"):
        for wanted, found in (
            (divide(many, np.full(8, one)), divide(many, one)),
            (divide(np.full(8, one), many), divide(one, many)),
        ):
            assert found.view(np.uint32).tolist() == wanted.view(np.uint32).tolist()
