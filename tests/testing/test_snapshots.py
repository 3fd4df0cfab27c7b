"""Snapshots: what they hold, what a reviewer reads, and that a missing one is no success."""

import ml_dtypes
import numpy as np
import pytest

import warpsim
from warpsim.testing.snapshots import Snapshot, text_of

from .conftest import ALONE

pytest_plugins = ["pytester"]
QUIET_NAN = np.array([0x7FC00001, 0xFFC00000, 0x80000000, 0x3F800000], np.uint32).view(np.float32)


@pytest.mark.parametrize("value", [
    QUIET_NAN,
    np.arange(-3, 9, dtype=np.int8).reshape(3, 4),
    np.array([1.5, -0.0, np.inf], ml_dtypes.bfloat16),
    np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).reshape(16, 16),
    np.random.default_rng(0).normal(size=5000),
    np.float64([0.1, 5e-324, 1.7976931348623157e308]),
    np.zeros((0, 3), np.float32),
    np.array([True, False]),
], ids=lambda v: f"{v.dtype}-{v.size}")  # fmt: skip
def test_arrays_come_back_to_the_bit(value, tmp_path):
    """What was written is equal, and one changed bit is not."""
    path = tmp_path / "a.txt"
    assert value == Snapshot(path, record=True)
    assert value == Snapshot(path, record=False)
    if value.size:
        other = value.copy()
        raw = other.reshape(-1).view(np.uint8)
        raw[-1] ^= 1
        assert other != Snapshot(path, record=False)
        assert value.reshape(-1)[:1] != Snapshot(path, record=False)


def test_findings_and_text():
    """Findings are kept as they are told; registers by name; nothing else has a text."""
    finding = warpsim.Finding("race", "two stores", line=5)

    assert text_of((finding,)) == "<ptx>:5:0: race: two stores\n"
    assert text_of({"r": np.uint32([1, 2])}) == "r: array u32 2\n1 2\n"
    for value in (object(), np.array([None])):
        with pytest.raises(TypeError, match="a snapshot is of"):
            text_of(value)


LARGE = np.arange(5000, dtype=np.uint32)


@pytest.mark.parametrize(("value", "other", "said"), [
    ({"r": LARGE}, {"r": LARGE + (LARGE == 7)}, "r: 1 of 5,000 elements differ"),
    ([LARGE, LARGE], [LARGE, LARGE + (LARGE == 7)], "value: 1 of 5,000 elements differ"),
    ({"%r0": np.arange(32), "%r1": np.arange(32)}, {"%r0": np.arange(32), "%r1": np.arange(1, 33)}, "%r1: 32 of 32"),
    ({"a": np.zeros(3)}, {"a": np.zeros(4)}, "-a: array f64 3"),
    ({"a": np.zeros(3)}, {"b": np.zeros(3)}, "-a: array f64 3"),
    (["lines\n", np.float32(1)], ["lines", np.float32(1)], "@@"),
    ("a\r\n", "a\n", "@@"),
    ("array f32 3", "array f32 4", "-array f32 3"),
    ("array f32 2\n1.0 2.0", "array f32 2\n1.0 3.0", "-1.0 2.0"),
    (1, True, "-1"),
], ids=lambda v: str(v)[:20])  # fmt: skip
def test_values_of_several_parts(value, other, said, tmp_path):
    """Each part counts, however large, and a difference is told by the part's name and its elements."""
    path = tmp_path / "a.txt"
    assert value == Snapshot(path, record=True)
    assert value == Snapshot(path, record=False)

    found = Snapshot(path, record=False)
    assert other != found
    assert any(said in line for line in found.problem), found.problem


def test_elements_beside_are_lost(tmp_path):
    """The digest in the text still counts without the compressed file."""
    path = tmp_path / "a.txt"
    assert Snapshot(path, record=True) == LARGE
    (tmp_path / "a.npz").unlink()
    assert Snapshot(path, record=False) == LARGE

    found = Snapshot(path, record=False)
    assert found != LARGE + 1
    assert found.problem[0] == "value differs; a.npz, which has the recorded elements, is missing"


def test_the_fixture(pytester):
    """Without a recording a test fails and says what to do; recorded it passes; what changed is shown by element."""
    pytester.makepyfile(
        """
import numpy as np, os

def test_it(snapshot):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    values[1, 2] += float(os.environ.get("OFF", 0))
    assert values == snapshot("c")
    assert ["text", "more"] == [snapshot(), snapshot()]
"""
    )
    run = pytester.runpytest_inprocess
    run(*ALONE).stdout.fnmatch_lines(
        ["*there is no snapshot test_it.c.txt yet*", "to write it: pytest *::test_it --warp*"]
    )
    run(*ALONE, "--warpsim-record").assert_outcomes(passed=1)
    run(*ALONE).assert_outcomes(passed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OFF", "1")
        result = run(*ALONE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*1 of 6 elements differ*", "*?1, 2?*6*5*0x40c00000*0x40a00000*"])
    names = sorted(path.name for path in pytester.path.glob("__snapshots__/*/*"))
    assert names == ["test_it.2.txt", "test_it.3.txt", "test_it.c.txt"]
    recorded = next(pytester.path.glob("__snapshots__/*/test_it.c.txt"))
    assert recorded.read_text() == "array f32 2x3\n0.0 1.0 2.0\n3.0 4.0 5.0\n"


def test_one_name_for_two_values(pytester):
    """Recording refuses it; tests of one name in two classes have files of their own."""
    pytester.makepyfile(
        """
class TestA:
    def test_it(self, snapshot): assert 1 == snapshot()
class TestB:
    def test_it(self, snapshot): assert 2 == snapshot()
def test_clash(snapshot):
    assert 1 == snapshot("a b")
    assert 2 == snapshot("a_b")
"""
    )
    run = pytester.runpytest_inprocess
    result = run(*ALONE, "--warpsim-record")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*has recorded another value as snapshot test_clash.a_b.txt*"])
    run(*ALONE, "-k", "it").assert_outcomes(passed=2, deselected=1)


def test_differences_are_shown_whole(pytester):
    """pytest cuts explanations of assertions after eight lines; those of snapshots stand below them."""
    pytester.makepyfile(
        """
import numpy as np, os
def test_it(snapshot):
    values = np.zeros((32, 64), np.float32)
    values[8:, 16:24] = float(os.environ.get("OFF", 0))
    assert values == snapshot("c")
"""
    )
    run = pytester.runpytest_inprocess
    run(*ALONE, "--warpsim-record").assert_outcomes(passed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OFF", "1")
        patch.delenv("CI", raising=False)
        result = run(*ALONE)
    result.stdout.fnmatch_lines(
        ["*axis 0: 8-31; axis 1: 16-23*", "   8  ................########*", "where this is meant: pytest *::test_it *"]
    )
