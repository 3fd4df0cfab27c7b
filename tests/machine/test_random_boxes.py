"""Random tensor copies as an H100 made them (tools/recordings/random_boxes.py): what it refuses, where it faults, every byte."""

from pathlib import Path

import numpy as np
import pytest

import random_boxes
import warpsim
from warpsim.host.cases import Case

HERE = Path(__file__).parent.parent
RECORDED = np.load(HERE / "data" / "boxes_h100.npz")
SHARE, LONG_SHARE = 80, 8


def verdict(case, arrays, text):
    """What becomes of a trial here, its digest, and what was said."""
    try:
        ready = Case(Path("box"), case, dict(arrays), (text, "box.ptx")).prepare()
        ready.launch()
    except warpsim.LaunchError as problem:
        return random_boxes.REFUSED, 0, str(problem)
    except warpsim.ExecutionError as problem:
        return random_boxes.FAULT if problem.findings[0].rule == "tensor-map" else -1, 0, str(problem)
    return random_boxes.DONE, random_boxes.digest(ready.outputs()), ""


def compare(numbers):
    """Hold some trials against the recording."""
    wrong = []
    for number in numbers:
        trial = random_boxes.numbered(number)
        *found, said = verdict(*trial)
        if found != [RECORDED["verdicts"][number], RECORDED["digests"][number]]:
            wrong.append((number, found, said, trial[0]["params"][0]))
    assert wrong == []


def test_some_random_boxes():
    """Every eightieth."""
    compare(range(0, len(RECORDED["verdicts"]), SHARE))


@pytest.mark.long
def test_more_random_boxes():
    """Every eighth."""
    compare(n for n in range(0, len(RECORDED["verdicts"]), LONG_SHARE) if n % SHARE)


@pytest.mark.sweep
def test_all_random_boxes():
    """The others."""
    compare(n for n in range(len(RECORDED["verdicts"])) if n % LONG_SHARE)


def test_every_verdict_was_given():
    """The trials lie on both sides of the limits."""
    counts = np.bincount(RECORDED["verdicts"], minlength=3)

    assert len(RECORDED["verdicts"]) == random_boxes.COUNT
    assert counts.min() > 50
