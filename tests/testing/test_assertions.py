"""warpsim.testing: assertions that name the first difference."""

import json
import re
import shlex
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.cli import main
from warpsim.host.cases import Comparison
from warpsim.testing import assert_bits_equal, assert_matches, assert_same_as
from warpsim.testing.differences import where

PROGRAM = Path(__file__).parents[2] / "programs" / "saxpy"
LINES = (PROGRAM / "kernel.ptx").read_text().splitlines()
STORE = 1 + next(number for number, line in enumerate(LINES) if "st.global" in line)
"""The line of its only store."""


def test_equal_bits():
    """A NaN equals itself: bits count, not values."""
    assert_bits_equal(np.array([np.nan, 1.0]), np.array([np.nan, 1.0]))


@pytest.mark.parametrize(("got", "expected", "message"), [
    (np.float32([1, 2, -0.0]), np.float32([1, 2, 0.0]), r"1 of 3 .*\[2\] +-0 +0 +0x80000000 +0x00000000 +0"),
    (np.zeros((2, 32), np.uint8), np.eye(2, 32, dtype=np.uint8), r"2 of 64 .*\[0, 0\] +0 +1 +0x00 +0x01"),
    (np.float32([1, np.nan]), np.float32([1, 2]), r"1 of 2 .*1 of these are NaN.*\[1\] +nan +2 +0x7fc00000"),
    (np.float32([1 + 2**-23, 3]), np.float32([1, 3]), r"by up to 1 ulp\b.*\[0\] +1.00000012 +1 +0x3f800001 +0x3f800000 +1"),
    (np.float32([-(2**-149)]), np.float32([2**-149]), r"by up to 2 ulps"),
    (np.zeros(3, np.int32), np.zeros(3, np.uint32), r"int32 \(3,\) is not uint32 \(3,\)"),
    (np.zeros(3), np.zeros((3, 1)), r"\(3,\) is not float64 \(3, 1\)"),
])  # fmt: skip
def test_differences_are_named(got: np.ndarray, expected: np.ndarray, message: str):
    """Shape and type come first, then the elements by index, value, bits and ulps."""
    with pytest.raises(AssertionError, match=f"(?s){message}"):
        assert_bits_equal(got, expected)


def test_differences_beyond_those_shown_are_counted():
    """So many elements stand in the table; the line behind it says how many do not."""
    with pytest.raises(AssertionError) as caught:
        assert_bits_equal(np.arange(40), np.zeros(40, np.int64))
    said = str(caught.value)

    assert len(re.findall(r"^ +\[\d+\] ", said, re.M)) + int(said.partition("... and ")[2].split()[0]) == 39


def test_where_differences_lie():
    """A stripe of columns is a range, a lane's share of a fragment a remainder, and both are seen in a picture."""
    plane = np.zeros((32, 64), np.bool_)
    plane[:, 48:] = True
    stripes = np.zeros(4096, np.bool_)
    stripes[3::8] = True

    assert where(plane)[0] == "  axis 1: 48-63"
    assert where(plane)[2] == f"   0  {'.' * 48}{'#' * 16}"
    assert where(stripes)[0] == "  axis 0: 3 modulo 8"
    assert where(np.ones((4, 4), np.bool_)) == ["  all of them"]


def test_ulps_are_those_of_integers():
    """Distances of neighbours, across zero and of the largest doubles, from the integers that order them."""
    rng = np.random.default_rng(5)
    for dtype, word in ((np.float16, "i2"), (np.float32, "i4"), (np.float64, "i8"), (ml_dtypes.bfloat16, "i2")):
        a, b = (rng.integers(0, 256, (500, np.dtype(dtype).itemsize), np.uint8).view(dtype)[:, 0] for _ in range(2))
        half = 1 << (8 * np.dtype(dtype).itemsize - 1)

        def place(x, half=half, word=word):
            bits = int(x.view(word)) & (2 * half - 1)
            return bits if bits < half else half - bits

        got = Comparison("x", a, b).ulps
        assert [int(u) for u in got] == [abs(place(x) - place(y)) for x, y in zip(a, b, strict=True)]


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
    values[937] = np.nextafter(values[937], np.float32(np.inf))
    np.savez(case / "data.npz", **data)
    return case


