"""The page of a trace in a browser."""

import re
from pathlib import Path

import numpy as np
import pytest

from warpsim.host.cases import run_case
from warpsim.trace import Tracer

PROGRAMS = Path(__file__).parent.parent.parent / "programs"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of a warp-specialised GEMM."""
    tracer = Tracer(2)
    run_case(PROGRAMS / "gemm_specialised", watchers=[tracer], async_effects="at_wait")
    path = tmp_path_factory.mktemp("trace") / "trace.html"
    tracer.trace().save(path)
    return path, tracer.trace()


@pytest.mark.long
def test_opens(page, browser):
    """The script runs to its end, and shows the step that was asked for: its line, who waits, what is in flight."""
    path, trace = page
    flight = next(f for f in trace.flights if f.kind == "load")
    shown = browser.dom(path, f"#step={flight.issued + 1}")
    info = re.search(r'<pre id="info">(.*?)</pre>', shown, re.DOTALL)[1]
    line = trace.instructions[trace.steps[flight.issued + 1]].span.line

    assert f'data-ready="{len(trace.steps)}"' in shown
    assert "data-error" not in shown
    assert f"step {flight.issued + 1}: line {line}," in info
    assert f"in flight: load, {flight.nbytes} bytes" in info
    assert f"visible in step {flight.visible}" in info
    assert "waits: CTA (0, 0, 0) warp 4 to CTA (0, 0, 0) warp 7" in info


@pytest.mark.long
@pytest.mark.parametrize("width", [900, 420])
@pytest.mark.parametrize("dark", [False, True])
def test_looks(page, browser, width, dark):
    """Light and dark, wide and narrow: the warps, what is in flight and shared memory are drawn, on the right ground."""
    path, _ = page
    pixels = browser.screenshot(path, width=width, height=700, dark=dark)
    colours, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_counts=True)
    ground = colours[counts.argmax()]
    drawn = {tuple(int(v) for v in colour) for colour, count in zip(colours, counts, strict=True) if count > 30}

    assert (ground.mean() < 60) == dark
    assert {(0x9A, 0xA7, 0xB4), (0x3F, 0xA3, 0x4D), (0x3F, 0xB0, 0xAC)} <= drawn  # arithmetic, matrix and shared steps
