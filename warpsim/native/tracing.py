"""Calls a body with stand-ins for arrays: what it asks of NumPy meanwhile lets them through."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from warpsim.native.trace import Lane, Untraceable


def _asarray(x: Any, dtype: Any = None, **more: Any) -> Any:
    if isinstance(x, Lane):
        return x if dtype is None else x.astype(dtype)
    return np.asarray(x, dtype, **more)


def _proxy() -> ModuleType:
    module = ModuleType("numpy")
    module.__dict__.update(np.__dict__)
    module.__dict__.update(asarray=_asarray, ascontiguousarray=_asarray, asanyarray=_asarray)
    return module


_NUMPY = _proxy()
_LOCK = threading.RLock()
_BODIES = ("warpsim.isa.", "warpsim.numerics.")


@contextmanager
def _stand_ins() -> Iterator[None]:
    """While a body is traced, NumPy's ``asarray`` lets stand-ins through.

    It does the same as before for arrays, so that threads that run bodies meanwhile notice nothing."""
    with _LOCK:
        modules = [m for n, m in sys.modules.items() if n.startswith(_BODIES) and vars(m).get("np") is np]
        for module in modules:
            vars(module)["np"] = _NUMPY
        try:
            yield
        finally:
            for module in modules:
                vars(module)["np"] = np


def trace(function: Callable[..., Any], *arguments: Any, **ports: Any) -> Any:
    """What a body gives for stand-ins.

    Raises:
        Untraceable: where it does something else with them than arithmetic.
    """
    with _stand_ins(), np.errstate(all="ignore"):
        try:
            return function(*arguments, **ports)
        except Untraceable:
            raise
        except Exception as problem:  # a body that meets a stand-in where it needs an array may fail in any way
            raise Untraceable(f"{type(problem).__name__}: {problem}") from None
