"""Calls a body with stand-ins for arrays: what it asks of NumPy and of `warpsim.numerics` meanwhile lets them through."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from warpsim.native.trace import Lane, Node, Untraceable, cast, node_of, shape_of
from warpsim.numerics import approx, floating


class Table:
    """A table that stand-ins may index."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Lane):
            return Lane(Node("table", (cast(key.node, np.dtype(np.int64)),), self.values.dtype, self.values), key.shape)
        return self.values[key]


def _fma(a: Any, b: Any, c: Any) -> Lane:
    dtype = next(x for x in (a, b, c) if isinstance(x, Lane)).dtype
    nodes = tuple([cast(node_of(x, dtype), dtype) for x in (a, b, c)])
    return Lane(Node("fma", nodes, dtype), shape_of((a, b, c)))


def _fma32(a: Any, b: Any, c: Any) -> Any:
    if not any(isinstance(x, Lane) for x in (a, b, c)):
        return _ORIGINAL["fma32"](a, b, c)
    return floating.canonical(_fma(a, b, c))  # type: ignore[arg-type]


def _fma64(a: Any, b: Any, c: Any, mode: str = "rn") -> Any:
    if mode != "rn" or not any(isinstance(x, Lane) for x in (a, b, c)):
        return _ORIGINAL["fma64"](a, b, c, mode)
    return floating.nan64(_fma(a, b, c), b, c, a)  # type: ignore[arg-type]


def _asarray(x: Any, dtype: Any = None, **more: Any) -> Any:
    if isinstance(x, Lane):
        return x if dtype is None else x.astype(dtype)
    return np.asarray(x, dtype, **more)


def _proxy() -> ModuleType:
    module = ModuleType("numpy")
    module.__dict__.update(np.__dict__)
    module.__dict__.update(asarray=_asarray, ascontiguousarray=_asarray, asanyarray=_asarray)
    return module


_ORIGINAL: dict[str, Any] = {"fma32": floating.fma32, "fma64": floating.fma64}
_NUMPY = _proxy()
_LOCK = threading.RLock()
_BODIES = ("warpsim.isa.", "warpsim.numerics.")


@contextmanager
def _stand_ins() -> Iterator[None]:
    """While a body is traced: NumPy's ``asarray`` lets stand-ins through, fma is one operation, tables may be indexed.

    All of it does the same as before for arrays, so that threads that run bodies meanwhile notice nothing."""
    with _LOCK:
        replaced: list[tuple[dict[str, Any], str, Any]] = []

        def replace(module: ModuleType, name: str, value: Any) -> None:
            replaced.append((vars(module), name, vars(module)[name]))
            vars(module)[name] = value

        for name, module in list(sys.modules.items()):
            if name.startswith(_BODIES) and vars(module).get("np") is np:
                replace(module, "np", _NUMPY)
        replace(floating, "fma32", _fma32)
        replace(floating, "fma64", _fma64)
        tables, squares = {k: Table(v) for k, v in approx.coefficients().items()}, Table(approx.squares())
        replace(approx, "coefficients", lambda: tables)
        replace(approx, "squares", lambda: squares)
        try:
            yield
        finally:
            for names, name, value in replaced:
                names[name] = value


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
