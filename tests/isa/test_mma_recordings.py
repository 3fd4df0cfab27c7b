"""mma and mma.sp give the bits that an H100 gave: every dense and sparse form, a case of each kind of operands.

``mma_h100.npz`` holds raw registers ``[case, lane, register]`` of ``a``, ``b``, ``c``, ``d`` (and metadata ``e``) by the
number of the form in ``names``."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsim


def _harness() -> Any:
    path = Path(__file__).parents[1] / "recordings" / "matrices.py"
    spec = importlib.util.spec_from_file_location("matrices", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HARNESS = _harness()
with np.load(Path(__file__).parents[1] / "data" / "mma_h100.npz") as _data:
    DATA = dict(_data)
NAMES = [str(name) for name in DATA["names"]]
GROUPS = sorted({name.split()[0].split(".row")[0].split(".col")[0] for name in NAMES})


@pytest.mark.parametrize("group", GROUPS)
def test_bits(group):
    """Forms of one shape, all layouts and types."""
    for number, name in enumerate(NAMES):
        if name.split()[0].split(".row")[0].split(".col")[0] != group:
            continue
        arrays = {key: DATA[f"{number}_{key}"] for key in "abcde" if f"{number}_{key}" in DATA}
        expected = arrays["d"]
        arrays["d"] = np.zeros_like(expected)
        warpsim.load(HARNESS.module(name, arrays))["k"](len(expected), 32, tuple(arrays.values()))

        different = np.argwhere(arrays["d"] != expected)
        assert not len(different), f"{name}: {len(different)} registers, the first at {different[0]}"
