"""Random tensor copies as an H100 made them (recordings/random_boxes.py): what it refuses, where it faults, every byte."""

import functools
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import warpsim
from warpsim.host.cases import Case

HERE = Path(__file__).parent.parent
RECORDED = np.load(HERE / "data" / "boxes_h100.npz")
SHARE = 80


@functools.cache
def module():
    """The program that made the recording."""
    sys.path.insert(0, str(HERE / "recordings"))
    try:
        return importlib.import_module("random_boxes")
    finally:
        sys.path.pop(0)


def verdict(case, arrays, text):
    """What becomes of a trial here, its digest, and what was said."""
    try:
        ready = Case(Path("box"), case, dict(arrays), (text, "box.ptx")).prepare()
        ready.launch()
    except warpsim.LaunchError as problem:
        return module().REFUSED, 0, str(problem)
    except warpsim.ExecutionError as problem:
        return module().FAULT if problem.findings[0].rule == "tensor-map" else -1, 0, str(problem)
    return module().DONE, module().digest(ready.outputs()), ""


def compare(numbers):
    """Hold some trials against the recording."""
    wrong = []
    for number in numbers:
        trial = module().numbered(number)
        *found, said = verdict(*trial)
        if found != [RECORDED["verdicts"][number], RECORDED["digests"][number]]:
            wrong.append((number, found, said, trial[0]["params"][0]))
    assert wrong == []


def test_some_random_boxes():
    """Every eightieth."""
    compare(range(0, len(RECORDED["verdicts"]), SHARE))


@pytest.mark.long
def test_all_random_boxes():
    """The others."""
    compare(n for n in range(len(RECORDED["verdicts"])) if n % SHARE)


def test_every_verdict_was_given():
    """The trials lie on both sides of the limits."""
    counts = np.bincount(RECORDED["verdicts"], minlength=3)

    assert len(RECORDED["verdicts"]) == module().COUNT
    assert counts.min() > 50
