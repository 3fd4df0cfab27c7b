"""mma and mma.sp give the bits that an H100 gave: every dense and sparse form, a case of each kind of operands.

``mma_h100.npz`` holds raw registers ``[case, lane, register]`` of ``a``, ``b``, ``c``, ``d`` (and metadata ``e``) by the
number of the form in ``names``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import matrix_trials
import warpsim

with np.load(Path(__file__).parents[1] / "data" / "mma_h100.npz") as _data:
    DATA = dict(_data)
NAMES = [str(name) for name in DATA["names"]]
GROUPS = sorted({name.split()[0].split(".row")[0].split(".col")[0] for name in NAMES})


@pytest.mark.parametrize(
    "group", [pytest.param(g, marks=[pytest.mark.long] * (n % 3 > 0)) for n, g in enumerate(GROUPS)]
)
def test_bits(group):
    """Forms of one shape, all layouts and types."""
    for number, name in enumerate(NAMES):
        if name.split()[0].split(".row")[0].split(".col")[0] != group:
            continue
        inputs = {key: DATA[f"{number}_{key}"] for key in "abce" if f"{number}_{key}" in DATA}
        expected = DATA[f"{number}_d"]
        found = np.zeros_like(expected)
        text = matrix_trials.register_kernel(name, inputs, found)
        warpsim.load(text)["k"](len(expected), 32, (*inputs.values(), found))

        different = np.argwhere(found != expected)
        assert not len(different), f"{name}: {len(different)} registers, the first at {different[0]}"
