"""Which of two NaNs an f64 operation returns, as an H100 has it."""

from pathlib import Path

import numpy as np
import pytest

import operand_order
import warpsim

TESTS = Path(__file__).parents[1]
OTHERS = {8, 160, 403} | {6, 75, 78, 144, 234, 435, 444, 453, 510, 537, 573}
"""Programs in which ptxas orders otherwise: what a selp chose, and values that branches and loops change."""


def differing(numbers, **options):
    """The programs with a result that is not the recorded one."""
    with np.load(TESTS / "data" / "operand_order_h100.npz") as stored:
        expected = stored["bits"]
    given, parameter = operand_order.inputs()
    found = set()
    for number in numbers:
        kernel = warpsim.load(operand_order.kernel(operand_order.Program(number)))["chain"]
        for n in (1, 2):
            results = np.zeros(operand_order.RESULTS, np.uint64)
            kernel((1,), (1,), (given, results, n, parameter.view(np.float64)), checks="none", **options)
            found |= set() if (results == expected[number, n - 1]).all() else {number}
    return found


def test_as_recorded():
    """Chains of operations in straight code and behind branches."""
    assert differing(range(50)) <= OTHERS


@pytest.mark.long
def test_all_as_recorded():
    """The same for all programs."""
    assert differing(range(operand_order.COUNT)) <= OTHERS


def test_one_after_the_other_compiled():
    """Machine code takes the operands in the same order."""
    pytest.importorskip("llvmlite")

    assert differing(range(1, 60, 6), engine="compiled") <= OTHERS


@pytest.mark.parametrize(
    "copies", ["mov.f64 %a, %a;", "neg.f64 %a, %a;", "mov.f64 %c, %a; mov.f64 %a, %b; mov.f64 %b, %c;"]
)
def test_a_loop_of_copies_of_nothing(copies):
    """Registers that a loop only copies to each other, and that nothing else writes, have no first value to be found."""
    text = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 to) {{
    .reg .f64 %a, %b, %c, %d; .reg .u64 %to; .reg .u32 %n; .reg .pred %again;
    mov.u32 %n, 0;
AGAIN:
    {copies}
    add.f64 %d, %a, %b;
    add.u32 %n, %n, 1;
    setp.lt.u32 %again, %n, 3;
    @%again bra AGAIN;
    ld.param.u64 %to, [to];
    st.global.f64 [%to], %d;
    ret;
}}"""
    result = warpsim.load(text)["k"]((1,), (1,), (np.zeros(1),), on_finding="collect")
    assert {finding.rule for finding in result.findings} == {"uninitialised"}
