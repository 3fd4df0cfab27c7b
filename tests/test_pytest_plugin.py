"""The pytest plugin, in a pytest of its own: of another process once, else of this one, which has imported everything."""

import shutil
from pathlib import Path

import numpy as np

from warpsim.host import recording
from warpsim.testing import assert_matches

pytest_plugins = ["pytester"]
PROGRAMS = Path(__file__).parent.parent / "programs"
ALONE = ("-p", "no:hypothesispytest", "-p", "no:benchmark", "-p", "warpsim.pytest_plugin")
"""Plugins that cost a second to import and have no part in this."""
IMPORTED = (recording, assert_matches)
"""An inner pytest of this process forgets the modules that it was the first to import."""


def test_fixture_and_marker(pytester):
    """The fixture gives the GPU that the marker names."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.ptx(target="sm_80", checks="all")
        def test_marked(warpsim_device):
            assert (warpsim_device.target, warpsim_device.checks) == ("sm_80", "all")

        def test_plain(warpsim_device):
            assert (warpsim_device.sm, warpsim_device.max_seconds) == (90, 600)

        @pytest.mark.ptx(max_seconds=3)
        def test_limited(warpsim_device):
            assert warpsim_device.max_seconds == 3
        """
    )

    result = pytester.runpytest_subprocess(*ALONE, "--strict-markers")

    result.assert_outcomes(passed=3)


def test_cases_are_collected(pytester):
    """--warpsim-cases runs each recorded launch as a test."""
    pytester.makepyfile("")

    result = pytester.runpytest_inprocess(*ALONE, f"--warpsim-cases={PROGRAMS / 'saxpy'}", "-v")

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
    options = (*ALONE, f"--warpsim-cases={case.parent}", "--warpsim-bits")

    pytester.runpytest_inprocess(*options).assert_outcomes(failed=1)
    pytester.runpytest_inprocess(*options, "--warpsim-record").assert_outcomes(passed=1)
    pytester.runpytest_inprocess(*options).assert_outcomes(passed=1)

    with np.load(case / "data.npz") as stored:
        assert np.array_equal(stored["out_y"], recorded)


def test_folder_without_cases(pytester):
    """A folder that holds no case is a usage error, not an empty success."""
    pytester.makepyfile("")

    result = pytester.runpytest_inprocess(*ALONE, f"--warpsim-cases={pytester.path}")

    assert result.ret == 4
    result.stderr.fnmatch_lines(["*no case.json below*"])


def test_cases_have_a_limit_of_time(pytester):
    """A case that takes longer than it may is a failed test that says so."""
    pytester.makepyfile("")

    options = (f"--warpsim-cases={PROGRAMS / 'saxpy'}", "--warpsim-max-seconds=0")
    result = pytester.runpytest_inprocess(*ALONE, *options)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*limit: the launch has taken more than 0*"])
