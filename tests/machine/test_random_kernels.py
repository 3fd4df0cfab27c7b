"""Random kernels full of short branches and of integers that all threads share come to the same whether somebody follows single
steps and groups, so that each step runs by itself and all branches part groups, or nobody does."""

from __future__ import annotations

from collections.abc import Collection
from unittest import mock

import pytest

from random_kernels import kernel
from random_ways import differing
from warpsim.machine.aside import Aside
from warpsim.machine.binding import rows


@pytest.mark.parametrize(
    "seeds",
    [
        (3, 12, 15, 35),  # each notices other mistakes in running such branches
        pytest.param(range(100, 300), marks=pytest.mark.long),
        pytest.param(range(1000, 5000), marks=pytest.mark.sweep),
    ],
    ids=["some", "more", "many"],
)
def test_they_come_to_the_same(seeds: Collection[int]) -> None:
    """Bytes, text, counts and findings; branches run in the turn of all, and rows as one step."""
    run, make = Aside._execute, rows.Row
    with (
        mock.patch.object(Aside, "_execute", autospec=True, side_effect=run) as asides,
        mock.patch.object(rows, "Row", side_effect=make) as made,
    ):
        bad = {seed: differing(seed, "followed", kernel(seed, more=True, branches=True)) for seed in seeds}

    assert {seed: names for seed, names in bad.items() if names} == {}
    assert asides.call_count > len(seeds)
    assert made.call_count > len(seeds)
