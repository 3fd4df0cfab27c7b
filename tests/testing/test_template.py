"""The template of a repository: its tests pass as they stand, and find a bug that is put into the kernel."""

import subprocess
import sys

import pytest

from warpsim.cli import main


def test_init_tests(tmp_path, capsys):
    """All files are written; what is there already is not overwritten."""
    folder = tmp_path / "mine"
    assert main(["init-tests", str(folder)]) == 0
    assert "tests/test_axpy.py" in capsys.readouterr().out
    assert (folder / ".github" / "workflows" / "tests.yml").exists()
    assert main(["init-tests", str(folder)]) == 2


@pytest.mark.long
def test_it_finds_a_bug(tmp_path):
    """A guard that is off by one fails the template's tests, by its rule."""
    folder = tmp_path / "mine"
    main(["init-tests", str(folder)])
    ptx = folder / "kernels" / "axpy.ptx"
    text = ptx.read_text()
    ptx.write_text(text.replace("setp.ge.s32", "setp.gt.s32"))
    assert ptx.read_text() != text
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:benchmark"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 1
    assert "out-of-bounds" in done.stdout


@pytest.mark.long
def test_it_passes(tmp_path):
    """As it stands, in a process of its own."""
    main(["init-tests", str(tmp_path / "mine")])
    assert subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=tmp_path / "mine", timeout=100).returncode == 0
