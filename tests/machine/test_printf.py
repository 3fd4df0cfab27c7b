"""Conversions of the device's printf; the expected texts are those of C."""

import math
import struct

import pytest

from warpsim.machine.printf import format_text

CASES = [
    ("%5d|%-6d|%06x|%+d|%#o", (-20, -20, 0xFFFFFFEC, -20, 492), "  -20|-20   |ffffffec|-20|0754", 5),
    ("%#o %#x %#06o %-#6o|", (0, 0, 8, 8), "0 0 000010 010   |", 4),
    ("%+u %+x %u", (5, 255, 2**32 - 1), "5 ff 4294967295", 3),
    ("%.5d %hd %hhu", (42, 70000, 300), "00042 4464 44", 3),
    ("%a %a %a %a", (0.5, -1.5, 0.0, 2.0**-1074), "0x1p-1 -0x1.8p+0 0x0p+0 0x0.0000000000001p-1022", 4),
    ("%.1a %.0a %12.2A|", (1.96875, 1.5, 1.0), "0x2.0p+0 0x2p+0    0X1.00P+0|", 3),
    ("%f %.3e %g %10.2f", (3.7, 1e11, 1 / 0.7, -15.0), "3.700000 1.000e+11 1.42857     -15.00", 4),
    ("%f %G %e", (math.copysign(math.nan, -1), math.inf, -math.inf), "-nan INF -inf", 3),
    ("%c%%%-3c|%3c", (65, 66, 67), "A%B  |  C", 3),
    ("%08f|%+08f|%-08f|", (math.inf, math.inf, -math.inf), "     inf|    +inf|-inf    |", 3),
    ("%zu %jd %Lf %5% %y %d", (7,), "%zu %jd %Lf %5% %y 7", 1),
]


@pytest.mark.parametrize(
    ("template", "values", "expected", "count"), CASES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_conversions(template, values, expected, count):
    """The text and the number of arguments."""
    waiting = iter(values)

    def read(size):
        value = next(waiting)
        return (
            struct.pack("<d", value) if isinstance(value, float) else (value % 2 ** (8 * size)).to_bytes(size, "little")
        )

    assert format_text(template, read, str) == (expected, count)


@pytest.mark.parametrize(("address", "expected"), [(0, "     (nil)"), (0x7F0010, "  0x7f0010")])
def test_pointers(address, expected):
    """A null pointer is (nil)."""
    assert format_text("%10p", lambda size: address.to_bytes(size, "little"), str) == (expected, 1)
