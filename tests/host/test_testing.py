"""warpsim.testing: assertions that name the first difference."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from warpsim.testing import assert_bits_equal, assert_matches

PROGRAM = Path(__file__).parents[2] / "programs" / "saxpy"


def test_equal_bits():
    """A NaN equals itself: bits count, not values."""
    assert_bits_equal(np.array([np.nan, 1.0]), np.array([np.nan, 1.0]))


@pytest.mark.parametrize(("got", "expected", "message"), [
    (np.float32([1, 2, -0.0]), np.float32([1, 2, 0.0]), r"1 of 3 .* at \(2,\) .* got 0x80000000, expected 0x00000000"),
    (np.zeros((2, 32), np.uint8), np.eye(2, 32, dtype=np.uint8), r"2 of 64 .* at \(0, 0\) \(warp 0, lane 0"),
    (np.r_[np.zeros(40), 1], np.zeros(41), r"at \(40,\) \(warp 1, lane 8"),
    (np.zeros(3, np.int32), np.zeros(3, np.uint32), r"int32 \(3,\) is not uint32 \(3,\)"),
    (np.zeros(3), np.zeros((3, 1)), r"\(3,\) is not float64 \(3, 1\)"),
])  # fmt: skip
def test_differences_are_named(got: np.ndarray, expected: np.ndarray, message: str):
    """Shape and type come first, then the first element with both bit patterns."""
    with pytest.raises(AssertionError, match=message):
        assert_bits_equal(got, expected)


@pytest.fixture
def close_case(tmp_path):
    """saxpy with one recorded element off by one unit in the last place, and a check that allows for it."""
    case = tmp_path / "saxpy"
    shutil.copytree(PROGRAM, case)
    description = json.loads((case / "case.json").read_text())
    output = next(b for b in description["buffers"] if b["out"])
    description["check"] = {output["name"]: {"mode": "close", "rtol": 1e-6, "atol": 0.0}}
    (case / "case.json").write_text(json.dumps(description))
    with np.load(case / "data.npz") as stored:
        data = dict(stored)
    values = data[output["out"]].view(np.float32)
    values[7] = np.nextafter(values[7], np.float32(np.inf))
    np.savez(case / "data.npz", **data)
    return case


def test_within_the_case_s_own_check(close_case):
    """What the case allows passes, unless every bit is asked for."""
    assert_matches(close_case)
    with pytest.raises(AssertionError, match="y: 1 elements differ, first"):
        assert_matches(close_case, bits=True)


def test_a_failed_launch_is_no_match():
    """A launch that ends early says why."""
    with pytest.raises(AssertionError, match="limit: more than 10 warp-instructions"):
        assert_matches(PROGRAM, max_instructions=10)
