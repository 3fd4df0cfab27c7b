"""Which of two NaNs an f64 operation returns, as an H100 has it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import warpsim

TESTS = Path(__file__).parents[1]
_spec = importlib.util.spec_from_file_location("operand_order", TESTS / "recordings" / "operand_order.py")
operand_order = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(operand_order)
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
