"""Pages of profiles and of layouts, in a browser."""

from pathlib import Path

import numpy as np
import pytest

from warpsim.cli import main
from warpsim.host.cases import run_case

PROGRAMS = Path(__file__).parent.parent.parent / "programs"


@pytest.fixture
def pages(tmp_path, capsys):
    """The pages by name."""
    profile = run_case(PROGRAMS / "histogram", profile=True).profile
    (tmp_path / "profile.html").write_text(profile.html(), encoding="utf-8")
    capsys.readouterr()
    main(["layout", "ldmatrix.x4", "--format", "html"])
    (tmp_path / "layout.html").write_text(capsys.readouterr().out, encoding="utf-8")
    return tmp_path


@pytest.mark.long
def test_pages_open(pages, browser):
    """A browser finds the rows of the tables and the cells of the drawings."""
    profile, layout = (browser.dom(pages / f"{name}.html") for name in ("profile", "layout"))

    assert '<td class="text">' in profile
    assert profile.count("<tr") > len((PROGRAMS / "histogram" / "kernel.ptx").read_text().splitlines())
    assert layout.count("data-key=") == 4 * 64
    assert "matrix 3" in layout


@pytest.mark.long
@pytest.mark.parametrize("name", ["profile", "layout"])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [420, 900])
def test_pages_look(pages, browser, name, dark, width):
    """Light and dark, wide and narrow: text and colours on the right ground."""
    pixels = browser.screenshot(pages / f"{name}.html", width=width, height=500, dark=dark)
    colours, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_counts=True)
    spread = colours.max(axis=1).astype(int) - colours.min(axis=1)

    assert (colours[counts.argmax()].mean() < 60) == dark
    assert (np.abs(colours.mean(axis=1) - colours[counts.argmax()].mean()) > 120).any()
    assert counts[spread > 20].sum() > 300
