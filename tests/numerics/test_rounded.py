"""Functions of f32 rounded correctly, against the C library's in f64 wherever that leaves no doubt."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from warpsim.numerics import rounded

FUNCTIONS = {
    "sin": math.sin,
    "cos": math.cos,
    "ex2_ftz": lambda x: 2.0**x,
    "lg2_ftz": math.log2,
    "rcp_ftz": lambda x: 1 / x,
    "rsqrt_ftz": lambda x: 1 / math.sqrt(x),
    "sqrt_ftz": math.sqrt,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rounded(name):
    """The nearest f32, for arguments of all sizes; f64 has 29 bits more, so that a tie is hardly ever in doubt."""
    rng = random.Random(name)
    bits = np.array([rng.randrange(0x00800000, 0x7F000000) for _ in range(60)], np.uint32)
    if name == "ex2_ftz":
        bits = np.array([rng.uniform(-120, 120) for _ in range(60)], np.float32).view(np.uint32)
    checked, given = 0, bits.view(np.float32).reshape(3, 20)
    for x, found in zip(given.reshape(-1), rounded.__dict__[name](given).reshape(-1), strict=True):
        exact = FUNCTIONS[name](float(x))
        around = {np.float32(exact * (1 + k * 2.0**-50)).tobytes() for k in (-1, 0, 1)}
        if len(around) > 1 or abs(exact) < 2.0**-126:
            continue
        checked += 1

        assert found.tobytes() in around

    assert checked > 50


def test_known_values():
    """What an H200 gave for literals; the sine of 10^6 needs many bits of pi."""
    given = np.array([0x409CE074, 0x49742400], np.uint32).view(np.float32)

    assert rounded.cos(given[:1]).view(np.uint32)[0] == 0x3E4166D2
    assert rounded.sin(given[1:]).view(np.uint32)[0] == 0xBEB33259


def test_special_values():
    """Zeros, subnormal numbers, infinities and what has no value are as the units have them."""
    with np.errstate(all="ignore"):
        tiny, inf = np.array([1e-40], np.float32), np.array([np.inf], np.float32)

        assert rounded.sin(-tiny).tobytes() == np.array([-0.0], np.float32).tobytes()
        assert rounded.cos(tiny)[0] == 1
        assert rounded.rcp_ftz(-tiny)[0] == -np.inf
        assert rounded.rcp_ftz(inf)[0] == 0
        assert np.isnan(rounded.lg2_ftz(-np.ones(1, np.float32)))[0]
        assert np.isnan(rounded.sin(inf))[0]


@pytest.mark.parametrize(
    "exponent", [-160, -150, -149, -148, -140, -127, -126, -125, -1, 0, 1, 100, 126, 127, 128, 140]
)
def test_nearest(exponent):
    """A rational becomes the nearest f32: ties to even, subnormal and too large ones as well, and zero."""
    for part in (0, 1, 2, 3, 4, 5, 6, 7, (1 << 26) - 1, (1 << 26) - 4, (1 << 26) - 3, 1 << 25, (1 << 25) + 1):
        for sign in (1, -1):
            exact = sign * Fraction((1 << 26) + part, 1 << 26) * Fraction(2) ** exponent
            unit = Fraction(2) ** (max(exponent, -126) - 23)
            steps = round(exact / unit)
            with np.errstate(over="ignore"):
                wanted = np.float32(math.copysign(float(abs(steps) * unit), sign))
            assert rounded.nearest(exact) == wanted.view(np.uint32)
    assert rounded.nearest(Fraction(0)) == 0


def test_exact_values():
    """Powers of two, and what is exact of them."""
    x = np.exp2(np.arange(-126.0, 127, 2)).astype(np.float32)
    assert rounded.sqrt_ftz(x).tolist() == [2.0**k for k in range(-63, 64)]
    assert rounded.rsqrt_ftz(x).tolist() == [2.0**-k for k in range(-63, 64)]
    assert rounded.rcp_ftz(x).tolist() == [2.0**-k for k in range(-126, 127, 2)]
    assert rounded.lg2_ftz(x).tolist() == list(range(-126, 127, 2))
    assert rounded.ex2_ftz(np.arange(-126.0, 128).astype(np.float32)).tolist() == [2.0**k for k in range(-126, 128)]
