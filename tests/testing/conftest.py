"""What tests of the pytest plugin share: how an inner pytest runs, and a case that differs from its recording."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from warpsim.host import recording
from warpsim.testing import assert_matches, replaying, snapshots

ALONE = ("-p", "no:hypothesispytest", "-p", "no:benchmark", "-p", "warpsim.pytest_plugin")
"""Plugins that cost a second to import and have no part in this."""
IMPORTED = (recording, assert_matches, replaying, snapshots)
"""An inner pytest of this process forgets the modules that it was the first to import."""
SAXPY = Path(__file__).parents[2] / "programs" / "saxpy"


@pytest.fixture
def case(pytester):
    """``cases/bad``, which differs from its recording in one element."""
    folder = pytester.path / "cases" / "bad"
    shutil.copytree(SAXPY, folder)
    with np.load(folder / "data.npz") as stored:
        data = dict(stored)
    data["out_y"][5] += 1
    np.savez(folder / "data.npz", **data)
    return folder