def test_within_the_case_s_own_check(close_case):
    """What the case allows passes, unless every bit is asked for."""
    assert_matches(close_case)
    with pytest.raises(AssertionError, match=r"y: 1 of 1,000 elements differ"):
        assert_matches(close_case, bits=True)


def test_a_failed_launch_is_no_match():
    """A launch that ends early says why."""
    with pytest.raises(AssertionError, match="limit: the launch has executed more than 10 warp-instructions"):
        assert_matches(PROGRAM, max_instructions=10)


def test_the_store_that_wrote_an_element(close_case, capsys):
    """A difference names the line, the CTA, the warp and the lane that wrote the element; the command that it ends with
    stops at this store of this lane.
    """
    with pytest.raises(AssertionError) as failed:
        assert_matches(close_case, bits=True, schedule=3, checks="default+race", async_effects="at_wait")

    text = str(failed.value)
    assert "y[937] was written by CTA (3, 0, 0), warp 5, lane 9:" in text
    assert f"kernel.ptx:{STORE} (kernel.cu:" in text
    assert ": st.global.f32" in text
    program, *words = shlex.split(text.splitlines()[-1].removeprefix("next: "))
    assert program == "warpsim"
    assert "--schedule 3" in " ".join(words)
    assert main([*words, "-ex", "quit"]) == 0
    stopped = capsys.readouterr().out.partition("(warpsim) continue")[2]
    assert "saxpy, CTA (3,0,0), warp 5, lane 9;" in stopped
    assert f"{STORE}  st.global.f32" in stopped


def test_a_finding_is_where_the_debugger_stops(tmp_path, capsys):
    """A broken rule needs no breakpoint: the command that the message ends with stops there."""
    case = tmp_path / "saxpy"
    shutil.copytree(PROGRAM, case)
    text = (case / "kernel.ptx").read_text()
    (case / "kernel.ptx").write_text(text.replace("setp.ge.s32", "setp.gt.s32"))
    with pytest.raises(AssertionError, match="out-of-bounds") as failed:
        assert_matches(case)

    _, *words = shlex.split(str(failed.value).splitlines()[-1].removeprefix("next: "))
    assert main([*words, "-ex", "quit"]) == 1
    assert "saxpy, CTA (3,0,0), warp 7, lane 8;" in capsys.readouterr().out


def test_two_kernels():
    """What each leaves in its own copies of the arrays is compared, bit by bit."""
    text = (
        module_head()
        + ".visible .entry k(.param .u64 p) {{ .reg .b64 a; ld.param.u64 a, [p]; st.global.u32 [a+4], {}; ret; }}"
    )
    one, same, other = (warpsim.load(text.format(n))["k"] for n in (7, 7, 8))
    given = np.zeros(2, np.uint32)
    assert_same_as(one, same, 1, ((1,), (2,)), (given,))
    with pytest.raises(AssertionError, match="argument 0"):
        assert_same_as(one, other, 1, 1, (given,))

    assert given.tolist() == [0, 0]


@pytest.mark.parametrize("check", [{"mode": "close", "atol": 1.0}, {"mode": "close", "ulps": 1}, {"mode": "bits"}])
def test_a_nan_is_near_nothing_else(check):
    """A NaN for a number, and a number for a NaN, are wrong by any measure; one NaN for another is not, but for its bits."""
    nan = np.float32(np.nan)
    have, want = np.array([nan, 1, -nan, 2], np.float32), np.array([1, nan, nan, 2], np.float32)
    found = Comparison("x", have, want, check).wrong.tolist()

    assert found == [True, True, check["mode"] == "bits", False]
