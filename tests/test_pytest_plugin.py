"""The pytest plugin, in a pytest of its own."""

from pathlib import Path

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
