"""Conversions of the device's printf; the expected texts are those of C."""

import json
import math
import struct
from pathlib import Path

import pytest

from warpsim.machine.runtime import format_text

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


INF, NAN = math.inf, math.copysign(math.nan, -1)
OF_C = [
    ("%hd %hhd %hi %hu %hhx %hho", (40000, 200, 32767, 65542, 0x1FF, 0x1FF), "-25536 -56 32767 6 ff 377"),
    ("%ld %lld %lu %lx %llo %d", (-5, -(1 << 40), (1 << 64) - 1, 1 << 40, 8, -1), "-5 -1099511627776 18446744073709551615 10000000000 10 -1"),
    ("%a %a %A|%10a|%-10a|", (INF, -INF, INF, INF, -INF), "inf -inf INF|       inf|-inf      |"),
    ("%a", (math.nan,), "nan"),
    ("%.15a %.3a %.13a %.1a %.0a %.2a %.a", (1.5, 1.5, 1.1, -1.03125, 2.5, 0.0, 1.75), "0x1.800000000000000p+0 0x1.800p+0 0x1.199999999999ap+0 -0x1.0p+0 0x1p+1 0x0.00p+0 0x2p+0"),
    ("%+a %+a % d % d %+i %i", (1.0, -1.0, 5, -5, 3, -3), "+0x1p+0 -0x1p+0  5 -5 +3 -3"),
    ("%08.3f|%-8.2e|%+g|% g|%#g|%G", (3.14159, 12345.678, 1.5, 2.5, 1.0, 1e-10), "0003.142|1.23e+04|+1.5| 2.5|1.00000|1E-10"),
    ("%#x %#X %#010x %-#10x| %#5x %#o %#.3o %#.0x", (255, 255, 255, 255, 255, 8, 8, 0), "0xff 0XFF 0x000000ff 0xff      |  0xff 010 010 "),
    ("%5.3d|%-5.3d|%05d|%+05d|% 05d|%.3x|%8.5x|%08.5x", (7, 7, -7, 7, 7, 10, 10, 10), "  007|007  |-0007|+0007| 0007|00a|   0000a|   0000a"),
    ("%s|%10s|%-10s|%.2s|%10.3s|", ("abc", "abc", "abc", "abc", "abcdef"), "abc|       abc|abc       |ab|       abc|"),
    ("%*d|%-*d|%*d|%.*f|%.*f|", (5, 1, 5, 2, -5, 3, 2, 3.14159, -1, 2.5), "    1|2    |3    |3.14|2.500000|"),
    ("%u %i %5u|%-5u|%05u", (4000000000, -(1 << 31), 7, 7, 7), "4000000000 -2147483648     7|7    |00007"),
    ("%F %E %f %5c|%-5c|", (INF, 1.0, -0.0, 120, 121), "INF 1.000000E+00 -0.000000     x|y    |"),
    ("%010f|%-010f|%+010f|%010f", (1.5, 1.5, -1.5, -INF), "001.500000|1.500000  |-01.500000|      -inf"),
    ("%e %g %g %g", (0.0, 1e6, 1e5, 123456789.0), "0.000000e+00 1e+06 100000 1.23457e+08"),
    ("% u|% x|%+o|%+u", (5, 5, 8, 5), "5|5|10|5"),
    ("%#06o|%-#6o|%6o|%#o|%#.0o", (8, 8, 8, 0, 0), "000010|010   |    10|0|0"),
    ("%8f|%-8f|%08f|%F", (NAN, NAN, NAN, NAN), "    -nan|-nan    |    -nan|-NAN"),
    ("%.0d|%.0u|%.0x|%3.0d|", (0, 0, 0, 0), "|||   |"),
]  # fmt: skip
"""Templates, values and what C's printf (glibc) makes of them."""


@pytest.mark.parametrize(("template", "values", "expected"), OF_C)
def test_as_c_prints(template, values, expected):
    """Signs, widths, precisions, lengths and prefixes of every conversion; it takes as many bytes of each argument as C does."""
    waiting, texts = iter(values), []

    def read(size):
        value = next(waiting)
        if isinstance(value, str):
            texts.append(value)
            value = len(texts) - 1
        if isinstance(value, float):
            assert size == 8
            return struct.pack("<d", value)
        assert -(1 << 8 * size - 1) <= value < 1 << 8 * size
        return (value % (1 << 8 * size)).to_bytes(size, "little")

    text, _ = format_text(template, read, lambda address: texts[address])

    assert text == expected
    assert not list(waiting)


def test_what_prints_nothing():
    """A device leaves %n out, though it counts; a width or precision beyond its buffer of 1 MiB ends there."""
    assert format_text("a%nb", None, None) == ("ab", 1)
    for given, taken in ((1 << 20, 1 << 20), ((1 << 20) + 1, 1 << 20), (999_999, 999_999), (10**30, 1 << 20)):
        assert len(format_text(f"%{given}d", lambda size: bytes(size), None)[0]) == taken
        assert len(format_text(f"%.{given}d", lambda size: bytes(size), None)[0]) == taken


ROWS = [json.loads(line) for line in Path(__file__).with_name("printf_h100.txt").read_text().splitlines()]


def test_as_an_h100_prints():
    """A thousand formats of the documented set, with arguments of 64 bits or strings (``tools/recordings/printf.py``)."""
    wrong = []
    for template, given, said in ROWS:
        words = iter(given)

        def read(size, words=words, given=given):
            word = next(words)
            number = given.index(word) if word[:1] == '"' else int(word, 16)
            return (number % (1 << 8 * size)).to_bytes(size, "little")

        found = format_text(template, read, lambda place, given=given: given[place].strip('"'))[0]
        if found != said:
            wrong.append((template, given, found, said))

    assert wrong == []
