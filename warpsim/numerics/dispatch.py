"""Functions that NumPy does not have, open to other operands than arrays by its own protocol (NEP 18)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])


def overridable(function: Function) -> Function:
    """An operand with ``__array_function__`` that is no array computes the function itself, as in NumPy."""

    @functools.wraps(function)
    def call(*operands: Any, **options: Any) -> Any:
        for x in operands:
            if type(x) is not np.ndarray and hasattr(x, "__array_function__") and not isinstance(x, np.ndarray):
                return x.__array_function__(call, (type(x),), operands, options)
        return function(*operands, **options)

    return call  # type: ignore[return-value]


@overridable
def lookup(table: Array, index: Array) -> Array:
    """``table[index]``: the element that each lane's index names."""
    return table[index]
