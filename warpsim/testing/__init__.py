"""Tools for testing kernels: assertions on bits, cases, snapshots, fuzzing, shrinking. See docs/testing.md."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpsim.host.recipes import recipe
    from warpsim.host.recording import record
    from warpsim.testing.assertions import (
        assert_accuracy,
        assert_bits_equal,
        assert_close,
        assert_matches,
        assert_same_as,
        assert_ulps,
        exact_matmul,
        product_bound,
        sum_bound,
    )
    from warpsim.testing.equality import Equality, assert_equal, equal, equal_case
    from warpsim.testing.fuzzing import Launch, arrays, fuzz
    from warpsim.testing.shrinking import shrink

__all__ = [
    "Equality",
    "Launch",
    "arrays",
    "assert_accuracy",
    "assert_bits_equal",
    "assert_close",
    "assert_equal",
    "assert_matches",
    "assert_same_as",
    "assert_ulps",
    "equal",
    "equal_case",
    "exact_matmul",
    "fuzz",
    "product_bound",
    "recipe",
    "record",
    "shrink",
    "sum_bound",
]

_HOMES = {
    "recipe": "warpsim.host.recipes",
    "record": "warpsim.host.recording",
    **dict.fromkeys((n for n in __all__ if n.startswith("assert_")), "warpsim.testing.assertions"),
    **dict.fromkeys(("exact_matmul", "product_bound", "sum_bound"), "warpsim.testing.assertions"),
    **dict.fromkeys(("Equality", "assert_equal", "equal", "equal_case"), "warpsim.testing.equality"),
    **dict.fromkeys(("Launch", "arrays", "fuzz"), "warpsim.testing.fuzzing"),
    "shrink": "warpsim.testing.shrinking",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'warpsim.testing' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
