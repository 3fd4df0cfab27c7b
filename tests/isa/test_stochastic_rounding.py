"""cvt.rs: the carry out of adding the random bits to the leading bits that are cut off decides (PTX ISA, cvt)."""

from fractions import Fraction

import numpy as np
import pytest

import warpsim

# fraction bits, least exponent, largest value, random bits
FORMATS = {
    "f16": (10, -14, Fraction(65504), 13),
    "bf16": (7, -126, (2 - Fraction(1, 128)) * 2**127, 16),
    "e4m3": (3, -6, Fraction(448), 16),
    "e5m2": (2, -14, Fraction(57344), 16),
    "e2m3": (3, 0, Fraction(15, 2), 16),
    "e3m2": (2, -2, Fraction(28), 16),
    "e2m1": (1, 0, Fraction(6), 8),
}
LANES = 32


def rounded(x, name, random):
    """The magnitude of a finite f32 in a narrow format, saturated."""
    fraction, least, largest, n = FORMATS[name]
    value = abs(Fraction(float(x)))
    if value == 0:
        return value
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    exponent -= value < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, least) - fraction)
    kept, rest = divmod(value, unit)
    carry = rest * 2**n // unit + random >> n
    return min((kept + carry) * unit, largest)


def code(magnitude, negative, name):
    """The bits of a value of a format."""
    fraction, least, _, _ = FORMATS[name]
    width = {"f16": 16, "bf16": 16, "e2m3": 6, "e3m2": 6, "e2m1": 4}.get(name, 8)
    exponent = least
    while magnitude >= Fraction(2) ** (exponent + 1):
        exponent += 1
    bits = int(magnitude / Fraction(2) ** (exponent - fraction))
    return (bits + (exponent - least << fraction)) | negative << width - 1


def values(name, seed):
    """Values of every size that matters, an array of f32 for each source."""
    generator = np.random.default_rng(seed)
    _, least, largest, _ = FORMATS[name]
    top = int(np.log2(float(largest))) + 2
    exponents = generator.integers(max(least - 6, -126), min(top, 127), (4, LANES))
    return (generator.uniform(-2, 2, (4, LANES)) * 2.0**exponents).astype(np.float32)


def converted(text, x, rbits):
    """The destination of one instruction."""
    registers = {**{f"%f{i}": x[i] for i in range(4) if f"%f{i}" in text}, "%r": rbits}
    return warpsim.run(text, registers=registers, target="sm_100a").registers["%d"]


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_halves(name, relu):
    """Two halves, the first in the upper part, each rounded by its half of the random bits."""
    x, rbits = values(name, 1), np.random.default_rng(2).integers(0, 2**32, LANES, dtype=np.uint32)
    out = converted(f"cvt.rs{relu}.satfinite.{name}x2.f32 %d, %f0, %f1, %r;", x, rbits)
    mask = (1 << FORMATS[name][3]) - 1
    for lane in range(LANES):
        r = int(rbits[lane])
        for source, random, field in ((0, r >> 16 & mask, 16), (1, r & mask, 0)):
            value = x[source, lane]
            expected = code(rounded(value, name, random), value < 0, name)
            assert int(out[lane]) >> field & 0xFFFF == (0 if relu and value < 0 else expected)


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"])
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_four(name, relu):
    """Four values, the first in the upper part."""
    x, rbits = values(name, 3), np.random.default_rng(4).integers(0, 2**32, LANES, dtype=np.uint32)
    out = converted(f"cvt.rs{relu}.satfinite.{name}x4.f32 %d, {{%f0, %f1, %f2, %f3}}, %r;", x, rbits)
    width = 4 if name == "e2m1" else 8
    for lane in range(LANES):
        r = int(rbits[lane])
        randoms = (
            [r >> 24, r >> 8 & 255, r >> 16 & 255, r & 255] if width == 4 else [r >> 16, r >> 16, r & 65535, r & 65535]
        )
        for i, random in enumerate(randoms):
            value = x[i, lane]
            expected = code(rounded(value, name, random), value < 0, name)
            assert int(out[lane]) >> (3 - i) * width & (1 << width) - 1 == (0 if relu and value < 0 else expected)


def test_overflow_and_nan():
    """Without .satfinite what is too large becomes infinite; NaN has no sign."""
    x = np.array([[70000.0], [np.nan], [0], [0]], np.float32).repeat(LANES, 1)
    out = converted("cvt.rs.f16x2.f32 %d, %f0, %f1, %r;", x, np.zeros(LANES, np.uint32))
    assert hex(out[0]) == "0x7c007fff"
