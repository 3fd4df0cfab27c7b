"""Comparisons of thread numbers with what all threads share, which machine code makes of scalars: those of Python's integers."""

import operator

import numpy as np
import pytest

import warpsim
from warpsim.native.compiling import available

pytestmark = pytest.mark.skipif(not available(), reason="the extra jit is not installed")
TESTS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
COUNTS = {
    "shl.b32 %v, %x, 1;": lambda x, y, c: 2 * x,
    "mov.u32 %v, %y;": lambda x, y, c: y,
    "mad.lo.u32 %v, %y, %w, %x;": lambda x, y, c: x + y * c["w"],
    "add.u32 %v, %x, -5;": lambda x, y, c: x - 5,
    "add.u32 %v, %y, 2147483645;": lambda x, y, c: y + 0x7FFFFFFD,
    "mad.lo.u32 %v, %y, %w, %x; sub.u32 %v, %v, 40;": lambda x, y, c: x + y * c["w"] - 40,
    "mad.lo.u32 %v, %y, %w, %x; add.u32 %v, %v, 2147483600;": lambda x, y, c: x + y * c["w"] + 2147483600,
}
"""Each with what it gives for a thread."""
BOUNDS = [0, 1, 5, 15, 16, 31, 32, 33, 70, 127, 128, 2147483610, 2**31 - 1, 2**31, 2**32 - 20, 2**32 - 1]


def value(number, type):
    """32 bits as a type has them."""
    number &= 0xFFFFFFFF
    return number - (1 << 32) if type == "s32" and number >> 31 else number


@pytest.mark.parametrize(
    "block", [(16, 8), *(pytest.param(block, marks=pytest.mark.long) for block in [(128, 1), (8, 5), (1, 40), (40, 3)])]
)
def test_thread_numbers(block):
    """Every comparison from both sides, with bounds that are known and bounds that are given; some decide a branch."""
    cases = [
        (make, test, type, bound, turned)
        for n, make in enumerate(COUNTS)
        for m, test in enumerate(TESTS)
        for k in range((n + m) % 5, len(BOUNDS), 5)
        for bound in [BOUNDS[k]]
        for type, turned in [(("u32", "s32")[(n + m + k) % 2], (n + m + k) % 3 == 0)]
    ]
    cases = cases[: len(cases) // 16 * 16]
    branches = cases[::16]  # at the end: from where lanes part on, nothing is made of scalars
    cases = [case for number, case in enumerate(cases) if number % 16] + branches
    lines = []
    for number, (make, test, type, bound, turned) in enumerate(cases):
        given = str(value(bound, type))
        if number % 2:
            lines.append(f"ld.param.u32 %b, [bounds+{4 * BOUNDS.index(bound)}];")
            given = "%b"
        a, b = (given, "%v") if turned and given == "%b" else ("%v", given)
        lines.append(f"{make} setp.{test}.{type} %q, {a}, {b};")
        if number < len(cases) - len(branches):
            lines.append("selp.u32 %a, 1, 0, %q; mad.lo.u32 %r, %r, 3, %a;")
        else:
            lines.append(f"mul.lo.u32 %r, %r, 3; @!%q bra L{number}; add.u32 %r, %r, 1; L{number}:")
        if number % 16 == 15:
            lines.append("st.global.u32 [%o], %r; add.u64 %o, %o, 4; mov.u32 %r, 0;")
    text = f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .align 4 .b8 bounds[{4 * len(BOUNDS)}]) {{
.reg .b32 %x, %y, %w, %v, %b, %a, %r; .reg .b64 %o, %d; .reg .pred %q;
ld.param.u64 %o, [out]; mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; mov.u32 %w, %ntid.x; mad.lo.u32 %r, %y, %w, %x;
mul.wide.u32 %d, %r, {len(cases) // 4}; add.u64 %o, %o, %d; mov.u32 %r, 0;
{chr(10).join(lines)}
ret; }}
"""
    width, height = block
    out = np.zeros((height, width, len(cases) // 16), np.uint32)
    warpsim.load(text)["k"](1, block, (out, np.array(BOUNDS, np.uint32).tobytes()), engine="compiled")

    wrong = set()
    for y in range(height):
        for x in range(width):
            found = 0
            for number, (make, test, type, bound, turned) in enumerate(cases):
                a, b = value(COUNTS[make](x, y, {"w": width}), type), value(bound, type)
                if turned and number % 2:
                    a, b = b, a
                found = 0 if number % 16 == 0 else found
                found = (3 * found + TESTS[test](a, b)) & 0xFFFFFFFF
                if number % 16 == 15 and out[y, x, number // 16] != found:
                    wrong.add((make, test, type, x, y))
    assert wrong == set()
