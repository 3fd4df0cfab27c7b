"""Reductions over small arrays, in the form with the least call overhead.

A reduction takes a few microseconds before it reads its first element, five times as long as ``argmin`` or
``count_nonzero``. In a launch of one or two warps, that overhead is what instructions cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FEW = 4096
"""Largest number of lanes for which this pays."""


def few(x: Any) -> bool:
    """Whether a value is a small array (and not a stand-in for one)."""
    return type(x) is np.ndarray and 0 < x.size <= FEW


def least(x: Any) -> Any:
    """The least element of a small array; NaN if it contains one."""
    return x.item(x.argmin())
