"""Functions of f32 rounded correctly, against the C library's in f64 wherever that leaves no doubt."""

import math
import random

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
