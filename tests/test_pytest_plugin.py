"""The pytest plugin, in a pytest of its own."""

import shutil
from pathlib import Path

import numpy as np

pytest_plugins = ["pytester"]
PROGRAMS = Path(__file__).parent.parent / "programs"


def test_fixture_and_marker(pytester):
    """The fixture gives the GPU that the marker names."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.ptx(target="sm_80", checks="all")
        def test_marked(warpsim_device):
            assert (warpsim_device.target, warpsim_device.checks) == ("sm_80", "all")

        def test_plain(warpsim_device):
            assert warpsim_device.sm == 90
        """
    )

    result = pytester.runpytest_subprocess("-p", "warpsim.pytest_plugin", "--strict-markers")

    result.assert_outcomes(passed=2)


def test_cases_are_collected(pytester):
    """--warpsim-cases runs each recorded launch as a test."""
    pytester.makepyfile("")

    result = pytester.runpytest_subprocess("-p", "warpsim.pytest_plugin", f"--warpsim-cases={PROGRAMS / 'saxpy'}", "-v")

    result.assert_outcomes(passed=1)


def test_record_writes_new_expectations(pytester):
    """--warpsim-record stores what the simulator gives: a case that differed passes afterwards, in every bit."""
    pytester.makepyfile("")
    case = pytester.path / "cases" / "saxpy"
    shutil.copytree(PROGRAMS / "saxpy", case)
    with np.load(case / "data.npz") as stored:
        data = dict(stored)
    recorded = data["out_y"].copy()
    data["out_y"] += 1
    np.savez(case / "data.npz", **data)
    options = ("-p", "warpsim.pytest_plugin", f"--warpsim-cases={case.parent}", "--warpsim-bits")

    pytester.runpytest_subprocess(*options).assert_outcomes(failed=1)
    pytester.runpytest_subprocess(*options, "--warpsim-record").assert_outcomes(passed=1)
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=1)

    with np.load(case / "data.npz") as stored:
        assert np.array_equal(stored["out_y"], recorded)


def test_folder_without_cases(pytester):
    """A folder that holds no case is a usage error, not an empty success."""
    pytester.makepyfile("")

    result = pytester.runpytest_subprocess("-p", "warpsim.pytest_plugin", f"--warpsim-cases={pytester.path}")

    assert result.ret == 4
    result.stderr.fnmatch_lines(["*no case.json below*"])
